//! Where callers wait for durability: one watermark, any number of waiters, no runtime.
//!
//! An adapter calls [`Gate::advance`] after an fsync that covered every transaction up to a number,
//! or [`Gate::fail`] when the fsync failed. A failed gate never opens again.
//!
//! # Ownership
//! A waiter's entry lives as long as its future. A future that is dropped takes its entry with it, and the table is
//! never larger than the number of futures that callers hold.
//!
//! # Ordering
//! The watermark and the failure change only under the lock. A waiter looks at both under it before it goes to sleep,
//! so no wake-up is missed. Wakers run after the lock is released.
//!
//! # Failure
//! Waiters for what was durable before the failure still succeed; all others get the error.

use crate::{BoxFuture, MetaError, Seq};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

/// A watermark of durable transactions and those who wait for it. `E` is the failure of what makes them durable.
#[derive(Debug)]
pub struct Gate<E = MetaError> {
    durable: AtomicU64,
    inner: Mutex<Inner<E>>,
}

#[derive(Debug)]
struct Inner<E> {
    /// By what they wait for, then by ticket: an advance takes a prefix.
    waiters: BTreeMap<(Seq, u64), Waker>,
    last_ticket: u64,
    failed: Option<E>,
}

impl<E: Clone + Send> Default for Gate<E> {
    fn default() -> Self {
        Self::new()
    }
}

impl<E: Clone + Send> Gate<E> {
    /// A gate at [`Seq`] 0.
    #[must_use]
    pub fn new() -> Self {
        Self {
            durable: AtomicU64::new(0),
            inner: Mutex::new(Inner {
                waiters: BTreeMap::new(),
                last_ticket: 0,
                failed: None,
            }),
        }
    }

    /// The newest durable transaction.
    #[must_use]
    pub fn durable_through(&self) -> Seq {
        Seq(self.durable.load(Ordering::Acquire))
    }

    /// Everything up to `seq` is durable: wakes those who waited for it.
    pub fn advance(&self, seq: Seq) {
        let woken = {
            let mut inner = self.inner.lock();
            if inner.failed.is_some() || seq <= self.durable_through() {
                return;
            }
            self.durable.store(seq.0, Ordering::Release);
            // Tickets start at 1, so this splits exactly after `seq`.
            let rest = inner.waiters.split_off(&(Seq(seq.0.saturating_add(1)), 0));
            std::mem::replace(&mut inner.waiters, rest)
        };
        for waker in woken.into_values() {
            waker.wake();
        }
    }

    /// Nothing further becomes durable: every waiter, now and later, gets `error`. The first failure stays.
    pub fn fail(&self, error: E) {
        let woken = {
            let mut inner = self.inner.lock();
            inner.failed.get_or_insert(error);
            std::mem::take(&mut inner.waiters)
        };
        for waker in woken.into_values() {
            waker.wake();
        }
    }

    /// The failure, if there was one.
    #[must_use]
    pub fn failure(&self) -> Option<E> {
        self.inner.lock().failed.clone()
    }

    /// Futures that are asleep here.
    #[must_use]
    pub fn waiters(&self) -> usize {
        self.inner.lock().waiters.len()
    }

    /// Waits until `seq` is durable.
    #[must_use]
    pub fn wait(&self, seq: Seq) -> Wait<'_, E> {
        Wait {
            gate: self,
            seq,
            ticket: None,
        }
    }

    /// [`Gate::wait`] as adapters return it; allocates nothing when `seq` is durable already.
    #[must_use]
    pub fn wait_boxed(&self, seq: Seq) -> BoxFuture<'_, Result<(), E>> {
        if self.durable_through() >= seq {
            // A box of a type without fields is not an allocation.
            Box::pin(Durable(PhantomData))
        } else {
            Box::pin(self.wait(seq))
        }
    }
}

struct Durable<E>(PhantomData<fn() -> E>);

impl<E> Future for Durable<E> {
    type Output = Result<(), E>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(Ok(()))
    }
}

/// Future of [`Gate::wait`].
#[derive(Debug)]
pub struct Wait<'a, E: Clone + Send = MetaError> {
    gate: &'a Gate<E>,
    seq: Seq,
    ticket: Option<u64>,
}

impl<E: Clone + Send> Future for Wait<'_, E> {
    type Output = Result<(), E>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.gate.durable_through() >= self.seq {
            return Poll::Ready(Ok(()));
        }
        let gate = self.gate;
        let mut inner = gate.inner.lock();
        // The watermark moves only under the lock, so this second look cannot miss a wake-up.
        if gate.durable_through() >= self.seq {
            return Poll::Ready(Ok(()));
        }
        if let Some(error) = &inner.failed {
            return Poll::Ready(Err(error.clone()));
        }
        let ticket = *self.ticket.get_or_insert_with(|| {
            inner.last_ticket += 1;
            inner.last_ticket
        });
        inner
            .waiters
            .entry((self.seq, ticket))
            .and_modify(|waker| waker.clone_from(cx.waker()))
            .or_insert_with(|| cx.waker().clone());
        Poll::Pending
    }
}

impl<E: Clone + Send> Drop for Wait<'_, E> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.gate.inner.lock().waiters.remove(&(self.seq, ticket));
        }
    }
}

#[cfg(test)]
mod tests {
    //! Goal: no lost wake-up, no entry left behind, failure final. Method: polls by hand with a counting waker.

    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn poll(wait: &mut Wait<'_>, count: &Arc<Count>) -> Poll<Result<(), MetaError>> {
        let waker = Waker::from(count.clone());
        Pin::new(wait).poll(&mut Context::from_waker(&waker))
    }

    #[test]
    fn wakes_exactly_those_who_are_served() {
        let gate: Gate = Gate::new();
        let count = Arc::new(Count::default());
        let mut first = gate.wait(Seq(1));
        let mut second = gate.wait(Seq(2));
        assert!(poll(&mut first, &count).is_pending());
        assert!(poll(&mut second, &count).is_pending());
        assert_eq!(gate.waiters(), 2);
        gate.advance(Seq(1));
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
        assert!(poll(&mut first, &count).is_ready());
        assert!(poll(&mut second, &count).is_pending());
        gate.advance(Seq(9));
        assert_eq!(count.0.load(Ordering::SeqCst), 2);
        assert!(poll(&mut second, &count).is_ready());
        assert_eq!(gate.waiters(), 0);
    }

    #[test]
    fn a_dropped_future_leaves_nothing() {
        let gate: Gate = Gate::new();
        let count = Arc::new(Count::default());
        for _ in 0..1000 {
            let mut wait = gate.wait(Seq(5));
            assert!(poll(&mut wait, &count).is_pending());
        }
        assert_eq!(gate.waiters(), 0);
    }

    #[test]
    fn a_future_polled_often_keeps_one_entry_and_its_last_waker() {
        let gate: Gate = Gate::new();
        let (old, new) = (Arc::new(Count::default()), Arc::new(Count::default()));
        let mut wait = gate.wait(Seq(1));
        for _ in 0..10 {
            assert!(poll(&mut wait, &old).is_pending());
        }
        assert!(poll(&mut wait, &new).is_pending());
        assert_eq!(gate.waiters(), 1);
        gate.advance(Seq(1));
        assert_eq!(old.0.load(Ordering::SeqCst), 0);
        assert_eq!(new.0.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn failure_is_final_but_takes_nothing_back() {
        let gate: Gate = Gate::new();
        let count = Arc::new(Count::default());
        gate.advance(Seq(3));
        let mut wait = gate.wait(Seq(4));
        assert!(poll(&mut wait, &count).is_pending());
        gate.fail(MetaError::Poisoned);
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
        assert!(matches!(poll(&mut wait, &count), Poll::Ready(Err(_))));
        gate.advance(Seq(9));
        assert_eq!(gate.durable_through(), Seq(3));
        assert!(matches!(
            poll(&mut gate.wait(Seq(3)), &count),
            Poll::Ready(Ok(()))
        ));
    }
}
