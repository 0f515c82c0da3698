//! RDMA between the hosts: the provider within the process, under the troubles of the [`Net`].
//!
//! A fabric that delivers in order and once has fewer troubles than records. What is doubled arrives once, and what is
//! lost ends its connection once the device has given up. Everything posted leaves in its order.

use crate::net::Net;
use bytes::Bytes;
use fabric::mem::MemFabric;
use fabric::{
    BoxFuture, Buffer, Claim, Close, Completion, ConnectError, Connected, Counters, Ended,
    Endpoint, EndpointConfig, Fabric, Incoming, Listener, Memory, Negotiated, ProviderLimits,
    Receive, Refused, Remote, Work,
};
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep};
use transport::memory::Fate;

/// How long a device tries to deliver.
const GIVE_UP: Duration = Duration::from_millis(1_200);
/// When a message that found no receive tries again.
const NEXT_TRY: Duration = Duration::from_millis(1);
/// Bytes of private data that the transport takes; the name of the end follows.
const PRIVATE_DATA_BYTES: usize = 8;

/// Names and addresses of the ends.
#[derive(Debug, Clone, Default)]
pub(crate) struct Names(Arc<Mutex<BTreeMap<SocketAddr, String>>>);

impl Names {
    /// The address of an end: the same whenever it is asked for.
    pub(crate) fn address(&self, name: &str) -> SocketAddr {
        let mut names = self.0.lock();
        if let Some((address, _)) = names.iter().find(|(_, known)| *known == name) {
            return *address;
        }
        let number = u16::try_from(names.len()).expect("few ends");
        let [high, low] = number.to_be_bytes();
        // Loopback, since that is whom the exports admit.
        let address = SocketAddr::from(([127, 1, high, low], 20_049));
        names.insert(address, name.to_owned());
        address
    }

    /// Whose address it is.
    pub(crate) fn name(&self, address: SocketAddr) -> String {
        self.0.lock().get(&address).cloned().unwrap_or_default()
    }
}

/// Receives of servers that are whoever's message comes first: the fault of `InjectedBug::MixReceives`. Not told how many of them a
/// connection leaves behind.
#[derive(Debug, Clone, Default)]
pub(crate) struct Commons(Arc<Mutex<BTreeMap<String, u32>>>);

impl Commons {
    fn add(&self, host: &str, receives: u32) {
        *self.0.lock().entry(host.to_owned()).or_default() += receives;
    }

    /// Takes a receive for a message to this host; `false` when there is none.
    fn take(&self, host: &str) -> bool {
        let mut hosts = self.0.lock();
        let Some(left) = hosts.get_mut(host) else {
            return true;
        };
        let is_there = *left > 0;
        *left -= u32::from(is_there);
        is_there
    }
}

/// The fabric as one end sees it.
#[derive(Clone)]
pub(crate) struct SimFabric {
    pub(crate) mem: MemFabric,
    pub(crate) net: Net,
    pub(crate) names: Names,
    pub(crate) name: String,
    pub(crate) commons: Option<Commons>,
}

impl SimFabric {
    fn endpoint(&self, inner: Box<dyn Endpoint>, to: String) -> Box<dyn Endpoint> {
        Box::new(SimEndpoint {
            peer: self.names.address(&to),
            inner,
            net: self.net.clone(),
            commons: self.commons.clone(),
            from: self.name.clone(),
            to,
            queue: VecDeque::new(),
            lost_at: None,
            sleep: None,
        })
    }
}

impl SimFabric {
    /// A connection that `from` has asked for, under the troubles of the net.
    fn accepted(
        self,
        accepting: BoxFuture<'static, Result<Connected, ConnectError>>,
        from: String,
    ) -> BoxFuture<'static, Result<Connected, ConnectError>> {
        Box::pin(async move {
            let Connected {
                endpoint,
                private_data,
            } = accepting.await?;
            Ok(Connected {
                endpoint: self.endpoint(endpoint, from),
                private_data,
            })
        })
    }
}

impl Fabric for SimFabric {
    fn name(&self) -> &'static str {
        "simulated"
    }

    fn is_hardware(&self) -> bool {
        false
    }

    fn limits(&self) -> ProviderLimits {
        self.mem.limits()
    }

    fn listen(&self, address: SocketAddr) -> BoxFuture<'_, io::Result<Box<dyn Listener>>> {
        Box::pin(async move {
            let inner = self.mem.listen(address).await?;
            let fabric = self.clone();
            Ok(Box::new(SimListener { inner, fabric }) as Box<dyn Listener>)
        })
    }

    fn connect(
        &self,
        address: SocketAddr,
        config: EndpointConfig,
        private_data: Bytes,
        receives: Vec<Receive>,
    ) -> BoxFuture<'_, Result<Connected, ConnectError>> {
        Box::pin(async move {
            let to = self.names.name(address);
            if !self.net.lets_connect(&self.name, &to) {
                return Err(io::Error::from(io::ErrorKind::ConnectionRefused).into());
            }
            let said = [&private_data, self.name.as_bytes()].concat().into();
            let connecting = self.mem.connect(address, config, said, receives);
            let Connected {
                endpoint,
                private_data,
            } = connecting.await?;
            Ok(Connected {
                endpoint: self.endpoint(endpoint, to),
                private_data,
            })
        })
    }
}

struct SimListener {
    inner: Box<dyn Listener>,
    fabric: SimFabric,
}

impl Listener for SimListener {
    fn local(&self) -> SocketAddr {
        self.inner.local()
    }

    fn accept(&mut self) -> BoxFuture<'_, io::Result<Box<dyn Incoming>>> {
        Box::pin(async move {
            let inner = self.inner.accept().await?;
            let said = inner.private_data().get(PRIVATE_DATA_BYTES..);
            let from = String::from_utf8_lossy(said.unwrap_or_default()).into_owned();
            let fabric = self.fabric.clone();
            Ok(Box::new(SimIncoming {
                inner,
                fabric,
                from,
            }) as Box<dyn Incoming>)
        })
    }
}

struct SimIncoming {
    inner: Box<dyn Incoming>,
    fabric: SimFabric,
    from: String,
}

impl Incoming for SimIncoming {
    fn peer(&self) -> SocketAddr {
        self.fabric.names.address(&self.from)
    }

    fn private_data(&self) -> &Bytes {
        self.inner.private_data()
    }

    fn accept(
        self: Box<Self>,
        config: EndpointConfig,
        private_data: Bytes,
        receives: Vec<Receive>,
    ) -> BoxFuture<'static, Result<Connected, ConnectError>> {
        let Self {
            inner,
            fabric,
            from,
        } = *self;
        fabric.accepted(inner.accept(config, private_data, receives), from)
    }

    fn accept_sharing(
        self: Box<Self>,
        config: EndpointConfig,
        private_data: Bytes,
        claim: Claim,
    ) -> BoxFuture<'static, Result<Connected, ConnectError>> {
        let Self {
            inner,
            fabric,
            from,
        } = *self;
        if let Some(commons) = &fabric.commons {
            commons.add(&fabric.name, claim.admitted());
        }
        fabric.accepted(inner.accept_sharing(config, private_data, claim), from)
    }

    fn reject(self: Box<Self>, private_data: Bytes) -> BoxFuture<'static, io::Result<()>> {
        self.inner.reject(private_data)
    }
}

/// Work on its way to the provider.
struct Posted {
    due: Instant,
    id: u64,
    work: Work,
    signalled: bool,
}

struct SimEndpoint {
    inner: Box<dyn Endpoint>,
    net: Net,
    commons: Option<Commons>,
    from: String,
    to: String,
    peer: SocketAddr,
    queue: VecDeque<Posted>,
    /// Something was lost: when the connection ends.
    lost_at: Option<Instant>,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl SimEndpoint {
    /// When this leaves; `None` when it does not.
    fn due(&mut self, work: &Work, now: Instant) -> Option<Instant> {
        let earliest = self.queue.back().map_or(now, |last| last.due.max(now));
        if !matches!(work, Work::Send { .. } | Work::Read { .. }) {
            return Some(earliest);
        }
        match self.net.fate_of(&self.from, &self.to) {
            Fate::Deliver | Fate::Double => Some(earliest),
            Fate::Delay(delay) => Some(earliest.max(now + delay)),
            Fate::Lose => {
                self.lost_at.get_or_insert(now + GIVE_UP);
                None
            }
            Fate::Cut => {
                self.cut();
                None
            }
        }
    }

    fn cut(&mut self) {
        self.queue.clear();
        self.lost_at = None;
        self.inner.close(Close::Now);
    }

    /// Hands over what is due.
    fn release(&mut self, now: Instant) {
        while self.queue.front().is_some_and(|posted| posted.due <= now) {
            if self.net.is_cut_off(&self.from, &self.to) {
                self.cut();
            }
            if !self.finds_receive() {
                self.queue[0].due = now + NEXT_TRY;
                break;
            }
            self.hand_over();
        }
        if self.lost_at.is_some_and(|at| at <= now) {
            self.cut();
        }
    }

    /// Whether the next work is no message, or one that finds a receive as far as the servers mix theirs up.
    fn finds_receive(&self) -> bool {
        let next = self.queue.front().map(|posted| &posted.work);
        match (&self.commons, next) {
            (Some(commons), Some(Work::Send { .. })) => commons.take(&self.to),
            _ => true,
        }
    }

    fn hand_over(&mut self) {
        let Some(posted) = self.queue.pop_front() else {
            return;
        };
        // What the provider refuses has no connection any more, as its end will say.
        let _ = self.inner.post(posted.id, posted.work, posted.signalled);
        self.inner.ring();
    }
}

impl Endpoint for SimEndpoint {
    fn post(&mut self, id: u64, work: Work, signalled: bool) -> Result<(), Refused<Work>> {
        let now = Instant::now();
        let due = self.due(&work, now);
        if let (Some(due), None) = (due, self.lost_at) {
            self.queue.push_back(Posted {
                due,
                id,
                work,
                signalled,
            });
        }
        Ok(())
    }

    fn post_receive(&mut self, id: u64, buffer: Buffer) -> Result<(), Refused<Buffer>> {
        self.inner.post_receive(id, buffer)
    }

    fn admit(&mut self, messages: u32) -> u32 {
        let admitted = self.inner.admit(messages);
        if let Some(commons) = &self.commons {
            commons.add(&self.from, admitted);
        }
        admitted
    }

    fn retract(&mut self, messages: u32) -> u32 {
        self.inner.retract(messages)
    }

    fn excuse(&mut self, messages: u32) {
        self.inner.excuse(messages);
    }

    fn expose(&mut self, memory: Memory) -> Result<Remote, Refused<Memory>> {
        self.inner.expose(memory)
    }

    fn ring(&mut self) {
        self.release(Instant::now());
    }

    fn poll_completions(
        &mut self,
        cx: &mut Context<'_>,
        completions: &mut Vec<Completion>,
    ) -> Poll<Result<(), Ended>> {
        loop {
            self.release(Instant::now());
            let next = self.queue.front().map(|posted| posted.due);
            let Some(next) = next.into_iter().chain(self.lost_at).min() else {
                self.sleep = None;
                break;
            };
            let mut sleep = Box::pin(tokio::time::sleep_until(next));
            if sleep.as_mut().poll(cx).is_pending() {
                self.sleep = Some(sleep);
                break;
            }
        }
        self.inner.poll_completions(cx, completions)
    }

    fn close(&mut self, how: Close) {
        while how == Close::Drain && !self.queue.is_empty() {
            self.hand_over();
        }
        self.inner.close(how);
    }

    fn send_room(&self) -> usize {
        self.inner.send_room().saturating_sub(self.queue.len())
    }

    fn peer(&self) -> SocketAddr {
        self.peer
    }

    fn negotiated(&self) -> Negotiated {
        self.inner.negotiated()
    }

    fn counters(&self) -> Counters {
        self.inner.counters()
    }
}
