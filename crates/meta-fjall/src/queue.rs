//! What transactions have written and the engine does not have yet, and the tasks that wait for it.
//!
//! A transaction is applied when its writes are gathered here: from then on reads see them. All that was gathered goes
//! into the engine as one batch, with one value for each key. That happens when somebody waits for it, or when it is
//! much. So what every transaction writes, such as a directory in which many files are made, is written once for all of
//! them.
//!
//! # Ordering
//! A read looks here first and then in the engine. A batch is found here until the engine shows it.
//! `applied` rises under the same lock under which writes are gathered, so it is never behind what a read has seen (rule R7).

use bytes::Bytes;
use meta::{Gate, Seq, WRITE_OVERHEAD_BYTES, Write, Writes, newest_of_each};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::AcqRel, Ordering::Acquire};

/// Bytes that may be gathered when one more transaction is: above it a batch is written first.
pub(crate) const GATHERED_BYTES_MAX: usize = 1024 * 1024;

/// The writes of one batch.
pub(crate) type Batch = Arc<Writes>;

/// Progress that transactions, waiters and the thread share.
#[derive(Debug, Default)]
struct Progress {
    wanted: Seq,
    stop: bool,
    /// Applied since the last batch was begun.
    gathered: Writes,
    gathered_bytes: usize,
    /// Goes into the engine at this moment.
    begun: Batch,
    /// Whether something gathered waits for the next number: then the batch takes that when no transaction has.
    is_next_promised: bool,
}

impl Progress {
    fn is_wanted(&self, queue: &Queue) -> bool {
        let durable = queue.gate.durable_through();
        self.wanted > durable && self.newest(queue.applied()) > durable
    }

    fn newest(&self, applied: Seq) -> Seq {
        Seq(applied.0 + u64::from(self.is_next_promised))
    }
}

/// What was applied, and which tasks wait for it.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    pub(crate) gate: Gate,
    progress: Mutex<Progress>,
    wake: Condvar,
    /// Numbers given out; rises only under the lock of `progress`.
    applied: AtomicU64,
}

/// There is no room for more before a batch has been written.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Full;

impl Queue {
    /// The newest number given out.
    pub(crate) fn applied(&self) -> Seq {
        Seq(self.applied.load(Acquire))
    }

    fn next_seq(&self) -> Seq {
        Seq(self.applied.fetch_add(1, AcqRel) + 1)
    }

    fn room(&self) -> Result<MutexGuard<'_, Progress>, Full> {
        let progress = self.progress.lock();
        match progress.gathered_bytes <= GATHERED_BYTES_MAX {
            true => Ok(progress),
            false => Err(Full),
        }
    }

    /// Applies a transaction, which takes `writes` and costs `bytes` ([`meta::Overlay::bytes`]): its number. Wakes the thread if
    /// somebody waits for that already.
    pub(crate) fn apply(&self, writes: &mut Writes, bytes: usize) -> Result<Seq, Full> {
        let mut progress = self.room()?;
        let seq = self.next_seq();
        progress.is_next_promised = false;
        progress.gathered_bytes += bytes;
        if progress.gathered.is_empty() {
            std::mem::swap(&mut progress.gathered, writes);
        } else {
            progress.gathered.extend(std::mem::take(writes));
        }
        if progress.wanted >= seq {
            self.wake.notify_one();
        }
        Ok(seq)
    }

    /// Gathers a pair without a transaction: the number of the next one, or of the batch if there is none before.
    pub(crate) fn put_later(&self, key: &[u8], value: &[u8]) -> Result<Seq, Full> {
        let (key, value) = (Bytes::copy_from_slice(key), Bytes::copy_from_slice(value));
        let mut progress = self.room()?;
        progress.is_next_promised = true;
        progress.gathered_bytes += key.len() + value.len() + WRITE_OVERHEAD_BYTES;
        progress.gathered.insert(key, Some(value));
        Ok(progress.newest(self.applied()))
    }

    /// What was gathered, to be written now, and the newest transaction in it; `None` if there is nothing. The caller writes one batch at a time.
    pub(crate) fn begin_batch(&self) -> Option<(Seq, Batch)> {
        let mut progress = self.progress.lock();
        if progress.gathered.is_empty() {
            return None;
        }
        if std::mem::take(&mut progress.is_next_promised) {
            self.next_seq();
        }
        progress.gathered_bytes = 0;
        progress.begun = Arc::new(std::mem::take(&mut progress.gathered));
        Some((self.applied(), progress.begun.clone()))
    }

    /// The engine shows what was begun.
    pub(crate) fn end_batch(&self) {
        // Freed after the lock.
        let _begun = std::mem::take(&mut self.progress.lock().begun);
    }

    /// What the engine does not show yet of a key: nothing, a removal or a value.
    pub(crate) fn get(&self, key: &[u8]) -> Option<Option<Bytes>> {
        let progress = self.progress.lock();
        let newest = progress.gathered.get(key);
        newest.or_else(|| progress.begun.get(key)).cloned()
    }

    /// What the engine, as `look` sees it at this moment, does not show yet of the keys with `start <= key < end`.
    /// `start` is below `end`. Of what comes after `limit` values nothing is returned.
    pub(crate) fn unwritten<T>(
        &self,
        (start, end): (&[u8], &[u8]),
        limit: usize,
        look: impl FnOnce() -> T,
    ) -> (Vec<Write>, T) {
        let bounds = (Bound::Included(start), Bound::Excluded(end));
        // A batch begins and ends under this lock: `look` sees it, or it is found here.
        let progress = self.progress.lock();
        let seen = look();
        let own = |(key, value): (&Bytes, &Option<Bytes>)| (key.clone(), value.clone());
        let gathered = progress.gathered.range::<[u8], _>(bounds).map(own);
        let begun = progress.begun.range::<[u8], _>(bounds).map(own);
        let mut values = 0;
        let unwritten = newest_of_each(gathered, begun, |new, old| new.0.cmp(&old.0)).take_while(
            |(_, value)| {
                let is_within = values < limit;
                values += usize::from(value.is_some());
                is_within
            },
        );
        (unwritten.collect(), seen)
    }

    /// Somebody waits for `seq`, and the thread shall see to it.
    pub(crate) fn want(&self, seq: Seq) {
        let mut progress = self.progress.lock();
        if progress.wanted < seq {
            progress.wanted = seq;
            self.wake.notify_one();
        }
    }

    /// Somebody waits for `seq`, and those who commit shall see to it.
    pub(crate) fn want_of_committers(&self, seq: Seq) {
        let mut progress = self.progress.lock();
        progress.wanted = progress.wanted.max(seq);
    }

    /// Whether somebody waits for what is applied or promised, and not durable.
    pub(crate) fn is_wanted(&self) -> bool {
        self.progress.lock().is_wanted(self)
    }

    /// The thread shall see to what is wanted.
    pub(crate) fn wake_thread(&self) {
        self.wake.notify_one();
    }

    /// Sleeps until [`Queue::is_wanted`]; `false` at the end.
    pub(crate) fn sleep(&self) -> bool {
        let mut progress = self.progress.lock();
        loop {
            if progress.stop {
                return false;
            }
            if progress.is_wanted(self) {
                return true;
            }
            self.wake.wait(&mut progress);
        }
    }

    /// The thread shall end.
    pub(crate) fn stop(&self) {
        self.progress.lock().stop = true;
        self.wake.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writes(pairs: &[(&'static [u8], Option<&'static [u8]>)]) -> Writes {
        let own = |(key, value): &(&'static [u8], Option<&'static [u8]>)| {
            (Bytes::from_static(key), value.map(Bytes::from_static))
        };
        pairs.iter().map(own).collect()
    }

    fn unwritten(queue: &Queue, start: &[u8], end: &[u8]) -> Writes {
        let (unwritten, ()) = queue.unwritten((start, end), usize::MAX, || ());
        unwritten.into_iter().collect()
    }

    fn apply(queue: &Queue, pairs: &[(&'static [u8], Option<&'static [u8]>)]) -> Seq {
        queue.apply(&mut writes(pairs), 1).unwrap()
    }

    #[test]
    fn a_batch_has_the_newest_value_of_each_key_and_the_newest_number() {
        let queue = Queue::default();
        assert!(queue.begin_batch().is_none());
        apply(&queue, &[(b"a", Some(b"1")), (b"dir", Some(b"1"))]);
        apply(&queue, &[(b"b", Some(b"2")), (b"dir", Some(b"2"))]);
        apply(&queue, &[(b"a", None)]);
        let (seq, batch) = queue.begin_batch().unwrap();
        assert_eq!(seq, Seq(3));
        let expected = writes(&[(b"a", None), (b"b", Some(b"2")), (b"dir", Some(b"2"))]);
        assert_eq!(*batch, expected);
        assert!(queue.begin_batch().is_none());
    }

    #[test]
    fn a_batch_that_was_begun_is_seen_until_it_ends_below_what_came_later() {
        let queue = Queue::default();
        apply(&queue, &[(b"a", Some(b"1")), (b"b", None)]);
        queue.begin_batch().unwrap();
        apply(&queue, &[(b"a", Some(b"2"))]);
        assert_eq!(queue.get(b"a").unwrap().as_deref(), Some(&b"2"[..]));
        assert_eq!(queue.get(b"b"), Some(None));
        assert_eq!(unwritten(&queue, b"b", b"c"), writes(&[(b"b", None)]));
        assert_eq!(unwritten(&queue, b"c", b"d"), writes(&[]));
        let both = writes(&[(b"a", Some(b"2")), (b"b", None)]);
        assert_eq!(unwritten(&queue, b"a", b"c"), both);
        queue.end_batch();
        assert_eq!(queue.get(b"b"), None);
        assert_eq!(unwritten(&queue, b"a", b"c"), writes(&[(b"a", Some(b"2"))]));
    }

    #[test]
    fn a_scan_gets_no_more_than_it_may_need() {
        let queue = Queue::default();
        apply(
            &queue,
            &[(b"a", None), (b"b", Some(b"1")), (b"d", Some(b"1"))],
        );
        queue.begin_batch().unwrap();
        apply(&queue, &[(b"a", None), (b"c", Some(b"2")), (b"d", None)]);
        let keys = |limit| -> Vec<_> {
            let (unwritten, ()) = queue.unwritten((b"a", b"z"), limit, || ());
            unwritten.into_iter().map(|(key, _)| key).collect()
        };
        assert_eq!(keys(1), ["a", "b"]);
        assert_eq!(keys(2), ["a", "b", "c"]);
        assert_eq!(keys(3), ["a", "b", "c", "d"]);
    }

    #[test]
    fn what_is_put_later_has_the_next_number_and_takes_it_only_if_nobody_else_does() {
        let queue = Queue::default();
        assert_eq!(queue.put_later(b"k", b"1"), Ok(Seq(1)));
        assert_eq!(queue.put_later(b"k", b"2"), Ok(Seq(1)));
        assert_eq!(queue.applied(), Seq(0));
        assert_eq!(apply(&queue, &[(b"a", None)]), Seq(1));
        assert_eq!(queue.begin_batch().unwrap().0, Seq(1));
        assert_eq!(queue.put_later(b"k", b"3"), Ok(Seq(2)));
        assert_eq!(queue.begin_batch().unwrap().0, Seq(2));
        assert_eq!(queue.applied(), Seq(2));
    }

    #[test]
    fn above_its_limit_nothing_is_gathered_until_a_batch_has_begun() {
        let queue = Queue::default();
        queue
            .apply(&mut writes(&[(b"a", None)]), GATHERED_BYTES_MAX + 1)
            .unwrap();
        let mut more = writes(&[(b"b", None)]);
        assert_eq!(queue.apply(&mut more, 1), Err(Full));
        assert_eq!(more.len(), 1, "the caller still has them");
        assert_eq!(queue.put_later(b"c", b""), Err(Full));
        assert_eq!(queue.applied(), Seq(1));
        queue.begin_batch().unwrap();
        assert_eq!(queue.apply(&mut more, 1), Ok(Seq(2)));
    }
}
