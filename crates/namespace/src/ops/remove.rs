//! REMOVE: a name goes; with its last name and last open a file goes too.
//!
//! # Ownership
//! A regular file without names that the caller reports open becomes an *orphan*: its inode stays until
//! [`Namespace::orphan_closed`]. Any other file loses its inode in the same transaction. The objects of a placed file enter the
//! removal queue in that transaction too: neither happens without the other.
//!
//! # Ordering
//! `is_open` is asked inside the transaction. An OPEN that found the file just before must register itself first and
//! then look again whether the inode still exists. One of the two then sees the other.

use crate::inode::Inode;
use crate::ops::{foreign, place, xattr};
use crate::records::Removal;
use crate::rights::EXECUTE;
use crate::txn::Txn;
use crate::{ChangeInfo, DataName, FileId, Namespace, NsError, Op, Placement, Time, keys, records};
use meta::Purpose;
use std::sync::Arc;
use xdr::List;

/// What a remove may take away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// Whatever has the name (NFSv4 REMOVE).
    Any,
    /// Anything but a directory (unlink).
    File,
    /// A directory (rmdir).
    Directory,
}

/// A name that was removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemovedName {
    /// The directory's change counter.
    pub dir: ChangeInfo,
    /// The inode that had the name, as it is after the transaction; `nlink` 0 when that was its last.
    pub inode: Arc<Inode>,
    /// It lost its last name but is open: it lives until [`Namespace::orphan_closed`].
    pub orphaned: bool,
}

impl Namespace {
    /// Removes a name. `is_open` tells whether a regular file is open, or under a layout that was
    /// neither returned nor fenced (R4).
    ///
    /// # Errors
    /// [`NsError::NoEnt`], [`NsError::NotEmpty`], [`NsError::IsDir`], [`NsError::NotDir`],
    /// [`NsError::Access`], [`NsError::Perm`] in a sticky directory.
    pub fn remove(
        &self,
        op: &mut Op<'_>,
        dir: FileId,
        name: &[u8],
        what: What,
        is_open: &dyn Fn(FileId) -> bool,
    ) -> Result<RemovedName, NsError> {
        let (cred, now) = (op.cred, op.now);
        self.write(op, |txn| {
            txn.purpose(Purpose::Removal);
            let parent = txn.dir(cred, dir, EXECUTE)?;
            let entry = txn.entry(dir, name)?.ok_or(NsError::NoEnt)?;
            let inode = txn.entry_inode(entry.file)?;
            cred.require_removable(&parent, &inode)?;
            match what {
                What::File if inode.is_dir() => return Err(NsError::IsDir),
                What::Directory if !inode.is_dir() => return Err(NsError::NotDir),
                _ => {}
            }
            txn.remove_entry(dir, name)?;
            let (inode, orphaned) = unlink(txn, inode.id, now, is_open)?;
            let after = txn.touch(dir)?;
            after.size = after.size.saturating_sub(1);
            after.nlink = after.nlink.saturating_sub(u32::from(inode.is_dir()));
            after.mtime = now;
            after.ctime = now;
            let dir = ChangeInfo {
                before: parent.change,
                after: after.change,
            };
            Ok(RemovedName {
                dir,
                inode,
                orphaned,
            })
        })
    }
}

/// Takes one name from an inode, and the inode with the last one. The entry and the directory are the
/// caller's. Returns the inode as it is then, and whether it is an orphan.
pub(crate) fn unlink(
    txn: &mut Txn<'_>,
    file: FileId,
    now: Time,
    is_open: &dyn Fn(FileId) -> bool,
) -> Result<(Arc<Inode>, bool), NsError> {
    let inode = txn.touch(file)?;
    if inode.is_dir() {
        if inode.size > 0 {
            return Err(NsError::NotEmpty);
        }
        inode.nlink = 0;
    } else {
        inode.nlink = inode.nlink.saturating_sub(1);
    }
    inode.ctime = now;
    let inode = Arc::new(inode.clone());
    if inode.nlink > 0 {
        return Ok((inode, false));
    }
    let orphaned = inode.is_regular() && is_open(file);
    if orphaned {
        txn.put_record(keys::ORPHAN, file.0, &[]);
    } else {
        discard(txn, &inode)?;
    }
    Ok((inode, orphaned))
}

/// Drops an inode without names, with its marks, and queues the removal of its objects.
pub(crate) fn discard(txn: &mut Txn<'_>, inode: &Inode) -> Result<(), NsError> {
    txn.drop_inode(inode.id)?;
    xattr::remove_all(txn, inode)?;
    if !inode.is_regular() {
        return Ok(());
    }
    if txn.rw_out(inode.id)?.is_some() {
        txn.set_rw_out(inode.id, None)?;
    }
    if txn.truncation(inode.id)?.is_some() {
        txn.end_truncation(inode.id);
    }
    foreign::discard(txn, inode);
    let placement = match inode.placement {
        Some(placement) => Some(placement),
        None => place::discard(txn, inode)?,
    };
    let Some(placement) = placement else {
        return Ok(());
    };
    if let Some(data) = inode.moved_data() {
        txn.delete_record(keys::DATA_NAME, data.file.0);
    }
    queue(txn, inode, placement)
}

/// Queues the removal of the objects that a file has at a place.
pub(crate) fn queue(txn: &mut Txn<'_>, inode: &Inode, placement: Placement) -> Result<(), NsError> {
    let data = inode.data();
    let removal = Removal {
        seq: txn.next_removal()?,
        file: data.file,
        generation: data.generation,
        floor: txn.fencing_epoch(inode).saturating_add(1),
        placement,
        acked: List::default(),
    };
    let value = records::encode(&removal);
    txn.put_record(keys::REMOVAL, removal.seq, &value);
    Ok(())
}

/// Queues the removal of objects that no file has taken.
pub(crate) fn queue_unused(txn: &mut Txn<'_>, data: DataName, group: u32) -> Result<(), NsError> {
    let removal = Removal {
        seq: txn.next_removal()?,
        file: data.file,
        generation: data.generation,
        floor: 1,
        placement: Placement {
            group,
            stripe_unit: 0,
            first_index: 0,
        },
        acked: List::default(),
    };
    let value = records::encode(&removal);
    txn.put_record(keys::REMOVAL, removal.seq, &value);
    Ok(())
}
