//! Sums and damaged blocks in the index: keys `c` + object + chunk, `d` + object + block, and when scrub has last ended.

use std::collections::{BTreeMap, BTreeSet};

use meta::{MetaError, Pair, Purpose, Seq, TxOutcome};
use objects::ObjectId;
use parts::Block;
use xdr::List;

use super::table::{CHUNK_BLOCKS_U32, CHUNK_BYTES, DAMAGED_MAX};
use crate::index::{Index, ObjectRecord, decoded, object_key, object_of_key, put, value};

/// Keys that one transaction drops.
const DROPPED_MAX: usize = 4096;
/// When the last pass of scrub ended: seconds of the wall clock.
const SCRUBBED_KEY: &[u8] = b"sscrubbed";

type ChunkSums = List<Block, { CHUNK_BLOCKS_U32 }>;

/// What the keys of an object begin with.
fn prefix_of(first: u8, id: ObjectId) -> Vec<u8> {
    let mut key = object_key(id);
    key[0] = first;
    key
}

fn key_of(first: u8, id: ObjectId, number: u64) -> Vec<u8> {
    let mut key = prefix_of(first, id);
    key.extend_from_slice(&number.to_be_bytes());
    key
}

fn number_of(key: &[u8]) -> Result<(ObjectId, u64), MetaError> {
    let corrupt = || MetaError::Corrupt("index: key of sums".to_owned());
    let (object, number) = key.split_last_chunk().ok_or_else(corrupt)?;
    Ok((object_of_key(object)?, u64::from_be_bytes(*number)))
}

impl Index {
    /// Damaged blocks, as stored.
    pub(crate) fn load_damaged(&self) -> Result<BTreeMap<ObjectId, BTreeSet<u64>>, MetaError> {
        let mut damaged: BTreeMap<ObjectId, BTreeSet<u64>> = BTreeMap::new();
        let end = meta::prefix_end(b"d");
        for (key, _) in &self.store.scan(b"d", &end, DAMAGED_MAX)? {
            let (id, block) = number_of(key)?;
            damaged.entry(id).or_default().insert(block);
        }
        Ok(damaged)
    }

    /// The sums of a chunk.
    pub(super) fn sums(&self, id: ObjectId, chunk: u64) -> Result<Option<Vec<Block>>, MetaError> {
        let found: Option<ChunkSums> = value(&*self.store, &key_of(b'c', id, chunk))?;
        Ok(found.map(|list| list.0))
    }

    /// The first chunk at or after `chunk` that has sums.
    pub(super) fn next_sums(&self, id: ObjectId, chunk: u64) -> Result<Option<u64>, MetaError> {
        let end = meta::prefix_end(&prefix_of(b'c', id));
        let found = self.store.scan(&key_of(b'c', id, chunk), &end, 1)?;
        let first = found.first().map(|(key, _)| number_of(key));
        Ok(first.transpose()?.map(|(_, chunk)| chunk))
    }

    /// Stores the sums of a chunk of an object that has an entry. Not durable, and need not be.
    pub(super) fn put_sums(
        &self,
        id: ObjectId,
        chunk: u64,
        sums: Vec<Block>,
    ) -> Result<(), MetaError> {
        let sums: ChunkSums = sums.into();
        let key = object_key(id);
        let mut is_there = false;
        let known = self.known(id)?;
        self.transact(&mut |tx| {
            is_there = false;
            let Some(record) = value::<ObjectRecord>(tx, &key)? else {
                return Ok(TxOutcome::Abort);
            };
            is_there = true;
            tx.purpose(Purpose::Upkeep);
            if !record.has_sums {
                let has_sums = true;
                put(tx, &key, &ObjectRecord { has_sums, ..record });
            }
            put(tx, &key_of(b'c', id, chunk), &sums);
            Ok(TxOutcome::Commit)
        })?;
        if is_there {
            self.note_sums(id, known);
        }
        Ok(())
    }

    /// Drops the sums of the chunks of a range of bytes. Returns what to wait for, and whether there may be more; `None` when
    /// there is nothing to wait for. Another change may have dropped them, and wait itself.
    pub(crate) fn drop_sums(
        &self,
        id: ObjectId,
        (start, end): (u64, u64),
    ) -> Result<Option<(Seq, bool)>, MetaError> {
        if start >= end {
            return Ok(None);
        }
        let mut dropped = self.sums_dropped.lock();
        let (first, last) = (start / CHUNK_BYTES, (end - 1) / CHUNK_BYTES);
        let keys: Vec<Vec<u8>> = if last - first < 2 {
            let keys = (first..=last).map(|chunk| key_of(b'c', id, chunk));
            let mut found = Vec::new();
            for key in keys {
                if self.store.get(&key)?.is_some() {
                    found.push(key);
                }
            }
            found
        } else {
            let mut end = key_of(b'c', id, last);
            end.push(0);
            let pairs = self
                .store
                .scan(&key_of(b'c', id, first), &end, DROPPED_MAX)?;
            pairs.into_iter().map(|(key, _)| key.to_vec()).collect()
        };
        if keys.is_empty() {
            return Ok(dropped.map(|seq| (seq, false)));
        }
        let seq = self.transact(&mut |tx| {
            tx.purpose(Purpose::Removal);
            for key in &keys {
                tx.delete(key);
            }
            Ok(TxOutcome::Commit)
        })?;
        *dropped = Some(seq);
        Ok(Some((seq, keys.len() >= DROPPED_MAX)))
    }

    pub(super) fn put_damage(&self, id: ObjectId, block: u64) -> Result<Seq, MetaError> {
        self.transact(&mut |tx| {
            tx.purpose(Purpose::Removal);
            tx.put(&key_of(b'd', id, block), &[]);
            Ok(TxOutcome::Commit)
        })
    }

    pub(super) fn forget_damage(&self, id: ObjectId, blocks: &[u64]) -> Result<Seq, MetaError> {
        self.transact(&mut |tx| {
            tx.purpose(Purpose::Removal);
            for block in blocks {
                tx.delete(&key_of(b'd', id, *block));
            }
            Ok(TxOutcome::Commit)
        })
    }

    /// When the last pass of scrub ended, in seconds of the wall clock; 0 for never.
    pub(super) fn scrubbed_at(&self) -> Result<i64, MetaError> {
        Ok(value(&*self.store, SCRUBBED_KEY)?.unwrap_or(0))
    }

    pub(super) fn put_scrubbed_at(&self, seconds: i64) -> Result<(), MetaError> {
        self.transact(&mut |tx| {
            tx.purpose(Purpose::Removal);
            put(tx, SCRUBBED_KEY, &seconds);
            Ok(TxOutcome::Commit)
        })?;
        Ok(())
    }

    /// Objects that have an entry, in the order of their keys, after `after`.
    pub(super) fn objects_after(
        &self,
        after: Option<ObjectId>,
        max: usize,
    ) -> Result<Vec<(ObjectId, u32)>, MetaError> {
        let start = after.map_or_else(|| b"o".to_vec(), |id| [&object_key(id)[..], &[0]].concat());
        let pairs = self.store.scan(&start, &meta::prefix_end(b"o"), max)?;
        let object = |(key, bytes): &Pair| {
            let record: ObjectRecord = decoded(bytes)?;
            Ok((object_of_key(key)?, record.group))
        };
        pairs.iter().map(object).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use meta::MemStore;
    use std::sync::Arc;

    #[tokio::test]
    async fn who_finds_sums_just_dropped_waits_for_that_as_well() {
        let opened = Index::open(Arc::new(MemStore::new()), &|| 1).await;
        let index = opened.expect("an empty store").index;
        let id = ObjectId {
            file_id: 7,
            generation: 1,
            place: 0,
        };
        assert_eq!(index.drop_sums(id, (0, 1)).unwrap(), None);
        index.raise(id, 1, (0, 0)).unwrap();
        index
            .put_sums(id, 0, vec![Block { high: 1, low: 2 }])
            .unwrap();
        let dropped = index.drop_sums(id, (0, 1)).unwrap();
        assert!(dropped.is_some_and(|(seq, is_more)| seq > Seq(0) && !is_more));
        assert_eq!(index.sums(id, 0).unwrap(), None);
        assert_eq!(index.drop_sums(id, (0, 1)).unwrap(), dropped);
    }
}
