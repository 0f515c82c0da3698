//! RENAME: a file changes its name, and may take another's place, all at once.
//!
//! # Ordering
//! The way up from the new parent to the root is walked inside the transaction. No other rename can move a directory
//! meanwhile, so a directory never ends up below itself.

use crate::inode::Inode;
use crate::ops::foreign::check_tree;
use crate::ops::remove::unlink;
use crate::perm::making;
use crate::rights::{EXECUTE, WRITE};
use crate::txn::Txn;
use crate::{ChangeInfo, Cred, FileId, Namespace, NsError, Op, Time};
use std::sync::Arc;

/// Directories on the way up to the root; a longer way is a loop.
const DEPTH_MAX: u32 = 1 << 20;

/// A rename that succeeded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Renamed {
    /// Change counter of the directory of the old name.
    pub from: ChangeInfo,
    /// Change counter of the directory of the new name.
    pub to: ChangeInfo,
    /// The inode that moved, after the transaction.
    pub inode: Arc<Inode>,
    /// The inode that had the new name before, after the transaction.
    pub replaced: Option<Arc<Inode>>,
    /// The replaced one lost its last name but is open: it lives until `orphan_closed`.
    pub orphaned: bool,
}

impl Namespace {
    /// Renames. Both names of the same file: nothing happens (RFC 8881 §18.26.3). `is_open` is as in
    /// [`Namespace::remove`].
    ///
    /// # Errors
    /// - [`NsError::IsDir`], [`NsError::NotDir`]: a directory and something else would take each other's place.
    /// - [`NsError::Inval`]: a directory into itself.
    /// - [`NsError::OtherTree`]: from an own tree to a foreign one, or back.
    /// - [`NsError::NoEnt`], [`NsError::NotEmpty`], [`NsError::MLink`], [`NsError::Access`], [`NsError::Perm`], and those of a bad
    ///   name.
    pub fn rename(
        &self,
        op: &mut Op<'_>,
        (from, from_name): (FileId, &[u8]),
        (to, to_name): (FileId, &[u8]),
        is_open: &dyn Fn(FileId) -> bool,
    ) -> Result<Renamed, NsError> {
        let (cred, now) = (op.cred, op.now);
        self.look_ahead(to, to_name)?;
        self.write(op, |txn| {
            let from_dir = txn.dir(cred, from, EXECUTE)?;
            let to_dir = txn.dir(cred, to, EXECUTE)?;
            let source = txn.entry(from, from_name)?;
            let target = txn.entry(to, to_name)?;
            let source = source.ok_or(NsError::NoEnt)?.file;
            let source = txn.entry_inode(source)?;
            let target = match target {
                Some(entry) => Some(txn.entry_inode(entry.file)?),
                None => None,
            };
            if target.as_ref().is_some_and(|t| t.id == source.id) {
                return Ok(nothing(&from_dir, &to_dir, source));
            }
            check_rename(cred, &from_dir, &to_dir, &source, target.as_deref())?;
            check_tree(&from_dir, &to_dir)?;
            check_descent(txn, &source, &to_dir, target.as_deref())?;
            let (replaced, orphaned) = match &target {
                Some(target) => {
                    let (inode, orphaned) = unlink(txn, target.id, now, is_open)?;
                    (Some(inode), orphaned)
                }
                None => (None, false),
            };
            txn.remove_entry(from, from_name)?;
            txn.set_entry(to, to_name, source.id, source.kind)?;
            let inode = move_counts(txn, &from_dir, &to_dir, &source, target.as_deref(), now)?;
            Ok(Renamed {
                from: change_info(txn, &from_dir)?,
                to: change_info(txn, &to_dir)?,
                inode,
                replaced,
                orphaned,
            })
        })
    }
}

fn nothing(from: &Inode, to: &Inode, inode: Arc<Inode>) -> Renamed {
    let same = |dir: &Inode| ChangeInfo {
        before: dir.change,
        after: dir.change,
    };
    Renamed {
        from: same(from),
        to: same(to),
        inode,
        replaced: None,
        orphaned: false,
    }
}

fn change_info(txn: &mut Txn<'_>, before: &Inode) -> Result<ChangeInfo, NsError> {
    Ok(ChangeInfo {
        before: before.change,
        after: txn.need(before.id)?.change,
    })
}

/// Permissions and types.
fn check_rename(
    cred: &Cred,
    from: &Inode,
    to: &Inode,
    source: &Inode,
    target: Option<&Inode>,
) -> Result<(), NsError> {
    cred.require_removable(from, source)?;
    cred.require(to, making(source.is_dir()))?;
    if source.is_dir() && from.id != to.id {
        // Its ".." changes, which is an entry of the directory itself.
        cred.require(source, WRITE)?;
    }
    let Some(target) = target else {
        return Ok(());
    };
    cred.require_removable(to, target)?;
    match (source.is_dir(), target.is_dir()) {
        (true, false) => Err(NsError::NotDir),
        (false, true) => Err(NsError::IsDir),
        (true, true) if target.size > 0 => Err(NsError::NotEmpty),
        _ => Ok(()),
    }
}

/// A directory must not become its own descendant, nor its new parent have too many.
fn check_descent(
    txn: &mut Txn<'_>,
    source: &Inode,
    to: &Arc<Inode>,
    target: Option<&Inode>,
) -> Result<(), NsError> {
    if !source.is_dir() || source.parent == to.id {
        return Ok(());
    }
    if target.is_none() && to.nlink >= txn.link_count_max() {
        return Err(NsError::MLink);
    }
    let mut at = to.clone();
    for _ in 0..DEPTH_MAX {
        if at.id == source.id {
            return Err(NsError::Inval);
        }
        if at.id == FileId::ROOT {
            return Ok(());
        }
        at = txn.entry_inode(at.parent)?;
    }
    Err(NsError::corrupt("directories form a loop"))
}

/// Counters, times and the parent of the moved inode; returns it.
fn move_counts(
    txn: &mut Txn<'_>,
    from: &Inode,
    to: &Inode,
    source: &Inode,
    target: Option<&Inode>,
    now: Time,
) -> Result<Arc<Inode>, NsError> {
    let is_dir = u32::from(source.is_dir());
    let dir = txn.touch(from.id)?;
    dir.size = dir.size.saturating_sub(1);
    dir.nlink = dir.nlink.saturating_sub(is_dir);
    dir.mtime = now;
    dir.ctime = now;
    let dir = txn.touch(to.id)?;
    if target.is_none() {
        dir.size += 1;
        dir.nlink += is_dir;
    }
    dir.mtime = now;
    dir.ctime = now;
    let inode = txn.touch(source.id)?;
    inode.ctime = now;
    inode.parent = to.id;
    Ok(Arc::new(inode.clone()))
}
