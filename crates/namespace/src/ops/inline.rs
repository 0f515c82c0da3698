//! Inline files: small regular files whose bytes lie in the metadata store and at no data server.
//!
//! # Ownership
//! A regular file without a placement is inline. Its record holds the bytes from its start on, and `space_used` is their
//! number. What lies between them and the end of the file is a hole. No record means no bytes.
//!
//! # Ordering
//! Bytes, size and times change in one transaction. A file is inline or placed, never both: see `place`.

use crate::inline_record::{as_range, record_of, store};
use crate::inode::Inode;
use crate::ops::data::note_written;
use crate::ops::setattr::replace;
use crate::txn::Txn;
use crate::{FileId, Namespace, NsError, Op};
use bytes::Bytes;
use meta::Purpose;
use std::ops::Range;
use std::sync::Arc;

/// Largest inline file in bytes, whatever is configured: each write stores the whole file anew.
pub const INLINE_BYTES_MAX: u32 = 64 * 1024;
/// How often a reader looks before it keeps writers out.
const TRIES_MAX: usize = 8;

impl Namespace {
    /// The inode of a file and, if it is inline, the bytes of its record, both of the same moment. What the file has beyond
    /// them is zeros. A placed file has no record.
    ///
    /// # Errors
    /// [`NsError::Stale`]; [`NsError::Store`] when the record is not what the inode says.
    pub fn read_inline(
        &self,
        op: &mut Op<'_>,
        file: FileId,
    ) -> Result<(Arc<Inode>, Bytes), NsError> {
        for _ in 0..TRIES_MAX {
            let inode = self.getattr(op, file)?;
            let found = self.inline_record(&inode);
            let now = self.getattr(op, file)?;
            // Every transaction that writes a record raises the change attribute, and one that ends it gives a place.
            if (now.change, now.placement) == (inode.change, inode.placement) {
                return Ok((inode, found?));
            }
        }
        let _writer = self.writer.lock();
        let inode = self.getattr(op, file)?;
        let bytes = self.inline_record(&inode)?;
        Ok((inode, bytes))
    }

    fn inline_record(&self, inode: &Inode) -> Result<Bytes, NsError> {
        record_of(&*self.store, inode)
    }

    /// Writes to an inline file: what WRITE changes, in one transaction.
    ///
    /// # Errors
    /// - [`NsError::NeedsPlace`]: the file would be longer than `size_max`, or than [`INLINE_BYTES_MAX`].
    /// - [`NsError::Busy`]: the file has a place.
    /// - [`NsError::Stale`], [`NsError::Inval`] unless it is a regular file, [`NsError::NoSpace`].
    pub fn write_inline(
        &self,
        op: &mut Op<'_>,
        file: FileId,
        (offset, bytes): (u64, &[u8]),
        size_max: u64,
    ) -> Result<Arc<Inode>, NsError> {
        let (cred, now) = (op.cred, op.now);
        let size_max = size_max.min(u64::from(INLINE_BYTES_MAX));
        self.write(op, |txn| {
            let inode = inline(txn, file)?;
            let end = offset.saturating_add(bytes.len() as u64);
            let end = Some(end).filter(|end| inode.size.max(*end) <= size_max);
            let end = end.ok_or(NsError::NeedsPlace)?;
            let at = as_range(offset..end);
            let mut record = record_of(txn.store(), &inode)?.to_vec();
            record.resize(record.len().max(at.end), 0);
            record[at].copy_from_slice(bytes);
            let mut after = (*inode).clone();
            store(txn, &mut after, &record);
            after.size = after.size.max(end);
            note_written(&mut after, cred, now);
            replace(txn, after)
        })
    }

    /// Makes a hole of a range of an inline file. The size stays.
    ///
    /// # Errors
    /// As [`Namespace::write_inline`].
    pub fn punch_inline(
        &self,
        op: &mut Op<'_>,
        file: FileId,
        range: Range<u64>,
    ) -> Result<Arc<Inode>, NsError> {
        let (cred, now) = (op.cred, op.now);
        self.write(op, |txn| {
            txn.purpose(Purpose::Removal);
            let inode = inline(txn, file)?;
            let mut record = record_of(txn.store(), &inode)?.to_vec();
            let len = record.len() as u64;
            let hole = as_range(range.start.min(len)..range.end.min(len));
            let mut after = (*inode).clone();
            if !hole.is_empty() {
                if hole.end == record.len() {
                    record.truncate(hole.start);
                } else {
                    record[hole].fill(0);
                }
                store(txn, &mut after, &record);
            }
            note_written(&mut after, cred, now);
            replace(txn, after)
        })
    }
}

fn inline(txn: &mut Txn<'_>, file: FileId) -> Result<Arc<Inode>, NsError> {
    let inode = txn.regular(file)?;
    if inode.is_inline() {
        Ok(inode)
    } else {
        Err(NsError::Busy)
    }
}
