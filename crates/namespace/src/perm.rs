//! Who may do what: the permission bits of POSIX, sticky directories, what survives a write or a chown.

use crate::inode::{GROUP_EXECUTE, Inode, MODE_BITS, SETGID, SETUID, STICKY};
use crate::{Cred, NsError};

/// May read a file or list a directory.
pub const READ: u32 = 4;
/// May write a file or change a directory's entries.
pub const WRITE: u32 = 2;
/// May execute a file or search a directory.
pub const EXECUTE: u32 = 1;

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

    /// The rights on a file, of [`READ`], [`WRITE`] and [`EXECUTE`]. Root has all, but executes only
    /// what somebody may execute.
    #[must_use]
    pub fn rights(&self, inode: &Inode) -> u32 {
        if self.is_root {
            let execute = inode.is_dir() || inode.mode & 0o111 != 0;
            return READ | WRITE | if execute { EXECUTE } else { 0 };
        }
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

    /// Whether the sticky bit of `dir` lets this one remove or rename `inode` there.
    pub(crate) fn require_unsticky(&self, dir: &Inode, inode: &Inode) -> Result<(), NsError> {
        let free = dir.mode & STICKY == 0 || self.owns(inode) || self.owns(dir);
        if free { Ok(()) } else { Err(NsError::Perm) }
    }
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

fn without_privileges(mode: u32) -> u32 {
    // Setgid without group execute once meant mandatory locking; it grants nothing and stays.
    let setgid = if mode & GROUP_EXECUTE != 0 { SETGID } else { 0 };
    mode & !(SETUID | setgid)
}
