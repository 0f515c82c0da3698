//! The provider: listening, connecting and accepting.

use crate::cm::{Channel, Event, Events, Id};
use crate::devices::InUse;
use crate::endpoint::VerbsEndpoint;
use crate::limits::LIMITS;
use crate::memory::Domain;
use crate::queue::Queue;
use crate::shared::Share;
use crate::survey::survey;
use crate::sys;
use bytes::Bytes;
use fabric::{
    Blame, BoxFuture, Claim, ConnectError, Connected, Endpoint, EndpointConfig, Fabric, Incoming,
    Listener, ProviderLimits, Receive,
};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, LazyLock, Weak};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::timeout;

/// How long a connection may take to be made.
const SETUP_TIME: Duration = Duration::from_secs(15);

/// RDMA devices of this machine.
#[derive(Debug, Clone, Copy)]
pub struct Verbs {
    limits: ProviderLimits,
    is_hardware: bool,
    /// Whether there was an address on a device when it was opened.
    has_address: bool,
}

impl Verbs {
    /// The devices, if there is one with a port that is up. An address it may get later.
    ///
    /// # Errors
    /// Why RDMA cannot be used, in one line.
    pub fn open() -> Result<Self, String> {
        let survey = survey();
        if let Some(why) = survey.why_not_ready() {
            return Err(why);
        }
        let usable: Vec<_> = survey.devices.iter().filter(|d| d.is_ready()).collect();
        let has_iwarp = usable.iter().any(|device| device.kind.is_iwarp());
        Ok(Self {
            limits: ProviderLimits {
                waits_for_receives: !has_iwarp,
                // An iWARP device ends a connection whose message finds no receive, whoever took it: there each has its own, all of them.
                shares_receives: !has_iwarp,
                blame: if has_iwarp {
                    Blame::Nobody
                } else {
                    Blame::Side
                },
                ..LIMITS
            },
            is_hardware: usable.iter().any(|device| !device.kind.is_software()),
            has_address: survey.has_address(),
        })
    }
}

impl Verbs {
    /// Whether this is an address of a device, so that it can be listened on. One that stands for all addresses is if a device has any. One
    /// of loopback is not: a listener there is for programs that have no device.
    #[must_use]
    pub fn has(&self, address: SocketAddr) -> bool {
        if address.ip().is_unspecified() {
            return self.has_address;
        }
        let any_port = SocketAddr::new(address.ip(), 0);
        let bound = Channel::new().and_then(Id::new).and_then(|id| {
            id.bind(any_port)?;
            Ok(id.context().is_some())
        });
        !address.ip().is_loopback() && bound.unwrap_or(false)
    }
}

impl Fabric for Verbs {
    fn name(&self) -> &'static str {
        if self.is_hardware {
            "RDMA devices"
        } else {
            "software RDMA devices of the kernel"
        }
    }

    fn is_hardware(&self) -> bool {
        self.is_hardware
    }

    fn limits(&self) -> ProviderLimits {
        self.limits
    }

    fn listen(&self, address: SocketAddr) -> BoxFuture<'_, io::Result<Box<dyn Listener>>> {
        Box::pin(async move {
            let shared = Shared::listen(address)?;
            let events = Events::new(Arc::clone(shared.id.channel()))?;
            let gone = shared.is_gone.subscribe();
            let listener = VerbsListener {
                shared,
                events,
                gone,
            };
            let listener: Box<dyn Listener> = Box::new(listener);
            Ok(listener)
        })
    }

    fn connect(
        &self,
        address: SocketAddr,
        config: EndpointConfig,
        private_data: Bytes,
        receives: Vec<Receive>,
    ) -> BoxFuture<'_, Result<Connected, ConnectError>> {
        Box::pin(in_time(connect(address, config, private_data, receives)))
    }
}

async fn in_time(
    setup: impl Future<Output = Result<Connected, ConnectError>>,
) -> Result<Connected, ConnectError> {
    let done = timeout(SETUP_TIME, setup).await;
    done.unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut).into()))
}

async fn connect(
    address: SocketAddr,
    config: EndpointConfig,
    private_data: Bytes,
    receives: Vec<Receive>,
) -> Result<Connected, ConnectError> {
    fits(&private_data)?;
    let channel = Channel::new()?;
    let events = Events::new(Arc::clone(&channel))?;
    let id = Id::new(channel)?;
    id.resolve_address(address)?;
    expect(events.next().await?, sys::CM_ADDR_RESOLVED)?;
    id.resolve_route()?;
    expect(events.next().await?, sys::CM_ROUTE_RESOLVED)?;
    let Made {
        mut endpoint,
        ird,
        ord,
    } = make(id, events, config, Receives::Own(receives))?;
    endpoint.id()?.connect(&private_data, ird, ord)?;
    let event = expect(endpoint.events()?.next().await?, sys::CM_ESTABLISHED)?;
    endpoint.begin(event.ird.min(ird), event.ord.min(ord));
    Ok(Connected {
        endpoint: Box::new(endpoint),
        private_data: event.private_data,
    })
}

fn fits(private_data: &Bytes) -> Result<(), ConnectError> {
    if private_data.len() > LIMITS.private_data_bytes_max {
        return Err(ConnectError::TooMuch);
    }
    Ok(())
}

/// Where the receives of a connection come from.
enum Receives {
    Own(Vec<Receive>),
    Claimed(Claim),
}

/// A connection in the making.
struct Made {
    endpoint: VerbsEndpoint,
    /// Reads that this side offers to serve and wishes to have outstanding.
    ird: u8,
    ord: u8,
}

/// Makes the queue pair of an identifier whose device is chosen, and posts the receives.
fn make(
    id: Id,
    events: Events,
    config: EndpointConfig,
    receives: Receives,
) -> Result<Made, ConnectError> {
    let in_use = InUse::of(&id)?;
    let device = &in_use.device;
    // Without exposed memory there is nothing in the domain that a peer could name, so all share it.
    let domain = match config.exposed_max {
        0 => in_use.shared()?,
        _ => Domain::new(device)?,
    };
    let share = match &receives {
        // The queue is in the domain that all share: a device may hold a message's receive to that of the queue pair.
        Receives::Claimed(claim) if config.exposed_max == 0 => share_of(in_use, claim),
        _ => None,
    };
    let shared = share.as_ref().map(|share| Arc::clone(share.receives()));
    let depths = (config.send_depth, config.receive_depth);
    let queue = Queue::new(id, domain, depths, shared)?;
    let caps = device.caps;
    let reads = |wish: u32, most: u8| u8::try_from(wish).unwrap_or(u8::MAX).min(most);
    let (ird, ord) = (
        reads(config.ird, caps.ird_max),
        reads(config.ord, caps.ord_max),
    );
    let config = EndpointConfig {
        send_depth: config.send_depth.min(LIMITS.depth_max),
        receive_depth: config.receive_depth.min(queue.sizes.receives),
        exposed_max: config.exposed_max.min(LIMITS.exposed_max),
        ..config
    };
    let mut endpoint = VerbsEndpoint::new(queue, events, config);
    let is_posted = match receives {
        Receives::Own(receives) => receives
            .into_iter()
            .all(|Receive { id, buffer }| endpoint.post_receive(id, buffer).is_ok()),
        Receives::Claimed(claim) => endpoint.share(share, claim),
    };
    if !is_posted {
        return Err(ConnectError::TooMuch);
    }
    Ok(Made { endpoint, ird, ord })
}

/// A share of the device's queue, unless it has no such thing: then receives of its own do.
fn share_of(in_use: &'static InUse, claim: &Claim) -> Option<Share> {
    let messages = claim.admitted();
    let found = in_use.receives(claim.queue(), messages);
    let found = found.unwrap_or_else(|e| {
        tracing::warn!(device = %in_use.device.name, "receives cannot be shared: {e}");
        None
    });
    found.map(|shared| Share::new(shared, messages))
}

/// The event that must come next, or why it did not.
fn expect(event: Event, kind: i32) -> Result<Event, ConnectError> {
    if event.kind == kind {
        return Ok(event);
    }
    let e = match (event.kind, event.status) {
        (sys::CM_REJECTED, status) => {
            // InfiniBand tells apart who said no; iWARP has private data then, or a connection that was cut.
            let by_program =
                status == sys::REJECT_CONSUMER_DEFINED || !event.private_data.is_empty();
            if by_program || status == -ECONNRESET {
                let private_data = event.private_data;
                return Err(ConnectError::Rejected { private_data });
            }
            io::ErrorKind::ConnectionRefused.into()
        }
        (sys::CM_UNREACHABLE, _) => io::ErrorKind::HostUnreachable.into(),
        (sys::CM_DISCONNECTED, _) => io::ErrorKind::ConnectionReset.into(),
        (_, status) if status < 0 => io::Error::from_raw_os_error(-status),
        _ => io::Error::from(io::ErrorKind::ConnectionAborted),
    };
    Err(ConnectError::Io(e))
}

/// The error number of a connection that was reset.
const ECONNRESET: i32 = 104;

/// An address that is listened on, by all listeners of this process that share it.
struct Shared {
    id: Id,
    address: SocketAddr,
    /// One at a time takes what has arrived.
    taking: Mutex<()>,
    /// Whether the device is gone: one listener hears it, and all must know.
    is_gone: watch::Sender<bool>,
}

static LISTENERS: LazyLock<Mutex<HashMap<SocketAddr, Weak<Shared>>>> =
    LazyLock::new(Mutex::default);

impl Shared {
    fn listen(address: SocketAddr) -> io::Result<Arc<Self>> {
        let mut listeners = LISTENERS.lock();
        listeners.retain(|_, shared| shared.strong_count() > 0);
        let known = listeners.get(&address).and_then(Weak::upgrade);
        if let Some(shared) = known.filter(|shared| !*shared.is_gone.borrow()) {
            return Ok(shared);
        }
        let id = Id::new(Channel::new()?)?;
        let address = id.listen(address)?;
        let shared = Arc::new(Self {
            id,
            address,
            taking: Mutex::new(()),
            is_gone: watch::Sender::new(false),
        });
        listeners.insert(address, Arc::downgrade(&shared));
        Ok(shared)
    }
}

struct VerbsListener {
    /// Behind it nobody listens once the last one is gone.
    shared: Arc<Shared>,
    events: Events,
    gone: watch::Receiver<bool>,
}

impl VerbsListener {
    /// The next event, or the end of the device.
    async fn event(&mut self) -> io::Result<Event> {
        let event = std::future::poll_fn(|cx| {
            let _alone = self.shared.taking.lock();
            self.events.poll_next(cx)
        });
        let event = tokio::select! {
            biased;
            _ = self.gone.wait_for(|gone| *gone) => None,
            event = event => Some(event?),
        };
        let event = event.filter(|event| event.kind != sys::CM_DEVICE_REMOVAL);
        event.ok_or_else(|| {
            self.shared.is_gone.send_replace(true);
            io::ErrorKind::NetworkDown.into()
        })
    }
}

impl Listener for VerbsListener {
    fn local(&self) -> SocketAddr {
        self.shared.address
    }

    fn accept(&mut self) -> BoxFuture<'_, io::Result<Box<dyn Incoming>>> {
        Box::pin(async move {
            loop {
                let event = self.event().await?;
                // Others are of peers that gave up before they were accepted.
                let Some(asking) = event.asking else {
                    continue;
                };
                // SAFETY: it came with a request on this channel just now.
                let id = unsafe { Id::asking(asking, Arc::clone(self.shared.id.channel())) };
                let Some(peer) = id.peer() else {
                    continue;
                };
                let incoming: Box<dyn Incoming> = Box::new(VerbsIncoming { id, peer, event });
                return Ok(incoming);
            }
        })
    }
}

struct VerbsIncoming {
    /// Destroying it tells the peer no.
    id: Id,
    peer: SocketAddr,
    event: Event,
}

impl Incoming for VerbsIncoming {
    fn peer(&self) -> SocketAddr {
        self.peer
    }

    fn private_data(&self) -> &Bytes {
        &self.event.private_data
    }

    fn accept(
        self: Box<Self>,
        config: EndpointConfig,
        private_data: Bytes,
        receives: Vec<Receive>,
    ) -> BoxFuture<'static, Result<Connected, ConnectError>> {
        let receives = Receives::Own(receives);
        Box::pin(in_time(accept(*self, config, private_data, receives)))
    }

    fn accept_sharing(
        self: Box<Self>,
        config: EndpointConfig,
        private_data: Bytes,
        claim: Claim,
    ) -> BoxFuture<'static, Result<Connected, ConnectError>> {
        let receives = Receives::Claimed(claim);
        Box::pin(in_time(accept(*self, config, private_data, receives)))
    }

    fn reject(self: Box<Self>, private_data: Bytes) -> BoxFuture<'static, io::Result<()>> {
        Box::pin(async move { self.id.reject(&private_data) })
    }
}

async fn accept(
    incoming: VerbsIncoming,
    config: EndpointConfig,
    private_data: Bytes,
    receives: Receives,
) -> Result<Connected, ConnectError> {
    fits(&private_data)?;
    let VerbsIncoming { mut id, event, .. } = incoming;
    let channel = Channel::new()?;
    id.migrate(Arc::clone(&channel))?;
    let events = Events::new(channel)?;
    let Made {
        mut endpoint,
        ird,
        ord,
    } = make(id, events, config, receives)?;
    // What the peer asks of this side, and what it offers.
    let (ird, ord) = (ird.min(event.ird), ord.min(event.ord));
    endpoint.id()?.accept(&private_data, ird, ord)?;
    expect(endpoint.events()?.next().await?, sys::CM_ESTABLISHED)?;
    endpoint.begin(ird, ord);
    Ok(Connected {
        endpoint: Box::new(endpoint),
        private_data: event.private_data,
    })
}
