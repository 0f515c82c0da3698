//! Folders and files of a run: named by its process, gone with it, and told of when it was killed before.

use std::io;
use std::path::{Path, PathBuf};
use tempfile::{NamedTempFile, TempDir};

/// How all names begin; the number of the process follows.
const PREFIX: &str = "ropewalk-bench-";

fn prefix() -> String {
    format!("{PREFIX}{}-", std::process::id())
}

/// Makes a folder in `parent`.
pub(crate) fn folder(parent: &Path) -> io::Result<TempDir> {
    tempfile::Builder::new()
        .prefix(&prefix())
        .tempdir_in(parent)
}

/// Makes a file in `parent`.
pub(crate) fn file(parent: &Path) -> io::Result<NamedTempFile> {
    tempfile::Builder::new()
        .prefix(&prefix())
        .tempfile_in(parent)
}

/// What runs have left in `parent` whose process is gone: one that was killed could not take its folders along.
pub(crate) fn left_in(parent: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
    let left = entries.filter(|entry| {
        let name = entry.file_name();
        name.to_str().and_then(process_of).is_some_and(is_gone)
    });
    let mut left: Vec<PathBuf> = left.map(|entry| entry.path()).collect();
    left.sort();
    left
}

/// The process that a name is of.
fn process_of(name: &str) -> Option<u32> {
    let (process, _) = name.strip_prefix(PREFIX)?.split_once('-')?;
    process.parse().ok()
}

fn is_gone(process: u32) -> bool {
    !Path::new(&format!("/proc/{process}")).exists()
}

/// Says what runs have left behind, and how to remove it.
pub(crate) fn tell_of_left(parents: &[&Path]) {
    for path in parents.iter().flat_map(|parent| left_in(parent)) {
        eprintln!(
            "a run that was killed has left something behind: rm -r {}",
            path.display()
        );
    }
}

#[cfg(test)]
mod tests {
    //! What is ours is not left, and what is of nobody is.
    use super::*;

    #[test]
    fn only_what_is_of_a_process_that_is_gone_is_left() {
        let parent = tempfile::tempdir().unwrap();
        let (folder, file) = (folder(parent.path()).unwrap(), file(parent.path()).unwrap());
        // No process has this number: the kernel's limit is 2^22.
        let gone = parent.path().join("ropewalk-bench-4194305-abc");
        std::fs::create_dir(&gone).unwrap();
        for other in [
            "ropewalk-bench-abc",
            "ropewalk-bench-x-y",
            "other-4194305-z",
        ] {
            std::fs::create_dir(parent.path().join(other)).unwrap();
        }
        assert_eq!(left_in(parent.path()), [gone]);
        drop((folder, file));
        assert_eq!(
            left_in(&parent.path().join("nowhere")),
            Vec::<PathBuf>::new()
        );
    }
}
