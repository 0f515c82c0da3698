//! Calls for files.

use crate::file_at::{FarCommitted, FarWritten, FileAt, PlacedObject};
use crate::foreign::Foreign;
use crate::refusals::FarError;
use bytes::Bytes;
use control::StatItem;
use nfs4::{NfsStatus, StableHow, Verifier};
use std::collections::BTreeMap;

const NOT_YET: FarError = FarError::of(NfsStatus::Delay);

#[allow(clippy::unused_async, reason = "a skeleton")]
impl Foreign {
    /// The objects of each good mirror, by stripe. Missing ones are made, and all have the ids of the epoch then.
    ///
    /// # Errors
    /// [`FarError`]: `Delay` while a server is down, and when the file has a newer epoch already.
    pub async fn handles(&self, at: &FileAt) -> Result<Vec<Vec<PlacedObject>>, FarError> {
        let _ = at;
        Err(NOT_YET)
    }

    /// As [`Foreign::handles`], for what is needed later.
    ///
    /// # Errors
    /// As [`Foreign::handles`].
    pub async fn make(&self, at: &FileAt) -> Result<(), FarError> {
        self.handles(at).await.map(drop)
    }

    /// Reads bytes from good mirrors. What no object has is zeros.
    ///
    /// # Errors
    /// [`FarError`] when some bytes are at no good mirror.
    pub async fn read(&self, at: &FileAt, offset: u64, len: u64) -> Result<Bytes, FarError> {
        let _ = (at, offset, len);
        Err(NOT_YET)
    }

    /// Writes bytes to all good mirrors, at least as stable as asked. It succeeds where one of them took all.
    ///
    /// # Errors
    /// [`FarError`]: `NoSpc`, `DQuot` and `FBig` of any mirror, or when no mirror took all.
    pub async fn write(
        &self,
        at: &FileAt,
        offset: u64,
        stable: StableHow,
        bytes: &Bytes,
    ) -> Result<FarWritten, FarError> {
        let _ = (at, offset, stable, bytes);
        Err(NOT_YET)
    }

    /// Makes what was written to a file durable at all good mirrors.
    ///
    /// # Errors
    /// [`FarError`] when no mirror did it.
    pub async fn commit(&self, at: &FileAt) -> Result<FarCommitted, FarError> {
        let _ = at;
        Err(NOT_YET)
    }

    /// One write verifier for those of the servers of a file: as in `seen`, and else as last seen.
    #[must_use]
    pub fn verifier(&self, at: &FileAt, seen: &BTreeMap<u32, Verifier>) -> Verifier {
        let _ = (at, seen);
        Verifier::default()
    }

    /// Cuts each object of the good mirrors to `size`, or makes it as long. They have the ids of the epoch before. Returns the
    /// mirrors that failed, for the caller to mark bad.
    ///
    /// # Errors
    /// [`FarError`] when no mirror did it.
    pub async fn cut(&self, at: &FileAt, size: u64) -> Result<u32, FarError> {
        let _ = (at, size);
        Err(NOT_YET)
    }

    /// What is at the servers of a file: one item a stripe, from the first good mirror that answers.
    ///
    /// # Errors
    /// [`FarError`] when no good mirror tells of some stripe.
    pub async fn stat(&self, at: &FileAt) -> Result<Vec<StatItem>, FarError> {
        let _ = at;
        Err(NOT_YET)
    }

    /// Removes an object at one server. One that is not there is removed.
    ///
    /// # Errors
    /// [`FarError`].
    pub async fn remove(&self, server: u32, number: u64, generation: u32) -> Result<(), FarError> {
        let _ = (server, number, generation);
        Err(NOT_YET)
    }
}
