//! Who syncs a log: a thread for all that wait, or the one task that waits.
//!
//! A thread stalls nobody's event loop, and lets requests go on while it syncs. For one request at a time it costs two
//! switches of threads, which takes as long as the sync of a good disk. So a task syncs itself in two cases:
//!
//! - Syncs take less time than such a switch: a tmpfs, persistent memory.
//! - It alone has waited at the last syncs, and none of them was slow.
//!
//! An adapter asks [`OnTheSpot::is_here`] and tells [`OnTheSpot::synced`]. It keeps the rules; the clock is the adapter's.

use std::future::{Future, poll_fn};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::task::Poll;
use std::time::Duration;

/// When a task syncs itself.
#[derive(Debug, Clone, Copy)]
pub struct SpotLimits {
    /// A sync that takes less is quick.
    pub quick_below: Duration,
    /// Quick syncs in a row after which every task syncs itself.
    pub quick_in_a_row: u32,
    /// A sync that takes as long is slow: it belongs to the thread.
    pub slow_from: Duration,
    /// Syncs in a row for one task, none of them slow, after which a task that is alone syncs itself.
    pub alone_in_a_row: u32,
}

impl SpotLimits {
    /// Quick is less than the two switches of threads that it saves. Slow is what other requests of the thread would feel.
    pub const USUAL: Self = Self {
        quick_below: Duration::from_micros(20),
        quick_in_a_row: 8,
        slow_from: Duration::from_millis(1),
        alone_in_a_row: 4,
    };
}

/// What the last syncs were like, and how many tasks wait.
#[derive(Debug)]
pub struct OnTheSpot {
    limits: SpotLimits,
    waiting: AtomicUsize,
    quick: AtomicU32,
    alone: AtomicU32,
}

/// A task that waits, for as long as this lives.
#[derive(Debug)]
pub struct Waiting<'a>(&'a OnTheSpot);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Relaxed);
    }
}

impl OnTheSpot {
    /// At first the thread syncs.
    #[must_use]
    pub const fn new(limits: SpotLimits) -> Self {
        Self {
            limits,
            waiting: AtomicUsize::new(0),
            quick: AtomicU32::new(0),
            alone: AtomicU32::new(0),
        }
    }

    /// A task begins to wait.
    pub fn enter(&self) -> Waiting<'_> {
        self.waiting.fetch_add(1, Relaxed);
        Waiting(self)
    }

    /// Whether every task syncs itself.
    pub fn is_quick(&self) -> bool {
        self.quick.load(Relaxed) >= self.limits.quick_in_a_row
    }

    /// Whether a task that waits, and has entered, shall sync itself.
    pub fn is_here(&self) -> bool {
        let is_usually_alone = self.alone.load(Relaxed) >= self.limits.alone_in_a_row;
        self.is_quick() || (is_usually_alone && self.is_alone())
    }

    fn is_alone(&self) -> bool {
        self.waiting.load(Relaxed) <= 1
    }

    /// A sync has ended, and those who waited for it have not left yet. One sync at a time.
    pub fn synced(&self, took: Duration) {
        let count = |counter: &AtomicU32, holds: bool| {
            let more = counter.load(Relaxed).saturating_add(1);
            counter.store(if holds { more } else { 0 }, Relaxed);
        };
        count(&self.quick, took < self.limits.quick_below);
        let is_for_one = took < self.limits.slow_from && self.is_alone();
        count(&self.alone, is_for_one);
    }
}

/// Lets everything else run that is ready in this event loop.
pub fn others_first() -> impl Future<Output = ()> {
    let mut is_first = true;
    poll_fn(move |cx| {
        if std::mem::take(&mut is_first) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: fn(u64) -> Duration = Duration::from_micros;

    #[test]
    fn a_task_that_was_alone_for_some_syncs_goes_on_by_itself() {
        let spot = OnTheSpot::new(SpotLimits::USUAL);
        let one = spot.enter();
        for _ in 0..4 {
            assert!(!spot.is_here());
            spot.synced(US(100));
        }
        assert!(spot.is_here() && !spot.is_quick());
        let other = spot.enter();
        assert!(!spot.is_here(), "two wait");
        spot.synced(US(100));
        drop(other);
        assert!(!spot.is_here(), "it was not alone at the last sync");
        (0..4).for_each(|_| spot.synced(US(999)));
        assert!(spot.is_here());
        spot.synced(US(1000));
        assert!(!spot.is_here(), "one slow sync");
        drop(one);
    }

    #[test]
    fn where_syncs_are_quick_every_task_syncs_itself() {
        let spot = OnTheSpot::new(SpotLimits::USUAL);
        let _waiting = [spot.enter(), spot.enter(), spot.enter()];
        (0..8).for_each(|_| spot.synced(US(19)));
        assert!(spot.is_here());
        spot.synced(US(20));
        assert!(!spot.is_here());
    }
}
