//! A user of this machine, and what owner, group and mode of a file let this user do.
//!
//! Unlike access(2) it asks for another user, which root must: root may do everything. Access control lists may allow more or
//! less, so a file with one is not judged.

use nix::unistd::{Gid, Uid, User, getgrouplist};
use std::ffi::CString;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The attribute that holds an access control list.
const ACL: &str = "system.posix_acl_access";

/// A user with all groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) name: String,
    pub(crate) uid: u32,
    /// All groups, the first one included.
    pub(crate) groups: Vec<u32>,
}

/// What is wanted of a file or a directory; the value is its bit of a mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// To read a file.
    Read = 0o4,
    /// To come through a directory.
    Pass = 0o1,
    /// To read, write and search a directory.
    All = 0o7,
}

/// Where a path is closed to a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Closed {
    /// The file, or the directory above it.
    pub(crate) path: PathBuf,
    /// What the user would need there.
    pub(crate) wanted: Wanted,
}

impl Account {
    /// A user of the name service, which it may ask.
    ///
    /// # Errors
    /// The name service gives no answer.
    pub(crate) fn of(user: User) -> io::Result<Self> {
        let name = CString::new(user.name.as_str())?;
        let groups = getgrouplist(&name, user.gid)?;
        Ok(Self {
            uid: user.uid.as_raw(),
            groups: groups.into_iter().map(Gid::as_raw).collect(),
            name: user.name,
        })
    }

    /// The user with this number. One that the name service does not know has the group `gid` alone.
    pub(crate) fn of_uid(uid: u32, gid: u32) -> Self {
        let known = User::from_uid(Uid::from_raw(uid)).ok().flatten();
        let account = known.and_then(|user| Self::of(user).ok());
        account.unwrap_or_else(|| Self {
            name: uid.to_string(),
            uid,
            groups: vec![gid],
        })
    }

    /// Whether owner, group and mode let this user do it.
    pub(crate) fn may(&self, wanted: Wanted, (uid, gid, mode): (u32, u32, u32)) -> bool {
        let shift = match (uid == self.uid, self.groups.contains(&gid)) {
            (true, _) => 6,
            (false, true) => 3,
            (false, false) => 0,
        };
        let wanted = wanted as u32;
        self.uid == 0 || (mode >> shift) & wanted == wanted
    }

    /// The first place of `path`, from above, where this user is refused. None when all is open, or cannot be looked at.
    pub(crate) fn refused_at(&self, path: &Path, wanted: Wanted) -> Option<Closed> {
        // Links lead elsewhere: what counts is the path without them.
        let path = path.canonicalize().ok()?;
        let mut above: Vec<&Path> = path.ancestors().skip(1).collect();
        above.reverse();
        let steps = above.into_iter().map(|dir| (dir, Wanted::Pass));
        let mut steps = steps.chain([(path.as_path(), wanted)]);
        let closed = steps.find(|(at, wanted)| {
            let found = at.metadata().ok();
            found.is_some_and(|found| !self.may(*wanted, owner(&found)) && !has_acl(at))
        });
        closed.map(|(at, wanted)| Closed {
            path: at.to_owned(),
            wanted,
        })
    }
}

fn owner(found: &Metadata) -> (u32, u32, u32) {
    (found.uid(), found.gid(), found.mode())
}

/// Whether somebody has named users beside owner and group.
fn has_acl(path: &Path) -> bool {
    let mut none: [u8; 0] = [];
    rustix::fs::getxattr(path, ACL, &mut none).is_ok_and(|bytes| bytes > 0)
}

#[cfg(test)]
mod tests {
    //! Goal: the class that counts is the first that fits, and a closed directory above hides a file.
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn user(uid: u32, groups: &[u32]) -> Account {
        Account {
            name: "u".to_owned(),
            uid,
            groups: groups.to_vec(),
        }
    }

    #[test]
    fn the_first_class_that_fits_counts() {
        let account = user(7, &[70, 71]);
        for (uid, gid, mode, wanted, may) in [
            (7, 1, 0o400, Wanted::Read, true),
            (7, 70, 0o040, Wanted::Read, false),
            (1, 71, 0o040, Wanted::Read, true),
            (1, 70, 0o604, Wanted::Read, false),
            (1, 1, 0o004, Wanted::Read, true),
            (7, 1, 0o700, Wanted::All, true),
            (7, 1, 0o500, Wanted::All, false),
            (1, 1, 0o751, Wanted::Pass, true),
            (1, 1, 0o750, Wanted::Pass, false),
        ] {
            let told = account.may(wanted, (uid, gid, mode));
            assert_eq!(told, may, "{uid} {gid} {mode:o} {wanted:?}");
        }
        assert!(user(0, &[0]).may(Wanted::All, (1, 1, 0)));
    }

    #[test]
    fn a_closed_directory_above_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        let (mid, file) = (top.join("mid"), top.join("mid/file"));
        std::fs::create_dir(&mid).unwrap();
        std::fs::write(&file, "").unwrap();
        let other = user(3_999_999_999, &[3_999_999_999]);
        let closed = |path: &Path, wanted| {
            Some(Closed {
                path: path.to_owned(),
                wanted,
            })
        };
        for (modes, found) in [
            ([0o755, 0o755, 0o644], None),
            ([0o755, 0o755, 0o640], closed(&file, Wanted::Read)),
            ([0o755, 0o750, 0o644], closed(&mid, Wanted::Pass)),
            ([0o700, 0o750, 0o644], closed(&top, Wanted::Pass)),
        ] {
            for (path, mode) in [&top, &mid, &file].into_iter().zip(modes) {
                std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
            }
            // Directories above those of this test may be closed too, where it runs.
            if other
                .refused_at(top.parent().unwrap(), Wanted::Pass)
                .is_none()
            {
                assert_eq!(other.refused_at(&file, Wanted::Read), found, "{modes:?}");
            }
        }
        assert_eq!(other.refused_at(&top.join("gone"), Wanted::Read), None);
    }
}
