//! The way to a directory: each step is taken from the directory above, and no step follows a symbolic link of somebody else.
//!
//! Setup writes as root, at places whose parents may belong to others. A link that root or who runs this has made is followed.
//!
//! # Failure
//! Directories that were made stay: they are empty.

use crate::failure::{Failure, failed};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, fchmod, mkdirat, openat, statat};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

/// As everybody's directories are: a server must come through.
const PASSABLE: u32 = 0o755;
/// Steps of the longest path (PATH_MAX has at most so many).
const STEPS_MAX: usize = 2048;

/// Opens the directory at this absolute path, and makes what is missing of it, with mode 0755 whatever the umask is.
///
/// # Errors
/// One sentence: a link of somebody else, or what cannot be made.
pub(super) fn open_or_make(dir: &Path) -> Result<OwnedFd, Failure> {
    let is_plain = |step: Component<'_>| matches!(step, Component::RootDir | Component::Normal(_));
    if !dir.components().all(is_plain) || dir.components().count() > STEPS_MAX {
        let dir = dir.display();
        return Err(failed(format!(
            "{dir} is no plain path from / on: name it without `..`"
        )));
    }
    let mut shown = PathBuf::from("/");
    let mut at = rustix::fs::open("/", flags(), Mode::empty()).map_err(|e| cannot(&shown, e))?;
    for name in dir.iter().skip(1) {
        shown.push(name);
        at = match openat(&at, name, flags(), Mode::empty()) {
            Err(Errno::NOENT) => make(&at, name, PASSABLE),
            Err(_) if link_owner(&at, name).is_some() => follow(&at, name, &shown)?,
            other => other,
        }
        .map_err(|e| cannot(&shown, e))?;
    }
    Ok(at)
}

/// Makes a directory with exactly this mode, and opens it. The umask of setup lets its owner read it.
pub(super) fn make(at: &OwnedFd, name: &OsStr, mode: u32) -> rustix::io::Result<OwnedFd> {
    mkdirat(at, name, Mode::RWXU)?;
    let made = openat(at, name, readable(), Mode::empty())?;
    fchmod(&made, Mode::from_raw_mode(mode))?;
    Ok(made)
}

/// The user whose symbolic link has this name; none if it is no link.
pub(super) fn link_owner(at: &OwnedFd, name: &OsStr) -> Option<u32> {
    let found = statat(at, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    let is_link = FileType::from_raw_mode(found.st_mode) == FileType::Symlink;
    is_link.then_some(found.st_uid)
}

fn follow(
    at: &OwnedFd,
    name: &OsStr,
    shown: &Path,
) -> Result<rustix::io::Result<OwnedFd>, Failure> {
    let trusted = [Some(0), Some(geteuid().as_raw())];
    if !trusted.contains(&link_owner(at, name)) {
        return Err(failed(format!(
            "{} is a symbolic link of another user, which may lead anywhere: name the directory that it should lead to",
            shown.display()
        )));
    }
    Ok(openat(at, name, flags() - OFlags::NOFOLLOW, Mode::empty()))
}

/// No step follows a link by itself. It needs no right to read the directory.
fn flags() -> OFlags {
    OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC
}

/// The same, to read it and to change its mode.
pub(super) fn readable() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC
}

fn cannot(shown: &Path, why: Errno) -> Failure {
    failed(format!("cannot use directory {}: {why}", shown.display()))
}

#[cfg(test)]
mod tests {
    //! Goal: what is made has its mode, and a link of another user is refused.
    use super::*;
    use std::os::unix::fs::{MetadataExt, lchown, symlink};

    #[test]
    fn a_link_of_root_is_followed_and_one_of_another_user_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        let (real, link) = (top.join("real"), top.join("link"));
        open_or_make(&real).unwrap();
        assert_eq!(real.metadata().unwrap().mode() & 0o7777, PASSABLE);
        symlink(&real, &link).unwrap();
        open_or_make(&link.join("a/b")).unwrap();
        assert!(real.join("a/b").is_dir());
        // Only root can give a link away.
        if geteuid().is_root() {
            lchown(&link, Some(3_999_999_999), None).unwrap();
            let refused = open_or_make(&link.join("c")).unwrap_err().to_string();
            assert!(
                refused.contains("link is a symbolic link of another user"),
                "{refused}"
            );
            assert!(!real.join("c").exists());
        }
    }
}
