//! The clock of a connection: peers that keep this side waiting, and one that may not have heard the first word.
//!
//! Connections on which nobody owes anything have no deadline and no timer.

use fabric::Stall;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until};

/// How long a peer may take over one step of what it owes: a frame, a segment of an answer, taking one frame.
/// The slowest step that is still good is so 64 KiB in this time.
pub(crate) const STALL_LIMIT: Duration = Duration::from_secs(30);
/// When to announce ourselves once more while the peer has said nothing, counted from the set-up. Linux's siw looks for
/// the first frame only after its reply has left: what comes before is not seen until something else comes.
pub(crate) const NUDGES: [Duration; 3] = [
    Duration::from_millis(50),
    Duration::from_millis(500),
    Duration::from_secs(5),
];

/// How far the peer is with each thing that it may owe; `None` where it owes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Owed {
    /// Frames that came whole, while one has begun.
    pub frame: Option<u64>,
    /// Segments of answers, while a read is outstanding.
    pub answer: Option<u64>,
    /// Frames that were taken, while others wait to be.
    pub room: Option<u64>,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Say a word that means nothing.
    Nudge,
    /// End the connection.
    Stalled(Stall),
}

/// Deadlines of one connection.
#[derive(Debug)]
pub(crate) struct Watch {
    began: Instant,
    /// Nudges that were given.
    nudges: usize,
    /// How far the peer was with what it owes, and since when.
    since: [Option<(u64, Instant)>; 3],
    sleep: Option<Pin<Box<Sleep>>>,
}

const STALLS: [Stall; 3] = [Stall::MidFrame, Stall::Unanswered, Stall::Unread];

impl Watch {
    pub(crate) fn new() -> Self {
        Self {
            began: Instant::now(),
            nudges: 0,
            since: [None; 3],
            sleep: None,
        }
    }

    /// Says what is due, or has the task woken when something may be. `is_silent`: the peer was announced to and has
    /// said nothing yet.
    pub(crate) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        owed: Owed,
        is_silent: bool,
    ) -> Option<Verdict> {
        self.note(owed);
        loop {
            let (at, verdict) = self.next(is_silent)?;
            if at <= Instant::now() {
                self.nudges += usize::from(verdict == Verdict::Nudge);
                return Some(verdict);
            }
            // A timer that rings too early is cheaper than one that is moved at every step.
            let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep_until(at)));
            if sleep.deadline() > at {
                sleep.as_mut().reset(at);
            }
            match sleep.as_mut().poll(cx) {
                Poll::Pending => return None,
                Poll::Ready(()) => self.sleep = None,
            }
        }
    }

    /// A debt begins anew with each step.
    fn note(&mut self, owed: Owed) {
        let Owed {
            frame,
            answer,
            room,
        } = owed;
        for (since, mark) in self.since.iter_mut().zip([frame, answer, room]) {
            let known = since.map(|(known, _)| known);
            if mark != known {
                *since = mark.map(|mark| (mark, Instant::now()));
            }
        }
    }

    /// What is due first.
    fn next(&self, is_silent: bool) -> Option<(Instant, Verdict)> {
        let nudge = NUDGES.get(self.nudges).filter(|_| is_silent);
        let nudge = nudge.map(|after| (self.began + *after, Verdict::Nudge));
        let debts = self.since.iter().zip(STALLS);
        let stalls = debts.filter_map(|(since, stall)| {
            let (_, since) = (*since)?;
            Some((since + STALL_LIMIT, Verdict::Stalled(stall)))
        });
        stalls.chain(nudge).min_by_key(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    //! Deadlines on a clock that stands still unless it is moved.
    use super::*;
    use std::task::Waker;
    use tokio::time::advance;

    const SECOND: Duration = Duration::from_secs(1);

    fn look(watch: &mut Watch, owed: Owed) -> Option<Verdict> {
        watch.poll(&mut Context::from_waker(Waker::noop()), owed, false)
    }

    #[tokio::test(start_paused = true)]
    async fn each_debt_ends_the_connection_with_its_name() {
        let at = |n| {
            let one = |k| (k == n).then_some(7);
            Owed {
                frame: one(0),
                answer: one(1),
                room: one(2),
            }
        };
        for (n, stall) in STALLS.into_iter().enumerate() {
            let mut watch = Watch::new();
            assert_eq!(look(&mut watch, at(n)), None);
            advance(STALL_LIMIT - SECOND).await;
            assert_eq!(look(&mut watch, at(n)), None);
            advance(SECOND).await;
            assert_eq!(look(&mut watch, at(n)), Some(Verdict::Stalled(stall)));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn progress_is_a_new_beginning_and_idleness_none() {
        let mut watch = Watch::new();
        let owed = |mark| Owed {
            answer: Some(mark),
            ..Owed::default()
        };
        for mark in 0..10 {
            assert_eq!(look(&mut watch, owed(mark)), None);
            advance(STALL_LIMIT - SECOND).await;
        }
        assert_eq!(look(&mut watch, Owed::default()), None);
        advance(1000 * STALL_LIMIT).await;
        assert_eq!(look(&mut watch, Owed::default()), None);
        // As far as before, yet another debt.
        assert_eq!(look(&mut watch, owed(9)), None);
        advance(STALL_LIMIT).await;
        let stalled = Some(Verdict::Stalled(Stall::Unanswered));
        assert_eq!(look(&mut watch, owed(9)), stalled);
    }

    #[tokio::test(start_paused = true)]
    async fn the_task_is_woken_when_something_is_due() {
        let mut watch = Watch::new();
        let began = Instant::now();
        let owed = Owed {
            frame: Some(1),
            ..Owed::default()
        };
        let due = |watch: &mut Watch, cx: &mut Context<'_>| match watch.poll(cx, owed, true) {
            Some(verdict) => Poll::Ready(verdict),
            None => Poll::Pending,
        };
        for nudge in NUDGES {
            let verdict = std::future::poll_fn(|cx| due(&mut watch, cx)).await;
            assert_eq!((verdict, began.elapsed()), (Verdict::Nudge, nudge));
        }
        let verdict = std::future::poll_fn(|cx| due(&mut watch, cx)).await;
        assert_eq!(verdict, Verdict::Stalled(Stall::MidFrame));
        assert_eq!(began.elapsed(), STALL_LIMIT);
    }
}
