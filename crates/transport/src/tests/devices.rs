//! Goal: a server whose RDMA device goes away goes on over its others, and listens again once the device is back. Method: the
//! fabric in memory with devices that can be taken away, in simulated time.

use std::collections::HashSet;
use std::io;
use std::net::{IpAddr, SocketAddr};

use fabric::mem::MemFabric;
use fabric::{BoxFuture, Connected, EndpointConfig, Fabric, Incoming, Receive};
use tokio::sync::watch;

use super::*;

/// Addresses whose device is away.
type Away = watch::Sender<HashSet<IpAddr>>;

struct Devices {
    inner: MemFabric,
    away: Away,
}

impl Devices {
    fn change(&self, change: impl FnOnce(&mut HashSet<IpAddr>)) {
        self.away.send_modify(change);
    }
}

impl Fabric for Devices {
    fn name(&self) -> &'static str {
        "devices that go away"
    }

    fn is_hardware(&self) -> bool {
        false
    }

    fn limits(&self) -> fabric::Limits {
        self.inner.limits()
    }

    fn listen(&self, address: SocketAddr) -> BoxFuture<'_, io::Result<Box<dyn fabric::Listener>>> {
        Box::pin(async move {
            if self.away.borrow().contains(&address.ip()) {
                return Err(io::Error::from_raw_os_error(19));
            }
            let inner = self.inner.listen(address).await?;
            let away = self.away.subscribe();
            let listener: Box<dyn fabric::Listener> = Box::new(OnDevice { inner, away });
            Ok(listener)
        })
    }

    fn connect(
        &self,
        address: SocketAddr,
        config: EndpointConfig,
        private_data: Bytes,
        receives: Vec<Receive>,
    ) -> BoxFuture<'_, Result<Connected, fabric::ConnectError>> {
        self.inner.connect(address, config, private_data, receives)
    }
}

struct OnDevice {
    inner: Box<dyn fabric::Listener>,
    away: watch::Receiver<HashSet<IpAddr>>,
}

impl fabric::Listener for OnDevice {
    fn local(&self) -> SocketAddr {
        self.inner.local()
    }

    fn accept(&mut self) -> BoxFuture<'_, io::Result<Box<dyn Incoming>>> {
        Box::pin(async move {
            let ip = self.inner.local().ip();
            tokio::select! {
                biased;
                _ = self.away.wait_for(|away| away.contains(&ip)) => {
                    Err(io::ErrorKind::NetworkDown.into())
                }
                incoming = self.inner.accept() => incoming,
            }
        })
    }
}

struct World {
    devices: Arc<Devices>,
    rdma: Rdma,
    client: Context,
}

impl World {
    fn new() -> Self {
        let devices = Arc::new(Devices {
            inner: MemFabric::default(),
            away: Away::default(),
        });
        Self {
            rdma: Rdma::new(devices.clone(), rdma::Config::default()),
            devices,
            client: Context::new(Limits::default()),
        }
    }

    async fn serve(&self, addresses: &[SocketAddr]) -> Shutdown {
        let shutdown = Shutdown::new();
        let listeners = rdma::listen_all(addresses, &self.rdma).await.unwrap();
        let context = Context::new(Limits::default());
        let (service, signal) = (Situations::new(), shutdown.signal());
        let serving = rdma::serve(listeners, self.rdma.clone(), service, context, signal);
        tokio::spawn(serving);
        shutdown
    }

    async fn reaches(&self, address: SocketAddr) -> bool {
        let service: Arc<dyn DynService> = Situations::new();
        let made = rdma::connect(address, &self.rdma, service, &self.client).await;
        let Ok(conn) = made else {
            return false;
        };
        let reply = conn.call(call(ECHO, b"hello"), SOON).await;
        conn.close(CloseReason::Asked);
        reply.is_ok()
    }
}

fn addresses() -> [SocketAddr; 2] {
    ["10.0.0.1:20049", "10.0.1.1:20049"].map(|text| text.parse().unwrap())
}

/// Longer than a server takes to look for a device again.
const A_WHILE: Duration = Duration::from_secs(3);

#[tokio::test(start_paused = true)]
async fn a_device_that_goes_away_leaves_the_others_and_is_listened_on_when_it_is_back() {
    let world = World::new();
    let [a, b] = addresses();
    let _serving = world.serve(&[a, b]).await;
    assert!(world.reaches(a).await && world.reaches(b).await);
    world.devices.change(|away| {
        away.insert(b.ip());
    });
    tokio::time::sleep(A_WHILE).await;
    assert!(world.reaches(a).await && !world.reaches(b).await);
    world.devices.change(HashSet::clear);
    tokio::time::sleep(A_WHILE).await;
    assert!(world.reaches(a).await && world.reaches(b).await);
}

#[tokio::test(start_paused = true)]
async fn a_server_starts_without_a_device_as_long_as_another_is_there() {
    let world = World::new();
    let [a, b] = addresses();
    world.devices.change(|away| {
        away.extend([a.ip(), b.ip()]);
    });
    assert!(rdma::listen_all(&[a, b], &world.rdma).await.is_err());
    world.devices.change(|away| {
        away.remove(&a.ip());
    });
    let _serving = world.serve(&[a, b]).await;
    assert!(world.reaches(a).await && !world.reaches(b).await);
    world.devices.change(HashSet::clear);
    tokio::time::sleep(A_WHILE).await;
    assert!(world.reaches(b).await);
    let taken = rdma::listen_all(&[a, b], &world.rdma).await;
    assert!(taken.is_err(), "somebody listens there");
}
