//! New inodes: files for OPEN, directories, symlinks, devices, pipes and sockets.

use crate::inode::{FileType, Inode, SYMLINK_BYTES_MAX};
use crate::mode::{GROUP_EXECUTE, MODE_BITS, SETGID, SYMLINK_MODE};
use crate::ops::setattr::{SetMarks, SetTime, require_group, require_owner};
use crate::perm::making;
use crate::rights::EXECUTE;
use crate::txn::Txn;
use crate::{
    Acl, ChangeInfo, Cred, Device, Extras, FileId, ForeignTree, Namespace, NsError, Op, Placement,
    Time,
};
use std::sync::Arc;
use xdr::OpaqueBuf;

/// Attributes of an inode at its creation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NewNode {
    /// Permission bits.
    pub mode: u32,
    /// Bits to take off them, unless what the directory hands down allows them (RFC 8275).
    pub umask: u32,
    /// Whether nobody named the mode: then what the directory hands down decides alone.
    pub mode_is_default: bool,
    /// Access control list; the directory then hands down none.
    pub acl: Option<Acl>,
    /// Owner, when not the caller: root only.
    pub uid: Option<u32>,
    /// Group, when not the caller's or the directory's: one of the caller's groups, or root.
    pub gid: Option<u32>,
    /// Access time, when not now.
    pub atime: Option<SetTime>,
    /// Modification time, when not now.
    pub mtime: Option<SetTime>,
    /// Creation time, when not now.
    pub btime: Option<Time>,
    /// Marks.
    pub marks: SetMarks,
}

impl NewNode {
    /// A mode that somebody named, and everything else by default.
    #[must_use]
    pub fn mode(mode: u32) -> Self {
        Self {
            mode,
            ..Self::default()
        }
    }
}

/// What to do when the name of a new file exists (createhow4, RFC 8881 §18.16).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// Take what exists.
    Unchecked,
    /// Refuse.
    Guarded,
    /// Refuse, unless this same create made it: EXCLUSIVE4 and EXCLUSIVE4_1.
    Exclusive([u8; 8]),
}

/// How a create came to its inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// It made it.
    No,
    /// It was there: [`How::Unchecked`]. It may be of any type; the caller decides.
    Yes,
    /// An earlier try with the same verifier made it.
    Replay,
}

/// A create that succeeded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Created {
    /// The inode after the transaction.
    pub inode: Arc<Inode>,
    /// The directory's change counter.
    pub dir: ChangeInfo,
    /// Whether it was there before.
    pub existing: Existing,
}

/// What makes one kind of inode different from another.
#[derive(Debug, Clone, Default)]
struct Special {
    device: Device,
    target: Vec<u8>,
    placement: Option<Placement>,
    verifier: Option<[u8; 8]>,
}

impl Namespace {
    /// Makes a regular file, or finds it, for OPEN. `placement` says where its data will go; without one it is inline.
    ///
    /// # Errors
    /// [`NsError::Exist`] as `how` says, [`NsError::Access`], [`NsError::Perm`] for a foreign owner,
    /// and those of a bad name.
    pub fn create(
        &self,
        op: &mut Op<'_>,
        dir: FileId,
        name: &[u8],
        new: &NewNode,
        how: How,
        placement: Option<Placement>,
    ) -> Result<Created, NsError> {
        self.create_and(op, (dir, name), (new, how), placement, |_, _| Ok(()))
    }

    /// As [`Namespace::create`], with what is to be done in the transaction that makes the file.
    pub(crate) fn create_and(
        &self,
        op: &mut Op<'_>,
        (dir, name): (FileId, &[u8]),
        (new, how): (&NewNode, How),
        placement: Option<Placement>,
        and: impl Fn(&mut Txn<'_>, FileId) -> Result<(), NsError>,
    ) -> Result<Created, NsError> {
        let (cred, now) = (op.cred, op.now);
        let special = Special {
            placement,
            verifier: match how {
                How::Exclusive(verifier) => Some(verifier),
                How::Unchecked | How::Guarded => None,
            },
            ..Special::default()
        };
        self.look_ahead(dir, name)?;
        self.write(op, |txn| {
            let parent = txn.dir(cred, dir, EXECUTE)?;
            if let Some(entry) = txn.entry(dir, name)? {
                let inode = txn.entry_inode(entry.file)?;
                return exists(&parent, inode, how);
            }
            let who = (cred, now);
            let made = make(txn, who, dir, name, FileType::Regular, new, &special)?;
            and(txn, made.inode.id)?;
            let inode = txn.entry_inode(made.inode.id)?;
            Ok(Created { inode, ..made })
        })
    }

    /// As [`Namespace::create`] where no file may be made: `None` when the name is free and the caller could make it.
    ///
    /// # Errors
    /// As [`Namespace::create`].
    pub fn find_for_create(
        &self,
        op: &mut Op<'_>,
        dir: FileId,
        name: &[u8],
        how: How,
    ) -> Result<Option<Created>, NsError> {
        let cred = op.cred;
        let found = self.write(op, |txn| {
            let parent = txn.dir(cred, dir, EXECUTE)?;
            if let Some(entry) = txn.entry(dir, name)? {
                let inode = txn.entry_inode(entry.file)?;
                return exists(&parent, inode, how);
            }
            txn.dir(cred, dir, making(false))?;
            // Ends the transaction without a change.
            Err(NsError::NoEnt)
        });
        match found {
            Err(NsError::NoEnt) => Ok(None),
            other => other.map(Some),
        }
    }

    /// Makes a directory.
    ///
    /// # Errors
    /// [`NsError::Exist`], [`NsError::Access`], [`NsError::MLink`] when the parent has too many, and
    /// those of a bad name.
    pub fn mkdir(
        &self,
        op: &mut Op<'_>,
        dir: FileId,
        name: &[u8],
        new: &NewNode,
    ) -> Result<Created, NsError> {
        self.make_node(op, dir, name, FileType::Directory, new, &Special::default())
    }

    /// Makes a symlink.
    ///
    /// # Errors
    /// [`NsError::Inval`] for an empty target or one with a NUL, [`NsError::NameTooLong`] for a long one,
    /// and as [`Namespace::mkdir`].
    pub fn symlink(
        &self,
        op: &mut Op<'_>,
        dir: FileId,
        name: &[u8],
        target: &[u8],
        new: &NewNode,
    ) -> Result<Created, NsError> {
        if target.is_empty() || target.contains(&0) {
            return Err(NsError::Inval);
        }
        if target.len() > SYMLINK_BYTES_MAX as usize {
            return Err(NsError::NameTooLong);
        }
        let special = Special {
            target: target.to_vec(),
            ..Special::default()
        };
        self.make_node(op, dir, name, FileType::Symlink, new, &special)
    }

    /// Makes a device (root only), a pipe or a socket.
    ///
    /// # Errors
    /// [`NsError::Inval`] for another kind, [`NsError::Perm`], and as [`Namespace::mkdir`].
    pub fn mknod(
        &self,
        op: &mut Op<'_>,
        dir: FileId,
        name: &[u8],
        kind: FileType,
        device: Device,
        new: &NewNode,
    ) -> Result<Created, NsError> {
        let device = match kind {
            FileType::Fifo | FileType::Socket => Device::default(),
            FileType::Block | FileType::Character if op.cred.is_root => device,
            FileType::Block | FileType::Character => return Err(NsError::Perm),
            FileType::Regular | FileType::Directory | FileType::Symlink => {
                return Err(NsError::Inval);
            }
        };
        let special = Special {
            device,
            ..Special::default()
        };
        self.make_node(op, dir, name, kind, new, &special)
    }

    fn make_node(
        &self,
        op: &mut Op<'_>,
        dir: FileId,
        name: &[u8],
        kind: FileType,
        new: &NewNode,
        special: &Special,
    ) -> Result<Created, NsError> {
        let who = (op.cred, op.now);
        self.look_ahead(dir, name)?;
        self.write(op, |txn| {
            txn.dir(who.0, dir, EXECUTE)?;
            if txn.entry(dir, name)?.is_some() {
                return Err(NsError::Exist);
            }
            make(txn, who, dir, name, kind, new, special)
        })
    }
}

/// The verdict on a create whose name exists.
fn exists(parent: &Inode, inode: Arc<Inode>, how: How) -> Result<Created, NsError> {
    let existing = match how {
        How::Unchecked => Existing::Yes,
        How::Exclusive(verifier) if inode.verifier == Some(verifier) => Existing::Replay,
        How::Guarded | How::Exclusive(_) => return Err(NsError::Exist),
    };
    let dir = ChangeInfo {
        before: parent.change,
        after: parent.change,
    };
    Ok(Created {
        inode,
        dir,
        existing,
    })
}

fn make(
    txn: &mut Txn<'_>,
    (cred, now): (&Cred, Time),
    dir: FileId,
    name: &[u8],
    kind: FileType,
    new: &NewNode,
    special: &Special,
) -> Result<Created, NsError> {
    let parent = txn.dir(cred, dir, making(kind == FileType::Directory))?;
    if kind == FileType::Directory && parent.nlink >= txn.link_count_max() {
        return Err(NsError::MLink);
    }
    let (uid, gid) = owner_of_new(cred, &parent, new)?;
    let id = txn.allocate()?;
    let (mode, acl) = permissions(&parent, kind, new)?;
    let is_inline = kind == FileType::Regular && special.placement.is_none();
    let mut inode = Inode {
        id,
        generation: 1,
        kind,
        mode: mode_of_new(cred, &parent, kind, mode, gid),
        uid,
        gid,
        nlink: if kind == FileType::Directory { 2 } else { 1 },
        size: special.target.len() as u64,
        space_used: 0,
        atime: SetTime::resolve(new.atime, now)?.unwrap_or(now),
        mtime: SetTime::resolve(new.mtime, now)?.unwrap_or(now),
        ctime: now,
        btime: SetTime::resolve(new.btime.map(SetTime::Client), now)?.unwrap_or(now),
        change: 1,
        parent: dir,
        device: special.device,
        target: OpaqueBuf(special.target.clone()),
        placement: special.placement,
        epoch: 0,
        verifier: special.verifier,
        extras: extras_of_new(&parent, (kind, is_inline), acl),
    };
    new.marks.apply(&mut inode, false)?;
    txn.add(inode.clone());
    txn.set_entry(dir, name, id, kind)?;
    let after = txn.touch(dir)?;
    after.size += 1;
    after.nlink += u32::from(kind == FileType::Directory);
    after.mtime = now;
    after.ctime = now;
    Ok(Created {
        inode: Arc::new(inode),
        dir: ChangeInfo {
            before: parent.change,
            after: after.change,
        },
        existing: Existing::No,
    })
}

/// Mode and access control list (RFC 8881 §6.4.3, RFC 8275 §5).
///
/// What is inherited takes the umask's place as far as it allows what the umask would take. Taken literally, RFC 8275
/// would ignore the umask also where only one named user is inherited, and open the new file to all. Neither is for
/// symbolic links.
fn permissions(
    parent: &Inode,
    kind: FileType,
    new: &NewNode,
) -> Result<(u32, Option<Acl>), NsError> {
    if kind == FileType::Symlink {
        return Ok((SYMLINK_MODE, None));
    }
    let is_dir = kind == FileType::Directory;
    let mode = new.mode & MODE_BITS;
    if let Some(acl) = &new.acl {
        let acl = acl.clone().settled(is_dir);
        return Ok((mode & !0o777 | acl.mode(), acl.unless_trivial(is_dir)));
    }
    let inherited = parent.acl().and_then(|acl| acl.inherited(is_dir));
    let Some(acl) = inherited else {
        return Ok((mode & !new.umask, None));
    };
    if new.mode_is_default {
        return Ok((acl.mode(), Some(acl)));
    }
    let mode = mode & !(new.umask & !acl.mode());
    Ok((mode, acl.with_mode(mode, is_dir)?))
}

/// What a directory hands down, and the list.
fn extras_of_new(parent: &Inode, (kind, is_inline): (FileType, bool), acl: Option<Acl>) -> Extras {
    let mut extras = Extras::default();
    let layout = parent
        .layout_policy()
        .filter(|_| kind == FileType::Directory || is_inline);
    let foreign = parent.is_foreign().then(ForeignTree::default);
    if layout.is_some() || acl.is_some() || foreign.is_some() {
        extras.edit(|rare| (rare.layout, rare.acl, rare.foreign) = (layout, acl, foreign));
    }
    extras
}

/// Owner and group: the caller's, but a setgid directory hands down its group.
fn owner_of_new(cred: &Cred, parent: &Inode, new: &NewNode) -> Result<(u32, u32), NsError> {
    let uid = new.uid.unwrap_or(cred.uid);
    if uid != cred.uid {
        require_owner(cred)?;
    }
    let inherited = if parent.mode & SETGID != 0 {
        parent.gid
    } else {
        cred.gid
    };
    let gid = new.gid.unwrap_or(inherited);
    if gid != inherited {
        require_group(cred, gid)?;
    }
    Ok((uid, gid))
}

/// Subdirectories of a setgid directory are setgid; a file keeps an effective setgid bit only for a
/// group that its maker belongs to.
fn mode_of_new(cred: &Cred, parent: &Inode, kind: FileType, mode: u32, gid: u32) -> u32 {
    let mode = mode & MODE_BITS;
    let foreign = !cred.is_root && !cred.in_group(gid);
    if kind == FileType::Directory {
        mode | parent.mode & SETGID
    } else if foreign && mode & GROUP_EXECUTE != 0 {
        mode & !SETGID
    } else {
        mode
    }
}
