//! Traces: when one request in many, and each operation of it, began and ended.
//!
//! Owns the choice of requests and what is noted of them. Where a trace goes is the business of the receiver that
//! [`Traces::begin`] was given. May call the clock of `tokio`, which tests stop. May not wait.
//!
//! # Cost
//! Without a receiver a request reads one cell. With one it adds to a relaxed counter. A chosen request allocates twice,
//! and reads the clock once for each operation.

use nfs4::NfsStatus;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;
use tokio::time::Instant;
use transport::ConnHandle;

use crate::LatencyTransport;

/// Steps noted of one request; further ones count to the last of them.
pub const TRACE_STEPS_MAX: usize = 64;

/// The step in which effects become durable before the reply leaves.
const SETTLE: &str = "settle";

/// What a trace says of one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestTrace {
    /// The operation or procedure that names the request, such as `WRITE`.
    pub name: &'static str,
    /// `4.0`, `4.1`, `4.2` or `3`.
    pub version: &'static str,
    /// The RPC transaction (RFC 5531 §9), by which a capture of the network has the same request.
    pub xid: u32,
    /// The client's address, where the transport has one.
    pub peer: Option<SocketAddr>,
    /// What it came over.
    pub transport: LatencyTransport,
    /// The status of the reply by its name, such as `NFS4_OK` or `NFS3ERR_IO`; none without a reply, for NULL and for a refused call.
    pub status: Option<&'static str>,
    /// Whether the server failed. What the client asked wrongly, such as `NFS4ERR_NOENT`, is no failure.
    pub failed: bool,
    /// From the request to its end, which is now.
    pub took: Duration,
    /// Operations in their order, at most [`TRACE_STEPS_MAX`].
    pub steps: Vec<TraceStep>,
}

/// One operation of a request. It ends when the next one begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceStep {
    /// Its name, or `settle` for the time in which effects become durable.
    pub name: &'static str,
    /// From the request to the beginning of this step.
    pub after: Duration,
}

/// Receives each trace on the thread of its request, which it may not block.
pub type TraceReceiver = Box<dyn Fn(RequestTrace) + Send + Sync>;

/// Which requests of one server are traced: none until [`Traces::begin`].
#[derive(Default)]
pub struct Traces {
    receiver: OnceLock<(NonZeroU32, TraceReceiver)>,
    requests: AtomicU32,
}

impl std::fmt::Debug for Traces {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let every = self.receiver.get().map(|(every, _)| every);
        f.debug_struct("Traces").field("every", &every).finish()
    }
}

impl Traces {
    /// From now on gives one request of `every` to `receiver`. The first caller of this decides.
    pub fn begin(&self, every: NonZeroU32, receiver: TraceReceiver) {
        let _is_first = self.receiver.set((every, receiver));
    }

    /// A place for the steps of a request that just came, if it is one of those that are traced.
    #[must_use]
    pub fn choose(&self) -> Option<Box<Steps>> {
        let (every, _) = self.receiver.get()?;
        let number = self.requests.fetch_add(1, Relaxed);
        number.is_multiple_of(every.get()).then(Box::default)
    }

    /// A chosen request ends.
    pub fn ended(&self, steps: Steps, request: EndedRequest<'_>) {
        let Some((_, receiver)) = self.receiver.get() else {
            return;
        };
        let EndedRequest {
            name,
            version,
            xid,
            conn,
            status,
            failed,
            began,
        } = request;
        let after = |at: Instant| at.duration_since(began);
        receiver(RequestTrace {
            name,
            version,
            xid,
            peer: conn.peer().socket(),
            transport: LatencyTransport::of(conn.kind()),
            status,
            failed,
            took: began.elapsed(),
            steps: steps
                .0
                .into_iter()
                .map(|(name, at)| TraceStep {
                    name,
                    after: after(at),
                })
                .collect(),
        });
    }
}

/// What is known of a request at its end.
#[derive(Clone, Copy)]
pub struct EndedRequest<'r> {
    /// As in [`RequestTrace`].
    pub name: &'static str,
    /// As in [`RequestTrace`].
    pub version: &'static str,
    /// As in [`RequestTrace`].
    pub xid: u32,
    /// The connection that it came on.
    pub conn: &'r ConnHandle,
    /// As in [`RequestTrace`].
    pub status: Option<&'static str>,
    /// As in [`RequestTrace`].
    pub failed: bool,
    /// When it came.
    pub began: Instant,
}

/// When the steps of a request began.
#[derive(Debug, Default)]
pub struct Steps(Vec<(&'static str, Instant)>);

impl Steps {
    /// A step begins, and the one before it ends.
    pub(crate) fn step(&mut self, name: &'static str) {
        if self.0.len() < TRACE_STEPS_MAX {
            self.0.push((name, Instant::now()));
        }
    }

    /// Effects are made durable from here on.
    pub(crate) fn settle(&mut self) {
        self.0.truncate(TRACE_STEPS_MAX - 1);
        self.step(SETTLE);
    }
}

/// NFSv4 by its minor version.
pub(crate) const fn version_4(minor_version: u32) -> &'static str {
    match minor_version {
        0 => "4.0",
        1 => "4.1",
        _ => "4.2",
    }
}

/// Whether a status of NFSv4 is a failure of the server's, and not news for the client such as `NFS4ERR_NOENT`.
pub(crate) const fn is_fault(status: NfsStatus) -> bool {
    matches!(
        status,
        NfsStatus::Io
            | NfsStatus::NxIo
            | NfsStatus::ServerFault
            | NfsStatus::NoSpc
            | NfsStatus::Stale
    )
}

#[cfg(test)]
mod tests {
    //! Goal: one request of `every` is chosen, and steps have a bound.
    use super::*;

    #[test]
    fn one_request_of_every_is_chosen_and_none_without_a_receiver() {
        let traces = Traces::default();
        assert!(traces.choose().is_none());
        let every = NonZeroU32::new(3).unwrap();
        traces.begin(every, Box::new(|_| {}));
        let chosen: Vec<bool> = (0..7).map(|_| traces.choose().is_some()).collect();
        assert_eq!(chosen, [true, false, false, true, false, false, true]);
    }

    #[tokio::test]
    async fn steps_have_a_bound() {
        let mut steps = Steps::default();
        for _ in 0..TRACE_STEPS_MAX + 9 {
            steps.step("WRITE");
        }
        steps.settle();
        assert_eq!(steps.0.len(), TRACE_STEPS_MAX);
        assert_eq!(steps.0.last().map(|(name, _)| *name), Some(SETTLE));
    }
}
