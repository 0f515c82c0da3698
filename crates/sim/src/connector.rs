//! Connections between the hosts: by name, over whatever transport chance chooses.
//!
//! Data servers say TCP addresses, as real ones do, and the simulator knows whose they are. To the NFS port of a server
//! a connection is made over memory or over RDMA, each time anew. Sessions use both, and retries change from one to the
//! other.

use crate::check::credits::{self, Checker};
use crate::fabric::{Commons, Names, SimFabric};
use crate::injected_bug::InjectedBug;
use crate::net::Net;
use crate::rng::Rng;
use crate::tap::Tap;
use crate::trace::host;
use crate::trace::{MDS_NAME, Trace};
use bytes::Bytes;
use control::{NetAddr, Text};
use fabric::mem::MemFabric;
use parking_lot::Mutex;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;
use transport::memory::{Fate, Listener, MemoryConnector, MemoryNetwork, Passage};
use transport::rdma::{self, Config, Rdma};
use transport::workers::Shutdown;
use transport::{
    Address, BoxFuture, CloseReason, ConnHandle, ConnectError, Connector, Context, DynService,
    Endpoint, Message, Service, TransportLimits,
};

/// What a seed may choose as the share of connections over RDMA, in 1000.
const SHARES: [u32; 4] = [0, 300, 700, 1000];
/// Where credits are judged every request over RDMA takes a while, in milliseconds: else few would be in progress at a time.
const REQUEST_MS: (u64, u64) = (1, 20);

/// How connections are made over RDMA.
#[derive(Clone)]
pub(crate) struct OverRdma {
    /// Connections, in 1000; `None` lets the seed choose.
    pub(crate) share: Option<u32>,
    /// Credits that each server lends; `None` is the usual number.
    pub(crate) lent: Option<u32>,
    /// Who judges what becomes of them.
    pub(crate) credits: Option<Checker>,
    pub(crate) bug: Option<InjectedBug>,
}

/// All transports of the world. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Wires {
    network: MemoryNetwork,
    net: Net,
    tap: Tap,
    trace: Trace,
    mem: MemFabric,
    names: Names,
    chance: Arc<Mutex<Rng>>,
    /// Connections over RDMA, in 1000.
    share: u32,
    over: OverRdma,
    commons: Option<Commons>,
    /// Clients that take calls, by their ports.
    called: Arc<Mutex<Vec<String>>>,
}

impl Wires {
    /// The transports over `net`; `rng` chooses a share of RDMA where none is given.
    pub(crate) fn new(net: Net, tap: Tap, trace: Trace, mut rng: Rng, over: OverRdma) -> Self {
        let chosen = SHARES[rng.index(SHARES.len())];
        let share = over.share.unwrap_or(chosen);
        trace.tell(
            "net",
            format_args!("{share} of 1000 connections are over RDMA"),
        );
        Self {
            network: MemoryNetwork::new(Arc::new(net.clone())),
            net,
            tap,
            trace,
            mem: MemFabric::default(),
            names: Names::default(),
            chance: Arc::new(Mutex::new(rng)),
            share,
            commons: (over.bug == Some(InjectedBug::MixReceives)).then(Commons::default),
            over,
            called: Arc::default(),
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
        let context = Context::new(TransportLimits::default());
        let (named, over_rdma) = (context.sibling(), context);
        tasks.spawn(listener.serve(Arc::clone(&service), named, shutdown.signal()));
        let rdma = self.rdma(host);
        let listener = rdma::listen(self.names.address(host), &rdma).await;
        let listeners = vec![listener.map_err(|e| format!("{host}: {e}"))?];
        let tapped = Arc::new(Tapped {
            service,
            wires: self.clone(),
            server: host.to_owned(),
        });
        let signal = shutdown.signal();
        tasks.spawn(rdma::serve(listeners, rdma, tapped, over_rdma, signal));
        Ok(())
    }

    /// A connector whose end is called `name`.
    pub(crate) fn connector(&self, name: &str) -> Arc<ByName> {
        let context = Context::new(TransportLimits::default());
        Arc::new(ByName {
            memory: self.network.connector(name, context.clone()),
            rdma: self.rdma(name),
            context,
            name: name.to_owned(),
            wires: self.clone(),
        })
    }

    /// A connector that reaches the metadata server in one way only: it is known by one address.
    pub(crate) fn one_way(&self, name: &str, is_rdma: bool) -> Arc<OneWay> {
        Arc::new(OneWay {
            by_name: self.connector(name),
            is_rdma,
        })
    }

    /// Serves calls to a client, over memory. Answers the address to be told, and what ends the serving when it is dropped.
    pub(crate) fn takes_calls(
        &self,
        name: &str,
        service: Arc<dyn DynService>,
    ) -> Result<(String, JoinSet<()>), String> {
        let listener = self.listen(name)?;
        let number = {
            let mut called = self.called.lock();
            called.push(name.to_owned());
            called.len()
        };
        let mut tasks = JoinSet::new();
        let context = Context::new(TransportLimits::default());
        let shutdown = Shutdown::new();
        tasks.spawn(async move {
            listener.serve(service, context, shutdown.signal()).await;
            drop(shutdown);
        });
        // The end of a connection in memory is on this machine.
        Ok((format!("127.0.0.1.1.{number}"), tasks))
    }

    /// The client that takes calls at this port.
    fn called_at(&self, port: u16) -> Option<String> {
        let number = usize::from(port.to_be_bytes()[1]);
        self.called.lock().get(number.checked_sub(1)?).cloned()
    }

    /// The fabric as the end of this name has it.
    pub(crate) fn fabric(&self, name: &str) -> SimFabric {
        SimFabric {
            mem: self.mem.clone(),
            net: self.net.clone(),
            names: self.names.clone(),
            name: name.to_owned(),
            commons: self.commons.clone(),
        }
    }

    /// Where a host serves over RDMA.
    pub(crate) fn address(&self, host: &str) -> SocketAddr {
        self.names.address(host)
    }

    /// A client has the answer to what it asked then.
    pub(crate) fn answered(&self, who: &str, asked: Instant) {
        if let Some(credits) = &self.over.credits {
            credits.answered(who, asked);
        }
    }

    fn rdma(&self, name: &str) -> Rdma {
        let usual = Config::default();
        let lent_bytes = match self.over.lent {
            Some(credits) => credits * usual.inline_bytes,
            None => usual.lent_bytes,
        };
        let config = Config {
            lent_bytes,
            ..usual
        };
        Rdma::new(Arc::new(self.fabric(name)), config)
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
                Address::Tcp(at) if at.ip().is_loopback() => {
                    let name = self.wires.called_at(at.port());
                    let name = name.ok_or(ConnectError::Unsupported)?;
                    let to = Address::Memory(name);
                    return self.memory.connect(&to, reverse).await;
                }
                Address::Tcp(SocketAddr::V4(v4)) => ds_name(usize::from(v4.ip().octets()[3])),
                Address::Memory(name) if name == MDS_NAME => name.clone(),
                _ => return self.memory.connect(address, reverse).await,
            };
            let wires = &self.wires;
            if !wires.chance.lock().chance(wires.share) {
                return self.memory.connect(&Address::Memory(to), reverse).await;
            }
            self.over_rdma(&to, reverse).await
        })
    }
}

impl ByName {
    /// Connects to a host over RDMA.
    pub(crate) async fn over_rdma(
        &self,
        to: &str,
        reverse: Arc<dyn DynService>,
    ) -> Result<ConnHandle, ConnectError> {
        self.wires
            .trace
            .tell(&self.name, format_args!("- connects to {to} over RDMA"));
        let address = self.wires.address(to);
        rdma::connect(address, &self.rdma, reverse, &self.context).await
    }
}

/// Connects over memory, or over RDMA. A server that keeps replies without sessions knows a client by its address, and a client of
/// the simulation has another one over each transport.
pub(crate) struct OneWay {
    by_name: Arc<ByName>,
    is_rdma: bool,
}

impl Connector for OneWay {
    fn connect<'a>(
        &'a self,
        address: &'a Address,
        reverse: Arc<dyn DynService>,
    ) -> BoxFuture<'a, Result<ConnHandle, ConnectError>> {
        Box::pin(async move {
            match self.is_rdma {
                true => self.by_name.over_rdma(MDS_NAME, reverse).await,
                false => self.by_name.memory.connect(address, reverse).await,
            }
        })
    }
}

/// A service over RDMA, where no record is seen on the wire: the tap looks at what arrives and what is answered.
struct Tapped {
    service: Arc<dyn DynService>,
    wires: Wires,
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
        self.wires.tap.record(&passage, Fate::Deliver);
    }

    fn peer(&self, conn: &ConnHandle) -> String {
        let address = conn.peer().socket().expect("over RDMA");
        self.wires.names.name(address)
    }

    async fn take_a_while(&self) {
        let (low, high) = REQUEST_MS;
        let ms = self.wires.chance.lock().within(low, high);
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }
}

impl Service for Tapped {
    async fn call(&self, conn: &ConnHandle, record: Bytes) -> Option<Message> {
        let peer = self.peer(conn);
        let credits = self.wires.over.credits.as_ref();
        let _running = credits.map(|credits| credits.begin(&self.server, conn.id()));
        if credits.is_some() {
            self.take_a_while().await;
        }
        if host(&peer).starts_with(credits::GREEDY) {
            // A story of all its calls would be about nothing else.
            return self.service.call_boxed(conn, record).await;
        }
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
        if let Some(credits) = &self.wires.over.credits {
            credits.connected(&self.server, conn.id(), &self.peer(conn));
        }
        self.service.on_connected(conn);
    }

    fn disconnected(&self, conn: &ConnHandle, reason: CloseReason) {
        if let Some(credits) = &self.wires.over.credits {
            credits.disconnected(&self.server, conn.id(), reason);
        }
        self.service.on_disconnected(conn, reason);
    }

    fn credits_short(&self, conn: &ConnHandle) {
        if self.wires.over.bug != Some(InjectedBug::NeverAskForSlots) {
            self.service.on_credits_short(conn);
        }
    }
}

/// A verifier drawn from `rng`.
pub(crate) fn verifier(rng: &mut Rng) -> nfs4::Verifier {
    nfs4::Verifier {
        bytes: rng.bits().to_be_bytes(),
    }
}
