//! The seam between the engine of a connection and the transport under it: whole records in, whole
//! messages out.

use std::future::Future;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, Sleep};

use crate::end::End;
use crate::{Charge, CloseReason, ConnHandle, Message, TransportLimits};

/// A transport under one connection.
pub(crate) trait Link: Send + Unpin + 'static {
    /// The next whole record.
    fn poll_recv(&mut self, cx: &mut TaskContext<'_>) -> Poll<Result<Received, End>>;

    /// Whether received bytes are at hand, so that another record may come without waiting.
    fn has_buffered(&self) -> bool;

    /// Whether a request is under way below the engine: part of it has come, it waits for memory, or its reply has not all left.
    fn is_busy(&self) -> bool;

    /// Bytes that have come, as far as the transport sees parts of records.
    fn arrived_bytes(&self) -> u64;

    /// Waits for the next record for a few microseconds without sleeping, if it is likely to come; `true` if bytes came. To be
    /// asked when everything that was asked is answered.
    fn busy_poll(&mut self) -> bool;

    /// Appends a message to those that wait to be sent.
    fn queue(&mut self, message: Message);

    /// Appends a reply: its bytes in memory count as [`Link::queued_reply_bytes`] until it was sent.
    fn queue_reply(&mut self, message: Message);

    /// The call with this transaction id gets no reply.
    fn unanswered(&mut self, xid: u32);

    /// Bytes that unsent replies hold in memory, where the transport keeps them.
    fn queued_reply_bytes(&self) -> usize;

    /// Messages that wait to be sent, the one that is being sent included.
    fn queued(&self) -> usize;

    /// Sends what is queued; ready when all of it was handed over.
    fn poll_flush(&mut self, cx: &mut TaskContext<'_>) -> Poll<Result<(), End>>;

    /// Ends the connection in good order, for example by TLS close_notify.
    fn poll_shutdown(&mut self, cx: &mut TaskContext<'_>) -> Poll<()>;
}

/// A large link is passed on, and kept by futures within futures, as a pointer.
impl<L: Link> Link for Box<L> {
    fn poll_recv(&mut self, cx: &mut TaskContext<'_>) -> Poll<Result<Received, End>> {
        (**self).poll_recv(cx)
    }

    fn has_buffered(&self) -> bool {
        (**self).has_buffered()
    }

    fn is_busy(&self) -> bool {
        (**self).is_busy()
    }

    fn arrived_bytes(&self) -> u64 {
        (**self).arrived_bytes()
    }

    fn busy_poll(&mut self) -> bool {
        (**self).busy_poll()
    }

    fn queue(&mut self, message: Message) {
        (**self).queue(message);
    }

    fn queue_reply(&mut self, message: Message) {
        (**self).queue_reply(message);
    }

    fn unanswered(&mut self, xid: u32) {
        (**self).unanswered(xid);
    }

    fn queued_reply_bytes(&self) -> usize {
        (**self).queued_reply_bytes()
    }

    fn queued(&self) -> usize {
        (**self).queued()
    }

    fn poll_flush(&mut self, cx: &mut TaskContext<'_>) -> Poll<Result<(), End>> {
        (**self).poll_flush(cx)
    }

    fn poll_shutdown(&mut self, cx: &mut TaskContext<'_>) -> Poll<()> {
        (**self).poll_shutdown(cx)
    }
}

/// A record and its share of the receive budget, which goes back when the request has ended.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) bytes: Bytes,
    pub(crate) charge: Option<Charge>,
}

/// Notices that a peer makes no progress for a time.
///
/// Progress only clears a field: the timer is neither moved nor dropped for it, and looks again
/// when it fires.
#[derive(Debug)]
pub(crate) struct StallTimer {
    limit: Duration,
    since: Option<Instant>,
    sleep: Option<std::pin::Pin<Box<Sleep>>>,
}

impl StallTimer {
    pub(crate) const fn new(limit: Duration) -> Self {
        Self {
            limit,
            since: None,
            sleep: None,
        }
    }

    /// Something moved.
    pub(crate) fn progress(&mut self) {
        self.since = None;
    }

    /// Nothing is awaited of the peer; frees the timer.
    pub(crate) fn disarm(&mut self) {
        self.since = None;
        self.sleep = None;
    }

    /// The peer is awaited: whether it has been for too long. Else the task is woken when it has.
    pub(crate) fn poll_stalled(&mut self, cx: &mut TaskContext<'_>) -> bool {
        let now = Instant::now();
        let since = *self.since.get_or_insert(now);
        let deadline = since + self.limit;
        if now >= deadline {
            return true;
        }
        let sleep = self
            .sleep
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        // A timer that fired for an older wait is moved to the deadline of this one.
        while sleep.as_mut().poll(cx).is_ready() {
            if sleep.deadline() >= deadline {
                return true;
            }
            sleep.as_mut().reset(deadline);
        }
        false
    }
}

/// Notices that a peer moves too few bytes in the time that it is awaited.
///
/// As with [`StallTimer`] the timer is not moved for bytes; it looks again when it fires.
#[derive(Debug)]
pub(crate) struct Pace {
    window: Duration,
    bytes_least: usize,
    bytes: usize,
    since: Option<Instant>,
    sleep: Option<std::pin::Pin<Box<Sleep>>>,
}

impl Pace {
    pub(crate) fn new(window: Duration, bytes_per_second: u32) -> Self {
        let bytes_least = u128::from(bytes_per_second) * window.as_millis() / 1000;
        Self {
            // Of zero length it would be over at once, for ever.
            window: window.max(Duration::from_millis(1)),
            bytes_least: usize::try_from(bytes_least).unwrap_or(usize::MAX),
            bytes: 0,
            since: None,
            sleep: None,
        }
    }

    /// Bytes moved.
    pub(crate) fn moved(&mut self, bytes: usize) {
        self.bytes += bytes;
    }

    /// What is measured next is another thing.
    pub(crate) fn restart(&mut self) {
        self.since = None;
    }

    /// Nothing is awaited of the peer; frees the timer.
    pub(crate) fn disarm(&mut self) {
        self.since = None;
        self.sleep = None;
    }

    /// The peer is awaited: whether it was too slow in the window that ends now. Else the task is woken at its end.
    pub(crate) fn poll_slow(&mut self, cx: &mut TaskContext<'_>) -> bool {
        let now = Instant::now();
        let mut slow = false;
        if let Some(since) = self.since
            && now >= since + self.window
        {
            // Looked at much later than planned: not the peer but this process paused.
            slow = self.bytes < self.bytes_least && now < since + 2 * self.window;
            self.since = None;
        }
        let since = *self.since.get_or_insert_with(|| {
            self.bytes = 0;
            now
        });
        let deadline = since + self.window;
        let sleep = self
            .sleep
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        while sleep.as_mut().poll(cx).is_ready() {
            sleep.as_mut().reset(deadline);
        }
        slow
    }
}

/// Judges what a peer that does not read leaves in memory here.
#[derive(Debug)]
pub(crate) struct Unread {
    /// For the replies of which it has too many.
    charge: Option<Charge>,
    pace: Pace,
}

impl Unread {
    pub(crate) fn new(limits: &TransportLimits) -> Self {
        Self {
            charge: None,
            pace: Pace::new(limits.write_pace, limits.pace_bytes_per_second),
        }
    }

    /// The peer took bytes.
    pub(crate) fn moved(&mut self, bytes: usize) {
        self.pace.moved(bytes);
    }

    /// The peer has taken everything.
    pub(crate) fn none(&mut self) {
        self.charge = None;
        self.pace.disarm();
    }

    /// The peer does not read now. Replies of so many bytes that no charge stands for wait for it, and so many messages
    /// with a charge.
    pub(crate) fn poll(
        &mut self,
        cx: &mut TaskContext<'_>,
        conn: &ConnHandle,
        uncharged_bytes: usize,
        charged_messages: usize,
    ) -> Poll<End> {
        let limit = conn.context().limits().send_queue_bytes;
        let uncharged = u32::try_from(uncharged_bytes).unwrap_or(u32::MAX);
        let charged = self.charge.as_ref().map_or(0, Charge::bytes);
        if uncharged <= limit {
            self.charge = None;
        } else if uncharged > charged {
            let Some(more) = conn.try_charge_reply(uncharged - charged) else {
                let detail = format!("{uncharged} bytes of replies are not read");
                return Poll::Ready(End::with(CloseReason::Unread, detail));
            };
            match &mut self.charge {
                Some(charge) => charge.merge(more),
                None => self.charge = Some(more),
            }
        }
        let holds = charged_messages > 0 || self.charge.is_some();
        if holds && self.pace.poll_slow(cx) && conn.send_share().is_wanted() {
            return Poll::Ready(CloseReason::WriteSlow.into());
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;

    async fn is_slow(pace: &mut Pace) -> bool {
        poll_fn(|cx| Poll::Ready(pace.poll_slow(cx))).await
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_is_slow_when_a_window_passes_with_too_few_bytes() {
        let window = Duration::from_secs(2);
        let mut pace = Pace::new(window, 100);
        for (bytes, slow) in [(0, true), (199, true), (200, false), (10, true)] {
            is_slow(&mut pace).await;
            pace.moved(bytes);
            tokio::time::advance(window - Duration::from_millis(1)).await;
            assert!(!is_slow(&mut pace).await);
            tokio::time::advance(Duration::from_millis(1)).await;
            assert_eq!(is_slow(&mut pace).await, slow, "{bytes} bytes");
            pace.restart();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_of_this_process_is_not_taken_for_slowness_of_the_peer() {
        let window = Duration::from_secs(2);
        let mut pace = Pace::new(window, 100);
        assert!(!is_slow(&mut pace).await);
        tokio::time::advance(5 * window).await;
        assert!(!is_slow(&mut pace).await);
        tokio::time::advance(window).await;
        assert!(is_slow(&mut pace).await);
    }
}
