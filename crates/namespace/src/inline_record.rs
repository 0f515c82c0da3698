//! The record of an inline file: its bytes in the store, and how they are counted.
//!
//! Owns the keys `b`. May call: the transaction. May not call: operations.

use crate::inode::Inode;
use crate::txn::Txn;
use crate::{NsError, keys};
use bytes::Bytes;
use meta::{Purpose, Read};
use std::ops::Range;

/// A range inside a record, which is short.
pub(crate) fn as_range(range: Range<u64>) -> Range<usize> {
    let index = |at| usize::try_from(at).unwrap_or(usize::MAX);
    index(range.start)..index(range.end)
}

/// The bytes of an inline file; of another file none.
pub(crate) fn record_of(store: &(impl Read + ?Sized), inode: &Inode) -> Result<Bytes, NsError> {
    if !inode.is_inline() || inode.space_used == 0 {
        return Ok(Bytes::new());
    }
    let record = store.get(&keys::numbered(keys::INLINE, inode.id.0))?;
    let record = record.filter(|record| record.len() as u64 == inode.space_used);
    let wrong = || NsError::corrupt(format!("the bytes of inline file {}", inode.id.0));
    record.ok_or_else(wrong)
}

/// Makes `record` the bytes of an inline file whose inode is in the caller's hand.
pub(crate) fn store(txn: &mut Txn<'_>, inode: &mut Inode, record: &[u8]) {
    let (before, after) = (inode.space_used, record.len() as u64);
    if after > 0 {
        txn.put_record(keys::INLINE, inode.id.0, record);
    } else if before > 0 {
        txn.delete_record(keys::INLINE, inode.id.0);
    }
    let totals = txn.inline_totals();
    totals.bytes = totals.bytes.saturating_sub(before).saturating_add(after);
    inode.space_used = after;
}

/// Cuts the bytes of an inline file to a new size, which is the caller's to set.
pub(crate) fn cut(txn: &mut Txn<'_>, inode: &mut Inode, size: u64) -> Result<(), NsError> {
    if size < inode.space_used {
        txn.purpose(Purpose::Removal);
        let record = record_of(txn.store(), inode)?;
        let len = as_range(0..size).end;
        store(txn, inode, &record[..len]);
    }
    Ok(())
}

/// An inline file is one no more: its bytes go, and it is not counted.
pub(crate) fn end(txn: &mut Txn<'_>, inode: &Inode) {
    store(txn, &mut inode.clone(), &[]);
    let totals = txn.inline_totals();
    totals.files = totals.files.saturating_sub(1);
}
