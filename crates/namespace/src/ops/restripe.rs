//! How a file gets other objects, elsewhere or cut otherwise, while it keeps its number and its handles.
//!
//! # Ownership
//! The new objects belong to a nameless file while they are filled. It is an orphan that nobody has open, so a restart
//! removes it with all that data servers have of it. Then its objects become those of the file, under the name that data
//! servers know: the number of the nameless file, which no inode has again.
//!
//! # Ordering
//! The nameless file is durable before a data server hears of it. One transaction gives its objects to the file, queues the
//! removal of those that the file had, and ends the nameless file.
//!
//! # Failure
//! At any moment the file has all of the old objects or all of the new ones, and what it has not is an orphan or queued.

use crate::inode::{FileType, Inode};
use crate::ops::{foreign, remove};
use crate::{
    DataName, Device, Extras, FileId, ForeignTree, Namespace, NsError, Op, Placement, keys, records,
};
use meta::Purpose;
use std::sync::Arc;
use xdr::OpaqueBuf;

impl Namespace {
    /// Makes the nameless file that new objects of `file` belong to. It must be durable before a data server is told.
    ///
    /// # Errors
    /// [`NsError::Busy`] for an inline file; [`NsError::Stale`], [`NsError::Inval`] unless it is a regular file.
    pub fn begin_restripe(
        &self,
        op: &mut Op<'_>,
        file: FileId,
        placement: Placement,
    ) -> Result<Arc<Inode>, NsError> {
        let now = op.now;
        self.write(op, |txn| {
            let of = txn.regular(file)?;
            if of.is_inline() {
                return Err(NsError::Busy);
            }
            let id = txn.allocate()?;
            let mut extras = Extras::default();
            if of.is_foreign() {
                extras.edit(|rare| rare.foreign = Some(ForeignTree::default()));
            }
            let inode = Inode {
                id,
                generation: 1,
                kind: FileType::Regular,
                mode: 0,
                uid: 0,
                gid: 0,
                nlink: 0,
                size: 0,
                space_used: 0,
                atime: now,
                mtime: now,
                ctime: now,
                btime: now,
                change: 1,
                parent: of.parent,
                device: Device::default(),
                target: OpaqueBuf(Vec::new()),
                placement: Some(placement),
                epoch: 0,
                verifier: None,
                extras,
            };
            txn.add(inode.clone());
            txn.put_record(keys::ORPHAN, id.0, &[]);
            Ok(Arc::new(inode))
        })
    }

    /// Gives a file the objects of the nameless one, which have all its bytes durably. Nobody may have a handle for what it had,
    /// which is queued to be removed. The times stay. The change attribute does not: an extended attribute tells of the layout,
    /// and clients keep what they read of it as long as the change attribute stays (RFC 8276 §8.4).
    ///
    /// # Errors
    /// [`NsError::Busy`] when its data are not those that were copied, or somebody may write it; [`NsError::Stale`] when
    /// one of the two is gone.
    pub fn finish_restripe(
        &self,
        op: &mut Op<'_>,
        (file, was): (FileId, Placement),
        nameless: FileId,
    ) -> Result<Arc<Inode>, NsError> {
        self.write(op, |txn| {
            txn.purpose(Purpose::Removal);
            let before = txn.regular(file)?;
            let from = txn.regular(nameless)?;
            if !txn.has_record(keys::ORPHAN, nameless.0)? || from.moved_data().is_some() {
                return Err(NsError::Stale);
            }
            let is_busy = txn.truncation(file)?.is_some() || txn.has_layouts_out(file)?;
            if is_busy || before.placement != Some(was) || from.placement.is_none() {
                return Err(NsError::Busy);
            }
            remove::queue(txn, &before, was)?;
            if let Some(old) = before.moved_data() {
                txn.delete_record(keys::DATA_NAME, old.file.0);
            }
            foreign::discard(txn, &from);
            if txn.rw_out(nameless)?.is_some() {
                txn.set_rw_out(nameless, None)?;
            }
            txn.drop_inode(nameless)?;
            txn.delete_record(keys::ORPHAN, nameless.0);
            txn.put_record(keys::DATA_NAME, nameless.0, &records::encode(&file));
            foreign::take_mirrors(txn, file, &from)?;
            let after = txn.touch(file)?;
            after.placement = from.placement;
            after.space_used = from.space_used;
            let data = DataName {
                file: nameless,
                generation: from.generation,
            };
            after.extras.edit(|rare| rare.data = Some(data));
            Ok(Arc::new(after.clone()))
        })
    }

    /// Gives a file that is being cut to nothing another place, and objects there that nobody has made yet. What it had is queued to be
    /// removed. Nobody may have a handle for it. Until the truncation is ended nobody may read or write it.
    ///
    /// # Errors
    /// [`NsError::Busy`] unless such a truncation is under way, nobody may write the file, and it lies at `was`; [`NsError::Stale`],
    /// [`NsError::Inval`] unless it is a regular file.
    pub fn begin_anew(
        &self,
        op: &mut Op<'_>,
        (file, was): (FileId, Placement),
        placement: Placement,
    ) -> Result<Arc<Inode>, NsError> {
        self.write(op, |txn| {
            txn.purpose(Purpose::Removal);
            let before = txn.regular(file)?;
            let is_emptied = txn
                .truncation(file)?
                .is_some_and(|intent| intent.new_size == 0);
            if !is_emptied || txn.has_layouts_out(file)? || before.placement != Some(was) {
                return Err(NsError::Busy);
            }
            remove::queue(txn, &before, was)?;
            if let Some(old) = before.moved_data() {
                txn.delete_record(keys::DATA_NAME, old.file.0);
            }
            foreign::discard(txn, &before);
            let data = DataName {
                file: txn.allocate()?,
                generation: 1,
            };
            txn.put_record(keys::DATA_NAME, data.file.0, &records::encode(&file));
            let after = txn.touch(file)?;
            after.placement = Some(placement);
            after.space_used = 0;
            after.extras.edit(|rare| {
                rare.data = Some(data);
                rare.foreign = rare.foreign.map(|_| ForeignTree::default());
            });
            Ok(Arc::new(after.clone()))
        })
    }

    /// Has clients read again what an extended attribute tells of a file's layout: its restriping has ended.
    ///
    /// # Errors
    /// [`NsError::Stale`].
    pub fn note_restripe_ended(&self, op: &mut Op<'_>, file: FileId) -> Result<(), NsError> {
        self.write(op, |txn| txn.touch(file).map(drop))
    }

    /// The file whose objects data servers know by a file and a generation.
    ///
    /// # Errors
    /// [`NsError::Stale`] when no file has them.
    pub fn resolve_data(
        &self,
        op: &mut Op<'_>,
        file: FileId,
        generation: u32,
    ) -> Result<Arc<Inode>, NsError> {
        let inode = self.owner_of_data(op, file)?;
        match inode.data() == (DataName { file, generation }) {
            true => Ok(inode),
            false => Err(NsError::Stale),
        }
    }

    /// The file that has objects which data servers know by this number.
    ///
    /// # Errors
    /// [`NsError::Stale`] when there is none.
    pub fn owner_of_data(&self, op: &mut Op<'_>, file: FileId) -> Result<Arc<Inode>, NsError> {
        match self.getattr(op, file) {
            Err(NsError::Stale) => {
                let key = keys::numbered(keys::DATA_NAME, file.0);
                let stored = self.store.get(&key)?.ok_or(NsError::Stale)?;
                let owner: FileId = records::decode(&stored, "name of objects")?;
                self.getattr(op, owner)
            }
            found => found,
        }
    }
}
