//! A provider without a network: connections inside one process, for tests and the simulator.
//!
//! Work is done at once and whole when it is rung for or polled for. Everything is in the order of the calls: equal calls give
//! equal results. Clones of a [`MemFabric`] are one network.
//!
//! Each IP address is a device of its own, which can be taken away ([`MemFabric::take_device`]) with all that is on it.
//!
//! It registers nothing, and counts what a device would have registered ([`Counters`](crate::Counters)): accepted
//! connections have one domain together, each other one has its own.

mod domain;
mod link;

use crate::{
    BoxFuture, Claim, ConnectError, Connected, EndpointConfig, Fabric, Incoming, Listener,
    Negotiated, ProviderLimits, Receive,
};
use bytes::Bytes;
use domain::Domain;
use link::{LIMITS, Link, MemEndpoint, Receives};
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet, VecDeque};
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Weak};
use std::task::{Poll, Waker};

/// Peers that wait to be accepted at one listener.
const BACKLOG: usize = 1024;
/// Linux's number of "no such device".
const ENODEV: i32 = 19;
/// First port given to a listener that names none.
const PORT_MIN: u16 = 49_152;

/// A network in memory.
#[derive(Debug, Clone, Default)]
pub struct MemFabric(Arc<Mutex<Net>>);

#[derive(Debug, Default)]
struct Net {
    /// Messages that are not admitted end their connection.
    cuts: bool,
    listeners: HashMap<SocketAddr, Backlog>,
    ports: u16,
    links: u32,
    /// Those that there may be still, and their device.
    made: Vec<(IpAddr, Weak<Mutex<Link>>)>,
    /// Devices that were taken away.
    away: HashSet<IpAddr>,
    /// Number of the last listener.
    listened: u64,
    /// Of all who accept.
    domain: Arc<Domain>,
}

#[derive(Debug, Default)]
struct Backlog {
    /// Of its listener.
    number: u64,
    asking: VecDeque<MemIncoming>,
    waker: Option<Waker>,
}

/// What the side that connects waits for.
type Answer = Arc<Mutex<(Option<Result<Connected, ConnectError>>, Option<Waker>)>>;

#[derive(Debug)]
struct MemIncoming {
    net: MemFabric,
    /// Of the accepting side, and of the connecting side.
    addresses: [SocketAddr; 2],
    config: EndpointConfig,
    private_data: Bytes,
    receives: Vec<Receive>,
    answer: Answer,
}

impl Fabric for MemFabric {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn is_hardware(&self) -> bool {
        false
    }

    fn limits(&self) -> ProviderLimits {
        let holds_back = !self.0.lock().cuts;
        ProviderLimits {
            holds_back,
            ..LIMITS
        }
    }

    fn listen(&self, mut address: SocketAddr) -> BoxFuture<'_, io::Result<Box<dyn Listener>>> {
        Box::pin(async move {
            let mut net = self.0.lock();
            if net.away.contains(&address.ip()) {
                return Err(io::Error::from_raw_os_error(ENODEV));
            }
            if address.port() == 0 {
                let port = PORT_MIN.checked_add(net.ports);
                net.ports += 1;
                address.set_port(port.ok_or(io::ErrorKind::AddrInUse)?);
            }
            if net.listeners.contains_key(&address) {
                return Err(io::ErrorKind::AddrInUse.into());
            }
            net.listened += 1;
            let number = net.listened;
            let backlog = Backlog {
                number,
                ..Backlog::default()
            };
            net.listeners.insert(address, backlog);
            let net = self.clone();
            let listener: Box<dyn Listener> = Box::new(MemListener {
                net,
                address,
                number,
            });
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
        Box::pin(async move {
            check(&config, &private_data, &receives)?;
            let answer = self.ask(address, config, private_data, receives)?;
            poll_fn(move |cx| {
                let mut answer = answer.lock();
                match answer.0.take() {
                    Some(result) => Poll::Ready(result),
                    None => {
                        answer.1 = Some(cx.waker().clone());
                        Poll::Pending
                    }
                }
            })
            .await
        })
    }
}

impl MemFabric {
    /// A network that cannot hold back single connections in front of a queue that they share, as devices cannot.
    #[must_use]
    pub fn cutting() -> Self {
        let fabric = Self::default();
        fabric.0.lock().cuts = true;
        fabric
    }

    /// Takes away the device with this address. Connections over it end at both sides, listeners on it are told, and
    /// nobody can listen until it is given back.
    pub fn take_device(&self, ip: IpAddr) {
        let mut net = self.0.lock();
        net.away.insert(ip);
        let listeners = std::mem::take(&mut net.listeners);
        let (gone, kept) = listeners.into_iter().partition(|(at, _)| at.ip() == ip);
        net.listeners = kept;
        let made = std::mem::take(&mut net.made);
        let (on_it, others) = made.into_iter().partition(|(at, _)| *at == ip);
        net.made = others;
        // Who wakes up may look at the network.
        drop(net);
        let gone: HashMap<SocketAddr, Backlog> = gone;
        for backlog in gone.into_values() {
            if let Some(waker) = backlog.waker {
                waker.wake();
            }
        }
        let on_it: Vec<(IpAddr, Weak<Mutex<Link>>)> = on_it;
        for link in on_it.iter().filter_map(|(_, link)| link.upgrade()) {
            link.lock().lose(io::ErrorKind::NetworkDown);
        }
    }

    /// Gives it back.
    pub fn give_device(&self, ip: IpAddr) {
        self.0.lock().away.remove(&ip);
    }

    fn ask(
        &self,
        address: SocketAddr,
        config: EndpointConfig,
        private_data: Bytes,
        receives: Vec<Receive>,
    ) -> Result<Answer, ConnectError> {
        let mut net = self.0.lock();
        let mut from = address;
        from.set_port(1);
        let Some(backlog) = net.listeners.get_mut(&address) else {
            return Err(io::Error::from(io::ErrorKind::ConnectionRefused).into());
        };
        if backlog.asking.len() >= BACKLOG {
            return Err(io::Error::from(io::ErrorKind::ConnectionRefused).into());
        }
        let answer = Answer::default();
        backlog.asking.push_back(MemIncoming {
            net: self.clone(),
            addresses: [address, from],
            config,
            private_data,
            receives,
            answer: Arc::clone(&answer),
        });
        if let Some(waker) = backlog.waker.take() {
            waker.wake();
        }
        Ok(answer)
    }
}

fn check(
    config: &EndpointConfig,
    private_data: &Bytes,
    receives: &[Receive],
) -> Result<(), ConnectError> {
    let depth = usize::try_from(config.receive_depth).unwrap_or(usize::MAX);
    if private_data.len() > LIMITS.private_data_bytes_max || receives.len() > depth {
        return Err(ConnectError::TooMuch);
    }
    Ok(())
}

struct MemListener {
    net: MemFabric,
    address: SocketAddr,
    number: u64,
}

impl Listener for MemListener {
    fn local(&self) -> SocketAddr {
        self.address
    }

    fn accept(&mut self) -> BoxFuture<'_, io::Result<Box<dyn Incoming>>> {
        Box::pin(poll_fn(|cx| {
            let mut net = self.net.0.lock();
            let known = net.listeners.get_mut(&self.address);
            let Some(backlog) = known.filter(|backlog| backlog.number == self.number) else {
                // The device is gone, or was.
                return Poll::Ready(Err(io::ErrorKind::NetworkDown.into()));
            };
            match backlog.asking.pop_front() {
                Some(incoming) => Poll::Ready(Ok(Box::new(incoming) as Box<dyn Incoming>)),
                None => {
                    backlog.waker = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        }))
    }
}

impl Drop for MemListener {
    fn drop(&mut self) {
        let mut net = self.net.0.lock();
        let known = net.listeners.get(&self.address);
        if known.is_none_or(|backlog| backlog.number != self.number) {
            return;
        }
        let backlog = net.listeners.remove(&self.address);
        // A connection that waits there is refused once the lock is free.
        drop(net);
        drop(backlog);
    }
}

impl MemIncoming {
    fn say(&self, result: Result<Connected, ConnectError>) {
        let mut answer = self.answer.lock();
        answer.0 = Some(result);
        if let Some(waker) = answer.1.take() {
            waker.wake();
        }
    }

    fn connect(
        &mut self,
        config: EndpointConfig,
        private_data: Bytes,
        receives: Receives,
    ) -> Result<Connected, ConnectError> {
        check(&config, &private_data, receives.own())?;
        let theirs = self.config;
        let agreed = |ours: &EndpointConfig, theirs: &EndpointConfig| Negotiated {
            ird: ours.ird.min(theirs.ord).min(LIMITS.reads_max),
            ord: ours.ord.min(theirs.ird).min(LIMITS.reads_max),
            crc: ours.crc || theirs.crc,
            // As software iWARP: what is summed has to be read.
            files: !(ours.crc || theirs.crc),
        };
        let (number, cuts, domain) = {
            let mut net = self.net.0.lock();
            net.links = net.links.wrapping_add(1);
            (net.links, net.cuts, Arc::clone(&net.domain))
        };
        let asked = Receives::Own(std::mem::take(&mut self.receives));
        let ends = [(config, receives, domain), (theirs, asked, Arc::default())];
        let link = Link::new(number, cuts, ends);
        {
            let mut net = self.net.0.lock();
            let device = self.addresses[0].ip();
            if net.away.contains(&device) {
                return Err(io::Error::from_raw_os_error(ENODEV).into());
            }
            net.made.retain(|(_, link)| link.strong_count() > 0);
            net.made.push((device, Arc::downgrade(&link)));
        }
        let end = |side: usize, negotiated| MemEndpoint {
            link: Arc::clone(&link),
            side,
            peer: self.addresses[1 - side],
            negotiated,
        };
        self.say(Ok(Connected {
            endpoint: Box::new(end(1, agreed(&theirs, &config))),
            private_data,
        }));
        Ok(Connected {
            endpoint: Box::new(end(0, agreed(&config, &theirs))),
            private_data: self.private_data.clone(),
        })
    }
}

impl Incoming for MemIncoming {
    fn peer(&self) -> SocketAddr {
        self.addresses[1]
    }

    fn private_data(&self) -> &Bytes {
        &self.private_data
    }

    fn accept(
        mut self: Box<Self>,
        config: EndpointConfig,
        private_data: Bytes,
        receives: Vec<Receive>,
    ) -> BoxFuture<'static, Result<Connected, ConnectError>> {
        let receives = Receives::Own(receives);
        Box::pin(async move { self.connect(config, private_data, receives) })
    }

    fn accept_sharing(
        mut self: Box<Self>,
        config: EndpointConfig,
        private_data: Bytes,
        claim: Claim,
    ) -> BoxFuture<'static, Result<Connected, ConnectError>> {
        let receives = Receives::Shared(claim);
        Box::pin(async move { self.connect(config, private_data, receives) })
    }

    fn reject(mut self: Box<Self>, private_data: Bytes) -> BoxFuture<'static, io::Result<()>> {
        Box::pin(async move {
            self.receives.clear();
            self.say(Err(ConnectError::Rejected { private_data }));
            Ok(())
        })
    }
}

impl Drop for MemIncoming {
    fn drop(&mut self) {
        // Nobody will answer. If somebody has, the connecting side may not have looked yet.
        let mut answer = self.answer.lock();
        if answer.0.is_none() {
            let refused = io::Error::from(io::ErrorKind::ConnectionReset);
            answer.0 = Some(Err(refused.into()));
        }
        if let Some(waker) = answer.1.take() {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    //! The contract, driven without a runtime: what waits while nobody woke it would wait for ever.
    use super::MemFabric;
    use std::future::Future;
    use std::net::SocketAddr;
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::{Context, Wake};

    #[derive(Default)]
    struct Woken(AtomicBool);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::SeqCst);
        }
    }

    fn run(test: impl Future<Output = ()>) {
        let mut test = pin!(test);
        let woken = Arc::new(Woken::default());
        let waker = Arc::clone(&woken).into();
        let mut cx = Context::from_waker(&waker);
        while test.as_mut().poll(&mut cx).is_pending() {
            assert!(woken.0.swap(false, Ordering::SeqCst), "it waits for ever");
        }
    }

    fn address() -> SocketAddr {
        SocketAddr::from(([10, 0, 0, 1], 0))
    }

    crate::contract_tests!(MemFabric::default(), address(), run);

    /// The promises of a fabric whose device can be taken away.
    fn loses_its_device(fabric: &MemFabric) {
        let (here, elsewhere) = (address(), SocketAddr::from(([10, 0, 0, 2], 0)));
        let take = || fabric.take_device(here.ip());
        run(crate::contract::a_device_that_goes_away_flushes_everything(
            fabric,
            [here, elsewhere],
            take,
        ));
        fabric.give_device(here.ip());
        run(crate::contract::either_side_sends_first(fabric, here));
    }

    #[test]
    fn a_device_that_goes_away_flushes_everything() {
        loses_its_device(&MemFabric::default());
    }

    mod cutting {
        //! The same where what is not admitted cannot wait.
        use super::{MemFabric, address, run};

        crate::contract_tests!(MemFabric::cutting(), address(), run);

        #[test]
        fn a_device_that_goes_away_flushes_everything() {
            super::loses_its_device(&MemFabric::cutting());
        }
    }
}
