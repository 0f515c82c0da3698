//! The index by parts: which a place has, and which of them may differ between its members (rules P9, P10).
//!
//! Adds to [`Index`] what copies need. May call the store; knows no other data server.
//!
//! A part is *settled* at a member when all members of its place had all of it durably, and it has not changed here since.
//! So a part in which two members differ, both of which have been in sync, is not settled at one of them at least. A member
//! that comes back is given those parts, and no others.
//!
//! # Ownership
//! The store of the index has the truth. The table in memory says of some parts that they are unsettled.
//!
//! # Ordering
//! A part is durably unsettled before its first byte changes. A new part needs no sync for that: without its entry it is
//! nothing, and the entry has the mark. A primary settles a part after every member has synced it, while no member is out,
//! if no change was begun meanwhile; so does each member when its turn comes in the stream ([`crate::copies`]).
//!
//! # Failure
//! A mark too many costs a comparison. What memory has forgotten the index is asked for.

use meta::{MetaError, Purpose, Seq, Tx, TxOutcome};
use objects::ObjectId;

use crate::index::{Index, ObjectRecord, object_key, put, value};
use crate::part::Part;
use crate::part_keys::{Which, part_key, part_prefix, put_part};

impl Index {
    /// Gives a part its entry, before anything is done to it: one that is not settled. A member that is filled asks for the
    /// parts of a place. Returns whether it had none.
    pub(crate) fn enter_part(&self, part: Part, purpose: Purpose) -> Result<bool, MetaError> {
        if part.group == 0 || self.known(part.id)?.group == part.group {
            return Ok(false);
        }
        let mut is_new = false;
        self.store_record(part.id, &mut |tx, old| {
            is_new = old.is_none();
            tx.purpose(purpose);
            put_part(tx, part.group, part.id);
            Some(ObjectRecord {
                group: part.group,
                is_settled: false,
                ..old.unwrap_or_default()
            })
        })?;
        Ok(is_new)
    }

    /// Parts of a place, ascending by file and generation, after `after`; at most `max`.
    pub(crate) fn parts_of(
        &self,
        which: Which,
        (group, place): (u32, u8),
        after: Option<(u64, u32)>,
        max: usize,
    ) -> Result<Vec<(u64, u32)>, MetaError> {
        let prefix = part_prefix(which, (group, place));
        let start = after.map_or_else(
            || prefix.to_vec(),
            |(file_id, generation)| {
                let id = ObjectId {
                    file_id,
                    generation,
                    place,
                };
                let mut key = part_key(which, group, id);
                key.push(0);
                key
            },
        );
        let pairs = self.store.scan(&start, &meta::prefix_end(&prefix), max)?;
        let part = |key: &[u8]| {
            let (file_id, rest) = key.get(prefix.len()..)?.split_first_chunk()?;
            let generation = rest.try_into().ok()?;
            Some((u64::from_be_bytes(*file_id), u32::from_be_bytes(generation)))
        };
        let part = |key: &[u8]| {
            part(key).ok_or_else(|| MetaError::Corrupt("index: key of a part".to_owned()))
        };
        pairs.iter().map(|(key, _)| part(key)).collect()
    }

    /// Whether a part is settled, as the store says.
    pub(crate) fn is_settled(&self, id: ObjectId) -> Result<bool, MetaError> {
        let record: Option<ObjectRecord> = value(&*self.store, &object_key(id))?;
        Ok(record.is_some_and(|record| record.is_settled))
    }

    /// A part is about to change: it is settled no more when what is returned is durable.
    pub(crate) fn unsettle(&self, id: ObjectId) -> Result<Seq, MetaError> {
        // Without a change the number is that of the newest transaction: another change may have taken the same step, and may
        // not be durable yet.
        self.turn(
            id,
            |record| record.is_settled,
            |tx, record| {
                tx.put(&part_key(Which::Unsettled, record.group, id), &[]);
                record.is_settled = false;
            },
        )
    }

    /// A part is settled. Not durable, and need not be.
    pub(crate) fn settle(&self, part: Part) -> Result<(), MetaError> {
        let is_due = |record: &ObjectRecord| record.group == part.group && !record.is_settled;
        self.turn(part.id, is_due, |tx, record| {
            tx.delete(&part_key(Which::Unsettled, part.group, part.id));
            record.is_settled = true;
        })?;
        Ok(())
    }

    /// Changes the record of an object that has one, if it `is_due`.
    fn turn(
        &self,
        id: ObjectId,
        is_due: impl Fn(&ObjectRecord) -> bool,
        change: impl Fn(&mut dyn Tx, &mut ObjectRecord),
    ) -> Result<Seq, MetaError> {
        let key = object_key(id);
        self.transact(&mut |tx| {
            let record: Option<ObjectRecord> = value(tx, &key)?;
            let Some(mut record) = record.filter(&is_due) else {
                return Ok(TxOutcome::Abort);
            };
            tx.purpose(Purpose::Removal);
            change(tx, &mut record);
            put(tx, &key, &record);
            Ok(TxOutcome::Commit)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use meta::MemStore;
    use std::sync::Arc;

    #[tokio::test]
    async fn a_part_that_is_emptied_stays_one_that_differs() {
        let opened = Index::open(Arc::new(MemStore::new()), &|| 1).await;
        let index = opened.expect("an empty store").index;
        let id = ObjectId {
            file_id: 7,
            generation: 1,
            place: 2,
        };
        let part = Part { id, group: 3 };
        let unsettled = || index.parts_of(Which::Unsettled, (3, 2), None, 9).unwrap();
        assert!(index.enter_part(part, Purpose::Upkeep).unwrap());
        index.raise(id, 4096, (0, 5)).unwrap();
        index.settle(part).unwrap();
        assert_eq!(unsettled(), []);
        index.forget(&[id], &[(id, 5)], true).unwrap();
        assert_eq!(unsettled(), [(7, 1)]);
        assert!(!index.is_settled(id).unwrap());
        // What comes next gives it its entry again.
        assert!(!index.enter_part(part, Purpose::Upkeep).unwrap());
        assert_eq!(index.known(id).unwrap().high_water_bytes, 0);
        index.forget(&[id], &[], false).unwrap();
        assert_eq!(unsettled(), []);
    }
}
