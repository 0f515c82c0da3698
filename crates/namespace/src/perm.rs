//! Who may do what: access control lists and permission bits, sticky directories, what survives a write or a chown.
//!
//! Rights are masks with the numbers of RFC 8881 §6.2.1.3; the permission bits of a file without a list are translated to them.

use crate::acl::mask_of;
use crate::inode::{GROUP_EXECUTE, Inode, MODE_BITS, SETGID, SETUID, STICKY};
use crate::{Cred, NsError};

/// May read a file or list a directory.
pub const READ: u32 = 0x1;
/// May write a file or make files in a directory.
pub const WRITE: u32 = 0x2;
/// May append to a file or make directories in a directory.
pub const APPEND: u32 = 0x4;
/// May read extended attributes.
pub const READ_XATTRS: u32 = 0x8;
/// May change extended attributes.
pub const WRITE_XATTRS: u32 = 0x10;
/// May execute a file or search a directory.
pub const EXECUTE: u32 = 0x20;
/// May remove what is in a directory.
pub const DELETE_CHILD: u32 = 0x40;
/// May read attributes: nobody is asked for it.
pub const READ_ATTRIBUTES: u32 = 0x80;
/// May set times.
pub const WRITE_ATTRIBUTES: u32 = 0x100;
/// May remove the file.
pub const DELETE: u32 = 0x1_0000;
/// May read the access control list.
pub const READ_ACL: u32 = 0x2_0000;
/// May change it and the mode.
pub const WRITE_ACL: u32 = 0x4_0000;
/// May take the file over, or give it to a group of one's own.
pub const WRITE_OWNER: u32 = 0x8_0000;
/// May wait for local I/O: means nothing here.
pub const SYNCHRONIZE: u32 = 0x10_0000;

/// What everyone may on a file without a list.
pub(crate) const OF_ALL: u32 = READ_ATTRIBUTES | READ_ACL | SYNCHRONIZE;
/// What an owner may always do, whatever the list or the mode says: an owner must never be locked out.
pub(crate) const OF_OWNER: u32 = READ_ACL | WRITE_ACL | READ_ATTRIBUTES | WRITE_ATTRIBUTES;

impl Cred {
    /// Whether `gid` is one of the groups.
    #[must_use]
    pub fn in_group(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.contains(&gid)
    }

    /// Whether it is the file's owner or root.
    #[must_use]
    pub fn owns(&self, inode: &Inode) -> bool {
        self.is_root || self.uid == inode.uid
    }

    /// All rights on a file: [`READ`] and the like. Root has all, but executes only what somebody may execute.
    #[must_use]
    pub fn rights(&self, inode: &Inode) -> u32 {
        if self.is_root {
            let somebody = || inode.acl().is_some_and(crate::acl::Acl::lets_execute);
            let execute = inode.is_dir() || inode.mode & 0o111 != 0 || somebody();
            return if execute { u32::MAX } else { !EXECUTE };
        }
        let own = if self.uid == inode.uid { OF_OWNER } else { 0 };
        own | match inode.acl() {
            Some(acl) => acl.decide(self, inode, u32::MAX).0,
            None => OF_ALL | mask_of(self.mode_bits(inode), inode.is_dir()),
        }
    }

    /// The three permission bits that are about this one.
    fn mode_bits(&self, inode: &Inode) -> u32 {
        let shift = if self.uid == inode.uid {
            6
        } else if self.in_group(inode.gid) {
            3
        } else {
            0
        };
        inode.mode >> shift & 7
    }

    /// Refuses unless all of `want` is allowed.
    pub(crate) fn require(&self, inode: &Inode, want: u32) -> Result<(), NsError> {
        if self.rights(inode) & want == want {
            Ok(())
        } else {
            Err(NsError::Access)
        }
    }

    /// Refuses with [`NsError::Perm`] unless `want` is allowed: for what only an owner may as a rule.
    pub(crate) fn require_owners(&self, inode: &Inode, want: u32) -> Result<(), NsError> {
        self.require(inode, want).map_err(|_| NsError::Perm)
    }

    /// Whether this one may take the name of `inode` out of `dir`: either file may allow it (RFC 8881 §6.2.1.3.2); when
    /// neither says anything, whoever may make files there may remove them.
    pub(crate) fn require_removable(&self, dir: &Inode, inode: &Inode) -> Result<(), NsError> {
        self.require(dir, EXECUTE)?;
        if !self.is_root && !self.may_remove(dir, inode) {
            return Err(NsError::Access);
        }
        self.require_unsticky(dir, inode)
    }

    fn may_remove(&self, dir: &Inode, inode: &Inode) -> bool {
        let by_child = inode.acl().map(|acl| acl.decide(self, inode, DELETE));
        let (child_allows, child_says) = by_child.unwrap_or_default();
        let (dir_allows, dir_says) = match dir.acl() {
            Some(acl) => acl.decide(self, dir, DELETE_CHILD),
            None => (self.rights(dir) & DELETE_CHILD, DELETE_CHILD),
        };
        let silent = child_says == 0 && dir_says == 0;
        child_allows != 0 || dir_allows != 0 || silent && self.rights(dir) & WRITE != 0
    }

    /// Whether the sticky bit of `dir` lets this one remove or rename `inode` there.
    fn require_unsticky(&self, dir: &Inode, inode: &Inode) -> Result<(), NsError> {
        let free = dir.mode & STICKY == 0 || self.owns(inode) || self.owns(dir);
        if free { Ok(()) } else { Err(NsError::Perm) }
    }
}

/// What making something in a directory takes.
pub(crate) const fn making(is_dir: bool) -> u32 {
    EXECUTE | if is_dir { APPEND } else { WRITE }
}

/// The mode that a write leaves: only root's writes keep setuid and an effective setgid, as on Linux.
pub(crate) fn mode_after_write(inode: &Inode, cred: &Cred) -> u32 {
    if cred.is_root || !inode.is_regular() {
        return inode.mode;
    }
    without_privileges(inode.mode)
}

/// The mode that a chown or chgrp leaves: root's too drops them, as on Linux; directories keep theirs.
pub(crate) fn mode_after_chown(inode: &Inode, cred: &Cred) -> u32 {
    if inode.is_dir() {
        return inode.mode;
    }
    let foreign = !cred.is_root && !cred.in_group(inode.gid);
    let mode = without_privileges(inode.mode);
    if foreign { mode & !SETGID } else { mode }
}

/// The mode that a chmod to `mode` gives a file of group `gid`.
pub(crate) fn mode_after_chmod(mode: u32, gid: u32, cred: &Cred) -> u32 {
    let mode = mode & MODE_BITS;
    if cred.is_root || cred.in_group(gid) {
        mode
    } else {
        mode & !SETGID
    }
}

/// A mode without the bits that a write by others than root takes away.
pub(crate) fn without_privileges(mode: u32) -> u32 {
    // Setgid without group execute once meant mandatory locking; it grants nothing and stays.
    let setgid = if mode & GROUP_EXECUTE != 0 { SETGID } else { 0 };
    mode & !(SETUID | setgid)
}
