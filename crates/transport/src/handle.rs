//! The handle of a connection: who is at the other end, closing it, and calling in the reverse
//! direction.
//!
//! Owns the table of calls that wait for a reply, and the queue of calls that the connection's task has not taken yet.
//! Both are bounded by `calls_max`.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, OnceLock};
use std::task::{Context as TaskContext, Waker};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore, oneshot};

use crate::budget::Share;
use crate::end::End;
use crate::{
    Charge, CloseReason, Context, Counters, Endpoint, Message, TlsIdentity, TransportKind,
};

/// Why a call on a connection has no reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallError {
    /// The connection ended. Whether the peer executed the call is not known.
    Closed(CloseReason),
    /// No reply in time. Whether the peer executed the call is not known.
    TimedOut,
    /// The transport cannot carry this call or its reply: it is too large, or the peer says so (RFC 8166 §4.5).
    /// Permanent: not to be sent again as it was. Whether the peer executed the call is not known.
    Refused,
}

impl std::fmt::Display for CallError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Closed(reason) => write!(f, "connection closed: {}", reason.as_str()),
            Self::TimedOut => write!(f, "timed out"),
            Self::Refused => write!(f, "the transport cannot carry this call or its reply"),
        }
    }
}

impl std::error::Error for CallError {}

/// What a new connection is.
#[derive(Debug, Clone)]
pub(crate) struct ConnInfo {
    pub(crate) kind: TransportKind,
    pub(crate) peer: Endpoint,
    pub(crate) local: Endpoint,
    pub(crate) tls: Option<TlsIdentity>,
}

/// A connection. Cheap to clone; clones compare equal. Dropping handles does not close it.
#[derive(Clone)]
pub struct ConnHandle(Arc<Inner>);

struct Inner {
    id: u64,
    info: ConnInfo,
    context: Context,
    calls: Semaphore,
    /// Of the send budget; made when a reply needs it.
    send_share: OnceLock<Arc<Share>>,
    ended: Notify,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Calls that the connection's task has not taken yet.
    outgoing: VecDeque<(u32, Message)>,
    /// Calls that wait for a reply, by transaction id.
    /// Ordered, so that a connection's end wakes its callers in the same order in every simulated run.
    pending: BTreeMap<u32, oneshot::Sender<Result<Bytes, CallError>>>,
    last_xid: u32,
    /// Set when requests in progress may end but no more are wanted.
    draining: bool,
    /// Set when somebody asks for the end.
    closing: Option<(CloseReason, String)>,
    /// Set when the connection is gone.
    closed: Option<CloseReason>,
    /// Wakes the connection's task.
    waker: Option<Waker>,
}

impl std::fmt::Debug for ConnHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConnHandle")
            .field("id", &self.0.id)
            .field("kind", &self.0.info.kind)
            .field("peer", &self.0.info.peer)
            .finish_non_exhaustive()
    }
}

impl PartialEq for ConnHandle {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for ConnHandle {}

impl ConnHandle {
    pub(crate) fn new(info: ConnInfo, context: Context) -> Self {
        let id = context.next_id();
        // Spread by the golden ratio: connections of one process then rarely reuse an id that a
        // peer's reply cache may still hold.
        let last_xid = u32::try_from(id & 0xffff_ffff)
            .unwrap_or(0)
            .wrapping_mul(0x9e37_79b9);
        Self(Arc::new(Inner {
            id,
            info,
            calls: Semaphore::new(context.limits().calls_max as usize),
            context,
            send_share: OnceLock::new(),
            ended: Notify::new(),
            state: Mutex::new(State {
                last_xid,
                ..State::default()
            }),
        }))
    }

    /// Unique among the connections of a [`Context`] and its siblings, never reused.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.0.id
    }

    /// The transport under it.
    #[must_use]
    pub fn kind(&self) -> TransportKind {
        self.0.info.kind
    }

    /// The other end.
    #[must_use]
    pub fn peer(&self) -> &Endpoint {
        &self.0.info.peer
    }

    /// This end.
    #[must_use]
    pub fn local(&self) -> &Endpoint {
        &self.0.info.local
    }

    /// The peer's certificate, when TLS asked for one.
    #[must_use]
    pub fn tls_identity(&self) -> Option<&TlsIdentity> {
        self.0.info.tls.as_ref()
    }

    /// The context that it belongs to.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.0.context
    }

    /// Waits until a reply to this connection may hold `bytes` in memory. A service asks before it fetches the payload
    /// of a large reply, and gives the charge to the reply by [`Message::with_charge`]. Ask again only by
    /// [`ConnHandle::try_charge_reply`]: requests that hold one charge and wait for another would wait for each other.
    pub async fn charge_reply(&self, bytes: u32) -> Charge {
        Arc::clone(self.send_share()).charge(bytes).await
    }

    /// As [`ConnHandle::charge_reply`], if that may be now.
    #[must_use]
    pub fn try_charge_reply(&self, bytes: u32) -> Option<Charge> {
        self.send_share().try_charge(bytes)
    }

    pub(crate) fn send_share(&self) -> &Arc<Share> {
        let budget = self.0.context.send_budget();
        self.0
            .send_share
            .get_or_init(|| budget.share(&self.0.info.peer))
    }

    /// Asks for the end of the connection: bytes that were not sent are dropped, calls that wait
    /// fail. The first reason given is the one counted.
    pub fn close(&self, reason: CloseReason) {
        self.close_with(reason, "");
    }

    /// As [`ConnHandle::close`], with words for the log.
    pub fn close_with(&self, reason: CloseReason, detail: impl std::fmt::Display) {
        let mut state = self.0.state.lock();
        if state.closing.is_none() {
            state.closing = Some((reason, detail.to_string()));
        }
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }

    /// Whether the connection is gone, or about to be.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        let state = self.0.state.lock();
        state.ended().is_some()
    }

    /// Waits until the connection is gone.
    pub async fn closed(&self) -> CloseReason {
        loop {
            let ended = self.0.ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            if let Some(reason) = self.0.state.lock().closed {
                return reason;
            }
            ended.await;
        }
    }

    /// Sends a CALL and waits for its REPLY record. The first four bytes of the message are
    /// overwritten by a transaction id that is unique among the calls that wait here.
    ///
    /// # Errors
    /// [`CallError`]. In both cases the peer may have executed the call.
    ///
    /// # Panics
    /// When the message is no RPC CALL.
    pub async fn call(&self, message: Message, timeout: Duration) -> Result<Bytes, CallError> {
        self.call_within(None, message, timeout).await
    }

    /// As [`ConnHandle::call`], with the transaction id that the message has: for programs whose servers know a call that is sent
    /// again, over another connection too, by its id. Whoever calls so on a connection makes all its calls so, with ids of its own.
    ///
    /// # Errors
    /// [`CallError`]; `Refused` also when a call with this id waits here.
    ///
    /// # Panics
    /// When the message is no RPC CALL.
    pub async fn call_again(
        &self,
        message: Message,
        timeout: Duration,
    ) -> Result<Bytes, CallError> {
        let xid = rpc::peek(message.head()).map(|(xid, _)| xid).ok();
        self.call_within(xid, message, timeout).await
    }

    async fn call_within(
        &self,
        xid: Option<u32>,
        message: Message,
        timeout: Duration,
    ) -> Result<Bytes, CallError> {
        let is_call = matches!(rpc::peek(message.head()), Ok((_, rpc::MessageType::Call)));
        assert!(is_call, "only a CALL can be called");
        tokio::time::timeout(timeout, self.call_unbounded(xid, message))
            .await
            .unwrap_or_else(|_| {
                Counters::add(&self.0.context.counters().calls_timed_out, 1);
                Err(CallError::TimedOut)
            })
    }

    async fn call_unbounded(
        &self,
        xid: Option<u32>,
        mut message: Message,
    ) -> Result<Bytes, CallError> {
        let _place = self
            .0
            .calls
            .acquire()
            .await
            .expect("the semaphore is never closed");
        let (sender, receiver) = oneshot::channel();
        let _waiting = {
            let mut state = self.0.state.lock();
            if let Some(reason) = state.ended() {
                return Err(CallError::Closed(reason));
            }
            let xid = match xid {
                None => state.unused_xid(),
                Some(xid) if state.pending.contains_key(&xid) => return Err(CallError::Refused),
                Some(xid) => xid,
            };
            message.head_mut()[..4].copy_from_slice(&xid.to_be_bytes());
            state.pending.insert(xid, sender);
            state.outgoing.push_back((xid, message));
            if let Some(waker) = state.waker.take() {
                waker.wake();
            }
            Waiting { handle: self, xid }
        };
        receiver.await.unwrap_or_else(|_| {
            let state = self.0.state.lock();
            Err(CallError::Closed(state.ended().unwrap_or(CloseReason::Io)))
        })
    }

    /// Hands a REPLY to the call that waits for it; `false` if none does.
    pub(crate) fn route_reply(&self, xid: u32, record: Bytes) -> bool {
        self.settle(xid, Ok(record))
    }

    /// Fails the call that the transport cannot carry.
    pub(crate) fn refuse_call(&self, xid: u32) {
        self.settle(xid, Err(CallError::Refused));
    }

    fn settle(&self, xid: u32, outcome: Result<Bytes, CallError>) -> bool {
        let sender = {
            let mut state = self.0.state.lock();
            let sender = state.pending.remove(&xid);
            state.rest();
            sender
        };
        sender.is_some_and(|s| s.send(outcome).is_ok())
    }

    /// Takes the next queued call, or registers the task to be woken by one or by `close`.
    pub(crate) fn poll_outgoing(&self, cx: &TaskContext<'_>) -> Outgoing {
        let mut state = self.0.state.lock();
        if let Some((reason, detail)) = &state.closing {
            return Outgoing::Close(End::with(*reason, detail));
        }
        if let Some((_, message)) = state.outgoing.pop_front() {
            return Outgoing::Call(message);
        }
        if !state
            .waker
            .as_ref()
            .is_some_and(|w| w.will_wake(cx.waker()))
        {
            state.waker = Some(cx.waker().clone());
        }
        if state.draining {
            Outgoing::Drain
        } else {
            Outgoing::Nothing
        }
    }

    /// Asks the connection to end once the requests in progress have been answered.
    pub(crate) fn drain(&self) {
        let mut state = self.0.state.lock();
        state.draining = true;
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }

    /// Whether a call of ours waits for a reply.
    pub(crate) fn has_pending(&self) -> bool {
        !self.0.state.lock().pending.is_empty()
    }

    /// Marks the end: every call that waits fails.
    pub(crate) fn end(&self, reason: CloseReason) {
        let mut state = self.0.state.lock();
        state.closed = Some(reason);
        state.outgoing = VecDeque::new();
        let pending = std::mem::take(&mut state.pending);
        state.waker = None;
        drop(state);
        drop(pending);
        self.0.ended.notify_waiters();
    }
}

/// What the connection's task should do for its handles.
#[derive(Debug)]
pub(crate) enum Outgoing {
    Nothing,
    Call(Message),
    Drain,
    Close(End),
}

impl State {
    /// Keeps no room for what may come: most connections are idle, and empty tables keep some.
    fn rest(&mut self) {
        if self.pending.is_empty() {
            self.pending = BTreeMap::new();
        }
        if self.outgoing.is_empty() {
            self.outgoing = VecDeque::new();
        }
    }

    /// Why the connection is gone, or about to be.
    fn ended(&self) -> Option<CloseReason> {
        let closing = self.closing.as_ref().map(|(reason, _)| *reason);
        self.closed.or(closing)
    }

    /// A transaction id that no waiting call has. Ends because `calls_max` calls wait at most.
    fn unused_xid(&mut self) -> u32 {
        loop {
            self.last_xid = self.last_xid.wrapping_add(1);
            if !self.pending.contains_key(&self.last_xid) {
                return self.last_xid;
            }
        }
    }
}

/// Takes a call out of the table when its caller stops waiting.
struct Waiting<'a> {
    handle: &'a ConnHandle,
    xid: u32,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut state = self.handle.0.state.lock();
        state.pending.remove(&self.xid);
        // Unsent calls that nobody waits for must not pile up while a peer does not read.
        state.outgoing.retain(|(xid, _)| *xid != self.xid);
    }
}
