//! Packs a folder as the first file system of a kernel: a cpio archive, compressed.
//!
//! Each step is a process of its own whose end is looked at. In a pipeline of a shell only the last one's counts, and a
//! kernel that is given an empty archive ends without a word. Entry point: [`pack`].

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use super::error::{Context, Failure, Result};
use super::process::{between, create};

/// The programs that pack.
pub(crate) const PROGRAMS: [&str; 2] = ["cpio", "gzip"];

/// Packs `tree` to `target`, which appears when it is complete.
pub(crate) fn pack(tree: &Path, target: &Path) -> Result<()> {
    pack_by(PROGRAMS, tree, target)
}

fn pack_by([archiver, compressor]: [&str; 2], tree: &Path, target: &Path) -> Result<()> {
    let [list, archive, fresh] = ["list", "cpio", "new"].map(|end| target.with_extension(end));
    let mut names = vec![".".to_owned()];
    walk(tree, "", &mut names)?;
    fs::write(&list, names.join("\n") + "\n")
        .context(|| format!("cannot write {}", list.display()))?;
    let mut command = Command::new(archiver);
    command.args(["-o", "-H", "newc", "--quiet"]);
    between(command.current_dir(tree), open(&list)?, create(&archive)?)?;
    is_filled(archiver, &archive)?;
    let mut command = Command::new(compressor);
    between(command.arg("-1"), open(&archive)?, create(&fresh)?)?;
    is_filled(compressor, &fresh)?;
    for done in [&list, &archive] {
        fs::remove_file(done).context(|| format!("cannot remove {}", done.display()))?;
    }
    fs::rename(&fresh, target).context(|| format!("cannot rename to {}", target.display()))
}

/// Adds what is in a folder, and below it, each after the folder that it is in.
fn walk(tree: &Path, inside: &str, names: &mut Vec<String>) -> Result<()> {
    let folder = tree.join(inside);
    let unable = || format!("cannot list {}", folder.display());
    let mut found = Vec::new();
    for entry in fs::read_dir(&folder).context(unable)? {
        let entry = entry.context(unable)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        found.push((name, entry.file_type().context(unable)?.is_dir()));
    }
    found.sort();
    for (name, is_folder) in found {
        let name = Path::new(inside).join(name).to_string_lossy().into_owned();
        names.push(name.clone());
        if is_folder {
            walk(tree, &name, names)?;
        }
    }
    Ok(())
}

/// Success without a single byte is none.
fn is_filled(program: &str, path: &Path) -> Result<()> {
    let unable = || format!("cannot read {}", path.display());
    if path.metadata().context(unable)?.len() > 0 {
        return Ok(());
    }
    Err(Failure::new(format!(
        "{program} ended well but wrote nothing to {}; try what it does by hand",
        path.display()
    )))
}

fn open(path: &Path) -> Result<File> {
    File::open(path).context(|| format!("cannot open {}", path.display()))
}

#[cfg(test)]
mod tests {
    //! That no step's failure is lost, and what is packed.

    use super::*;
    use crate::tools;
    use crate::vm::process::output;
    use std::path::PathBuf;

    /// A folder with a file in a folder, and where its archive goes. Dropping it removes both.
    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Self {
            let name = format!("xtask-initrd-{name}-{}", std::process::id());
            let place = Self(std::env::temp_dir().join(name));
            fs::create_dir_all(place.tree().join("bin")).unwrap();
            fs::write(place.tree().join("bin/busybox"), "all").unwrap();
            fs::write(place.tree().join("init"), "first").unwrap();
            place
        }

        fn tree(&self) -> PathBuf {
            self.0.join("tree")
        }

        fn target(&self) -> PathBuf {
            self.0.join("initrd.gz")
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _gone = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_step_that_fails_is_an_error_and_leaves_no_archive() {
        let place = Place::new("fails");
        for (programs, why) in [
            (["no-such-cpio", "cat"], "\"no-such-cpio\" \"-o\""),
            (["false", "cat"], "\"false\" \"-o\""),
            (["true", "cat"], "true ended well but wrote nothing"),
            (["echo", "no-such-gzip"], "cannot start \"no-such-gzip\""),
            (["echo", "false"], "\"false\" \"-1\" failed"),
            (["echo", "true"], "true ended well but wrote nothing"),
        ] {
            let error = pack_by(programs, &place.tree(), &place.target()).unwrap_err();
            assert!(!place.target().exists(), "{programs:?}");
            assert!(error.to_string().contains(why), "{error}");
        }
    }

    #[test]
    fn folders_come_before_what_is_in_them() {
        let place = Place::new("walk");
        let mut names = Vec::new();
        walk(&place.tree(), "", &mut names).unwrap();
        assert_eq!(names, ["bin", "bin/busybox", "init"]);
    }

    #[test]
    fn the_archive_has_everything() {
        if !tools::missing(&PROGRAMS).is_empty() {
            // The command itself would say so.
            return;
        }
        let place = Place::new("packs");
        pack(&place.tree(), &place.target()).unwrap();
        let left: Vec<_> = fs::read_dir(&place.0).unwrap().flatten().collect();
        assert_eq!(left.len(), 2, "the folder and its archive: {left:?}");
        let plain = place.0.join("plain");
        let mut unzip = Command::new("gzip");
        let (from, to) = (open(&place.target()).unwrap(), create(&plain).unwrap());
        between(unzip.arg("-dc"), from, to).unwrap();
        let mut list = Command::new("cpio");
        let told = output(list.args(["-it", "--quiet", "-F"]).arg(&plain)).unwrap();
        assert_eq!(told, ".\nbin\nbin/busybox\ninit\n");
    }
}
