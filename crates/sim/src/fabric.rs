//! RDMA between the hosts: the provider within the process, under the troubles of the [`Net`].
//!
//! A fabric that delivers in order and once has fewer troubles than records: what is doubled arrives once, and what is
//! lost ends its connection once the device has given up. Everything posted leaves in its order.

use crate::net::Net;
use bytes::Bytes;
use fabric::mem::MemFabric;
use fabric::{
    BoxFuture, Buffer, Claim, Close, Completion, ConnectError, Connected, Counters, Ended,
    Endpoint, EndpointConfig, Fabric, Incoming, Limits, Listener, Memory, Negotiated, Receive,
    Refused, Remote, Work,
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

/// The fabric as one end sees it.
#[derive(Clone)]
pub(crate) struct SimFabric {
    pub(crate) mem: MemFabric,
    pub(crate) net: Net,
    pub(crate) names: Names,
    pub(crate) name: String,
}

impl SimFabric {
    fn endpoint(&self, inner: Box<dyn Endpoint>, to: String) -> Box<dyn Endpoint> {
        Box::new(SimEndpoint {
            peer: self.names.address(&to),
            inner,
            net: self.net.clone(),
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

    fn limits(&self) -> Limits {
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
            self.hand_over();
        }
        if self.lost_at.is_some_and(|at| at <= now) {
            self.cut();
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
        self.inner.admit(messages)
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
