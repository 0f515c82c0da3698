//! One connection, both directions, in one task.
//!
//! Owns the requests in progress, back-pressure and the end of the connection. A new request is polled at once. If it
//! is ready, its reply is sent before anything else is done, and a short request costs neither a spawn nor a wake-up.
//! Several records that arrived together are answered by one write.
//!
//! # Ordering
//! Replies leave in the order of completion. While a call of ours waits on the connection, reading goes on above
//! `in_flight_max`, and further requests are parked. The reply that frees the running ones may come after them in the
//! stream. Calls of ours do not count as unread replies: they must leave, or their replies never come.
//!
//! # Failure
//! When the link fails the requests in progress run on to their end without it; their replies are
//! dropped.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::time::{Instant, Sleep};

use crate::busy_poll::WAITS_MAX;
use crate::context::Admission;
use crate::end::End;
use crate::handle::Outgoing;
use crate::link::{Link, Received};
use crate::{BoxFuture, CallId, Charge, CloseReason, ConnHandle, Counters, DynService, Message};

/// Records handled before other tasks of the thread get their turn.
const BURST_RECORDS_MAX: u32 = 64;
/// Requests read ahead of a full connection while a call of ours waits on it.
pub(crate) const PARKED_RECORDS_MAX: usize = 96;
/// How long an orderly end may take before the socket is simply closed.
const SHUTDOWN_MAX: Duration = Duration::from_secs(1);

/// Runs a connection from its first byte until it is gone and its requests have ended.
pub(crate) async fn run<L: Link>(
    link: L,
    conn: ConnHandle,
    service: Arc<dyn DynService>,
    admission: Admission,
) {
    let polling = AtomicBool::new(false);
    let mut finish = Finish {
        conn: &conn,
        service: &*service,
        polling: &polling,
        end: None,
    };
    service.on_connected(&conn);
    let mut engine = Engine::new(link, &conn, &*service);
    let end = poll_fn(|cx| {
        polling.store(true, Relaxed);
        let end = engine.poll(cx);
        polling.store(false, Relaxed);
        end
    })
    .await;
    let in_order = matches!(
        end.reason,
        CloseReason::Shutdown | CloseReason::Idle | CloseReason::Asked
    );
    finish.end = Some(end);
    let Engine {
        mut link,
        mut running,
        parked,
        ..
    } = engine;
    drop(parked);
    if in_order {
        let _ = tokio::time::timeout(SHUTDOWN_MAX, poll_fn(|cx| link.poll_shutdown(cx))).await;
    }
    drop(link);
    drop(finish);
    while running.next().await.is_some() {}
    drop(admission);
}

/// Tells everyone of the end, also when the task panics or is aborted.
struct Finish<'a> {
    conn: &'a ConnHandle,
    service: &'a dyn DynService,
    /// Still set when a poll did not return: the service panicked in it.
    polling: &'a AtomicBool,
    end: Option<End>,
}

impl Drop for Finish<'_> {
    fn drop(&mut self) {
        let panicked = self.polling.load(Relaxed);
        let fallback = if panicked {
            CloseReason::ServicePanicked
        } else {
            CloseReason::Shutdown
        };
        let end = self.end.take().unwrap_or_else(|| fallback.into());
        let (id, peer, reason) = (self.conn.id(), self.conn.peer(), end.reason);
        if reason.is_noteworthy() && self.conn.context().may_log() {
            tracing::warn!(id, %peer, reason = reason.as_str(), "connection closed: {}", end.detail);
        } else {
            tracing::debug!(id, %peer, reason = reason.as_str(), "connection closed: {}", end.detail);
        }
        self.conn.context().counters().closed(reason);
        self.conn.end(reason);
        if !panicked {
            self.service.on_disconnected(self.conn, reason);
        }
    }
}

/// A request that was not ready at once.
struct Request<'a> {
    id: CallId,
    future: BoxFuture<'a, Option<Message>>,
    _charge: Option<Charge>,
}

impl Future for Request<'_> {
    type Output = (u32, Option<Message>);

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        let id = self.id;
        let polled = id.serve(|| self.future.as_mut().poll(cx));
        polled.map(|reply| (id.xid(), reply))
    }
}

struct Engine<'a, L> {
    link: L,
    conn: &'a ConnHandle,
    service: &'a dyn DynService,
    running: FuturesUnordered<Request<'a>>,
    /// Requests for which there is no room, at most [`PARKED_RECORDS_MAX`], by transaction id.
    parked: VecDeque<(u32, Received)>,
    in_flight_max: usize,
    send_queue_bytes: usize,
    draining: bool,
    idle: Option<Idle>,
}

/// Since when nothing has happened on a connection that is closed for that.
struct Idle {
    limit: Duration,
    since: Instant,
    /// Something was under way when it was last looked at.
    was_busy: bool,
    /// Bytes that had come then.
    arrived_bytes: u64,
    sleep: Pin<Box<Sleep>>,
}

impl Idle {
    fn new(limit: Duration) -> Self {
        Self {
            limit,
            since: Instant::now(),
            was_busy: false,
            arrived_bytes: 0,
            sleep: Box::pin(tokio::time::sleep(limit)),
        }
    }

    /// Idleness begins anew with each byte, and when the last thing that was under way has ended.
    fn note(&mut self, busy: bool, arrived_bytes: u64) {
        if busy || self.was_busy || arrived_bytes != self.arrived_bytes {
            self.since = Instant::now();
        }
        (self.was_busy, self.arrived_bytes) = (busy, arrived_bytes);
    }

    /// Whether it has lasted for too long. Else the task is woken when it may have.
    fn poll_over(&mut self, cx: &mut TaskContext<'_>) -> bool {
        while self.sleep.as_mut().poll(cx).is_ready() {
            let deadline = self.since + self.limit;
            if deadline <= Instant::now() {
                return true;
            }
            self.sleep.as_mut().reset(deadline);
        }
        false
    }
}

impl<'a, L: Link> Engine<'a, L> {
    fn new(link: L, conn: &'a ConnHandle, service: &'a dyn DynService) -> Self {
        let limits = conn.context().limits();
        Self {
            link,
            conn,
            service,
            running: FuturesUnordered::new(),
            parked: VecDeque::new(),
            in_flight_max: limits.in_flight_max as usize,
            send_queue_bytes: limits.send_queue_bytes as usize,
            draining: false,
            idle: conn.context().idle().map(Idle::new),
        }
    }

    fn poll(&mut self, cx: &mut TaskContext<'_>) -> Poll<End> {
        let (mut burst, mut waits) = (0, 0);
        loop {
            if let Some(end) = self.take_outgoing(cx) {
                return Poll::Ready(end);
            }
            self.collect_replies(cx);
            self.unpark(cx);
            let flushed = match self.link.poll_flush(cx) {
                Poll::Ready(Err(end)) => return Poll::Ready(end),
                Poll::Ready(Ok(())) => true,
                Poll::Pending => false,
            };
            if self.draining && flushed && self.running.is_empty() {
                return Poll::Ready(CloseReason::Shutdown.into());
            }
            // Nothing else may wake this task: what was parked starts as soon as there is room.
            if !self.parked.is_empty() && !self.is_full() {
                continue;
            }
            match self.receive(cx, &mut burst) {
                Err(end) => return Poll::Ready(end),
                Ok(false) if waits == WAITS_MAX => {
                    others_first(cx);
                    return Poll::Pending;
                }
                Ok(false) if flushed && self.waits_briefly() => waits += 1,
                Ok(true) if burst < BURST_RECORDS_MAX => {}
                Ok(true) => {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Ok(false) => break,
            }
        }
        if self.is_idle(cx) {
            Poll::Ready(CloseReason::Idle.into())
        } else {
            Poll::Pending
        }
    }

    /// Queues calls of ours and hears what the handles ask for.
    fn take_outgoing(&mut self, cx: &TaskContext<'_>) -> Option<End> {
        loop {
            match self.conn.poll_outgoing(cx) {
                Outgoing::Call(message) => self.link.queue(message),
                Outgoing::Close(end) => return Some(end),
                Outgoing::Drain => {
                    self.draining = true;
                    self.parked.clear();
                    return None;
                }
                Outgoing::Nothing => return None,
            }
        }
    }

    fn collect_replies(&mut self, cx: &mut TaskContext<'_>) {
        if self.running.is_empty() {
            return;
        }
        while let Poll::Ready(Some((xid, reply))) = self.running.poll_next_unpin(cx) {
            self.answer(xid, reply);
        }
    }

    fn answer(&mut self, xid: u32, reply: Option<Message>) {
        match reply {
            Some(message) => self.link.queue_reply(message),
            None => self.link.unanswered(xid),
        }
    }

    fn unpark(&mut self, cx: &mut TaskContext<'_>) {
        while !self.is_full() {
            let Some((xid, received)) = self.parked.pop_front() else {
                break;
            };
            self.start(xid, received, cx);
        }
    }

    /// Receives until nothing more is at hand; `true` if anything came.
    fn receive(&mut self, cx: &mut TaskContext<'_>, burst: &mut u32) -> Result<bool, End> {
        let mut any = false;
        while *burst < BURST_RECORDS_MAX && self.may_receive() {
            let Poll::Ready(received) = self.link.poll_recv(cx)? else {
                break;
            };
            any = true;
            *burst += 1;
            self.accept(received, cx)?;
            if !self.link.has_buffered() {
                break;
            }
        }
        Ok(any)
    }

    fn is_full(&self) -> bool {
        self.running.len() + self.link.queued() >= self.in_flight_max
            || self.link.queued_reply_bytes() >= self.send_queue_bytes
    }

    fn may_receive(&self) -> bool {
        if self.draining {
            return self.conn.has_pending();
        }
        !self.is_full() || (self.parked.len() < PARKED_RECORDS_MAX && self.conn.has_pending())
    }

    fn accept(&mut self, received: Received, cx: &mut TaskContext<'_>) -> Result<(), End> {
        if let Some(idle) = &mut self.idle {
            idle.since = Instant::now();
        }
        let (xid, direction) =
            rpc::peek(&received.bytes).map_err(|e| End::with(CloseReason::MalformedMessage, e))?;
        match direction {
            rpc::MessageType::Reply => {
                if !self.conn.route_reply(xid, received.bytes) {
                    Counters::add(&self.conn.context().counters().replies_unmatched, 1);
                }
            }
            // The peer sends it again on another connection: nothing of it was executed.
            rpc::MessageType::Call if self.draining => {}
            rpc::MessageType::Call if self.is_full() || !self.parked.is_empty() => {
                self.parked.push_back((xid, received));
            }
            rpc::MessageType::Call => self.start(xid, received, cx),
        }
        Ok(())
    }

    fn start(&mut self, xid: u32, received: Received, cx: &mut TaskContext<'_>) {
        let Received { bytes, charge } = received;
        let id = CallId::new(self.conn, xid);
        let mut future = self.call(bytes);
        match id.serve(|| future.as_mut().poll(cx)) {
            Poll::Ready(reply) => self.answer(xid, reply),
            Poll::Pending => self.running.push(Request {
                id,
                future,
                _charge: charge,
            }),
        }
    }

    fn call(&self, record: Bytes) -> BoxFuture<'a, Option<Message>> {
        self.service.call_boxed(self.conn, record)
    }

    /// Whether bytes came while it was worth waiting for them.
    fn waits_briefly(&mut self) -> bool {
        let all_answered = self.running.is_empty() && self.parked.is_empty();
        all_answered && !self.draining && !self.conn.has_pending() && self.link.busy_poll()
    }

    fn is_idle(&mut self, cx: &mut TaskContext<'_>) -> bool {
        let Some(idle) = &mut self.idle else {
            return false;
        };
        // A request that is half here is under way as one that runs is.
        let busy = !self.running.is_empty()
            || self.link.queued() > 0
            || self.link.is_busy()
            || self.conn.has_pending();
        idle.note(busy, self.link.arrived_bytes());
        idle.poll_over(cx)
    }
}

/// Has this task polled again after the others of its thread, and after sockets were looked at.
fn others_first(cx: &mut TaskContext<'_>) {
    let _ = pin!(tokio::task::yield_now()).poll(cx);
}
