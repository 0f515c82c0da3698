//! Files whose last name is gone: orphans until their last close, then the removal queue (R4).
//!
//! # Ordering
//! An inode leaves in the same transaction in which its entry of the queue comes. The entry leaves when the last data
//! server has durably acknowledged. So a crash at any moment loses no removal.

use crate::ops::remove::discard;
use crate::records::{self, Removal};
use crate::txn::Txn;
use crate::{FileId, Namespace, NsError, Op, keys};
use meta::Purpose;

/// Most records of one page of any list.
pub const PAGE_MAX: usize = 4096;

/// An entry of the removal queue whose objects a data server does not have any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemovalAck {
    /// The entry.
    pub seq: u64,
    /// All data servers that must remove: those of the entry's placement group that still exist.
    pub members: Vec<u32>,
}

/// What became of a removal after an acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemovalState {
    /// Others have not acknowledged.
    Waiting,
    /// All have: the entry is gone.
    Done,
    /// It was gone already.
    Unknown,
}

impl Namespace {
    /// The last close of an orphan, or the end of grace after a restart: its inode goes and its objects
    /// enter the removal queue. For a file that is no orphan this is nothing, and says so.
    ///
    /// # Errors
    /// Only the store's.
    pub fn orphan_closed(&self, op: &mut Op<'_>, file: FileId) -> Result<bool, NsError> {
        self.write(op, |txn| {
            if !txn.has_record(keys::ORPHAN, file.0)? {
                return Ok(false);
            }
            let inode = txn.entry_inode(file)?;
            txn.delete_record(keys::ORPHAN, file.0);
            discard(txn, &inode)?;
            Ok(true)
        })
    }

    /// Orphans with numbers above `after`, at most `limit` (and [`PAGE_MAX`]).
    ///
    /// # Errors
    /// Only the store's.
    pub fn orphans(
        &self,
        op: &mut Op<'_>,
        after: FileId,
        limit: usize,
    ) -> Result<Vec<FileId>, NsError> {
        let records = self.page::<()>(op, keys::ORPHAN, after.0, limit, "orphan")?;
        Ok(records.into_iter().map(|(n, ())| FileId(n)).collect())
    }

    /// Entries of the removal queue after `after` (0 for its head), oldest first, at most `limit` (and
    /// [`PAGE_MAX`]). Tell data servers only of what is durable.
    ///
    /// # Errors
    /// Only the store's.
    pub fn removal_batch(
        &self,
        op: &mut Op<'_>,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Removal>, NsError> {
        let records = self.page(op, keys::REMOVAL, after, limit, "removal")?;
        Ok(records.into_iter().map(|(_, r)| r).collect())
    }

    /// Data server `ds` has durably removed the objects of some entries. All are noted in one transaction.
    ///
    /// # Errors
    /// [`NsError::TooMany`] acknowledgements for one group, and the store's. Nothing is noted then.
    pub fn removals_acked(
        &self,
        op: &mut Op<'_>,
        ds: u32,
        acks: &[RemovalAck],
    ) -> Result<Vec<RemovalState>, NsError> {
        self.write(op, |txn| {
            txn.purpose(Purpose::Removal);
            acks.iter().map(|ack| note_ack(txn, ds, ack)).collect()
        })
    }
}

fn note_ack(txn: &mut Txn<'_>, ds: u32, ack: &RemovalAck) -> Result<RemovalState, NsError> {
    let Some(value) = txn.record(keys::REMOVAL, ack.seq)? else {
        return Ok(RemovalState::Unknown);
    };
    let mut removal: Removal = records::decode(&value, "removal")?;
    let acked = &mut removal.acked.0;
    if let Err(at) = acked.binary_search(&ds) {
        acked.insert(at, ds);
    }
    if ack.members.iter().all(|m| acked.binary_search(m).is_ok()) {
        txn.delete_record(keys::REMOVAL, ack.seq);
        return Ok(RemovalState::Done);
    }
    if acked.len() > records::DS_PER_GROUP_MAX as usize {
        return Err(NsError::TooMany);
    }
    txn.put_record(keys::REMOVAL, ack.seq, &records::encode(&removal));
    Ok(RemovalState::Waiting)
}
