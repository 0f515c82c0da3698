//! Where workers do their I/O: a small trait, and its two adapters.
//!
//! [`remote`] is our client library: tasks are futures, on one thread or on several. [`mounted`] is a directory of any file system: its calls
//! block, so tasks are threads. [`Files::at_once`] hides the difference. Paths are relative, with `/` between names.

pub(crate) mod mounted;
pub(crate) mod remote;

use crate::BenchError;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::future::Future;

/// Mode of new files and directories.
pub(crate) const FILE_MODE: u32 = 0o644;
pub(crate) const DIR_MODE: u32 = 0o755;

/// What the page cache keeps a file in, and what memory is aligned to that any device takes for O_DIRECT.
const PAGE_BYTES: usize = 4096;

/// How reads are kept from the page cache of this machine, which would answer for the server from the second time on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Bypass {
    /// O_DIRECT.
    Direct,
    /// What was read is dropped: for file systems that do not take O_DIRECT.
    Dropped,
    /// They are not: the page cache is all that there is. A tmpfs takes O_DIRECT since Linux 6.6, and reads there all the same.
    Tmpfs,
}

impl Bypass {
    pub(crate) const ALL: [Self; 3] = [Self::Direct, Self::Dropped, Self::Tmpfs];

    /// In words: where what is read comes from.
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Direct => {
                "from the file system each time and not from this machine's page cache, by O_DIRECT"
            }
            Self::Tmpfs => "from the page cache (tmpfs), which is all that such a file system has",
            Self::Dropped => {
                "from the file system each time and not from this machine's page cache, by dropping the pages of each read from it afterwards (posix_fadvise), which counts in the read's time: the file system does not take O_DIRECT for them"
            }
        }
    }
}

/// Memory to read into, aligned as O_DIRECT wants it.
#[derive(Debug)]
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl Buffer {
    pub(crate) fn new(len: usize) -> Self {
        let bytes = vec![0; len + PAGE_BYTES];
        let start = bytes.as_ptr().align_offset(PAGE_BYTES).min(PAGE_BYTES);
        Self { bytes, start, len }
    }

    /// The first `len` bytes, of at most as many as it was made for.
    pub(crate) fn first(&mut self, len: usize) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.len][..len]
    }
}

/// A file system as far as the experiments need one.
pub(crate) trait Files: Sync {
    /// An open file; requests of several tasks may use it at the same time.
    type File: Send + Sync;

    /// Runs the tasks with the numbers below `count` at the same time, and returns what they return in that order.
    async fn at_once<T: Send, Fut: Future<Output = Result<T, BenchError>>>(
        &self,
        count: u32,
        task: impl Fn(u32) -> Fut + Sync,
    ) -> Result<Vec<T>, BenchError>;

    /// Makes a directory.
    async fn make_dir(&self, path: &str) -> Result<(), BenchError>;

    /// Removes an empty directory.
    async fn remove_dir(&self, path: &str) -> Result<(), BenchError>;

    /// Makes a file, or empties it, and opens it for reading and writing.
    async fn create(&self, path: &str) -> Result<Self::File, BenchError>;

    /// The same, of a file that is read again and again: caches of this machine answer no read of it. Says how they are kept from it, where
    /// there are any. Reads must begin at multiples of `unit_bytes`, be multiples of it long, and go into a [`Buffer`].
    async fn create_uncached(
        &self,
        path: &str,
        unit_bytes: u32,
    ) -> Result<(Self::File, Option<Bypass>), BenchError>;

    /// Opens a file for reading and writing.
    async fn open(&self, path: &str) -> Result<Self::File, BenchError>;

    /// Closes a file; what was written must be at the server.
    async fn close(&self, file: Self::File) -> Result<(), BenchError>;

    /// Fills `buffer` from `offset` and returns how many bytes there were; fewer only at the end of the file.
    async fn read(
        &self,
        file: &Self::File,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<usize, BenchError>;

    /// Writes at `offset`.
    async fn write(&self, file: &Self::File, offset: u64, data: Bytes) -> Result<(), BenchError>;

    /// Makes durable what was written.
    async fn sync(&self, file: &Self::File) -> Result<(), BenchError>;

    /// Makes this machine forget what it has cached of the file.
    async fn forget(&self, file: &Self::File) -> Result<(), BenchError>;

    /// Asks for attributes; whether there is such a name.
    async fn stat(&self, path: &str) -> Result<bool, BenchError>;

    /// Sets the permission bits.
    async fn chmod(&self, path: &str, mode: u32) -> Result<(), BenchError>;

    /// Reads a whole directory with attributes; returns the number of entries.
    async fn list(&self, path: &str) -> Result<u64, BenchError>;

    /// Renames.
    async fn rename(&self, from: &str, to: &str) -> Result<(), BenchError>;

    /// Removes a file.
    async fn remove(&self, path: &str) -> Result<(), BenchError>;
}
