//! SETATTR: who may change which attribute, and what follows from it.

use crate::inline_record;
use crate::inode::{FileType, Inode};
use crate::mode::{MODE_BITS, SYMLINK_MODE};
use crate::perm::{mode_after_chmod, mode_after_chown, mode_after_write};
use crate::rights::{WRITE, WRITE_ACL, WRITE_ATTRIBUTES, WRITE_OWNER};
use crate::txn::Txn;
use crate::{Acl, Cred, FileId, Marks, Namespace, NsError, Op, Time};
use meta::Purpose;
use std::sync::Arc;

/// Largest file size: a signed 64-bit offset.
pub const FILE_SIZE_MAX: u64 = i64::MAX.unsigned_abs();
/// Nanoseconds in a second.
const NANOS: u32 = 1_000_000_000;
/// Age at which a read renews an access time that nothing else outdates, as relatime does.
const ATIME_AGE_S: i64 = 24 * 3600;

/// A time to set (settime4, RFC 8881 §3.3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetTime {
    /// The server's now.
    Server,
    /// This.
    Client(Time),
}

impl SetTime {
    pub(crate) fn resolve(time: Option<Self>, now: Time) -> Result<Option<Time>, NsError> {
        match time {
            None => Ok(None),
            Some(Self::Server) => Ok(Some(now)),
            Some(Self::Client(time)) if time.nanos < NANOS => Ok(Some(time)),
            Some(Self::Client(_)) => Err(NsError::Inval),
        }
    }
}

/// Marks to set; see [`Marks`](crate::Marks).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SetMarks {
    /// Hidden.
    pub hidden: Option<bool>,
    /// A system file.
    pub system: Option<bool>,
    /// Archived as it is now.
    pub archived: Option<bool>,
    /// Time of the last backup.
    pub backup: Option<Time>,
}

impl SetMarks {
    /// Sets them on an inode whose other attributes are set already. Who sets a time modifies nothing: what `was_archived` is
    /// so still.
    pub(crate) fn apply(&self, inode: &mut Inode, was_archived: bool) -> Result<(), NsError> {
        let backup = SetTime::resolve(self.backup.map(SetTime::Client), Time::default())?;
        let before = inode.marks();
        let archived = self.archived.unwrap_or(was_archived);
        let after = Marks {
            hidden: self.hidden.unwrap_or(before.hidden),
            system: self.system.unwrap_or(before.system),
            archived: archived.then_some(inode.mtime),
            backup: backup.unwrap_or(before.backup),
        };
        if after != before {
            inode.extras.edit(|rare| rare.marks = after);
        }
        Ok(())
    }
}

/// Attributes to set.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SetAttr {
    /// Permission bits.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Size. Only one that cannot cut data off; see [`NsError::NeedsTruncate`].
    pub size: Option<u64>,
    /// Access time.
    pub atime: Option<SetTime>,
    /// Modification time.
    pub mtime: Option<SetTime>,
    /// Creation time.
    pub btime: Option<Time>,
    /// Access control list; set after the mode (RFC 8881 §6.4.1.3).
    pub acl: Option<Acl>,
    /// Marks.
    pub marks: SetMarks,
}

/// A SETATTR that succeeded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttrsSet {
    /// The inode after the transaction.
    pub inode: Arc<Inode>,
    /// Handles given out so far must stop working. Somebody lost rights on a regular file, or the file gained set-id
    /// bits, which only a write through the metadata server takes away. The epoch was raised in the same transaction,
    /// and the caller fences what was granted before it replies (R10).
    pub access_narrowed: bool,
}

impl Namespace {
    /// Sets attributes, all or none. `opened_for_write` says that the caller holds the file open for
    /// writing, which allows a new size whatever the mode says by now.
    ///
    /// # Errors
    /// - [`NsError::Perm`]: only the owner or root may.
    /// - [`NsError::Access`]: write permission would allow it.
    /// - [`NsError::NeedsTruncate`]: a size below the present one of a placed file, or one of a file with unreported data.
    /// - [`NsError::Busy`]: a size during a truncation.
    /// - [`NsError::AclTooLong`]: a mode that would make the list too long.
    /// - [`NsError::Inval`], [`NsError::IsDir`], [`NsError::FileTooBig`].
    pub fn setattr(
        &self,
        op: &mut Op<'_>,
        file: FileId,
        attrs: &SetAttr,
        opened_for_write: bool,
    ) -> Result<AttrsSet, NsError> {
        let (cred, now) = (op.cred, op.now);
        self.write(op, |txn| {
            let before = txn.need(file)?;
            if *attrs == SetAttr::default() {
                return Ok(AttrsSet {
                    inode: before,
                    access_narrowed: false,
                });
            }
            let mut after = changed(&before, cred, attrs, now)?;
            if let Some(size) = attrs.size {
                check_resize(&before, cred, size, opened_for_write)?;
                if txn.truncation(file)?.is_some() {
                    return Err(NsError::Busy);
                }
                if before.is_inline() {
                    inline_record::cut(txn, &mut after, size)?;
                } else if size < before.size || txn.has_layouts_out(file)? {
                    return Err(NsError::NeedsTruncate);
                }
                resize(&mut after, size, cred, attrs, now);
            }
            let access_narrowed =
                narrows(&before, &after) || after.has_privileges() && !before.has_privileges();
            let epoch = after.epoch.checked_add(u32::from(access_narrowed));
            after.epoch = epoch.ok_or(NsError::TooMany)?;
            let inode = replace(txn, after)?;
            Ok(AttrsSet {
                inode,
                access_narrowed,
            })
        })
    }

    /// Sets access times that reads have moved. The change attribute and ctime stay: no client drops its cache for a read.
    /// A file whose access time is no longer the one before the read keeps what was set since. Files that are gone are
    /// passed over.
    ///
    /// # Errors
    /// Only the store's.
    pub fn set_atimes(&self, op: &mut Op<'_>, reads: &[AtimeMove]) -> Result<(), NsError> {
        self.write(op, |txn| {
            txn.purpose(Purpose::Upkeep);
            for read in reads {
                let inode = match txn.need(read.file) {
                    Ok(inode) => inode,
                    Err(NsError::Stale) => continue,
                    Err(e) => return Err(e),
                };
                if inode.atime == read.before {
                    txn.touch_quietly(read.file)?.atime = read.after;
                }
            }
            Ok(())
        })
    }
}

/// An access time that a read has moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AtimeMove {
    /// The file that was read.
    pub file: FileId,
    /// Its access time before.
    pub before: Time,
    /// The time of the read.
    pub after: Time,
}

impl Inode {
    /// Whether a read at `now_s` moves the access time `atime` in the manner of relatime. It does when `atime` is not
    /// newer than the last change, or is a day old.
    #[must_use]
    pub fn is_atime_due(&self, atime: Time, now_s: i64) -> bool {
        let age_s = now_s.saturating_sub(atime.secs);
        atime <= self.mtime || atime <= self.ctime || age_s >= ATIME_AGE_S
    }
}

/// The owner may not give a file away: only root.
pub(crate) fn require_owner(cred: &Cred) -> Result<(), NsError> {
    if cred.is_root {
        Ok(())
    } else {
        Err(NsError::Perm)
    }
}

/// A group to give a file to: one's own, or root's choice.
pub(crate) fn require_group(cred: &Cred, gid: u32) -> Result<(), NsError> {
    if cred.is_root || cred.in_group(gid) {
        Ok(())
    } else {
        Err(NsError::Perm)
    }
}

/// Whether `cred` may give the file `size` at all.
pub(crate) fn check_resize(
    inode: &Inode,
    cred: &Cred,
    size: u64,
    opened_for_write: bool,
) -> Result<(), NsError> {
    if inode.is_dir() {
        return Err(NsError::IsDir);
    }
    if !inode.is_regular() {
        return Err(NsError::Inval);
    }
    if size > FILE_SIZE_MAX {
        return Err(NsError::FileTooBig);
    }
    if opened_for_write {
        Ok(())
    } else {
        cred.require(inode, WRITE)
    }
}

/// Sets the size and what a write changes, unless the same request sets that itself.
pub(crate) fn resize(inode: &mut Inode, size: u64, cred: &Cred, attrs: &SetAttr, now: Time) {
    inode.size = size;
    if attrs.mtime.is_none() {
        inode.mtime = now;
    }
    if attrs.mode.is_none() {
        inode.mode = mode_after_write(inode, cred);
    }
    inode.ctime = now;
    let archived = (attrs.marks.archived == Some(true)).then_some(inode.mtime);
    if inode.marks().archived != archived {
        inode.extras.edit(|rare| rare.marks.archived = archived);
    }
}

/// The inode with everything but the size set.
pub(crate) fn changed(
    before: &Inode,
    cred: &Cred,
    attrs: &SetAttr,
    now: Time,
) -> Result<Inode, NsError> {
    let mut after = before.clone();
    if let Some(uid) = attrs.uid {
        let same = cred.owns(before) && uid == before.uid;
        let takes_over = uid == cred.uid && cred.rights(before) & WRITE_OWNER != 0;
        if !same && !takes_over {
            require_owner(cred)?;
        }
        after.uid = uid;
    }
    if let Some(gid) = attrs.gid {
        if !cred.owns(before) {
            cred.require_owners(before, WRITE_OWNER)?;
        }
        if gid != before.gid {
            require_group(cred, gid)?;
        }
        after.gid = gid;
    }
    if attrs.uid.is_some() || attrs.gid.is_some() {
        after.mode = mode_after_chown(before, cred);
    }
    if let Some(mode) = attrs.mode {
        cred.require_owners(before, WRITE_ACL)?;
        if mode & !MODE_BITS != 0 {
            return Err(NsError::Inval);
        }
        after.mode = mode_after_chmod(mode, after.gid, cred);
        if let Some(acl) = before.acl() {
            let acl = acl.chmod(after.mode, before.is_dir())?;
            after.extras.edit(|rare| rare.acl = acl);
        }
    }
    if let Some(acl) = &attrs.acl {
        cred.require_owners(before, WRITE_ACL)?;
        let acl = acl.clone().settled(before.is_dir());
        after.mode = after.mode & !0o777 | acl.mode();
        let acl = acl.unless_trivial(before.is_dir());
        after.extras.edit(|rare| rare.acl = acl);
    }
    let btime = attrs.btime.map(SetTime::Client);
    for time in [attrs.atime, attrs.mtime, btime].into_iter().flatten() {
        match time {
            _ if cred.rights(before) & WRITE_ATTRIBUTES != 0 => {}
            SetTime::Server => cred.require(before, WRITE)?,
            SetTime::Client(_) => return Err(NsError::Perm),
        }
    }
    after.atime = SetTime::resolve(attrs.atime, now)?.unwrap_or(after.atime);
    after.mtime = SetTime::resolve(attrs.mtime, now)?.unwrap_or(after.mtime);
    after.btime = SetTime::resolve(btime, now)?.unwrap_or(after.btime);
    if attrs.marks != SetMarks::default() {
        cred.require_owners(before, WRITE_ATTRIBUTES)?;
    }
    attrs.marks.apply(&mut after, before.is_archived())?;
    if after.kind == FileType::Symlink {
        after.mode = SYMLINK_MODE;
    }
    after.ctime = now;
    after.verifier = None;
    Ok(after)
}

/// Whether anybody may have lost read or write permission.
fn narrows(before: &Inode, after: &Inode) -> bool {
    let moved = (before.uid, before.gid) != (after.uid, after.gid);
    let taken = before.mode & !after.mode & 0o666 != 0;
    let listed = before.acl() != after.acl();
    before.is_regular() && (moved || taken || listed)
}

/// Puts the changed inode in place and raises its change counter.
pub(crate) fn replace(txn: &mut Txn<'_>, after: Inode) -> Result<Arc<Inode>, NsError> {
    let inode = txn.touch(after.id)?;
    let change = inode.change;
    *inode = Inode { change, ..after };
    Ok(Arc::new(inode.clone()))
}
