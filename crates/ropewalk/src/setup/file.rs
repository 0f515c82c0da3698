//! The configuration file: written whole or not at all, and never over another one unasked.
//!
//! # Failure
//! The new file has its name only when it is on the disk. What was there before is there until then.

use super::user::package_group;
use crate::failure::{Outcome, cannot, failed};
use rustix::fs::Access;
use std::fs::{File, Permissions};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, fchown};
use std::path::Path;

/// For the group of the package to read, where there is one.
const SHARED_MODE: u32 = 0o640;
/// It may hold a join token.
const PRIVATE_MODE: u32 = 0o600;

/// Refuses a file that is there, and a directory that cannot be written to.
pub(super) fn need_writable(path: &Path, force: bool) -> Outcome {
    if path.symlink_metadata().is_ok() && !force {
        return Err(exists(path));
    }
    let dir = dir_of(path);
    let above = dir.ancestors().find(|above| above.exists());
    let above = above.unwrap_or(Path::new("."));
    rustix::fs::access(above, Access::WRITE_OK | Access::EXEC_OK).map_err(|e| {
        failed(format!(
            "cannot write {}: {e}; run this as root, or choose another with --output",
            path.display()
        ))
    })
}

fn exists(path: &Path) -> crate::failure::Failure {
    failed(format!(
        "{} is there already: --force writes over it, --dry-run shows what would be written",
        path.display()
    ))
}

fn dir_of(path: &Path) -> &Path {
    let parent = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

/// Writes the file.
pub(super) fn write(path: &Path, text: &str, force: bool) -> Outcome {
    let at = || format!("write {}", path.display());
    let dir = dir_of(path);
    let make = || {
        std::fs::create_dir_all(dir)?;
        // Nobody else may read it yet.
        let mut file = tempfile::NamedTempFile::new_in(dir)?;
        let group = package_group();
        let shared = group.is_some_and(|gid| fchown(file.as_file(), None, Some(gid)).is_ok());
        let mode = if shared { SHARED_MODE } else { PRIVATE_MODE };
        file.as_file()
            .set_permissions(Permissions::from_mode(mode))?;
        file.write_all(text.as_bytes())?;
        file.as_file().sync_all()?;
        Ok(file)
    };
    let file = make().map_err(cannot::<std::io::Error>(at()))?;
    let named = match force {
        true => file.persist(path),
        false => file.persist_noclobber(path),
    };
    named.map_err(|e| match e.error.kind() {
        std::io::ErrorKind::AlreadyExists => exists(path),
        _ => cannot(at())(e.error),
    })?;
    File::open(dir)
        .and_then(|dir| dir.sync_all())
        .map_err(cannot(at()))
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
}
