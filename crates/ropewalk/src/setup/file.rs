//! The configuration file: written whole or not at all, and never over another one unasked.
//!
//! # Failure
//! The new file has its name only when it is on the disk. What was there before is there until then.

use super::user::package_group;
use super::walk::{open_or_make, readable};
use crate::failure::{Failure, Outcome, cannot, failed};
use rustix::fs::{Access, AtFlags, Mode, OFlags, linkat, openat, renameat, unlinkat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::{File, Permissions};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt, fchown};
use std::path::{Path, PathBuf};

/// For the group of the package to read, where there is one.
const SHARED_MODE: u32 = 0o640;
/// It may hold a join token.
const PRIVATE_MODE: u32 = 0o600;

/// Refuses a file that is there, a symbolic link, and a directory that cannot be written to.
pub(super) fn need_writable(path: &Path, force: bool) -> Outcome {
    match path.symlink_metadata() {
        Ok(found) if found.is_symlink() => return Err(is_link(path)),
        Ok(_) if !force => return Err(exists(path)),
        _ => {}
    }
    let dir = dir_of(path);
    let above = dir.ancestors().find(|above| above.exists());
    let above = above.unwrap_or(Path::new("."));
    rustix::fs::access(above, Access::WRITE_OK | Access::EXEC_OK).map_err(|e| {
        let path = path.display();
        failed(match e {
            Errno::ROFS => format!(
                "cannot write {path}: the file system of {} is read-only; choose another with --output",
                above.display()
            ),
            e => format!(
                "cannot write {path}: {e}; run this as root, or choose another with --output"
            ),
        })
    })
}

fn exists(path: &Path) -> Failure {
    failed(format!(
        "{} is there already: --force writes over it, --dry-run shows what would be written",
        path.display()
    ))
}

fn is_link(path: &Path) -> Failure {
    failed(format!(
        "{} is a symbolic link, which setup does not follow: remove it, or name the file that it leads to with --output",
        path.display()
    ))
}

fn dir_of(path: &Path) -> &Path {
    let parent = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

/// Writes the file. The directory is opened once, and neither it nor the file is reached by a link of another user.
pub(super) fn write(path: &Path, text: &str, force: bool) -> Outcome {
    let at = || format!("write {}", path.display());
    let path: PathBuf = std::path::absolute(path).map_err(cannot(at()))?;
    let Some(name) = path.file_name() else {
        return Err(failed(format!("cannot {}: it is no file", at())));
    };
    let dir = open_or_make(dir_of(&path))?;
    let mut new = std::ffi::OsString::from(".");
    new.push(name);
    new.push(format!(".{:016x}", crate::daemon::random_u64()));
    let named = fill(&dir, &new, text)
        .map_err(cannot(at()))
        .and_then(|()| give_name(&dir, &new, &path, name, force));
    if named.is_err() {
        // It may be gone, or never have been.
        let _ = unlinkat(&dir, &new, AtFlags::empty());
    }
    named?;
    let synced = openat(&dir, ".", readable(), Mode::empty());
    let synced = synced.map_err(std::io::Error::from);
    synced
        .and_then(|dir| File::from(dir).sync_all())
        .map_err(cannot(at()))
}

/// Makes a new file with this text, which is on the disk then.
fn fill(dir: &OwnedFd, name: &OsStr, text: &str) -> std::io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // Nobody else may read it yet.
    let mut file = File::from(openat(dir, name, flags, Mode::RUSR | Mode::WUSR)?);
    let group = package_group();
    let shared = group.is_some_and(|gid| fchown(&file, None, Some(gid)).is_ok());
    let mode = if shared { SHARED_MODE } else { PRIVATE_MODE };
    file.set_permissions(Permissions::from_mode(mode))?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// Gives the new file its name. A link that has this name is replaced, and not followed.
fn give_name(dir: &OwnedFd, new: &OsStr, path: &Path, name: &OsStr, force: bool) -> Outcome {
    let at = || format!("write {}", path.display());
    if force {
        return renameat(dir, new, dir, name).map_err(cannot(at()));
    }
    linkat(dir, new, dir, name, AtFlags::empty()).map_err(|e| match e {
        Errno::EXIST => exists(path),
        e => cannot(at())(e),
    })?;
    unlinkat(dir, new, AtFlags::empty()).map_err(cannot(at()))
}

#[cfg(test)]
mod tests {
    //! Goal: no file is lost, and nobody else reads it.
    use super::*;

    #[test]
    fn a_file_is_written_over_by_force_only() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new/mds.toml");
        need_writable(&path, false).unwrap();
        write(&path, "one", false).unwrap();
        let mode = path.metadata().unwrap().permissions().mode() & 0o7777;
        assert!([SHARED_MODE, PRIVATE_MODE].contains(&mode), "{mode:o}");
        for refused in [need_writable(&path, false), write(&path, "two", false)] {
            assert!(refused.unwrap_err().to_string().contains("--force"));
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one");
        need_writable(&path, true).unwrap();
        write(&path, "two", true).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "two");
        let names = std::fs::read_dir(path.parent().unwrap()).unwrap();
        assert_eq!(names.count(), 1);
    }

    #[test]
    fn a_symbolic_link_is_refused_also_by_force() {
        let dir = tempfile::tempdir().unwrap();
        let (other, path) = (dir.path().join("other"), dir.path().join("mds.toml"));
        std::fs::write(&other, "of others").unwrap();
        std::os::unix::fs::symlink(&other, &path).unwrap();
        for force in [false, true] {
            let said = need_writable(&path, force).unwrap_err().to_string();
            assert!(said.contains("symbolic link"), "{said}");
        }
        // One that comes after the look is replaced.
        assert!(write(&path, "ours", false).is_err());
        write(&path, "ours", true).unwrap();
        assert!(!path.is_symlink());
        assert_eq!(std::fs::read_to_string(&other).unwrap(), "of others");
    }
}
