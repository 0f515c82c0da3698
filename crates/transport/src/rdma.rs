//! RPC-over-RDMA (RFC 8166, 8167, 8797) over any provider of the fabric seam: listeners, serving and connecting.
//!
//! What the protocol says is in `rpcrdma`, what moves bytes in a provider; here both meet the records, budgets and
//! timers of this crate.
//!
//! # Ownership
//! Memory that a peer may touch belongs to the provider until the peer's access has ended. A record that was fetched by
//! RDMA Read is one buffer, which the decoder borrows from. A bulk result is placed into the buffer that becomes its
//! reply's record.
//!
//! # Failure
//! A peer that breaks a rule loses its connection, with the reason counted, and no other connection notices. A call
//! that the transport cannot carry fails alone ([`crate::CallError::Refused`]).

mod calls;
mod incoming;
mod link;
pub(crate) mod memory;
mod metered;
mod pieces;
mod replies;
mod sharing;
pub(crate) mod traffic;

use std::future::Future;
use std::io;
use std::net::{Ipv6Addr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fabric::{EndpointConfig, Fabric, Receive};
use futures_util::future::select_all;
use rpcrdma::PrivateData;
use tokio::time::{Instant, MissedTickBehavior};

use crate::accept::{Host, Tasks};
use crate::context::Admission;
use crate::engine::PARKED_RECORDS_MAX;
use crate::handle::ConnInfo;
use crate::workers::ShutdownSignal;
use crate::{
    Address, BoxFuture, ConnHandle, ConnectError, Connector, Context, Counters, DynService,
    Endpoint, TransportKind, TransportLimits, engine,
};
use link::{RdmaLink, Receives};
use memory::Memory;
use sharing::{Classes, Place};

pub use traffic::{Carried, Traffic};

/// The port of NFS over RDMA (RFC 8267 §9).
pub const NFS_PORT: u16 = 20049;
/// Calls above its grant that a peer may send: see [`rpcrdma::EngineConfig::overrun`].
const OVERRUN: u32 = 8;
/// Work requests posted and not complete.
const SEND_DEPTH: u32 = 256;
/// Calls to a peer that has connected (a back channel) expose nothing: they and their replies fit messages. So a server lets
/// nobody into its memory; what a peer can write there are the answers to reads that are in progress. A call that does not fit
/// is refused here, alone.
const EXPOSING_TO_CLIENTS: u32 = 0;
/// Pieces of memory that a call of ours exposes at most: arguments, a long call, a result, a long reply.
const EXPOSED_PER_CALL_MAX: u32 = 4;
/// Pause after accept failed.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// How often an address whose device is gone is tried again.
const LISTEN_RETRY: Duration = Duration::from_secs(1);

/// How connections over RDMA are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Most bytes of one Send, and of each posted receive. 1024 to 262144, in units of 1024. Default 4096.
    pub inline_bytes: u32,
    /// Credits granted to a peer, so most of its calls at a time. 1 to [`Config::CREDITS_MAX`]. Default 64. Where connections
    /// share receives, one is its own and the others are lent to who makes use of them.
    pub credits: u32,
    /// Bytes of receives that are lent to accepted connections, beside the one that each has, for each size of receives.
    /// Default 16 MiB.
    pub lent_bytes: u32,
    /// Checksum over every frame, where the fabric has a choice. Only when both ends say false there is none.
    pub crc: bool,
}

impl Config {
    /// Largest [`Config::credits`].
    pub const CREDITS_MAX: u32 = 88;
}

// A reply is never after more calls than may be read ahead of it.
const _: () = assert!((Config::CREDITS_MAX + OVERRUN) as usize <= PARKED_RECORDS_MAX);

impl Default for Config {
    fn default() -> Self {
        Self {
            inline_bytes: 4096,
            credits: 64,
            lent_bytes: 16 << 20,
            crc: true,
        }
    }
}

/// A provider and the memory of the connections over it. Cheap to clone; make one for each process.
#[derive(Clone)]
pub struct Rdma(Arc<Inner>);

struct Inner {
    fabric: Arc<dyn Fabric>,
    config: Config,
    memory: Memory,
    classes: Classes,
}

impl std::fmt::Debug for Rdma {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rdma")
            .field("fabric", &self.0.fabric.name())
            .field("config", &self.0.config)
            .finish_non_exhaustive()
    }
}

impl Rdma {
    /// RDMA over `fabric`.
    ///
    /// # Panics
    /// When the configuration is outside its bounds: it comes checked from the caller.
    #[must_use]
    pub fn new(fabric: Arc<dyn Fabric>, config: Config) -> Self {
        let sizes = rpcrdma::INLINE_BYTES_MIN..=rpcrdma::INLINE_BYTES_MAX;
        assert!(sizes.contains(&config.inline_bytes), "inline_bytes");
        assert!(
            (1..=Config::CREDITS_MAX).contains(&config.credits),
            "credits"
        );
        let memory = Memory::new(config.inline_bytes as usize);
        let classes = Classes::new(config.inline_bytes, config.lent_bytes);
        Self(Arc::new(Inner {
            fabric,
            config,
            memory,
            classes,
        }))
    }

    /// The provider.
    #[must_use]
    pub fn fabric(&self) -> &dyn Fabric {
        &*self.0.fabric
    }

    /// Credits that are lent now to the connections accepted with this, beside the one that each has, and all that
    /// could be. They are receives of all sizes together.
    #[must_use]
    pub fn credits_lent(&self) -> (u32, u32) {
        self.0.classes.lent()
    }

    /// Bytes of buffers for bulk that nobody has: what stays with this process of the most that was under way at a time.
    #[must_use]
    pub fn free_bulk_bytes(&self) -> usize {
        self.0.memory.free_bytes()
    }

    /// What this side says of itself where so many calls of ours expose memory at a time.
    fn own(&self, exposing: u32) -> PrivateData {
        PrivateData {
            // Both sides must support it (RFC 8797 §3.2): who replies by sending it, who calls by hearing of it.
            remote_invalidation: exposing == 0 || self.0.fabric.limits().peers_invalidate,
            send_bytes: self.0.config.inline_bytes,
            receive_bytes: self.0.config.inline_bytes,
        }
    }

    fn private_data(&self, exposing: u32) -> Bytes {
        Bytes::copy_from_slice(&self.own(exposing).encode())
    }

    fn engine(&self, peer: &[u8], limits: &TransportLimits, exposing: u32) -> rpcrdma::Engine {
        rpcrdma::Engine::new(rpcrdma::EngineConfig {
            own: self.own(exposing),
            peer: PrivateData::decode(peer),
            credits_requested: limits.calls_max.min(rpcrdma::CREDITS_MAX),
            grant: self.0.config.credits,
            overrun: OVERRUN,
            calls_waiting_max: limits.calls_max as usize,
            record_bytes_max: limits.record_bytes_max,
            ..rpcrdma::EngineConfig::default()
        })
    }

    /// For a connection on which so many calls of ours expose memory at a time.
    fn endpoint(&self, limits: &TransportLimits, exposing: u32) -> EndpointConfig {
        let calls = limits.calls_max.min(rpcrdma::CREDITS_MAX);
        EndpointConfig {
            send_depth: SEND_DEPTH,
            receive_depth: self.0.config.credits + OVERRUN + calls,
            exposed_max: exposing.min(calls) * EXPOSED_PER_CALL_MAX,
            crc: self.0.config.crc,
            // A result is as long as its reply says, and what stands around it is written after it.
            exposed_is_scratch: true,
            ..EndpointConfig::default()
        }
    }

    /// For what a peer may send before it heard anything.
    fn receives(&self, count: u32) -> Vec<Receive> {
        let receive = |_| Receive {
            id: 0,
            buffer: self.0.memory.receive(),
        };
        (0..count).map(receive).collect()
    }

    /// Whether credits are lent: then messages beyond them have to wait.
    fn lends(&self) -> bool {
        self.0.fabric.limits().shares_receives
    }
}

/// Where peers connect to.
pub struct Listener {
    local: SocketAddr,
    state: Listening,
}

/// A device may go away under who listens on it, and come back.
enum Listening {
    Here(Box<dyn fabric::Listener>),
    /// Until it is tried again.
    Away(Instant),
}

impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Listener({})", self.local)
    }
}

impl Listener {
    /// The address it listens on.
    #[must_use]
    pub const fn local(&self) -> SocketAddr {
        self.local
    }

    /// The next peer, also of a device that comes back. May be dropped and called again.
    async fn accept(&mut self, fabric: &dyn Fabric) -> io::Result<Box<dyn fabric::Incoming>> {
        let address = self.local;
        loop {
            match &mut self.state {
                Listening::Here(listener) => match listener.accept().await {
                    Err(e) if e.kind() == io::ErrorKind::NetworkDown => {
                        tracing::warn!(%address, "the RDMA device of this address is gone");
                        self.state = Listening::Away(Instant::now());
                    }
                    accepted => return accepted,
                },
                Listening::Away(until) => {
                    tokio::time::sleep_until(*until).await;
                    // Before it is tried, since the try may be dropped.
                    *until = Instant::now() + LISTEN_RETRY;
                    match fabric.listen(address).await {
                        Ok(listener) => {
                            tracing::info!(%address, "the RDMA device of this address is back");
                            self.state = Listening::Here(listener);
                        }
                        Err(e) => tracing::debug!(%address, "no RDMA: {e}"),
                    }
                }
            }
        }
    }
}

/// Listens on `address`, on the runtime that calls. Each worker may listen on the same address where the provider
/// allows it. Port 0 picks a free port.
///
/// # Errors
/// As the provider says.
pub async fn listen(address: SocketAddr, rdma: &Rdma) -> io::Result<Listener> {
    let listener = rdma.0.fabric.listen(address).await?;
    Ok(Listener {
        local: listener.local(),
        state: Listening::Here(listener),
    })
}

/// As [`listen`], on several addresses. One whose device or network interface is not there is tried again while the others
/// serve.
///
/// # Errors
/// When none of them is there, or another program listens on one.
pub async fn listen_all(addresses: &[SocketAddr], rdma: &Rdma) -> io::Result<Vec<Listener>> {
    let mut listeners = Vec::with_capacity(addresses.len());
    let mut away = None;
    for address in addresses {
        listeners.push(match listen(*address, rdma).await {
            Ok(listener) => listener,
            Err(e) if is_absent(&e) => {
                tracing::warn!(%address, "nobody listens here until it is an address of an RDMA device: {e}");
                away.get_or_insert(e);
                Listener {
                    local: *address,
                    state: Listening::Away(Instant::now() + LISTEN_RETRY),
                }
            }
            Err(e) => return Err(e),
        });
    }
    let is_here = |listener: &Listener| matches!(listener.state, Listening::Here(_));
    match away {
        Some(e) if !listeners.iter().any(is_here) => Err(e),
        _ => Ok(listeners),
    }
}

/// Whether it says that there is no such address, or no device that has it.
fn is_absent(e: &io::Error) -> bool {
    /// Linux's number of "no such device".
    const ENODEV: i32 = 19;
    e.kind() == io::ErrorKind::AddrNotAvailable || e.raw_os_error() == Some(ENODEV)
}

/// Serves RDMA connections until the shutdown signal, then drains them.
pub async fn serve(
    mut listeners: Vec<Listener>,
    rdma: Rdma,
    service: Arc<dyn DynService>,
    context: Context,
    shutdown: ShutdownSignal,
) {
    let host = Host::new(context, service);
    let mut tasks = Tasks::new(host.clone());
    let mut stop = pin!(shutdown.wait());
    rdma.0.memory.tend();
    let mut rounds = tokio::time::interval(sharing::ROUND);
    rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let accepted = tokio::select! {
            biased;
            () = &mut stop => break,
            _ = rounds.tick(), if rdma.lends() => {
                rdma.0.classes.look(&*host.service);
                continue;
            }
            accepted = accept(&mut listeners, rdma.fabric()) => accepted,
        };
        let (incoming, local) = match accepted {
            Ok(accepted) => accepted,
            Err(e) => {
                host.context.accept_failed(&e);
                tokio::time::sleep(ACCEPT_RETRY).await;
                continue;
            }
        };
        let peer = Endpoint::Socket(incoming.peer());
        if !host.service.admits_peer(&peer) {
            host.context.not_admitted(&peer);
            continue;
        }
        let Some(admission) = host.context.admit_peer(&peer) else {
            continue;
        };
        Counters::add(&host.context.counters().connections_accepted, 1);
        tasks.spawn(serve_one(
            incoming,
            local,
            rdma.clone(),
            host.clone(),
            admission,
        ));
    }
    drop(listeners);
    tasks.shut_down().await;
}

async fn accept(
    listeners: &mut [Listener],
    fabric: &dyn Fabric,
) -> io::Result<(Box<dyn fabric::Incoming>, SocketAddr)> {
    if listeners.is_empty() {
        return std::future::pending().await;
    }
    let accepting = listeners.iter_mut().map(|listener| {
        let local = listener.local();
        let accepting = listener.accept(fabric);
        Box::pin(async move { Ok((accepting.await?, local)) })
    });
    select_all(accepting).await.0
}

/// A connection from its set-up to its end, each in a box of its own: what the set-up needs is gone after it.
fn serve_one(
    incoming: Box<dyn fabric::Incoming>,
    local: SocketAddr,
    rdma: Rdma,
    host: Host,
    admission: Admission,
) -> impl Future<Output = ()> + Send + 'static {
    let set_up = Box::pin(async move {
        let (link, conn, place) = set_up(incoming, local, &rdma, &host.context).await?;
        let running: BoxFuture<'static, ()> = Box::pin(async move {
            let _place = place;
            host.run(link, conn, admission).await;
        });
        Some(running)
    });
    async move {
        if let Some(running) = set_up.await {
            running.await;
        }
    }
}

async fn set_up(
    incoming: Box<dyn fabric::Incoming>,
    local: SocketAddr,
    rdma: &Rdma,
    context: &Context,
) -> Option<(Box<RdmaLink>, ConnHandle, Option<Place>)> {
    let limits = context.limits();
    let exposing = EXPOSING_TO_CLIENTS;
    let mut engine = rdma.engine(incoming.private_data(), limits, exposing);
    let mut place = None;
    if rdma.lends() {
        let (joined, account) = rdma.0.classes.join(engine.receive_bytes_max());
        engine = engine.lending(account, rdma.0.fabric.limits().holds_back);
        place = Some(joined);
    }
    let (config, private_data) = (rdma.endpoint(limits, exposing), rdma.private_data(exposing));
    let count = engine.receives();
    let receives = place.as_ref().map_or(Receives::Own, |_| Receives::Shared);
    let accepting = match &place {
        Some(place) => incoming.accept_sharing(config, private_data, place.claim(count)),
        None => incoming.accept(config, private_data, rdma.receives(count)),
    };
    let connected = match in_time(limits, accepting).await {
        Ok(connected) => connected,
        // A peer that gave up: nothing was served.
        Err(e) => {
            tracing::debug!("RDMA connection not set up: {e}");
            return None;
        }
    };
    let (link, conn) = link(connected.endpoint, engine, (local, receives), rdma, context);
    if let Some(place) = &place {
        place.is_of(&conn);
    }
    Some((link, conn, place))
}

async fn in_time(
    limits: &TransportLimits,
    step: impl Future<Output = Result<fabric::Connected, fabric::ConnectError>>,
) -> Result<fabric::Connected, ConnectError> {
    let done = tokio::time::timeout(limits.handshake, step).await;
    done.map_err(|_| ConnectError::TimedOut)?
        .map_err(|e| match e {
            fabric::ConnectError::Io(e) => ConnectError::Io(e),
            fabric::ConnectError::Rejected { .. } => {
                ConnectError::Io(io::Error::new(io::ErrorKind::ConnectionRefused, e))
            }
            _ => ConnectError::Io(io::Error::new(io::ErrorKind::InvalidData, e)),
        })
}

fn link(
    endpoint: Box<dyn fabric::Endpoint>,
    engine: rpcrdma::Engine,
    (local, receives): (SocketAddr, Receives),
    rdma: &Rdma,
    context: &Context,
) -> (Box<RdmaLink>, ConnHandle) {
    Counters::add(&context.counters().rdma_connections, 1);
    let info = ConnInfo {
        kind: TransportKind::Rdma,
        peer: Endpoint::Socket(endpoint.peer()),
        local: Endpoint::Socket(local),
        tls: None,
    };
    let conn = ConnHandle::new(info, context.clone());
    let link = RdmaLink::new(endpoint, engine, receives, rdma.0.memory.clone(), &conn);
    (Box::new(link), conn)
}

/// Connects over RDMA. Calls that the server sends go to `reverse`.
///
/// # Errors
/// [`ConnectError`].
pub async fn connect(
    address: SocketAddr,
    rdma: &Rdma,
    reverse: Arc<dyn DynService>,
    context: &Context,
) -> Result<ConnHandle, ConnectError> {
    let admission = context.admit().ok_or(ConnectError::TooMany)?;
    let limits = context.limits();
    let count = rdma.engine(&[], limits, 0).receives();
    let fabric = &rdma.0.fabric;
    let exposing = limits.calls_max;
    let connecting = fabric.connect(
        address,
        rdma.endpoint(limits, exposing),
        rdma.private_data(exposing),
        rdma.receives(count),
    );
    let connected = in_time(limits, connecting).await?;
    rdma.0.memory.tend();
    Counters::add(&context.counters().connections_made, 1);
    let engine = rdma.engine(&connected.private_data, limits, exposing);
    // Providers do not tell which address they connected from.
    let local = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0);
    let (link, conn) = link(
        connected.endpoint,
        engine,
        (local, Receives::Own),
        rdma,
        context,
    );
    tokio::spawn(engine::run(link, conn.clone(), reverse, admission));
    Ok(conn)
}

/// Connects to RDMA addresses only.
#[derive(Debug, Clone)]
pub struct RdmaConnector {
    context: Context,
    providers: Vec<Rdma>,
}

impl RdmaConnector {
    /// A connector over these providers, which are tried in order: an address does not say which of them answers there.
    #[must_use]
    pub const fn new(context: Context, providers: Vec<Rdma>) -> Self {
        Self { context, providers }
    }
}

impl Connector for RdmaConnector {
    fn connect<'a>(
        &'a self,
        address: &'a Address,
        reverse: Arc<dyn DynService>,
    ) -> BoxFuture<'a, Result<ConnHandle, ConnectError>> {
        Box::pin(async move {
            let Address::Rdma(address) = address else {
                return Err(ConnectError::Unsupported);
            };
            let mut failed = ConnectError::Unsupported;
            for rdma in &self.providers {
                match connect(*address, rdma, Arc::clone(&reverse), &self.context).await {
                    Ok(conn) => return Ok(conn),
                    Err(e) => {
                        let provider = rdma.fabric().name();
                        tracing::debug!(provider, %address, "no connection: {e}");
                        failed = e;
                    }
                }
            }
            Err(failed)
        })
    }
}
