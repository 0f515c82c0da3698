//! Group commit: one write and one sync for all records that wait, by a thread or by the one task that waits.
//!
//! # Ordering
//! Records are taken out of the buffer under the lock of the round, so they are written in their order. The file grows
//! by the thread alone, ahead of the records: no record ever waits for that.
//!
//! # Failure
//! A failed write or sync of records fails the gate for good. A failed growth is tried again when more room is wanted.

use crate::format::{RING_AT, Slot};
use crate::{GROWTH_BYTES, LogError, Pending};
use meta::{Gate, OnTheSpot, Seq, others_first};
use parking_lot::{Condvar, Mutex};
use std::fs::File;
use std::io::Error;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Commits in a row by one waiting task, for others that came meanwhile. Then the thread takes over.
const COMMITS_IN_A_ROW_MAX: u32 = 4;
/// Zeros of one write.
const ZEROS_BYTES: usize = 1024 * 1024;

/// What the log, its thread and those who wait share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) pending: Mutex<Pending>,
    pub(crate) ring_bytes: u64,
    /// The number of this opening.
    pub(crate) opening: u64,
    pub(crate) file: Arc<File>,
    /// The newest slot; held while one is written.
    pub(crate) slots: Mutex<Slot>,
    /// Held by the one who commits: the buffer that it has written, for the next one.
    pub(crate) round: Mutex<Vec<u8>>,
    pub(crate) gate: Gate<LogError>,
    pub(crate) wake: Condvar,
    pub(crate) spot: OnTheSpot,
}

/// Fails the gate if a commit ends by a panic, so that nobody waits for ever.
struct FailOnPanic<'a>(&'a Gate<LogError>);

impl Drop for FailOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0
                .fail(Error::other("a commit of the log has panicked").into());
        }
    }
}

impl Shared {
    /// The thread: commits what is wanted and lets the file grow, until the log is dropped.
    pub(crate) fn run(&self) {
        loop {
            let (is_wanted, is_growth_wanted) = {
                let mut pending = self.pending.lock();
                while !self.is_wanted(&pending) && !pending.is_growth_wanted && !pending.is_stopped
                {
                    self.wake.wait(&mut pending);
                }
                if pending.is_stopped {
                    return;
                }
                let growth = std::mem::take(&mut pending.is_growth_wanted);
                (self.is_wanted(&pending), growth)
            };
            if is_wanted {
                // Those who wait hear of a failure.
                let _ = self.commit(&mut self.round.lock());
            }
            if is_growth_wanted {
                self.grow();
            }
        }
    }

    pub(crate) fn stop(&self) {
        self.pending.lock().is_stopped = true;
        self.wake.notify_one();
    }

    fn is_wanted(&self, pending: &Pending) -> bool {
        pending.wanted > self.gate.durable_through().0 && self.gate.failure().is_none()
    }

    /// Waits until a record is durable: by the thread, or by a sync here.
    pub(crate) async fn wait(&self, number: u64) -> Result<(), LogError> {
        let _waiting = self.spot.enter();
        if self.spot.is_here() {
            others_first().await;
            // Those others may wait too by now.
            if self.spot.is_here() {
                return self.commit_here(number).await;
            }
        }
        self.want(number);
        self.wake.notify_one();
        self.gate.wait(Seq(number)).await
    }

    fn want(&self, number: u64) {
        let mut pending = self.pending.lock();
        pending.wanted = pending.wanted.max(number);
    }

    /// Syncs here, or joins a commit in progress: the committing task looks again after its commit whether more is wanted.
    async fn commit_here(&self, number: u64) -> Result<(), LogError> {
        self.want(number);
        let is_wanted = || self.is_wanted(&self.pending.lock());
        for _ in 0..COMMITS_IN_A_ROW_MAX {
            if !is_wanted() || !self.spot.is_here() {
                break;
            }
            let Some(mut round) = self.round.try_lock() else {
                return self.gate.wait(Seq(number)).await;
            };
            // Those who wait hear of a failure.
            let _ = self.commit(&mut round);
        }
        if is_wanted() || self.pending.lock().is_growth_wanted {
            self.wake.notify_one();
        }
        self.gate.wait(Seq(number)).await
    }

    /// Makes durable what was appended: how long the sync took.
    pub(crate) fn commit(&self, written: &mut Vec<u8>) -> Result<Duration, LogError> {
        let _guard = FailOnPanic(&self.gate);
        if let Some(failure) = self.gate.failure() {
            return Err(failure);
        }
        written.clear();
        let (at, newest) = {
            let mut pending = self.pending.lock();
            let at = pending.buffer_at;
            pending.buffer_at += pending.buffer.len() as u64;
            std::mem::swap(&mut pending.buffer, written);
            (at, pending.next - 1)
        };
        let took = self.write(written, at).map_err(|e| {
            let error = LogError::from(e);
            self.gate.fail(error.clone());
            error
        })?;
        self.spot.synced(took);
        self.gate.advance(Seq(newest));
        Ok(took)
    }

    /// Writes bytes of the ring, over its end if need be, and syncs them: how long the sync took.
    fn write(&self, bytes: &[u8], at: u64) -> Result<Duration, Error> {
        let place = at % self.ring_bytes;
        let to_end = usize::try_from(self.ring_bytes - place).unwrap_or(usize::MAX);
        let (first, second) = bytes.split_at(bytes.len().min(to_end));
        self.file.write_all_at(first, RING_AT + place)?;
        self.file.write_all_at(second, RING_AT)?;
        let started = Instant::now();
        self.file.sync_data()?;
        Ok(started.elapsed())
    }

    /// Adds written blocks to the end of the file.
    fn grow(&self) {
        let from = self.pending.lock().grown_bytes;
        let to = (from + GROWTH_BYTES).min(self.ring_bytes);
        if from == to {
            return;
        }
        let grown = write_zeros(&self.file, from, to).and_then(|()| self.file.sync_all());
        match grown {
            Ok(()) => self.pending.lock().grown_bytes = to,
            Err(error) => tracing::warn!(%error, "the log cannot grow: it takes fewer records"),
        }
    }

    /// Writes the next slot, durably.
    pub(crate) fn write_slot(&self, change: impl FnOnce(&mut Slot)) -> Result<(), LogError> {
        let mut slot = self.slots.lock();
        let mut next = *slot;
        change(&mut next);
        next.version += 1;
        self.file.write_all_at(&next.to_bytes(), next.offset())?;
        self.file.sync_data()?;
        *slot = next;
        Ok(())
    }
}

/// Writes zeros over a range of the ring.
pub(crate) fn write_zeros(file: &File, from: u64, to: u64) -> Result<(), Error> {
    let zeros = vec![0; ZEROS_BYTES];
    let mut at = from;
    while at < to {
        let len = usize::try_from(to - at)
            .unwrap_or(usize::MAX)
            .min(ZEROS_BYTES);
        file.write_all_at(&zeros[..len], RING_AT + at)?;
        at += len as u64;
    }
    Ok(())
}
