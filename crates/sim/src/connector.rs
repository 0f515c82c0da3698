//! Connections between the hosts: by name, over whatever transport chance chooses.
//!
//! Data servers say TCP addresses, as real ones do, and the simulator knows whose they are. To the NFS port of a server a
//! connection is made over memory or over RDMA, each time anew: so sessions use both, and retries change from one to
//! the other.

use crate::fabric::{Names, SimFabric};
use crate::net::Net;
use crate::rng::Rng;
use crate::tap::Tap;
use crate::trace::Trace;
use bytes::Bytes;
use control::{NetAddr, Text};
use fabric::mem::MemFabric;
use parking_lot::Mutex;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::task::JoinSet;
use transport::memory::{Fate, Listener, MemoryConnector, Network, Passage};
use transport::rdma::{self, Config, Rdma};
use transport::workers::Shutdown;
use transport::{
    Address, BoxFuture, CloseReason, ConnHandle, ConnectError, Connector, Context, DynService,
    Endpoint, Limits, Message, Service,
};

/// What a seed may choose as the share of connections over RDMA, in 1000.
const SHARES: [u32; 4] = [0, 300, 700, 1000];

/// All transports of the world. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Wires {
    network: Network,
    net: Net,
    tap: Tap,
    trace: Trace,
    mem: MemFabric,
    names: Names,
    chance: Arc<Mutex<Rng>>,
    /// Connections over RDMA, in 1000.
    share: u32,
}

impl Wires {
    /// The transports over `net`, with this share of RDMA, or one that `rng` chooses.
    pub(crate) fn new(net: Net, tap: Tap, trace: Trace, mut rng: Rng, share: Option<u32>) -> Self {
        let chosen = SHARES[rng.index(SHARES.len())];
        let share = share.unwrap_or(chosen);
        trace.tell(
            "net",
            format_args!("{share} of 1000 connections are over RDMA"),
        );
        Self {
            network: Network::new(Arc::new(net.clone())),
            net,
            tap,
            trace,
            mem: MemFabric::default(),
            names: Names::default(),
            chance: Arc::new(Mutex::new(rng)),
            share,
        }
    }

    /// Listens by name only.
    pub(crate) fn listen(&self, host: &str) -> Result<Listener, String> {
        self.network
            .listen(host)
            .map_err(|e| format!("{host}: {e}"))
    }

    /// Serves the NFS port of a host over all transports.
    pub(crate) async fn serve(
        &self,
        host: &str,
        service: Arc<dyn DynService>,
        shutdown: &Shutdown,
        tasks: &mut JoinSet<()>,
    ) -> Result<(), String> {
        let listener = self.listen(host)?;
        let context = Context::new(Limits::default());
        let (named, over_rdma) = (context.sibling(), context);
        tasks.spawn(listener.serve(Arc::clone(&service), named, shutdown.signal()));
        let rdma = self.rdma(host);
        let listener = rdma::listen(self.names.address(host), &rdma).await;
        let listeners = vec![listener.map_err(|e| format!("{host}: {e}"))?];
        let tapped = Arc::new(Tapped {
            service,
            tap: self.tap.clone(),
            names: self.names.clone(),
            server: host.to_owned(),
        });
        let signal = shutdown.signal();
        tasks.spawn(rdma::serve(listeners, rdma, tapped, over_rdma, signal));
        Ok(())
    }

    /// A connector whose end is called `name`.
    pub(crate) fn connector(&self, name: &str) -> Arc<ByName> {
        let context = Context::new(Limits::default());
        Arc::new(ByName {
            memory: self.network.connector(name, context.clone()),
            rdma: self.rdma(name),
            context,
            name: name.to_owned(),
            wires: self.clone(),
        })
    }

    fn rdma(&self, name: &str) -> Rdma {
        let fabric = SimFabric {
            mem: self.mem.clone(),
            net: self.net.clone(),
            names: self.names.clone(),
            name: name.to_owned(),
        };
        Rdma::new(Arc::new(fabric), Config::default())
    }
}

/// Connects to hosts; a TCP address means the data server of its last number.
pub(crate) struct ByName {
    memory: MemoryConnector,
    rdma: Rdma,
    context: Context,
    name: String,
    wires: Wires,
}

/// The name of the metadata server.
pub(crate) const MDS_NAME: &str = "mds";

/// The host name of data server number `index`.
pub(crate) fn ds_name(index: usize) -> String {
    format!("ds-{index}")
}

/// What data server number `index` advertises.
pub(crate) fn ds_address(index: usize) -> NetAddr {
    NetAddr {
        netid: Text::cut("tcp"),
        uaddr: Text::cut(&format!("10.0.0.{index}.8.1")),
    }
}

impl Connector for ByName {
    fn connect<'a>(
        &'a self,
        address: &'a Address,
        reverse: Arc<dyn DynService>,
    ) -> BoxFuture<'a, Result<ConnHandle, ConnectError>> {
        Box::pin(async move {
            let to = match address {
                Address::Tcp(SocketAddr::V4(v4)) => ds_name(usize::from(v4.ip().octets()[3])),
                Address::Memory(name) if name == MDS_NAME => name.clone(),
                _ => return self.memory.connect(address, reverse).await,
            };
            let wires = &self.wires;
            if !wires.chance.lock().chance(wires.share) {
                return self.memory.connect(&Address::Memory(to), reverse).await;
            }
            wires
                .trace
                .tell(&self.name, format_args!("- connects to {to} over RDMA"));
            let address = wires.names.address(&to);
            rdma::connect(address, &self.rdma, reverse, &self.context).await
        })
    }
}

/// A service over RDMA, where no record is seen on the wire: the tap looks at what arrives and what is answered.
struct Tapped {
    service: Arc<dyn DynService>,
    tap: Tap,
    names: Names,
    server: String,
}

impl Tapped {
    fn tell(&self, peer: &str, to_listener: bool, bytes: &[u8]) {
        let (from, to) = match to_listener {
            true => (peer, &*self.server),
            false => (&*self.server, peer),
        };
        let passage = Passage {
            from,
            to,
            to_listener,
            number: 0,
            bytes,
        };
        self.tap.record(&passage, Fate::Deliver);
    }
}

impl Service for Tapped {
    async fn call(&self, conn: &ConnHandle, record: Bytes) -> Option<Message> {
        let address = conn.peer().socket().expect("over RDMA");
        let peer = self.names.name(address);
        self.tell(&peer, true, &record);
        let reply = self.service.call_boxed(conn, record).await?;
        let bytes = reply.flatten().expect("nothing is in files");
        self.tell(&peer, false, &bytes);
        Some(reply)
    }

    fn admits(&self, peer: &Endpoint) -> bool {
        self.service.admits_peer(peer)
    }

    fn connected(&self, conn: &ConnHandle) {
        self.service.on_connected(conn);
    }

    fn disconnected(&self, conn: &ConnHandle, reason: CloseReason) {
        self.service.on_disconnected(conn, reason);
    }

    fn credits_short(&self, conn: &ConnHandle) {
        self.service.on_credits_short(conn);
    }
}

/// A verifier drawn from `rng`.
pub(crate) fn verifier(rng: &mut Rng) -> nfs4::Verifier {
    nfs4::Verifier {
        bytes: rng.bits().to_be_bytes(),
    }
}
