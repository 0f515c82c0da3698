//! The state of a file's data: sizes that data servers report, truncations, fencing epochs.
//!
//! # Ownership
//! These calls are the MDS's own: none checks permissions but [`Namespace::begin_truncate`], which a
//! client asks for.
//!
//! # Ordering
//! *RW out* (R1): the mark is durable before the layout is granted, and goes only after the last one for
//! writing was returned or fenced and the size taken. *Truncate* (R3): the intent and the raised epoch
//! are durable before any data server is told; the size changes only after all of them did.
//!
//! # Failure
//! After a restart [`Namespace::rw_out_files`] and [`Namespace::truncate_intents`] list what was under
//! way; both are safe to do again.

use crate::inode::{Inode, in_blocks};
use crate::ops::setattr::{SetAttr, changed, check_resize, replace, resize};
use crate::perm::mode_after_write;
use crate::records::{self, OWN_WRITER, RW_OUT_CLIENTS_MAX, RwOut, TruncateIntent};
use crate::txn::Txn;
use crate::{Cred, FileId, Namespace, NsError, Op, PAGE_MAX, Placement, Time, keys};
use meta::Purpose;
use std::sync::Arc;
use xdr::Decode;

/// What a LAYOUTCOMMIT, a FILE_SYNC report of a data server, or a recovery says of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SizeCommit {
    /// End of the written bytes; the file grows to it and never shrinks.
    pub new_end: Option<u64>,
    /// Time of the last write when the client knows it; now otherwise (R12).
    pub mtime: Option<Time>,
    /// Bytes that the objects take up, when known. Otherwise what the file grows by is added, as if it had no hole.
    pub space_used: Option<u64>,
    /// Bytes of storage that the objects have taken since they were last measured, in place of what the file grows by.
    pub taken_bytes: Option<u64>,
    /// The change attribute becomes at least this: what an earlier boot showed and lost is below it.
    pub change_from: Option<u64>,
}

/// A file changes less often than 2 to this in one boot: once a microsecond for twelve days.
const CHANGES_PER_BOOT_BITS: u32 = 40;

impl Namespace {
    /// Marks the file "RW out" for a client, or for [`OWN_WRITER`]. The mark must be durable before the layout is granted, or the
    /// first byte is written. `stamps` is what [`RwOut::stamps`] says; a file that a client has marked already keeps those it has.
    ///
    /// # Errors
    /// [`NsError::Stale`], [`NsError::Inval`] unless it is a regular file, [`NsError::TooMany`] clients.
    pub fn mark_rw_out(
        &self,
        op: &mut Op<'_>,
        file: FileId,
        client: u64,
        stamps: &[Time],
    ) -> Result<(), NsError> {
        self.write(op, |txn| {
            if client == OWN_WRITER {
                // As what is written: see `commit_size`.
                txn.purpose(Purpose::Upkeep);
            }
            txn.regular(file)?;
            let mark = txn.rw_out(file)?.unwrap_or_default();
            let Err(at) = mark.clients.0.binary_search(&client) else {
                return Ok(());
            };
            let mut mark = (*mark).clone();
            if !mark.has_layouts() {
                mark.stamps = stamps.to_vec().into();
            }
            if mark.clients.0.len() >= RW_OUT_CLIENTS_MAX as usize {
                return Err(NsError::TooMany);
            }
            mark.clients.0.insert(at, client);
            txn.set_rw_out(file, Some(mark))
        })
    }

    /// Takes a client, or all, off the file's mark. Returns whether the file is still marked. Clearing
    /// what is not marked is nothing.
    ///
    /// # Errors
    /// Only the store's.
    pub fn clear_rw_out(
        &self,
        op: &mut Op<'_>,
        file: FileId,
        client: Option<u64>,
    ) -> Result<bool, NsError> {
        self.write(op, |txn| {
            txn.purpose(Purpose::Removal);
            let Some(mark) = txn.rw_out(file)? else {
                return Ok(false);
            };
            let mut mark = (*mark).clone();
            let before = mark.clients.0.len();
            mark.clients
                .0
                .retain(|c| client.is_some_and(|gone| gone != *c));
            let left = mark.clients.0.len();
            if left < before || left == 0 {
                txn.set_rw_out(file, (left > 0).then_some(mark))?;
            }
            Ok(left > 0)
        })
    }

    /// Whether the file has an RW-out mark that is durable. A restart then asks the data servers for its size and times.
    /// So what was taken in since the mark needs no sync of its own. In doubt false.
    #[must_use]
    pub fn is_rw_out_durable(&self, file: FileId) -> bool {
        let mark = self.rw_out.peek(&file);
        mark.is_some_and(|hit| hit.value.is_some() && hit.seq <= self.store.durable_through())
    }

    /// The least change attribute of a file that is recovered in this boot, whatever an earlier one showed of it.
    #[must_use]
    pub const fn recovered_change(&self) -> u64 {
        (self.boot as u64) << CHANGES_PER_BOOT_BITS
    }

    /// Marked files with numbers above `after`, ascending, at most `limit` (and [`PAGE_MAX`]).
    ///
    /// # Errors
    /// Only the store's.
    pub fn rw_out_files(
        &self,
        op: &mut Op<'_>,
        after: FileId,
        limit: usize,
    ) -> Result<Vec<(FileId, RwOut)>, NsError> {
        let records = self.page(op, keys::RW_OUT, after.0, limit, "RW-out mark")?;
        Ok(records.into_iter().map(|(n, r)| (FileId(n), r)).collect())
    }

    /// Takes off the set-id bits that a write by the caller takes off (POSIX write; Linux' file_remove_privs), before it
    /// writes. Without them nothing changes.
    ///
    /// # Errors
    /// [`NsError::Stale`], [`NsError::Inval`] unless it is a regular file.
    pub fn drop_privileges(&self, op: &mut Op<'_>, file: FileId) -> Result<Arc<Inode>, NsError> {
        let (cred, now) = (op.cred, op.now);
        self.write(op, |txn| {
            txn.purpose(Purpose::Removal);
            let inode = txn.regular(file)?;
            let mode = mode_after_write(&inode, cred);
            if mode == inode.mode {
                return Ok(inode);
            }
            let mut after = (*inode).clone();
            (after.mode, after.ctime) = (mode, now);
            replace(txn, after)
        })
    }

    /// Takes in what was written: the file may grow, never shrinks, and its change attribute and mtime
    /// always move (R12).
    ///
    /// # Errors
    /// [`NsError::Stale`], [`NsError::Inval`] unless it is a regular file, [`NsError::FileTooBig`].
    pub fn commit_size(
        &self,
        op: &mut Op<'_>,
        file: FileId,
        commit: SizeCommit,
    ) -> Result<Arc<Inode>, NsError> {
        let (cred, now) = (op.cred, op.now);
        self.write(op, |txn| {
            txn.purpose(Purpose::Upkeep);
            let mut inode = (*txn.regular(file)?).clone();
            if let Some(least) = commit.change_from {
                let change = &mut txn.touch(file)?.change;
                *change = least.max(*change);
            }
            let space_used = inode.space_used;
            if let Some(end) = commit.new_end {
                check_resize(&inode, cred, end, true)?;
                let grown = in_blocks(end).saturating_sub(in_blocks(inode.size));
                let taken = commit.taken_bytes.unwrap_or(grown);
                inode.space_used = inode.space_used.saturating_add(taken);
                inode.size = inode.size.max(end);
            }
            inode.space_used = match inode.is_inline() {
                true => space_used,
                false => commit.space_used.unwrap_or(inode.space_used),
            };
            note_written(&mut inode, cred, now);
            inode.mtime = commit.mtime.unwrap_or(now);
            replace(txn, inode)
        })
    }

    /// Notes what the objects of files take up. The change attribute stays: nothing that a client keeps in its cache for
    /// it has changed. Files that are gone are passed over.
    ///
    /// # Errors
    /// Only the store's.
    pub fn set_space_used(&self, op: &mut Op<'_>, files: &[(FileId, u64)]) -> Result<(), NsError> {
        let mut changed = Vec::new();
        for (file, used) in files {
            match self.getattr(op, *file) {
                Ok(inode) if inode.is_inline() => {}
                Ok(inode) if inode.space_used != *used => changed.push((*file, *used)),
                Ok(_) | Err(NsError::Stale) => {}
                Err(e) => return Err(e),
            }
        }
        if changed.is_empty() {
            return Ok(());
        }
        self.write(op, |txn| {
            txn.purpose(Purpose::Upkeep);
            for (file, used) in &changed {
                match txn.touch_quietly(*file) {
                    Ok(inode) => inode.space_used = *used,
                    Err(NsError::Stale) => {}
                    Err(e) => return Err(e),
                }
            }
            Ok(())
        })
    }

    /// Gives a file without bytes another place. Nobody may have a handle of the one that it had, and its objects hold nothing.
    ///
    /// # Errors
    /// [`NsError::Stale`], [`NsError::Inval`] unless it is a regular file, [`NsError::Busy`] when it has bytes or is inline.
    pub fn take_place(
        &self,
        op: &mut Op<'_>,
        file: FileId,
        place: Placement,
    ) -> Result<Arc<Inode>, NsError> {
        self.write(op, |txn| {
            txn.purpose(Purpose::Upkeep);
            let mut inode = (*txn.regular(file)?).clone();
            if inode.size > 0 || inode.is_inline() {
                return Err(NsError::Busy);
            }
            inode.placement = Some(place);
            inode.extras.edit(|rare| {
                if let Some(foreign) = &mut rare.foreign {
                    foreign.has_objects = false;
                }
            });
            replace(txn, inode)
        })
    }

    /// Begins to change the size of a file that may have data beyond the new one. It writes the intent and, with
    /// `fence`, raises the epoch. Without `fence` no handle but the caller's own may be out. The other attributes of
    /// the request are checked now and set at the end.
    ///
    /// # Errors
    /// [`NsError::Busy`] while another truncation is under way, and for an inline file; otherwise as [`Namespace::setattr`].
    pub fn begin_truncate(
        &self,
        op: &mut Op<'_>,
        file: FileId,
        new_size: u64,
        attrs: &SetAttr,
        opened_for_write: bool,
        fence: bool,
    ) -> Result<TruncateIntent, NsError> {
        let (cred, now) = (op.cred, op.now);
        self.write(op, |txn| {
            txn.purpose(Purpose::Removal);
            let inode = txn.need(file)?;
            check_resize(&inode, cred, new_size, opened_for_write)?;
            changed(&inode, cred, attrs, now)?;
            if txn.truncation(file)?.is_some() || inode.is_inline() {
                return Err(NsError::Busy);
            }
            let mut after = if fence {
                raise(txn, file)?
            } else {
                (*inode).clone()
            };
            // Before any byte goes, as with a write; a mode that the request names is set at the end.
            let mode = mode_after_write(&after, cred);
            if mode != after.mode {
                (after.mode, after.ctime) = (mode, now);
                after = (*replace(txn, after)?).clone();
            }
            let intent = TruncateIntent {
                file,
                old_size: inode.size,
                new_size,
                floor: txn.fencing_epoch(&after),
            };
            txn.begin_truncation(&intent);
            Ok(intent)
        })
    }

    /// Ends a truncation: the size is the new one, and `attrs` (its size is ignored) are set with it.
    /// After a restart the attributes of the request are not known; pass none.
    ///
    /// # Errors
    /// [`NsError::Inval`] when none is under way, [`NsError::Stale`] when the file is gone, and as
    /// [`Namespace::setattr`] when permissions changed meanwhile.
    pub fn finish_truncate(
        &self,
        op: &mut Op<'_>,
        file: FileId,
        attrs: &SetAttr,
    ) -> Result<Arc<Inode>, NsError> {
        let (cred, now) = (op.cred, op.now);
        self.write(op, |txn| {
            txn.purpose(Purpose::Removal);
            let before = txn.regular(file)?;
            let intent = txn.truncation(file)?.ok_or(NsError::Inval)?;
            let set = SetAttr {
                size: None,
                ..attrs.clone()
            };
            let mut after = if set == SetAttr::default() {
                (*before).clone()
            } else {
                changed(&before, cred, &set, now)?
            };
            resize(&mut after, intent.new_size, cred, &set, now);
            after.space_used = after.space_used.min(in_blocks(intent.new_size));
            txn.end_truncation(file);
            replace(txn, after)
        })
    }

    /// Truncations under way on files with numbers above `after`, at most `limit` (and [`PAGE_MAX`]).
    ///
    /// # Errors
    /// Only the store's.
    pub fn truncate_intents(
        &self,
        op: &mut Op<'_>,
        after: FileId,
        limit: usize,
    ) -> Result<Vec<TruncateIntent>, NsError> {
        let records = self.page(op, keys::TRUNCATE, after.0, limit, "truncate intent")?;
        Ok(records.into_iter().map(|(_, r)| r).collect())
    }

    /// Raises the file's fencing epoch: what was granted so far must stop working (R10). The change
    /// attribute stays, for no attribute changes. Returns the new epoch.
    ///
    /// # Errors
    /// [`NsError::Stale`], [`NsError::Inval`] unless it is a regular file.
    pub fn raise_epoch(&self, op: &mut Op<'_>, file: FileId) -> Result<u64, NsError> {
        self.write(op, |txn| {
            txn.purpose(Purpose::Removal);
            txn.regular(file)?;
            let inode = raise(txn, file)?;
            Ok(txn.fencing_epoch(&inode))
        })
    }

    /// Records of one tag with numbers above `after`.
    pub(crate) fn page<T: for<'a> Decode<'a>>(
        &self,
        op: &mut Op<'_>,
        tag: u8,
        after: u64,
        limit: usize,
        what: &str,
    ) -> Result<Vec<(u64, T)>, NsError> {
        let pairs = self.page_of(op, tag, after, limit)?;
        let record = |(key, value): &meta::Pair| {
            let number = keys::number_of(key).ok_or_else(|| NsError::corrupt(what))?;
            Ok((number, records::decode(value, what)?))
        };
        pairs.iter().map(record).collect()
    }

    /// Records of a tag after a number, as they are stored.
    pub(crate) fn page_of(
        &self,
        op: &mut Op<'_>,
        tag: u8,
        after: u64,
        limit: usize,
    ) -> Result<Vec<meta::Pair>, NsError> {
        let Some(from) = after.checked_add(1) else {
            return Ok(Vec::new());
        };
        let (start, end) = (keys::numbered(tag, from), meta::prefix_end(&[tag]));
        // Kept out while a transaction commits, so that the newest number covers what the scan sees.
        let _writer = self.writer.lock();
        let pairs = self.store.scan(&start, &end, limit.min(PAGE_MAX))?;
        op.observe(self.store.applied());
        Ok(pairs)
    }
}

/// Sets what a write changes beside size and space.
pub(crate) fn note_written(inode: &mut Inode, cred: &Cred, now: Time) {
    inode.mtime = now;
    inode.ctime = now;
    inode.note_modified();
    inode.mode = mode_after_write(inode, cred);
}

fn raise(txn: &mut Txn<'_>, file: FileId) -> Result<Inode, NsError> {
    let inode = txn.touch_quietly(file)?;
    let raised = inode.epoch.checked_add(1);
    inode.epoch = raised.ok_or(NsError::TooMany)?;
    Ok(inode.clone())
}
