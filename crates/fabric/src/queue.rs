//! Receives that connections share: what verbs call a shared receive queue.
//!
//! # Invariant
//! There are as many receives in the queue as all [`Claim`]s together have admitted messages. So whoever stays within what was
//! admitted to it finds one, whatever the others do.
//!
//! A provider whose device has a queue of its own keeps these books itself, with receives of the same pool
//! ([`ReceiveQueue::receive`]). Nobody can set aside what a device must have in hand.

use crate::{Buffer, Pool};

/// A queue of receives of one size. Clones share it.
#[derive(Debug, Clone)]
pub struct ReceiveQueue(Pool);

impl ReceiveQueue {
    /// An empty queue. Its receives are buffers of `pool` that are set aside. The one that was given back last is used first, and for those
    /// which only wait there need not be memory yet.
    #[must_use]
    pub fn new(pool: Pool) -> Self {
        Self(pool)
    }

    /// A share of the queue for one connection, without any message yet.
    #[must_use]
    pub fn claim(&self) -> Claim {
        Claim {
            queue: self.clone(),
            admitted: 0,
        }
    }

    /// Receives that are set aside for messages. Those that a device has in hand are not among them.
    #[must_use]
    pub fn posted(&self) -> usize {
        self.0.reserved()
    }

    /// A buffer like the receives, beside them: for a device's own queue, or a message that is not admitted. No receive that is admitted to
    /// anybody is taken for it. `None` when the pool has no other.
    #[must_use]
    pub fn receive(&self) -> Option<Buffer> {
        self.0.take()
    }

    /// Whether both are one queue.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        self.0.is(&other.0)
    }

    /// Bytes of each.
    #[must_use]
    pub fn receive_bytes(&self) -> usize {
        self.0.buffer_bytes()
    }
}

/// What one connection may take from a [`ReceiveQueue`]. Dropping it gives up what was admitted and has not come.
#[derive(Debug)]
pub struct Claim {
    queue: ReceiveQueue,
    admitted: u32,
}

impl Claim {
    /// So many more messages may come; each has a receive in the queue from now on. Returns how many they are: fewer when the pool is dry.
    pub fn admit(&mut self, messages: u32) -> u32 {
        let wanted = usize::try_from(messages).unwrap_or(usize::MAX);
        let count = self.queue.0.reserve(wanted);
        let count = u32::try_from(count).expect("as many as were asked for at most");
        self.admitted += count;
        count
    }

    /// So many messages may not come any more, or as many as are admitted. Returns how many.
    pub fn retract(&mut self, messages: u32) -> u32 {
        let count = messages.min(self.admitted);
        self.admitted -= count;
        let back = usize::try_from(count).expect("usize has 32 bits at least");
        self.queue.0.release(back);
        count
    }

    /// What it is a share of.
    #[must_use]
    pub const fn queue(&self) -> &ReceiveQueue {
        &self.queue
    }

    /// Messages that may come.
    #[must_use]
    pub const fn admitted(&self) -> u32 {
        self.admitted
    }

    /// A message has come: the receive that it goes into. `None` when none was admitted: it has to wait.
    pub fn take(&mut self) -> Option<Buffer> {
        self.admitted = self.admitted.checked_sub(1)?;
        let receive = self.queue.0.take_reserved();
        Some(receive.expect("each message that was admitted has a receive"))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.retract(self.admitted);
    }
}

#[cfg(test)]
mod tests {
    //! Goal: nobody can take what is admitted to another, and everything goes back.
    use super::*;
    use crate::PoolConfig;

    fn queue(buffers: usize) -> (Pool, ReceiveQueue) {
        let pool = Pool::new(PoolConfig {
            buffer_bytes: 64,
            slab_bytes: 64 * buffers,
            bytes_max: 64 * buffers,
            free_bytes_max: usize::MAX,
        });
        (pool.clone(), ReceiveQueue::new(pool))
    }

    #[test]
    fn each_claim_takes_what_was_admitted_to_it_and_no_more() {
        let (pool, queue) = queue(10);
        let (mut greedy, mut modest) = (queue.claim(), queue.claim());
        assert_eq!((greedy.admit(3), modest.admit(1)), (3, 1));
        assert_eq!(queue.posted(), 4);
        let taken: Vec<_> = std::iter::from_fn(|| greedy.take()).collect();
        assert_eq!((taken.len(), greedy.admitted(), queue.posted()), (3, 0, 1));
        assert!(greedy.take().is_none() && modest.take().is_some());
        assert_eq!((greedy.admit(3), greedy.admitted()), (3, 3));
        assert_eq!((greedy.retract(2), queue.posted()), (2, 1));
        assert_eq!((greedy.retract(2), queue.posted()), (1, 0));
        assert!(greedy.take().is_none());
        assert!(queue.is(&queue.clone()) && greedy.queue().is(&queue));
        drop((taken, greedy, modest));
        assert_eq!((queue.posted(), pool.taken()), (0, 0));
    }

    #[test]
    fn a_dry_pool_admits_fewer() {
        let (_, queue) = queue(2);
        let mut claim = queue.claim();
        assert_eq!(
            (claim.admit(5), claim.admitted(), queue.posted()),
            (2, 2, 2)
        );
        assert_eq!(claim.admit(1), 0);
        assert!(claim.take().is_some());
        assert_eq!(claim.admit(1), 1, "it went back");
    }

    #[test]
    fn what_is_taken_beside_the_queue_was_promised_to_nobody() {
        let (pool, queue) = queue(3);
        let mut one = queue.claim();
        assert_eq!(one.admit(2), 2);
        let beside = queue.receive();
        assert!(beside.is_some() && queue.receive().is_none());
        assert_eq!((queue.posted(), pool.taken()), (2, 1));
        assert!(one.take().is_some() && one.take().is_some());
    }
}
