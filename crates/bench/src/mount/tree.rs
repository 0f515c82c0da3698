//! A tree of files like that of a source archive: its names, sizes and bytes are the same in each run.

use crate::pattern;
use rustix::fs::{Timespec, Timestamps};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// Directories of the tree, files in each, and a tenth of them with `scale` 10.
const DIRS: u32 = 80;
const FILES_PER_DIR: u32 = 20;
/// Sizes of files, in turn: most are small, few are large, as in a source archive.
const SIZES: [usize; 10] = [
    0, 300, 900, 1_700, 2_600, 4_100, 6_000, 9_500, 17_000, 60_000,
];
/// When the files of the archive were made.
const ARCHIVED_S: i64 = 1_600_000_000;

/// A file of the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    dir: PathBuf,
    name: String,
    bytes_count: usize,
    number: u64,
}

impl Entry {
    pub(crate) fn path(&self, root: &Path) -> PathBuf {
        root.join(&self.dir).join(&self.name)
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.bytes_count];
        pattern::fill(self.number << 20, &mut bytes);
        bytes
    }
}

/// The files of the tree, in the order of an archive.
pub(crate) fn entries(scale: u32) -> Vec<Entry> {
    let mut entries = Vec::new();
    for dir in 0..DIRS / scale {
        for file in 0..FILES_PER_DIR {
            let number = u64::from(dir * FILES_PER_DIR + file);
            let size = SIZES[usize::try_from(number * 7 % SIZES.len() as u64).unwrap_or(0)];
            entries.push(Entry {
                dir: PathBuf::from(format!("part{}", dir % 8)).join(format!("dir{dir}")),
                name: format!("file-{file}.c"),
                bytes_count: size,
                number,
            });
        }
    }
    entries
}

/// Makes the tree as `tar` does: each file is new, is written, and gets its time and mode.
pub(crate) fn unpack(root: &Path, scale: u32) -> io::Result<()> {
    for entry in entries(scale) {
        fs::create_dir_all(root.join(&entry.dir))?;
        let path = entry.path(root);
        let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
        file.write_all(&entry.bytes())?;
        let time = Timespec {
            tv_sec: ARCHIVED_S,
            tv_nsec: 0,
        };
        let times = Timestamps {
            last_access: time,
            last_modification: time,
        };
        rustix::fs::futimens(&file, &times)?;
        rustix::fs::fchmod(&file, rustix::fs::Mode::from_raw_mode(0o640))?;
    }
    Ok(())
}

/// Visits everything below a directory, as `ls -lR` does: each entry is looked at. Returns how many files there are.
pub(crate) fn list(root: &Path) -> io::Result<usize> {
    let mut files_count = 0;
    for entry in fs::read_dir(root)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        if metadata.is_dir() {
            files_count += list(&entry.path())?;
        } else {
            files_count += 1;
        }
    }
    Ok(files_count)
}

/// Reads every file, as `grep -r` does, and compares it with what was unpacked.
pub(crate) fn search(root: &Path, scale: u32) -> io::Result<()> {
    let mut read = Vec::new();
    for entry in entries(scale) {
        read.clear();
        File::open(entry.path(root))?.read_to_end(&mut read)?;
        if read != entry.bytes() {
            let path = entry.path(root);
            return Err(io::Error::other(format!(
                "wrong bytes in {}",
                path.display()
            )));
        }
    }
    Ok(())
}

/// Copies a tree, as `cp -r` does: by `copy_file_range` where the kernel has it.
pub(crate) fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
