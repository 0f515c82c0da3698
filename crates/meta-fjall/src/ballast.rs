//! Blocks of the disk that the store holds, and gives up for its own next write when others have taken the rest.
//!
//! A transaction is admitted while there is room, and written with others a moment later. A write that then fails stops the
//! store for good. The ballast is there for that moment.
//!
//! Owns `DIR/ballast`. May call nothing of the store.

use rustix::fs::{FallocateFlags, fallocate};
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

/// The ballast is this part of the reserve, and at most so many bytes: some batches.
const PART_OF_RESERVE: u64 = 16;
const BYTES_MAX: u64 = 8 * 1024 * 1024;

/// What a file of a store's directory holds of its disk.
#[derive(Debug)]
pub(crate) struct Ballast {
    path: PathBuf,
    bytes: u64,
    file: Option<File>,
}

impl Ballast {
    /// Of the store in `dir`, which keeps `reserve_bytes` free; not taken yet.
    pub(crate) fn new(dir: &Path, reserve_bytes: u64) -> Self {
        Self {
            path: dir.join("ballast"),
            bytes: (reserve_bytes / PART_OF_RESERVE).min(BYTES_MAX),
            file: None,
        }
    }

    pub(crate) fn is_held(&self) -> bool {
        self.file.is_some()
    }

    /// Takes it. A file system that cannot promise blocks gives none: the store then goes without.
    pub(crate) fn take(&mut self) {
        if self.is_held() || self.bytes == 0 {
            return;
        }
        let taken = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&self.path)
            .and_then(|file| {
                fallocate(&file, FallocateFlags::empty(), 0, self.bytes)?;
                Ok(file)
            });
        match taken {
            Ok(file) => self.file = Some(file),
            Err(error) => tracing::debug!(%error, "ballast of the store"),
        }
    }

    /// Gives its blocks back to the file system.
    pub(crate) fn release(&mut self) {
        let Some(file) = self.file.take() else { return };
        if let Err(error) = file.set_len(0) {
            tracing::warn!(%error, "ballast of the store");
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::unwrap_used,
        reason = "a failure here is the failure of a test"
    )]
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn it_holds_blocks_until_it_is_released() {
        let dir = tempfile::TempDir::new().unwrap();
        let blocks = || {
            std::fs::metadata(dir.path().join("ballast"))
                .unwrap()
                .blocks()
        };
        let mut ballast = Ballast::new(dir.path(), 16 << 20);
        assert!(!ballast.is_held());
        ballast.take();
        assert_eq!((ballast.is_held(), blocks()), (true, (1 << 20) / 512));
        ballast.release();
        assert_eq!((ballast.is_held(), blocks()), (false, 0));
        ballast.take();
        assert_eq!(blocks(), (1 << 20) / 512);
        // Without a reserve nothing is held.
        let none = tempfile::TempDir::new().unwrap();
        let mut ballast = Ballast::new(none.path(), 0);
        ballast.take();
        assert!(!ballast.is_held() && !none.path().join("ballast").exists());
    }
}
