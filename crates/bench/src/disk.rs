//! A file system of its own for a comparison of servers: ext4 with a journal, in a file, through a loop device.
//!
//! What a server may promise depends on the file system below it, and machines differ. Without a journal not even a synchronous
//! directory survives a power cut. So servers whose durability is compared are put on a known one. The file is written in full
//! first, and the loop device bypasses the page cache: a sync costs what it costs on the disk below.
//!
//! # Ownership
//! A [`LoopDisk`] owns the file, the mount and the folder that it is mounted on. The loop device is freed by the kernel when the mount ends.
//!
//! # Failure
//! Without root, or without a loop device, making it is an error. A process that is killed leaves the mount behind, named `ropewalk-bench-*`.

use crate::BenchError;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// Size of the file. Stores of one run fit many times over.
const DISK_BYTES: u64 = 1 << 30;
/// Written at once.
const CHUNK_BYTES: usize = 1 << 20;
/// A mount that is in use is tried again so often, after this pause: processes that are gone may still hold it for a moment.
const UNMOUNT_TRIES: u32 = 50;
const UNMOUNT_PAUSE: Duration = Duration::from_millis(100);

/// A mounted file system in a file. Dropping it removes all of it.
#[derive(Debug)]
pub struct LoopDisk {
    mounted: PathBuf,
    // Removed last, with the image in it.
    _dir: TempDir,
}

impl LoopDisk {
    /// Makes one with its file in `dir`.
    ///
    /// # Errors
    /// [`BenchError::Disk`] with the last words of the command that failed, or [`BenchError::Io`].
    pub fn make(dir: &Path) -> Result<Self, BenchError> {
        let dir = crate::own::folder(dir).map_err(BenchError::io("make the disk's folder"))?;
        let image = dir.path().join("image");
        write_zeros(&image).map_err(BenchError::io("write the disk's file"))?;
        let mounted = dir.path().join("mounted");
        std::fs::create_dir(&mounted).map_err(BenchError::io("make the disk's folder"))?;
        let image = image.as_os_str();
        // All is written now, and nothing is given back to the file system below.
        let mkfs = [
            "-q",
            "-F",
            "-m0",
            "-E",
            "lazy_itable_init=0,lazy_journal_init=0,nodiscard",
        ];
        run(Command::new("mkfs.ext4").args(mkfs).arg(image))?;
        let attach = ["--find", "--show", "--direct-io=on"];
        let device = run(Command::new("losetup").args(attach).arg(image))?;
        let device = device.trim();
        let done = run(Command::new("mount").arg(device).arg(&mounted));
        // From here on the mount alone holds the device.
        let freed = run(Command::new("losetup").arg("--detach").arg(device));
        done?;
        let disk = Self { mounted, _dir: dir };
        freed?;
        Ok(disk)
    }

    /// Where it is mounted.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.mounted
    }
}

impl Drop for LoopDisk {
    fn drop(&mut self) {
        let unmount = || run(Command::new("umount").arg(&self.mounted));
        for _ in 0..UNMOUNT_TRIES {
            if unmount().is_ok() {
                return;
            }
            std::thread::sleep(UNMOUNT_PAUSE);
        }
        eprintln!("cannot unmount {}", self.mounted.display());
    }
}

fn write_zeros(path: &Path) -> io::Result<()> {
    let mut file = File::create(path)?;
    let chunk = vec![0; CHUNK_BYTES];
    for _ in 0..DISK_BYTES / CHUNK_BYTES as u64 {
        file.write_all(&chunk)?;
    }
    file.sync_all()
}

/// Runs a command to its end and returns what it says.
fn run(command: &mut Command) -> Result<String, BenchError> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|e| BenchError::Disk(format!("{name}: {e}")))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let line = said.lines().rfind(|line| !line.trim().is_empty());
        let why = line.unwrap_or("it failed without a word");
        return Err(BenchError::Disk(format!("{name}: {why}")));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    //! Commands that fail say why.
    use super::*;

    #[test]
    fn a_command_that_fails_is_an_error_with_its_last_words() {
        let said = |command: &mut Command| run(command).unwrap_err().to_string();
        assert!(said(Command::new("ls").arg("/no/such/file")).contains("/no/such/file"));
        assert!(said(&mut Command::new("/no/such/program")).contains("/no/such/program"));
        assert!(said(&mut Command::new("false")).contains("without a word"));
        assert_eq!(run(Command::new("echo").arg("words")).unwrap(), "words\n");
    }
}
