//! The state directory: whether it can be made for a server's user, and making it.
//!
//! # Failure
//! A directory that was made stays when the configuration cannot be written: it is empty.

use super::user::ServerUser;
use super::walk::{make as make_at, open_or_make, readable};
use crate::failure::{Outcome, cannot, failed};
use crate::nss::user_name;
use rustix::fs::{Access, Mode, openat};
use rustix::io::Errno;
use std::fs::Metadata;
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::Path;

/// Only the server's user may look into it.
const DIR_MODE: u32 = 0o700;

/// Refuses a directory that is another user's or a symbolic link, or that cannot be made.
pub(super) fn check(dir: &Path, server: &ServerUser) -> Outcome {
    match dir.symlink_metadata() {
        Ok(found) => check_found(dir, &found, server),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => check_parent(dir),
        Err(e) => Err(failed(format!(
            "cannot look at directory {}: {e}",
            dir.display()
        ))),
    }
}

fn check_found(dir: &Path, found: &Metadata, server: &ServerUser) -> Outcome {
    let (shown, name) = (dir.display(), &server.name);
    if found.is_symlink() {
        return Err(failed(format!(
            "{shown} is a symbolic link, which setup does not follow: name the directory that it leads to with --dir"
        )));
    }
    if !found.is_dir() {
        return Err(failed(format!("{shown} is no directory")));
    }
    match found.uid() == server.uid {
        true => Ok(()),
        false => Err(failed(format!(
            "directory {shown} belongs to {owner}, and the server runs as {name}: chown -R {name} {shown}",
            owner = user_name(found.uid()),
        ))),
    }
}

/// Something can be made in the nearest directory above that exists.
fn check_parent(dir: &Path) -> Outcome {
    let above = dir.ancestors().find(|above| above.exists());
    let above = above.unwrap_or(Path::new("/"));
    let tried = rustix::fs::access(above, Access::WRITE_OK | Access::EXEC_OK);
    tried.map_err(|e| {
        let (dir, above) = (dir.display(), above.display());
        failed(match e {
            Errno::ROFS => format!(
                "cannot make directory {dir}: the file system of {above} is read-only; choose another with --dir"
            ),
            e => format!(
                "cannot make directory {dir} in {above}: {e}; run this as root, or choose another with --dir"
            ),
        })
    })
}

/// Makes it, and gives it to the server's user. One that came there meanwhile is judged as by [`check`].
pub(super) fn make(dir: &Path, server: &ServerUser) -> Outcome {
    let at = || format!("make directory {}", dir.display());
    let (Some(above), Some(name)) = (dir.parent(), dir.file_name()) else {
        return Err(failed(format!(
            "cannot {}: choose another with --dir",
            at()
        )));
    };
    let above = open_or_make(above)?;
    match make_at(&above, name, DIR_MODE) {
        Ok(made) => fchown(made, Some(server.uid), Some(server.gid)).map_err(cannot(at())),
        Err(Errno::EXIST) => {
            // What is opened here is what is judged.
            let there = openat(&above, name, readable(), Mode::empty());
            let there = there.map_err(|e| match e {
                Errno::LOOP | Errno::NOTDIR => failed(format!(
                    "{} is a symbolic link or no directory: name another with --dir",
                    dir.display()
                )),
                e => cannot(at())(e),
            })?;
            let found = std::fs::File::from(there).metadata();
            check_found(dir, &found.map_err(cannot(at()))?, server)
        }
        Err(e) => Err(cannot(at())(e)),
    }
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
        let above = state.parent().unwrap().metadata().unwrap();
        assert_eq!(above.mode() & 0o7777, 0o755);
    }

    #[test]
    fn a_symbolic_link_is_refused_wherever_it_leads() {
        let dir = tempfile::tempdir().unwrap();
        let server = ServerUser::find().unwrap();
        let (real, link) = (dir.path().join("real"), dir.path().join("link"));
        std::os::unix::fs::symlink(&real, &link).unwrap();
        for _ in 0..2 {
            let checked = check(&link, &server).unwrap_err().to_string();
            let made = make(&link, &server).unwrap_err().to_string();
            for said in [checked, made] {
                assert!(
                    said.contains("symbolic link") && said.contains("--dir"),
                    "{said}"
                );
            }
            // The second time it leads somewhere.
            let _ = std::fs::create_dir(&real);
        }
        assert_eq!(std::fs::read_dir(&real).unwrap().count(), 0);
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
