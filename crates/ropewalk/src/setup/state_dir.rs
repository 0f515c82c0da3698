//! The state directory: whether it can be made for a server's user, and making it.
//!
//! # Failure
//! A directory that was made stays when the configuration cannot be written: it is empty.

use super::user::ServerUser;
use crate::failure::{Outcome, cannot, failed};
use crate::nss::user_name;
use rustix::fs::{Access, Mode, OFlags};
use std::fs::DirBuilder;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, fchown};
use std::path::Path;

/// Only the server's user may look into it.
const DIR_MODE: u32 = 0o700;

/// Refuses a directory that is another user's, or that cannot be made.
pub(super) fn check(dir: &Path, server: &ServerUser) -> Outcome {
    match dir.metadata() {
        Ok(found) if !found.is_dir() => Err(failed(format!("{} is no directory", dir.display()))),
        Ok(found) if found.uid() != server.uid => Err(failed(format!(
            "directory {dir} belongs to {owner}, and the server runs as {name}: chown -R {name} {dir}",
            dir = dir.display(),
            owner = user_name(found.uid()),
            name = server.name,
        ))),
        Ok(_) => Ok(()),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => check_parent(dir),
        Err(e) => Err(failed(format!(
            "cannot look at directory {}: {e}",
            dir.display()
        ))),
    }
}

/// Something can be made in the nearest directory above that exists.
fn check_parent(dir: &Path) -> Outcome {
    let above = dir.ancestors().find(|above| above.exists());
    let above = above.unwrap_or(Path::new("/"));
    let tried = rustix::fs::access(above, Access::WRITE_OK | Access::EXEC_OK);
    tried.map_err(|e| {
        failed(format!(
            "cannot make directory {} in {}: {e}; run this as root, or choose another with --dir",
            dir.display(),
            above.display()
        ))
    })
}

/// Makes it, and gives it to the server's user.
pub(super) fn make(dir: &Path, server: &ServerUser) -> Outcome {
    if dir.is_dir() {
        return Ok(());
    }
    let make = || {
        if let Some(above) = dir.parent() {
            // As everybody's directories are: the server must come through.
            std::fs::create_dir_all(above)?;
        }
        DirBuilder::new().mode(DIR_MODE).create(dir)?;
        // The user may own the directory above. Setup refuses a symbolic link in place of the new directory.
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made = rustix::fs::open(dir, flags, Mode::empty())?;
        fchown(made, Some(server.uid), Some(server.gid))
    };
    make().map_err(cannot(format_args!("make directory {}", dir.display())))
}

#[cfg(test)]
mod tests {
    //! Goal: the directory is the server's alone, and one that is not is refused with what to do.
    use super::*;

    #[test]
    fn a_directory_is_made_once_and_is_private() {
        let dir = tempfile::tempdir().unwrap();
        let server = ServerUser::find().unwrap();
        let state = dir.path().join("a/b");
        check(&state, &server).unwrap();
        assert!(!state.exists());
        make(&state, &server).unwrap();
        let found = state.metadata().unwrap();
        assert_eq!((found.mode() & 0o7777, found.uid()), (0o700, server.uid));
        check(&state, &server).unwrap();
        make(&state, &server).unwrap();
    }

    #[test]
    fn what_is_no_directory_or_anothers_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        let mine = ServerUser::find().unwrap();
        let refused = |at: &Path, server: &ServerUser| check(at, server).unwrap_err().to_string();
        assert!(refused(&file, &mine).ends_with("is no directory"));
        assert!(refused(&file.join("x"), &mine).contains("file/x"));
        let other = ServerUser {
            uid: mine.uid + 1,
            name: "other".to_owned(),
            ..mine
        };
        let said = refused(dir.path(), &other);
        assert!(said.contains("runs as other: chown -R other "), "{said}");
    }
}
