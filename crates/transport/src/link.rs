//! The seam between the engine of a connection and the transport under it: whole records in, whole
//! messages out.

use std::future::Future;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, Sleep};

use crate::{CloseReason, Message};

/// A transport under one connection.
pub(crate) trait Link: Send + Unpin + 'static {
    /// The next whole record.
    fn poll_recv(&mut self, cx: &mut TaskContext<'_>) -> Poll<Result<Received, End>>;

    /// Whether received bytes are at hand, so that another record may come without waiting.
    fn has_buffered(&self) -> bool;

    /// Appends a message to those that wait to be sent.
    fn queue(&mut self, message: Message);

    /// Messages that wait to be sent, the one that is being sent included.
    fn queued(&self) -> usize;

    /// Sends what is queued; ready when all of it was handed over.
    fn poll_flush(&mut self, cx: &mut TaskContext<'_>) -> Poll<Result<(), End>>;

    /// Ends the connection in good order, for example by TLS close_notify.
    fn poll_shutdown(&mut self, cx: &mut TaskContext<'_>) -> Poll<()>;
}

/// A record and its share of the receive budget, which goes back when the request has ended.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) bytes: Bytes,
    pub(crate) charge: Option<OwnedSemaphorePermit>,
}

/// Why a connection ends, with words for the log.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) reason: CloseReason,
    pub(crate) detail: String,
}

impl From<CloseReason> for End {
    fn from(reason: CloseReason) -> Self {
        Self {
            reason,
            detail: String::new(),
        }
    }
}

impl End {
    pub(crate) fn with(reason: CloseReason, detail: impl std::fmt::Display) -> Self {
        Self {
            reason,
            detail: detail.to_string(),
        }
    }
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
