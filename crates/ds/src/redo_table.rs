//! Which records of the redo log are still needed, by object (rules R19, R20).
//!
//! # Ownership
//! [`RedoTable`] owns the log. An object is in the table from its first record that its own sync has not covered. The lock
//! of [`RedoTable::order`] makes one step of applying a write and numbering its record, so replay has the same order.
//!
//! # Ordering
//! A record is dropped after the index says durably that its object is durable past it. The log is told to retire only
//! what nobody needs.
//!
//! # Failure
//! An object whose sync failed while it had records is *in doubt*. Nobody knows what the disk has, and the records are the
//! only sure copy. They stay, and the object takes no sync until they have been applied again ([`crate::in_doubt`], or the next
//! start). Where it is a part of a member that is filled, it goes with its records, and is sent anew (`copies/receive.rs`).
//!
//! At a backup an object is in doubt after any failed sync. A later one may succeed without the pages of the first, and a
//! promise of the primary would count on them. The primary puts the backup out instead.

use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

use objects::ObjectId;
use redo::{Fill, RedoError, RedoLog, RedoRecord};
use rustc_hash::FxHashMap;
use tracing_mutex::parkinglot::{Mutex, MutexGuard};

/// Locks that order writes with records, by file.
const ORDERS: usize = 256;

/// The records of one object that are needed.
#[derive(Debug, Clone, Copy)]
struct Needed {
    first: u64,
    newest: u64,
}

#[derive(Debug, Default)]
struct Table {
    objects: FxHashMap<ObjectId, Needed>,
    /// The same, by the first record.
    by_first: BTreeSet<(u64, ObjectId)>,
    in_doubt: BTreeSet<ObjectId>,
    newest: u64,
    /// The newest at the last tick.
    newest_at_tick: u64,
    /// The log has no records any more up to this one.
    retired: u64,
}

impl Table {
    fn note(&mut self, id: ObjectId, number: u64) {
        let before = self.objects.get(&id);
        let needed = Needed {
            first: before.map_or(number, |n| n.first),
            newest: before.map_or(number, |n| n.newest.max(number)),
        };
        self.set(id, Some(needed));
        self.newest = self.newest.max(number);
    }

    fn set(&mut self, id: ObjectId, needed: Option<Needed>) {
        let before = match needed {
            Some(needed) => self.objects.insert(id, needed),
            None => self.objects.remove(&id),
        };
        if let Some(before) = before {
            self.by_first.remove(&(before.first, id));
        }
        if let Some(needed) = needed {
            self.by_first.insert((needed.first, id));
        }
    }
}

/// See the module.
pub(crate) struct RedoTable {
    log: Option<Arc<dyn RedoLog>>,
    orders: Box<[Mutex<()>]>,
    table: Mutex<Table>,
}

impl RedoTable {
    /// Without a log every stable write syncs its object.
    pub(crate) fn new(log: Option<Arc<dyn RedoLog>>) -> Self {
        // What an earlier process has written is needed only if replay says so.
        let newest = log.as_ref().map_or(0, |log| log.durable_through());
        Self {
            log,
            orders: (0..ORDERS).map(|_| Mutex::new(())).collect(),
            table: Mutex::new(Table {
                newest,
                ..Table::default()
            }),
        }
    }

    pub(crate) fn log(&self) -> Option<&Arc<dyn RedoLog>> {
        self.log.as_ref()
    }

    /// To be held over applying a write of the object and [`RedoTable::append`].
    pub(crate) fn order(&self, id: ObjectId) -> MutexGuard<'_, ()> {
        let at = id.file_id % ORDERS as u64;
        self.orders[usize::try_from(at).expect("below ORDERS")].lock()
    }

    /// Takes a record of a write that was applied: its number. `None` when there is no log, no room, or the object is in doubt.
    pub(crate) fn append(&self, record: &RedoRecord<'_>) -> Option<u64> {
        let log = self.log.as_ref()?;
        let mut table = self.table.lock();
        if table.in_doubt.contains(&record.id) {
            return None;
        }
        // Under the lock: else a later record could be retired, and this one with it, before it is in the table.
        let number = log.append(record)?;
        table.note(record.id, number);
        Some(number)
    }

    /// The object has a record with this number.
    pub(crate) fn note(&self, id: ObjectId, number: u64) {
        self.table.lock().note(id, number);
    }

    /// Waits until a record is durable.
    pub(crate) async fn durable(&self, number: u64) -> Result<(), RedoError> {
        match &self.log {
            Some(log) => log.durable(number).await,
            None => Ok(()),
        }
    }

    /// Durable records in the life of the log.
    pub(crate) fn durable_through(&self) -> u64 {
        self.log.as_ref().map_or(0, |log| log.durable_through())
    }

    /// The newest record of the object that is needed. Its write is applied.
    pub(crate) fn newest_of(&self, id: ObjectId) -> Option<u64> {
        self.table.lock().objects.get(&id).map(|n| n.newest)
    }

    /// Whether no sync of the object may count, here or at a backup. At a primary clients write again what has no records.
    pub(crate) fn is_in_doubt(&self, id: ObjectId, is_backup: bool) -> bool {
        let table = self.table.lock();
        table.in_doubt.contains(&id) && (is_backup || table.objects.contains_key(&id))
    }

    /// The index says durably that the object is durable past `number`.
    pub(crate) fn synced(&self, id: ObjectId, number: u64) {
        let mut table = self.table.lock();
        let Some(needed) = table.objects.get(&id).copied() else {
            return;
        };
        let left = (needed.newest > number).then(|| Needed {
            first: needed.first.max(number + 1),
            ..needed
        });
        table.set(id, left);
    }

    /// A sync of the object has failed, here or at a backup. Returns whether it has records.
    pub(crate) fn failed(&self, id: ObjectId, is_backup: bool) -> bool {
        let mut table = self.table.lock();
        let has_records = table.objects.contains_key(&id);
        if !(has_records || is_backup) || !table.in_doubt.insert(id) {
            return has_records;
        }
        let file = id.file_id;
        match is_backup {
            true => tracing::error!(
                file,
                "a sync failed: the part is sent anew before it counts as a copy"
            ),
            false => tracing::error!(
                file,
                "a sync failed: the redo log keeps what was promised, and it is written again when the disk works"
            ),
        }
        has_records
    }

    /// The first object in doubt with records after this one, or the first of all.
    pub(crate) fn in_doubt_after(&self, last: Option<ObjectId>) -> Option<ObjectId> {
        let table = self.table.lock();
        let after = last.map_or(Unbounded, Excluded);
        let all = table
            .in_doubt
            .range((after, Unbounded))
            .chain(&table.in_doubt);
        let mut with_records = all.filter(|id| table.objects.contains_key(id));
        with_records.next().copied()
    }

    /// The durable records of an object, oldest first, each in its XDR form. Reads the log.
    ///
    /// # Errors
    /// The log's.
    pub(crate) fn records_of(&self, id: ObjectId) -> Result<Vec<(u64, Vec<u8>)>, RedoError> {
        let mut records = Vec::new();
        if let Some(log) = &self.log {
            log.replay(&mut |number, record| {
                if record.id == id {
                    records.push((number, xdr::encode_to_vec(&record)));
                }
                true
            })?;
        }
        Ok(records)
    }

    /// The records of an object have been applied again: a sync of it counts.
    pub(crate) fn resolved(&self, id: ObjectId) {
        self.table.lock().in_doubt.remove(&id);
    }

    /// The objects are gone for good.
    pub(crate) fn forget(&self, ids: &[ObjectId]) {
        let mut table = self.table.lock();
        for id in ids {
            table.set(*id, None);
            table.in_doubt.remove(id);
        }
    }

    /// A tick: objects with a record from before the last one, oldest first, at most `max`; none that is in doubt.
    pub(crate) fn take_old(&self, max: usize) -> Vec<ObjectId> {
        let mut table = self.table.lock();
        let newest = table.newest;
        let before = std::mem::replace(&mut table.newest_at_tick, newest);
        let old = table
            .by_first
            .iter()
            .take_while(|(first, _)| *first <= before);
        let sure = old
            .map(|(_, id)| *id)
            .filter(|id| !table.in_doubt.contains(id));
        sure.take(max).collect()
    }

    /// Every record up to this one is needed no more.
    fn retirable(&self) -> u64 {
        let table = self.table.lock();
        let oldest = table.by_first.first();
        oldest.map_or(table.newest, |(first, _)| first - 1)
    }

    /// Lets the log give room back: the number up to which it has no records any more. Waits for the disk.
    ///
    /// # Errors
    /// The log's.
    pub(crate) fn retire(&self) -> Result<u64, RedoError> {
        let Some(log) = &self.log else {
            return Ok(0);
        };
        let retired = log.retire(self.retirable())?;
        self.table.lock().retired = retired;
        Ok(retired)
    }

    /// The log has no records any more up to this one.
    pub(crate) fn retired(&self) -> u64 {
        self.table.lock().retired
    }

    pub(crate) fn fill(&self) -> Fill {
        self.log
            .as_ref()
            .map_or_else(Fill::default, |log| log.fill())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use redo::MemRedo;
    use redo::contract::record;

    fn table() -> RedoTable {
        RedoTable::new(Some(Arc::new(MemRedo::new(1 << 20))))
    }

    #[test]
    fn what_is_retirable_ends_before_the_oldest_record_that_is_needed() {
        let redo = table();
        let (a, b) = (record(1, b"a"), record(2, b"b"));
        assert_eq!(redo.retirable(), 0);
        for (of, number) in [(&a, 1), (&b, 2), (&a, 3), (&b, 4)] {
            assert_eq!(redo.append(of), Some(number));
        }
        assert_eq!(
            (redo.newest_of(a.id), redo.newest_of(b.id)),
            (Some(3), Some(4))
        );
        assert_eq!(redo.retirable(), 0);
        redo.synced(a.id, 1);
        assert_eq!(redo.retirable(), 1);
        redo.synced(b.id, 4);
        assert_eq!((redo.newest_of(b.id), redo.retirable()), (None, 1));
        assert_eq!(redo.take_old(9), []);
        assert_eq!(redo.take_old(9), [a.id]);
        redo.forget(&[a.id]);
        assert_eq!(redo.retirable(), 4);
    }

    #[test]
    fn an_object_in_doubt_keeps_its_records_and_takes_no_more() {
        let redo = table();
        let (a, b) = (record(1, b"a"), record(2, b"b"));
        redo.failed(a.id, false);
        assert!(
            !redo.is_in_doubt(a.id, false),
            "it has no records: its writers hear of the failure"
        );
        redo.append(&a);
        redo.failed(a.id, false);
        assert!(redo.is_in_doubt(a.id, false));
        assert_eq!(redo.append(&a), None);
        assert_eq!(redo.append(&b), Some(2));
        redo.take_old(9);
        assert_eq!(redo.take_old(9), [b.id]);
        redo.synced(b.id, 2);
        assert_eq!(redo.retirable(), 0);
    }

    #[test]
    fn objects_in_doubt_are_named_in_turn_with_their_records_alone() {
        let redo = table();
        let (a, b, c) = (record(1, b"a"), record(2, b"b"), record(3, b"c"));
        assert_eq!(redo.in_doubt_after(None), None);
        for of in [&a, &b, &a, &c] {
            redo.append(of);
        }
        assert!(redo.failed(a.id, false) && redo.failed(c.id, false));
        assert!(!redo.failed(record(4, b"").id, true), "it has no records");
        let in_turn =
            [None, Some(a.id), Some(b.id), Some(c.id)].map(|last| redo.in_doubt_after(last));
        assert_eq!(in_turn, [a.id, c.id, c.id, a.id].map(Some));
        let records = redo.records_of(a.id).unwrap();
        assert_eq!(records, [1, 3].map(|n| (n, xdr::encode_to_vec(&a))));
        redo.resolved(a.id);
        assert!(!redo.is_in_doubt(a.id, false));
        assert_eq!(redo.in_doubt_after(None), Some(c.id));
        // Applied again, in the order of the log.
        redo.note(c.id, 4);
        redo.note(a.id, 1);
        assert_eq!(redo.newest_of(a.id), Some(3));
    }

    #[test]
    fn at_a_backup_an_object_is_in_doubt_without_records_too() {
        let redo = table();
        let a = record(1, b"a");
        redo.failed(a.id, true);
        assert!(redo.is_in_doubt(a.id, true));
        assert!(!redo.is_in_doubt(a.id, false), "it is primary now");
        assert_eq!(redo.append(&a), None);
        redo.forget(&[a.id]);
        assert!(!redo.is_in_doubt(a.id, true), "it is sent anew");
    }
}
