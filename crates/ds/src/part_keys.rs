//! Parts of places in the index: which there are, and which are not settled.
//!
//! Keys: `q` + placement group, place, file id, generation (big-endian) for each part of a group with places, `u` + the same
//! for each of them that is not settled ([`crate::part_index`]).
//!
//! Owns these keys. May call the store; knows neither the index that uses them nor another data server.

use meta::{MetaError, MetaStore, Purpose, Tx, TxOutcome};
use objects::ObjectId;

/// Set when every part that is not settled has its key: stores of earlier versions have none.
const MARKED_KEY: &[u8] = b"smarked";
/// Parts that one transaction marks.
const MARKED_AT_ONCE: usize = 4096;

/// Which parts of a place are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    All,
    /// Those that are not settled.
    Unsettled,
}

impl Which {
    const fn first_byte(self) -> u8 {
        match self {
            Self::All => b'q',
            Self::Unsettled => b'u',
        }
    }
}

pub(crate) fn part_key(which: Which, group: u32, id: ObjectId) -> Vec<u8> {
    let mut key = part_prefix(which, (group, id.place)).to_vec();
    key.extend_from_slice(&id.file_id.to_be_bytes());
    key.extend_from_slice(&id.generation.to_be_bytes());
    key
}

/// What the keys of the parts of a place begin with.
pub(crate) fn part_prefix(which: Which, (group, place): (u32, u8)) -> [u8; 6] {
    let mut key = [which.first_byte(); 6];
    key[1..5].copy_from_slice(&group.to_be_bytes());
    key[5] = place;
    key
}

/// The place has the part, and it is not settled.
pub(crate) fn put_part(tx: &mut dyn Tx, group: u32, id: ObjectId) {
    tx.put(&part_key(Which::All, group, id), &[]);
    tx.put(&part_key(Which::Unsettled, group, id), &[]);
}

/// The part goes, with its object.
pub(crate) fn delete_part(tx: &mut dyn Tx, group: u32, id: ObjectId) {
    tx.delete(&part_key(Which::All, group, id));
    tx.delete(&part_key(Which::Unsettled, group, id));
}

/// A store of an earlier version does not say which parts are settled: none is. Durable with any later transaction.
pub(crate) fn unsettle_parts_of_earlier_versions(store: &dyn MetaStore) -> Result<(), MetaError> {
    if store.get(MARKED_KEY)?.is_some() {
        return Ok(());
    }
    let (mut start, end) = (b"q".to_vec(), meta::prefix_end(b"q"));
    loop {
        let page = store.scan(&start, &end, MARKED_AT_ONCE)?;
        let is_last = page.len() < MARKED_AT_ONCE;
        store.transact(&mut |tx| {
            tx.purpose(Purpose::Removal);
            for (key, _) in &page {
                tx.put(&[b"u", &key[1..]].concat(), &[]);
            }
            if is_last {
                tx.put(MARKED_KEY, &xdr::encode_to_vec(&true));
            }
            Ok(TxOutcome::Commit)
        })?;
        if is_last {
            return Ok(());
        }
        start = page
            .last()
            .map_or(start, |(last, _)| [last, &[0][..]].concat());
    }
}
