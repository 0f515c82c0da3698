//! The client's side of a slot table (RFC 8881 §2.10.6.1): which slots are free, and their sequence ids.
//!
//! # Ownership
//! A [`SlotGuard`] owns its slot. Dropping it without saying how the request ended leaves the slot *in doubt*: nobody knows whether
//! the server executed the request. Its next owner must first use up the sequence id with a SEQUENCE alone. The answer to that is
//! either its own or the cached one of the forgotten request.
//!
//! # Ordering
//! The lowest free slot is taken first, so that the server sees how few are needed and may take slots back.
//!
//! # Failure
//! A closed table hands out nothing: those who wait learn at once that the session is lost.

use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use tokio::sync::Notify;

/// Most slots that a client uses, whatever the server grants.
pub(crate) const SLOTS_MAX: u32 = 1024;

/// The slots of one session.
#[derive(Debug)]
pub(crate) struct Slots {
    freed: Notify,
    /// No slot above the target is in use any more.
    lowered: Notify,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    slots: Vec<Slot>,
    /// Slots that may be handed out: the server's target.
    usable: usize,
    closed: bool,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    /// Next sequence id.
    seqid: u32,
    busy: bool,
    in_doubt: bool,
}

impl Slots {
    pub(crate) fn new(count: u32) -> Arc<Self> {
        let count = count.clamp(1, SLOTS_MAX) as usize;
        let slot = Slot {
            seqid: 1,
            busy: false,
            in_doubt: false,
        };
        Arc::new(Self {
            freed: Notify::new(),
            lowered: Notify::new(),
            inner: Mutex::new(Inner {
                slots: vec![slot; count],
                usable: count,
                closed: false,
            }),
        })
    }

    /// Waits for the lowest free slot; `None` once the table is closed.
    pub(crate) async fn acquire(self: &Arc<Self>) -> Option<SlotGuard> {
        loop {
            let freed = self.freed.notified();
            tokio::pin!(freed);
            freed.as_mut().enable();
            match self.try_acquire() {
                Ok(guard) => return guard,
                Err(Full) => freed.await,
            }
        }
    }

    fn try_acquire(self: &Arc<Self>) -> Result<Option<SlotGuard>, Full> {
        let mut inner = self.inner.lock();
        if inner.closed {
            return Ok(None);
        }
        let usable = inner.usable;
        let free = inner.slots[..usable].iter().position(|s| !s.busy);
        let index = free.ok_or(Full)?;
        let slot = &mut inner.slots[index];
        slot.busy = true;
        Ok(Some(SlotGuard {
            slots: Arc::clone(self),
            slot: u32::try_from(index).expect("slots are at most SLOTS_MAX"),
            seqid: slot.seqid,
            in_doubt: slot.in_doubt,
            is_unanswered: AtomicBool::new(false),
            end: End::Forgotten,
        }))
    }

    /// The highest slot in use.
    pub(crate) fn highest_busy(&self) -> u32 {
        let inner = self.inner.lock();
        let highest = inner.slots.iter().rposition(|s| s.busy).unwrap_or(0);
        u32::try_from(highest).expect("slots are at most SLOTS_MAX")
    }

    /// The server wishes that no slot above `highest` is used (RFC 8881 §2.10.6.1, §20.8).
    pub(crate) fn set_target(&self, highest: u32) {
        let mut inner = self.inner.lock();
        let usable = (highest as usize).saturating_add(1).min(inner.slots.len());
        let grew = usable > inner.usable;
        inner.usable = usable;
        drop(inner);
        if grew {
            self.freed.notify_waiters();
            self.lowered.notify_waiters();
        }
    }

    /// Waits until no slot above the target is in use.
    pub(crate) async fn lowered(&self) {
        loop {
            let lowered = self.lowered.notified();
            tokio::pin!(lowered);
            lowered.as_mut().enable();
            if self.inner.lock().is_lowered() {
                return;
            }
            lowered.await;
        }
    }

    /// The session is lost.
    pub(crate) fn close(&self) {
        self.inner.lock().closed = true;
        self.freed.notify_waiters();
        self.lowered.notify_waiters();
    }

    /// Whether [`Slots::close`] was called.
    pub(crate) fn is_closed(&self) -> bool {
        self.inner.lock().closed
    }
}

impl Inner {
    fn is_lowered(&self) -> bool {
        self.closed || self.slots[self.usable..].iter().all(|s| !s.busy)
    }
}

/// Every usable slot is taken.
struct Full;

/// How a request left its slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The server answered SEQUENCE: the sequence id is used up.
    Executed,
    /// The server refused SEQUENCE: the slot is as it was (RFC 8881 §18.46.3).
    Refused,
    /// Not known.
    Forgotten,
}

/// One slot in use.
#[derive(Debug)]
pub(crate) struct SlotGuard {
    slots: Arc<Slots>,
    pub(crate) slot: u32,
    pub(crate) seqid: u32,
    /// Whether `seqid` may belong to an earlier request.
    pub(crate) in_doubt: bool,
    /// Whether a try of the present request had no answer.
    is_unanswered: AtomicBool,
    end: End,
}

impl SlotGuard {
    /// The sequence id is used up; the guard goes on with the next one.
    pub(crate) fn advance(&mut self) {
        self.seqid = self.seqid.wrapping_add(1);
        self.in_doubt = false;
        *self.is_unanswered.get_mut() = false;
        let mut inner = self.slots.inner.lock();
        inner.slots[self.slot as usize].seqid = self.seqid;
        inner.slots[self.slot as usize].in_doubt = false;
    }

    /// The server answered SEQUENCE.
    pub(crate) fn executed(mut self) {
        self.end = End::Executed;
    }

    /// A try had no answer: the server may have executed it, or be about to.
    pub(crate) fn unanswered(&self) {
        self.is_unanswered.store(true, Relaxed);
    }

    /// The server refused SEQUENCE. After a try without an answer that is no word on the sequence id: DELAY may mean that the
    /// request is being executed (RFC 8881 §2.10.6.2).
    pub(crate) fn refused(mut self) {
        if !self.is_unanswered.load(Relaxed) {
            self.end = End::Refused;
        }
    }
}

impl Drop for SlotGuard {
    fn drop(&mut self) {
        let mut inner = self.slots.inner.lock();
        let slot = &mut inner.slots[self.slot as usize];
        slot.busy = false;
        match self.end {
            End::Executed => {
                slot.seqid = self.seqid.wrapping_add(1);
                slot.in_doubt = false;
            }
            End::Refused => {}
            End::Forgotten => slot.in_doubt = true,
        }
        let is_lowered = inner.usable < inner.slots.len() && inner.is_lowered();
        drop(inner);
        self.slots.freed.notify_one();
        if is_lowered {
            self.slots.lowered.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_forgotten_slot_is_in_doubt_until_it_advances() {
        let slots = Slots::new(1);
        drop(slots.acquire().await.unwrap());
        let mut guard = slots.acquire().await.unwrap();
        assert!(guard.in_doubt);
        assert_eq!(guard.seqid, 1);
        guard.advance();
        guard.executed();
        let guard = slots.acquire().await.unwrap();
        assert_eq!((guard.seqid, guard.in_doubt), (3, false));
        guard.refused();
        let guard = slots.acquire().await.unwrap();
        assert_eq!((guard.seqid, guard.in_doubt), (3, false));
        guard.unanswered();
        guard.refused();
        let guard = slots.acquire().await.unwrap();
        assert_eq!(
            (guard.seqid, guard.in_doubt),
            (3, true),
            "it may be executed"
        );
    }

    #[tokio::test]
    async fn those_who_wait_learn_that_the_table_was_closed() {
        let slots = Slots::new(1);
        let held = slots.acquire().await.unwrap();
        let waiting = tokio::spawn({
            let slots = Arc::clone(&slots);
            async move { slots.acquire().await.is_none() }
        });
        tokio::task::yield_now().await;
        slots.close();
        assert!(waiting.await.unwrap());
        drop(held);
    }

    #[tokio::test]
    async fn a_lower_target_hands_out_fewer_slots_until_it_is_raised() {
        let slots = Slots::new(4);
        slots.set_target(0);
        let held = slots.acquire().await.unwrap();
        assert!(matches!(slots.try_acquire(), Err(Full)));
        slots.set_target(u32::MAX);
        let second = slots.acquire().await.unwrap();
        assert_eq!((held.slot, second.slot), (0, 1));
        assert_eq!(slots.highest_busy(), 1);
    }

    #[tokio::test]
    async fn a_target_is_reached_once_the_slots_above_it_are_free() {
        let slots = Slots::new(4);
        let (first, second) = (
            slots.acquire().await.unwrap(),
            slots.acquire().await.unwrap(),
        );
        slots.lowered().await;
        slots.set_target(0);
        let reached = tokio::spawn({
            let slots = Arc::clone(&slots);
            async move { slots.lowered().await }
        });
        tokio::task::yield_now().await;
        assert!(!reached.is_finished());
        drop(second);
        reached.await.unwrap();
        drop(first);
    }
}
