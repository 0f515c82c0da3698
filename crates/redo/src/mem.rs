//! The log in memory: for tests and the simulator.
//!
//! [`MemRedo::new`] is durable at once. [`MemRedo::manual`] is durable only when [`MemRedo::sync`] is called;
//! [`MemRedo::after_crash`] makes the log that a power cut would have left.

use crate::{Fill, RECORD_HEAD_BYTES, RedoError, RedoLog, RedoRecord};
use meta::{BoxFuture, Gate, Seq};
use parking_lot::Mutex;
use std::collections::VecDeque;

/// A log that follows the contract.
#[derive(Debug)]
pub struct MemRedo {
    inner: Mutex<Inner>,
    gate: Gate<RedoError>,
    capacity_bytes: u64,
    is_manual: bool,
}

#[derive(Debug, Default)]
struct Inner {
    records: VecDeque<(u64, Vec<u8>)>,
    newest: u64,
    used_bytes: u64,
}

impl MemRedo {
    /// A log whose records are durable (as durable as memory is) when they are appended.
    #[must_use]
    pub fn new(capacity_bytes: u64) -> Self {
        Self {
            inner: Mutex::default(),
            gate: Gate::new(),
            capacity_bytes,
            is_manual: false,
        }
    }

    /// A log whose records become durable only by [`MemRedo::sync`].
    #[must_use]
    pub fn manual(capacity_bytes: u64) -> Self {
        Self {
            is_manual: true,
            ..Self::new(capacity_bytes)
        }
    }

    /// Makes everything that was appended durable and wakes those who wait.
    pub fn sync(&self) {
        let newest = self.inner.lock().newest;
        self.gate.advance(Seq(newest));
    }

    /// Records that a crash at this moment may take back.
    #[must_use]
    pub fn unsynced(&self) -> u64 {
        self.inner.lock().newest - self.durable_through()
    }

    /// The manual log that a crash may leave: all that is durable, and the `unsynced` oldest of the rest.
    #[must_use]
    pub fn after_crash(&self, unsynced: u64) -> Self {
        let inner = self.inner.lock();
        let newest = inner.newest.min(self.durable_through() + unsynced);
        let kept = inner.records.iter().filter(|(n, _)| *n <= newest);
        let records: VecDeque<_> = kept.cloned().collect();
        let left = Self::manual(self.capacity_bytes);
        left.gate.advance(Seq(newest));
        *left.inner.lock() = Inner {
            used_bytes: records.iter().map(|(_, r)| r.len() as u64).sum(),
            records,
            newest,
        };
        left
    }

    /// Makes the disk of this log fail from now on.
    pub fn fail(&self) {
        let error = std::io::Error::other("the disk of the log has failed");
        self.gate.fail(error.into());
    }
}

impl RedoLog for MemRedo {
    fn replay(&self, visit: &mut dyn FnMut(u64, RedoRecord<'_>) -> bool) -> Result<(), RedoError> {
        let records = self.inner.lock().records.clone();
        let durable = self.durable_through();
        for (number, bytes) in records.iter().filter(|(number, _)| *number <= durable) {
            let record = xdr::decode_all(bytes)
                .map_err(|e| RedoError::Corrupt(format!("record {number}: {e}")))?;
            if !visit(*number, record) {
                break;
            }
        }
        Ok(())
    }

    fn append(&self, record: &RedoRecord<'_>) -> Option<u64> {
        let mut inner = self.inner.lock();
        let bytes = (RECORD_HEAD_BYTES + record.data.len().next_multiple_of(4)) as u64;
        let has_room = inner.used_bytes + bytes <= self.capacity_bytes;
        if !has_room || self.gate.failure().is_some() {
            return None;
        }
        inner.newest += 1;
        inner.used_bytes += bytes;
        let number = inner.newest;
        inner
            .records
            .push_back((number, xdr::encode_to_vec(record)));
        drop(inner);
        if !self.is_manual {
            self.gate.advance(Seq(number));
        }
        Some(number)
    }

    fn durable(&self, number: u64) -> BoxFuture<'_, Result<(), RedoError>> {
        self.gate.wait_boxed(Seq(number))
    }

    fn durable_through(&self) -> u64 {
        self.gate.durable_through().0
    }

    fn retire(&self, number: u64) -> Result<u64, RedoError> {
        let mut inner = self.inner.lock();
        while inner.records.front().is_some_and(|(n, _)| *n <= number) {
            let gone = inner.records.pop_front().map_or(0, |(_, r)| r.len() as u64);
            inner.used_bytes -= gone;
        }
        Ok(number.min(inner.newest))
    }

    fn tie(&self, _index_id: u64, _is_known: bool) -> Result<(), RedoError> {
        Ok(())
    }

    fn fill(&self) -> Fill {
        Fill {
            used_bytes: self.inner.lock().used_bytes,
            capacity_bytes: self.capacity_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract;
    use std::sync::Arc;

    #[test]
    fn it_passes_the_contract() {
        contract::run(&mut |capacity_bytes| {
            let log = Arc::new(MemRedo::new(capacity_bytes));
            let reopened = log.clone();
            (log, Box::new(move || reopened))
        });
    }

    #[test]
    fn a_crash_keeps_what_was_synced_and_the_oldest_of_the_rest() {
        let log = MemRedo::manual(1 << 20);
        for fill in 1..=4 {
            log.append(&contract::record(fill, &[fill; 8]));
            if fill == 2 {
                log.sync();
            }
        }
        assert_eq!(log.unsynced(), 2);
        assert_eq!(contract::numbers(&log.after_crash(0)), [1, 2]);
        let left = log.after_crash(1);
        assert_eq!(contract::numbers(&left), [1, 2, 3]);
        assert_eq!(left.append(&contract::record(9, b"")), Some(4));
    }
}
