//! Objects whose sync failed while they had redo records, after their disk works again (rules R19, R20).
//!
//! # Ownership
//! The tick resolves them; [`crate::redo_table`] has which they are. A backup is left alone: its primary puts it out, and
//! sends the part anew.
//!
//! # Ordering
//! The records are written again, memory forgets what else the disk does not have, the write verifier changes, and only then
//! does a sync of the object count. All of it is under the stripe lock: no sync, cut or removal of the object comes between.
//! Clients that read the old verifier before their write reached the object write it again ([`Ds::check_kept`]).
//!
//! # Failure
//! An object whose records cannot be written stays in doubt, and so does one whose next sync fails. Pauses between tries double
//! up to [`PAUSE_MAX`](crate::resolving::PAUSE_MAX). The next try begins with another object: one bad block keeps no other object in doubt.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use meta::Purpose;
use objects::ObjectId;
use redo::{RedoError, RedoRecord};

use crate::ds::Ds;
use crate::fault::Fault;

/// Objects that one tick resolves.
const OBJECTS_PER_TICK: usize = 64;

impl Ds {
    /// Resolves objects in doubt until one fails.
    pub(crate) async fn resolve_in_doubt(&self) {
        if self.resolving.is_paused() {
            return;
        }
        for _ in 0..OBJECTS_PER_TICK {
            let Some(id) = self.redo.in_doubt_after(self.resolving.last()) else {
                return;
            };
            self.resolving.tries(id);
            let resolved = self.resolve(id).await;
            match resolved {
                Ok(true) => {
                    self.resolving.succeeded();
                    let file = id.file_id;
                    tracing::warn!(file, "the disk works again, and has what the redo log kept");
                }
                Ok(false) => {}
                Err(fault) => {
                    self.note(id, &fault);
                    return self.resolving.failed();
                }
            }
        }
    }

    /// Applies the records of an object again, and makes it durable. Returns false when there is nothing to do here.
    async fn resolve(&self, id: ObjectId) -> Result<bool, Fault> {
        if self.is_backup(id)? {
            return Ok(false);
        }
        if let Some(newest) = self.redo.newest_of(id) {
            // A record that does not become durable was never promised.
            let _ended = self.redo.durable(newest).await;
        }
        {
            let _order = self.stripe(id.file_id).lock().await;
            if !self.redo.is_in_doubt(id, false) {
                return Ok(false);
            }
            let redo = Arc::clone(&self.redo);
            let records = self.blocking(move |_| redo.records_of(id)).await;
            self.apply_again(id, &records.map_err(Fault::Redo)?)?;
        }
        self.sync(id).await.map(|()| true)
    }

    /// Writes again what the records promise, then forgets what memory alone has. Memory has every promised byte all the
    /// time: others read it, and members are compared with it. To be called under the stripe lock of the file.
    fn apply_again(&self, id: ObjectId, records: &[(u64, Vec<u8>)]) -> Result<(), Fault> {
        let _changing = self.sums.begin(id.file_id);
        let removed_through = self.index.removed_records().get(&id).copied();
        let mut written = Written::default();
        // Newest first, and no byte twice: an older record must not be seen over a newer one.
        for (number, bytes) in records.iter().rev() {
            let record = xdr::decode_all(bytes).map_err(|e| {
                let what = format!("record {number}: {e}");
                Fault::Redo(RedoError::Corrupt(what))
            })?;
            let is_removed = removed_through.is_some_and(|through| *number <= through);
            if !is_removed && *number > self.index.known(id)?.redo_through {
                self.write_promised(&record, &mut written)?;
            }
        }
        self.drop_unwritten(id);
        self.verifier.store((self.random)(), SeqCst);
        self.redo.resolved(id);
        Ok(())
    }

    /// Writes what newer records leave of a record.
    fn write_promised(&self, record: &RedoRecord<'_>, written: &mut Written) -> Result<(), Fault> {
        let id = record.id;
        self.check_once(id)?;
        let end = record.offset.saturating_add(record.data.len() as u64);
        if self.index.known(id)?.has_sums {
            self.index.drop_sums(id, (record.offset, end))?;
        }
        for (from, to) in written.add(record.offset, end) {
            let within = |at: u64| usize::try_from(at - record.offset).expect("within a record");
            let data = &record.data[within(from)..within(to)];
            let written = self.objects.write_again(id, from, data);
            written.map_err(Fault::Object)?;
        }
        self.index.wrote(id, record.time, Purpose::Removal)?;
        Ok(())
    }
}

/// Which ranges of an object were written: ends by starts. No two overlap.
#[derive(Debug, Default)]
struct Written(BTreeMap<u64, u64>);

impl Written {
    /// Takes a range. Returns the pieces of it that were not there before.
    fn add(&mut self, start: u64, end: u64) -> Vec<(u64, u64)> {
        let earlier = self.0.range(..end).rev();
        let overlapping = earlier.take_while(|(_, to)| **to > start);
        let mut overlapping: Vec<(u64, u64)> = overlapping.map(|(from, to)| (*from, *to)).collect();
        overlapping.reverse();
        let mut pieces = Vec::new();
        let mut at = start;
        for (from, to) in overlapping {
            if at < from {
                pieces.push((at, from));
            }
            at = at.max(to);
        }
        if at < end {
            pieces.push((at, end));
        }
        self.0.extend(pieces.iter().copied());
        pieces
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_is_written_once() {
        let mut written = Written::default();
        type Range = (u64, u64);
        let table: [(Range, &[Range]); 7] = [
            ((10, 20), &[(10, 20)]),
            ((10, 20), &[]),
            ((5, 12), &[(5, 10)]),
            ((30, 40), &[(30, 40)]),
            ((0, 50), &[(0, 5), (20, 30), (40, 50)]),
            ((7, 45), &[]),
            ((50, 50), &[]),
        ];
        for ((start, end), pieces) in table {
            assert_eq!(written.add(start, end), pieces, "{start}..{end}");
        }
    }
}
