//! An open file as its users see it: one interface over the versions of NFS.
//!
//! It only chooses; what is done is in the modules of each version.

use crate::file::File4;
use crate::v3::File3;
use crate::{Error, LockConflict, LockKind, Metadata, ReadData};
use bytes::Bytes;
use nfs4::FileHandle;
use std::ops::Range;

/// What NFSv3 lacks.
const LOCKS: &str = "locks in this client";
const ALLOCATE: &str = "ALLOCATE and DEALLOCATE";
const COPY: &str = "COPY and CLONE";

/// An open file. Reads and writes may run concurrently. Close it with [`File::close`]: that is where errors of written data
/// show; a dropped file is closed in the background.
#[derive(Debug)]
pub struct File(Of);

#[derive(Debug)]
enum Of {
    V3(File3),
    V4(File4),
}

impl File {
    pub(crate) fn of_v3(file: File3) -> Self {
        Self(Of::V3(file))
    }

    pub(crate) fn of_v4(file: File4) -> Self {
        Self(Of::V4(file))
    }

    /// The file as NFSv4 has it.
    fn v4(&self, what: &'static str) -> Result<&File4, Error> {
        match &self.0 {
            Of::V3(_) => Err(Error::NotInV3(what)),
            Of::V4(file) => Ok(file),
        }
    }

    /// The file's handle.
    #[must_use]
    pub fn handle(&self) -> &FileHandle {
        match &self.0 {
            Of::V3(file) => file.handle(),
            Of::V4(file) => file.handle(),
        }
    }

    /// Reads up to `len` bytes at `offset`. Short only at the end of the file, or above 64 MiB.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn read_at(&self, offset: u64, len: u32) -> Result<ReadData, Error> {
        match &self.0 {
            Of::V3(file) => file.read_at(offset, len).await,
            Of::V4(file) => file.read_at(offset, len).await,
        }
    }

    /// Writes all of `data` at `offset`. They are durable after [`File::flush`].
    ///
    /// # Errors
    /// [`Error`]; some of the bytes may have been written.
    pub async fn write_at(&self, offset: u64, data: Bytes) -> Result<(), Error> {
        match &self.0 {
            Of::V3(file) => file.write_at(offset, data).await,
            Of::V4(file) => file.write_at(offset, data).await,
        }
    }

    /// Writes bytes that are durable when this returns, with the size of the file, as a file that is open with `O_SYNC`.
    ///
    /// # Errors
    /// As [`File::write_at`].
    pub async fn write_sync_at(&self, offset: u64, data: Bytes) -> Result<(), Error> {
        match &self.0 {
            Of::V3(file) => file.write_sync_at(offset, data).await,
            Of::V4(file) => file.write_sync_at(offset, data).await,
        }
    }

    /// Makes everything durable that was written before.
    ///
    /// # Errors
    /// [`Error`]; the data are kept and the next flush tries again.
    pub async fn flush(&self) -> Result<(), Error> {
        match &self.0 {
            Of::V3(file) => file.flush().await,
            Of::V4(file) => file.flush().await,
        }
    }

    /// Bytes that were written and are not durable yet.
    #[must_use]
    pub fn uncommitted_bytes(&self) -> u64 {
        match &self.0 {
            Of::V3(file) => file.uncommitted_bytes(),
            Of::V4(file) => file.uncommitted_bytes(),
        }
    }

    /// Cuts or extends the file to `size` bytes.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn set_len(&self, size: u64) -> Result<(), Error> {
        match &self.0 {
            Of::V3(file) => file.set_len(size).await,
            Of::V4(file) => file.set_len(size).await,
        }
    }

    /// The attributes as the server knows them; written data are flushed first, so that size and times are right.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn metadata(&self) -> Result<Metadata, Error> {
        match &self.0 {
            Of::V3(file) => file.metadata().await,
            Of::V4(file) => file.metadata().await,
        }
    }

    /// Flushes, gives up what the server holds for the file, and closes.
    ///
    /// # Errors
    /// [`Error`]; the file is closed in any case as far as the server can be reached.
    pub async fn close(self) -> Result<(), Error> {
        match self.0 {
            Of::V3(file) => file.close().await,
            Of::V4(file) => file.close().await,
        }
    }

    /// Locks a range, whose end may be `u64::MAX` for all that will ever be after its start. What this file has locked of it
    /// already changes its kind. Waits for others as long as a request is tried.
    ///
    /// # Errors
    /// [`Error::Locked`] when others do not give it up, and as [`File::try_lock`].
    pub async fn lock(&self, kind: LockKind, range: Range<u64>) -> Result<(), Error> {
        self.v4(LOCKS)?.lock(kind, range).await
    }

    /// As [`File::lock`], without waiting for others: `Some` is a lock that is in the way.
    ///
    /// # Errors
    /// [`Error::NotOpenFor`] when the file is not open for reading (shared) or writing (exclusive), [`Error::LocksLost`],
    /// [`Error::NotInV3`] with NFSv3, and others.
    pub async fn try_lock(
        &self,
        kind: LockKind,
        range: Range<u64>,
    ) -> Result<Option<LockConflict>, Error> {
        self.v4(LOCKS)?.try_lock(kind, range).await
    }

    /// Gives up what this file has locked in a range, after all that was written is durable.
    ///
    /// # Errors
    /// [`Error`]; then the range is locked still.
    pub async fn unlock(&self, range: Range<u64>) -> Result<(), Error> {
        self.v4(LOCKS)?.unlock(range).await
    }

    /// A lock of others that [`File::try_lock`] would meet.
    ///
    /// # Errors
    /// [`Error`]; [`Error::NotInV3`] with NFSv3.
    pub async fn lock_conflict(
        &self,
        kind: LockKind,
        range: Range<u64>,
    ) -> Result<Option<LockConflict>, Error> {
        self.v4(LOCKS)?.lock_conflict(kind, range).await
    }

    /// Takes storage for a range, durably; the file grows to its end.
    ///
    /// # Errors
    /// [`Error`]; [`Error::NotInV3`] with NFSv3.
    pub async fn allocate(&self, offset: u64, len: u64) -> Result<(), Error> {
        self.v4(ALLOCATE)?.allocate(offset, len).await
    }

    /// Makes a hole of a range, durably. The size stays.
    ///
    /// # Errors
    /// [`Error`]; [`Error::NotInV3`] with NFSv3.
    pub async fn deallocate(&self, offset: u64, len: u64) -> Result<(), Error> {
        self.v4(ALLOCATE)?.deallocate(offset, len).await
    }

    /// Lets a range of this file be what a range of `src` is, without a copy of it; durable. 0 bytes are all to the end of `src`.
    ///
    /// # Errors
    /// [`Error`]; `XDev` and `NotSupp` when the server cannot share the storage of the two, [`Error::NotInV3`] with NFSv3.
    pub async fn clone_from(
        &self,
        offset: u64,
        src: &Self,
        src_offset: u64,
        len: u64,
    ) -> Result<(), Error> {
        let (dst, src) = (self.v4(COPY)?, src.v4(COPY)?);
        dst.clone_from(offset, src, src_offset, len).await
    }

    /// Copies a range of `src`; returns how many bytes of it, which are durable then. 0 bytes are all to the end of `src`.
    ///
    /// # Errors
    /// [`Error`]; a part may have been copied. [`Error::NotInV3`] with NFSv3.
    pub async fn copy_from(
        &self,
        offset: u64,
        src: &Self,
        src_offset: u64,
        len: u64,
    ) -> Result<u64, Error> {
        let (dst, src) = (self.v4(COPY)?, src.v4(COPY)?);
        dst.copy_from(offset, src, src_offset, len).await
    }
}
