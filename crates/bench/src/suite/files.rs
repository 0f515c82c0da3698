//! Where workers do their I/O: a small trait, and its two adapters.
//!
//! [`remote`] is our client library: tasks are futures of one thread. [`mounted`] is a directory of any file system: its calls block, so
//! tasks are threads. [`Files::at_once`] hides the difference. Paths are relative, with `/` between names.

pub(crate) mod mounted;
pub(crate) mod remote;

use crate::BenchError;
use bytes::Bytes;
use std::future::Future;

/// Mode of new files and directories.
pub(crate) const FILE_MODE: u32 = 0o644;
pub(crate) const DIR_MODE: u32 = 0o755;

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
