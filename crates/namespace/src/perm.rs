//! Who may do what: access control lists and permission bits, sticky directories, what survives a write or a chown.
//!
//! The permission bits of a file without a list are translated to them.

use crate::acl::{Acl, Who, WhoKind, mask_of};
use crate::inode::Inode;
use crate::mode::{MODE_BITS, SETGID, STICKY, without_privileges};
use crate::rights::{APPEND, DELETE, DELETE_CHILD, EXECUTE, OF_ALL, OF_OWNER, WRITE};
use crate::{Cred, NsError};

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
            let somebody = || inode.acl().is_some_and(Acl::lets_execute);
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

    /// Whether this one may take the name of `inode` out of `dir`. Either file may allow it (RFC 8881 §6.2.1.3.2). When
    /// neither says anything, a caller that may make files there may remove them.
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

impl Who {
    fn is(self, cred: &Cred, inode: &Inode) -> bool {
        match self.kind {
            WhoKind::Owner => cred.uid == inode.uid,
            WhoKind::Group => cred.in_group(inode.gid),
            WhoKind::Everyone => true,
            WhoKind::User => cred.uid == self.id,
            WhoKind::NamedGroup => cred.in_group(self.id),
        }
    }
}

impl Acl {
    /// Which bits of `want` the list allows, and which it says anything about (RFC 8881 §6.2.1). The first entry for
    /// the caller that has a bit decides about it.
    #[must_use]
    pub fn decide(&self, cred: &Cred, inode: &Inode, want: u32) -> (u32, u32) {
        self.walk(want, |who| who.is(cred, inode))
    }
}
