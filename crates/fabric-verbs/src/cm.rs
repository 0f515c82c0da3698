//! Connection management by librdmacm: identifiers, and the channels on which their events arrive.
//!
//! # Ownership
//! An identifier keeps its channel; a queue pair of it must be gone before it ([`crate::queue`] sees to that). Events are
//! copied and acknowledged at once, since destroying an identifier waits for its last acknowledgement.

use crate::context;
use crate::library::{Api, api};
use crate::sys::{self, CmEvent, CmId, ConnParam, Context, EventChannel, SockaddrStorage};
use bytes::Bytes;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, ready};
use tokio::io::unix::AsyncFd;

/// How long the kernel looks for the device and the way to an address.
const RESOLVE_MS: i32 = 5000;
/// Peers that wait to be accepted.
const BACKLOG: i32 = 1024;
/// How often a peer that answers nothing is tried again: the most that there is.
const RETRIES: u8 = 7;
/// A message without a receive waits without end.
const RETRIES_WITHOUT_END: u8 = 7;

/// Where events arrive.
pub(crate) struct Channel {
    api: &'static Api,
    raw: NonNull<EventChannel>,
}

// SAFETY: librdmacm takes calls on one channel from any thread.
unsafe impl Send for Channel {}
// SAFETY: as above.
unsafe impl Sync for Channel {}

/// One event.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) kind: i32,
    pub(crate) status: i32,
    /// Of a request for a connection: the peer.
    pub(crate) asking: Option<NonNull<CmId>>,
    pub(crate) private_data: Bytes,
    /// Reads of the other side that this side may serve at a time, as the other side sees it.
    pub(crate) ird: u8,
    /// Reads that this side may have outstanding.
    pub(crate) ord: u8,
}

// SAFETY: the identifier is not used through the event, but made an [`Id`] of.
unsafe impl Send for Event {}

impl Channel {
    pub(crate) fn new() -> io::Result<Arc<Self>> {
        let api = api().map_err(io::Error::other)?;
        // SAFETY: it asks for nothing.
        let raw = unsafe { (api.cm.rdma_create_event_channel)() };
        let raw = NonNull::new(raw).ok_or_else(io::Error::last_os_error)?;
        let channel = Self { api, raw };
        set_nonblocking(channel.fd())?;
        Ok(Arc::new(channel))
    }

    fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the channel is live, and its descriptor open, as long as `self`.
        unsafe { BorrowedFd::borrow_raw(self.raw.as_ref().fd) }
    }

    /// The next event that is there.
    pub(crate) fn next(&self) -> io::Result<Option<Event>> {
        let mut raw: *mut CmEvent = std::ptr::null_mut();
        // SAFETY: the channel is live; `raw` takes the event.
        if unsafe { (self.api.cm.rdma_get_cm_event)(self.raw.as_ptr(), &raw mut raw) } != 0 {
            let e = io::Error::last_os_error();
            return match e.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
                _ => Err(e),
            };
        }
        // SAFETY: it was just got, and lives until it is acknowledged.
        let event = unsafe { Event::copy(&*raw) };
        // SAFETY: it is acknowledged once, and not used any more.
        unsafe { (self.api.cm.rdma_ack_cm_event)(raw) };
        Ok(Some(event))
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        // SAFETY: it is live until here, and every identifier on it holds it.
        unsafe { (self.api.cm.rdma_destroy_event_channel)(self.raw.as_ptr()) };
    }
}

impl Event {
    /// # Safety
    /// The event is one that was got and is not acknowledged.
    unsafe fn copy(raw: &CmEvent) -> Self {
        let ConnParam {
            private_data,
            private_data_len,
            responder_resources,
            initiator_depth,
            ..
        } = raw.conn;
        let private_data = if private_data.is_null() {
            Bytes::new()
        } else {
            // SAFETY: the library says that there are so many octets.
            let data = unsafe {
                std::slice::from_raw_parts(private_data.cast(), usize::from(private_data_len))
            };
            Bytes::copy_from_slice(data)
        };
        let asks = raw.event == sys::CM_CONNECT_REQUEST;
        Self {
            kind: raw.event,
            status: raw.status,
            asking: NonNull::new(raw.id).filter(|_| asks),
            private_data,
            ird: responder_resources,
            ord: initiator_depth,
        }
    }
}

/// The events of a channel, for one task.
pub(crate) struct Events {
    /// A descriptor of its own, so that several tasks can wait for one channel.
    ready: AsyncFd<OwnedFd>,
    channel: Arc<Channel>,
}

impl Events {
    /// For a task of this runtime.
    pub(crate) fn new(channel: Arc<Channel>) -> io::Result<Self> {
        let fd = channel.fd().try_clone_to_owned()?;
        // SAFETY: the descriptor is owned, and so open as long as it is registered.
        let ready = unsafe { AsyncFd::register(fd)? };
        Ok(Self { ready, channel })
    }

    pub(crate) fn poll_next(&self, cx: &mut TaskContext<'_>) -> Poll<io::Result<Event>> {
        loop {
            let mut ready = ready!(self.ready.poll_read_ready(cx))?;
            match self.channel.next()? {
                Some(event) => return Poll::Ready(Ok(event)),
                None => ready.clear_ready(),
            }
        }
    }

    pub(crate) async fn next(&self) -> io::Result<Event> {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }
}

/// A connection or a listener; destroyed when dropped.
pub(crate) struct Id {
    api: &'static Api,
    raw: NonNull<CmId>,
    /// Behind the identifier, so that it goes last.
    channel: Arc<Channel>,
}

// SAFETY: librdmacm takes calls on one identifier from any thread, and this is the only handle of it.
unsafe impl Send for Id {}
// SAFETY: what a shared handle does are calls of librdmacm and reads of what does not change.
unsafe impl Sync for Id {}

impl Id {
    pub(crate) fn new(channel: Arc<Channel>) -> io::Result<Self> {
        let api = channel.api;
        let mut raw = std::ptr::null_mut();
        let (at, context) = (channel.raw.as_ptr(), std::ptr::null_mut());
        // SAFETY: the channel is live; `raw` takes the identifier.
        let result = unsafe { (api.cm.rdma_create_id)(at, &raw mut raw, context, sys::PS_TCP) };
        check(result)?;
        let raw = NonNull::new(raw).ok_or(io::ErrorKind::Other)?;
        Ok(Self { api, raw, channel })
    }

    /// The identifier of the peer that asks for a connection.
    ///
    /// # Safety
    /// It came with a request on this channel, and nobody else has it.
    pub(crate) unsafe fn asking(raw: NonNull<CmId>, channel: Arc<Channel>) -> Self {
        let api = channel.api;
        Self { api, raw, channel }
    }

    pub(crate) fn channel(&self) -> &Arc<Channel> {
        &self.channel
    }

    pub(crate) fn raw(&self) -> *mut CmId {
        self.raw.as_ptr()
    }

    fn id(&self) -> &CmId {
        // SAFETY: it is live as long as `self`; what is read of it changes in calls on this handle only.
        unsafe { self.raw.as_ref() }
    }

    /// The device, once one is chosen.
    pub(crate) fn context(&self) -> Option<NonNull<Context>> {
        NonNull::new(self.id().verbs)
    }

    /// The name of that device.
    pub(crate) fn device_name(&self) -> Option<String> {
        // SAFETY: the library keeps the context open as long as an identifier is on it.
        self.context()
            .map(|context| unsafe { context::name(context.as_ptr()) })
    }

    pub(crate) fn port(&self) -> u8 {
        self.id().port_num
    }

    pub(crate) fn peer(&self) -> Option<SocketAddr> {
        decode(&self.id().dst)
    }

    /// Its own address, with any port.
    pub(crate) fn local(&self) -> Option<SocketAddr> {
        let mut address = decode(&self.id().src)?;
        address.set_port(0);
        Some(address)
    }

    pub(crate) fn bind(&self, address: SocketAddr) -> io::Result<()> {
        let mut raw = encode(address);
        // SAFETY: the identifier is live, the address whole.
        check(unsafe { (self.api.cm.rdma_bind_addr)(self.raw(), &raw mut raw) })
    }

    /// Listens; returns the address with its port.
    pub(crate) fn listen(&self, mut address: SocketAddr) -> io::Result<SocketAddr> {
        self.bind(address)?;
        // SAFETY: the identifier is live.
        check(unsafe { (self.api.cm.rdma_listen)(self.raw(), BACKLOG) })?;
        // SAFETY: the identifier is live.
        let port = unsafe { (self.api.cm.rdma_get_src_port)(self.raw()) };
        address.set_port(u16::from_be(port));
        Ok(address)
    }

    pub(crate) fn resolve_address(&self, address: SocketAddr) -> io::Result<()> {
        let mut to = encode(address);
        let from = std::ptr::null_mut();
        // SAFETY: the identifier is live, the address whole; no source is asked for.
        check(unsafe { (self.api.cm.rdma_resolve_addr)(self.raw(), from, &raw mut to, RESOLVE_MS) })
    }

    pub(crate) fn resolve_route(&self) -> io::Result<()> {
        // SAFETY: the identifier is live.
        check(unsafe { (self.api.cm.rdma_resolve_route)(self.raw(), RESOLVE_MS) })
    }

    pub(crate) fn connect(&self, data: &[u8], ird: u8, ord: u8) -> io::Result<()> {
        let mut param = param(data, ird, ord);
        // SAFETY: the identifier is live and has a queue pair; the data live during the call.
        check(unsafe { (self.api.cm.rdma_connect)(self.raw(), &raw mut param) })
    }

    pub(crate) fn accept(&self, data: &[u8], ird: u8, ord: u8) -> io::Result<()> {
        let mut param = param(data, ird, ord);
        // SAFETY: as for `connect`.
        check(unsafe { (self.api.cm.rdma_accept)(self.raw(), &raw mut param) })
    }

    pub(crate) fn reject(&self, data: &[u8]) -> io::Result<()> {
        let len = u8::try_from(data.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        // SAFETY: the identifier is live; the data live during the call.
        check(unsafe { (self.api.cm.rdma_reject)(self.raw(), data.as_ptr().cast(), len) })
    }

    /// Tells the peer that this is the end, or that its end was heard. What is gone already is no error.
    pub(crate) fn disconnect(&self) {
        // SAFETY: the identifier is live.
        let _ = unsafe { (self.api.cm.rdma_disconnect)(self.raw()) };
    }

    /// Has its events arrive elsewhere from now on.
    pub(crate) fn migrate(&mut self, channel: Arc<Channel>) -> io::Result<()> {
        // SAFETY: both are live; events that were got are acknowledged.
        check(unsafe { (self.api.cm.rdma_migrate_id)(self.raw(), channel.raw.as_ptr()) })?;
        self.channel = channel;
        Ok(())
    }
}

impl Drop for Id {
    fn drop(&mut self) {
        // SAFETY: it is live until here, without a queue pair; every event of it that was got is acknowledged.
        unsafe { (self.api.cm.rdma_destroy_id)(self.raw()) };
    }
}

fn param(data: &[u8], ird: u8, ord: u8) -> ConnParam {
    ConnParam {
        private_data: data.as_ptr().cast(),
        private_data_len: u8::try_from(data.len()).expect("the caller has looked"),
        responder_resources: ird,
        initiator_depth: ord,
        flow_control: 1,
        retry_count: RETRIES,
        rnr_retry_count: RETRIES_WITHOUT_END,
        srq: 0,
        qp_num: 0,
    }
}

fn check(result: i32) -> io::Result<()> {
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Reads of this descriptor never wait.
pub(crate) fn set_nonblocking(fd: BorrowedFd<'_>) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(fd)?;
    Ok(rustix::fs::fcntl_setfl(
        fd.as_fd(),
        flags | rustix::fs::OFlags::NONBLOCK,
    )?)
}

/// Address families of Linux.
const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;

/// As `struct sockaddr_in` or `struct sockaddr_in6`.
fn encode(address: SocketAddr) -> SockaddrStorage {
    let mut bytes = [0; 128];
    bytes[2..4].copy_from_slice(&address.port().to_be_bytes());
    match address {
        SocketAddr::V4(a) => {
            bytes[..2].copy_from_slice(&AF_INET.to_ne_bytes());
            bytes[4..8].copy_from_slice(&a.ip().octets());
        }
        SocketAddr::V6(a) => {
            bytes[..2].copy_from_slice(&AF_INET6.to_ne_bytes());
            bytes[4..8].copy_from_slice(&a.flowinfo().to_ne_bytes());
            bytes[8..24].copy_from_slice(&a.ip().octets());
            bytes[24..28].copy_from_slice(&a.scope_id().to_ne_bytes());
        }
    }
    SockaddrStorage { bytes }
}

/// Bytes of an address of this family; `None` of one that is not IP.
pub(crate) fn address_bytes(family: u16) -> Option<usize> {
    match family {
        AF_INET => Some(16),
        AF_INET6 => Some(28),
        _ => None,
    }
}

/// `None` of a family that is not IP.
pub(crate) fn decode(storage: &SockaddrStorage) -> Option<SocketAddr> {
    fn part<const N: usize>(bytes: &[u8; 128], at: usize) -> [u8; N] {
        bytes[at..at + N].try_into().expect("it is inside")
    }
    let bytes = &storage.bytes;
    let port = u16::from_be_bytes(part(bytes, 2));
    let ip: IpAddr = match u16::from_ne_bytes(part(bytes, 0)) {
        AF_INET => Ipv4Addr::from(part::<4>(bytes, 4)).into(),
        AF_INET6 => Ipv6Addr::from(part::<16>(bytes, 8)).into(),
        _ => return None,
    };
    let mut address = SocketAddr::new(ip.to_canonical(), port);
    if let SocketAddr::V6(a) = &mut address {
        a.set_scope_id(u32::from_ne_bytes(part(bytes, 24)));
    }
    Some(address)
}

#[cfg(test)]
mod tests {
    //! Goal: addresses survive the way through the kernel's form of them.
    use super::*;

    #[test]
    fn addresses_come_back() {
        for text in ["192.0.2.1:20049", "[2001:db8::7]:1", "[fe80::1%3]:20049"] {
            let address: SocketAddr = text.parse().expect("an address");
            assert_eq!(decode(&encode(address)), Some(address));
        }
        let mapped = "[::ffff:192.0.2.1]:5".parse().expect("an address");
        assert_eq!(decode(&encode(mapped)), "192.0.2.1:5".parse().ok());
        let none = SockaddrStorage { bytes: [0; 128] };
        assert_eq!(decode(&none), None);
    }
}
