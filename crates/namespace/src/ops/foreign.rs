//! Foreign trees: what the name space keeps of files whose objects lie on NFSv3 servers of others.
//!
//! # Ownership
//! A tree is foreign from its top directory down. What is made below is foreign too, and no file moves in or out by RENAME or
//! LINK. So each client can be told one layout type for each tree (RFC 8881 §5.12.1).
//!
//! # Ordering
//! A mirror that does not count is noted here durably before a write that failed there is answered. Objects that are made ahead of
//! their files have names noted here before a data server hears of them. The transaction that makes the file takes the name. That a
//! file has all of its objects is noted durably before anybody hears that bytes are there.
//!
//! # Failure
//! Names that a crash leaves are found by [`Namespace::ahead`], and used again.

use crate::extras::{DataName, ForeignTree};
use crate::inode::Inode;
use crate::ops::create::{Created, How, NewNode};
use crate::records;
use crate::txn::Txn;
use crate::{FileId, Namespace, NsError, Op, Placement, keys};
use meta::Purpose;
use std::sync::Arc;

/// Most names that one call reserves.
const AHEAD_MAX: usize = 256;
/// Generation of objects that were made ahead.
const GENERATION: u32 = 1;

impl Namespace {
    /// Notes mirrors of a file that do not count any more, out of `all` that it has. Returns the file as it is then. Nothing shows
    /// it: the change attribute stays.
    ///
    /// # Errors
    /// [`NsError::Stale`]; [`NsError::Inval`] unless it is a placed file of a foreign tree; [`NsError::Busy`] when it has other
    /// objects than `seen` has, or would have no good mirror.
    pub fn mark_bad_mirrors(
        &self,
        op: &mut Op<'_>,
        seen: &Inode,
        (mirrors, all): (u32, u32),
    ) -> Result<Arc<Inode>, NsError> {
        let file = seen.id;
        self.write(op, |txn| {
            txn.purpose(Purpose::Upkeep);
            let before = txn.regular(file)?;
            if !before.is_foreign() || before.is_inline() {
                return Err(NsError::Inval);
            }
            // Two that fail at the same time, at different mirrors, must leave one.
            let bad_mirrors = before.bad_mirrors() | mirrors;
            let has_moved = (before.data(), before.placement) != (seen.data(), seen.placement);
            if has_moved || all & !bad_mirrors == 0 {
                return Err(NsError::Busy);
            }
            if bad_mirrors == before.bad_mirrors() {
                return Ok(before);
            }
            txn.put_record(keys::BAD_MIRRORS, file.0, &[]);
            let after = txn.touch_quietly(file)?;
            let foreign = Some(ForeignTree {
                bad_mirrors,
                has_objects: before.has_objects(),
            });
            after.extras.edit(|rare| rare.foreign = foreign);
            Ok(Arc::new(after.clone()))
        })
    }

    /// Notes that the objects of all mirrors of a file that count were made, under this name and in this group. It must be durable
    /// before anybody is told that bytes are there. Nothing shows it: the change attribute stays. An inline file has nothing to note.
    ///
    /// # Errors
    /// [`NsError::Stale`]; [`NsError::Busy`] when it has other objects, or more mirrors that count than `bad_mirrors` leaves.
    pub fn note_objects(
        &self,
        op: &mut Op<'_>,
        file: FileId,
        (data, group): (DataName, u32),
        bad_mirrors: u32,
    ) -> Result<(), NsError> {
        self.write(op, |txn| {
            txn.purpose(Purpose::Upkeep);
            let before = txn.regular(file)?;
            let Some(placement) = before.placement.filter(|_| before.is_foreign()) else {
                return Ok(());
            };
            let has_moved = (before.data(), placement.group) != (data, group);
            if has_moved || bad_mirrors & !before.bad_mirrors() != 0 {
                return Err(NsError::Busy);
            }
            if !before.has_objects() {
                let after = txn.touch_quietly(file)?;
                let foreign = Some(ForeignTree {
                    bad_mirrors: before.bad_mirrors(),
                    has_objects: true,
                });
                after.extras.edit(|rare| rare.foreign = foreign);
            }
            Ok(())
        })
    }

    /// Files above `after` with mirrors that do not count, at most `limit` and [`crate::PAGE_MAX`].
    ///
    /// # Errors
    /// Only the store's.
    pub fn with_bad_mirrors(
        &self,
        op: &mut Op<'_>,
        after: FileId,
        limit: usize,
    ) -> Result<Vec<FileId>, NsError> {
        let records = self.page::<()>(op, keys::BAD_MIRRORS, after.0, limit, "bad mirrors")?;
        Ok(records.into_iter().map(|(n, ())| FileId(n)).collect())
    }

    /// Reserves names for `count` objects (at most 256) that are made ahead of their files in a placement group. They must be durable
    /// before a data server is told.
    ///
    /// # Errors
    /// Only the store's.
    pub fn reserve_ahead(
        &self,
        op: &mut Op<'_>,
        group: u32,
        count: usize,
    ) -> Result<Vec<DataName>, NsError> {
        self.write(op, |txn| {
            let mut names = Vec::new();
            for _ in 0..count.min(AHEAD_MAX) {
                let file = txn.allocate()?;
                txn.put_record(keys::AHEAD, file.0, &records::encode(&group));
                names.push(ahead_name(file));
            }
            Ok(names)
        })
    }

    /// Reserved names above `after` that no file has taken, each with its placement group.
    ///
    /// # Errors
    /// Only the store's.
    pub fn ahead(
        &self,
        op: &mut Op<'_>,
        after: FileId,
        limit: usize,
    ) -> Result<Vec<(DataName, u32)>, NsError> {
        let records = self.page(op, keys::AHEAD, after.0, limit, "object made ahead")?;
        let name = |(number, group)| (ahead_name(FileId(number)), group);
        Ok(records.into_iter().map(name).collect())
    }

    /// As [`Namespace::create`], for a file whose objects were made ahead. One that exists takes none.
    ///
    /// # Errors
    /// As [`Namespace::create`]; [`NsError::Busy`] when another file has taken the objects.
    pub fn create_with_objects(
        &self,
        op: &mut Op<'_>,
        (dir, name): (FileId, &[u8]),
        (new, how): (&NewNode, How),
        (placement, data): (Placement, DataName),
    ) -> Result<Created, NsError> {
        self.create_and(op, (dir, name), (new, how), Some(placement), |txn, file| {
            if !txn.has_record(keys::AHEAD, data.file.0)? {
                return Err(NsError::Busy);
            }
            txn.delete_record(keys::AHEAD, data.file.0);
            txn.put_record(keys::DATA_NAME, data.file.0, &records::encode(&file));
            let inode = txn.touch_quietly(file)?;
            inode.extras.edit(|rare| rare.data = Some(data));
            Ok(())
        })
    }
}

const fn ahead_name(file: FileId) -> DataName {
    DataName {
        file,
        generation: GENERATION,
    }
}

/// A directory becomes the top of a foreign tree, or of an own one.
pub(super) fn turn(txn: &mut Txn<'_>, dir: &Inode, is_foreign: bool) -> Result<(), NsError> {
    if dir.is_foreign() == is_foreign {
        return Ok(());
    }
    if dir.size > 0 {
        return Err(NsError::NotEmpty);
    }
    let foreign = is_foreign.then(ForeignTree::default);
    let after = txn.touch(dir.id)?;
    after.extras.edit(|rare| rare.foreign = foreign);
    Ok(())
}

/// A file goes: so does the note of its bad mirrors.
pub(super) fn discard(txn: &mut Txn<'_>, inode: &Inode) {
    if inode.bad_mirrors() != 0 {
        txn.delete_record(keys::BAD_MIRRORS, inode.id.0);
    }
}

/// A file has other objects: all of its mirrors are those of `from`.
pub(super) fn take_mirrors(txn: &mut Txn<'_>, file: FileId, from: &Inode) -> Result<(), NsError> {
    let before = txn.regular(file)?;
    if !before.is_foreign() {
        return Ok(());
    }
    let bad_mirrors = from.bad_mirrors();
    match bad_mirrors {
        0 => discard(txn, &before),
        _ => txn.put_record(keys::BAD_MIRRORS, file.0, &[]),
    }
    let after = txn.touch_quietly(file)?;
    let foreign = Some(ForeignTree {
        bad_mirrors,
        has_objects: from.has_objects(),
    });
    after.extras.edit(|rare| rare.foreign = foreign);
    Ok(())
}

/// Whether a file may get a name in a directory: trees do not share files.
pub(super) fn check_tree(one: &Inode, other: &Inode) -> Result<(), NsError> {
    match one.is_foreign() == other.is_foreign() {
        true => Ok(()),
        false => Err(NsError::OtherTree),
    }
}
