//! The object store seam of a data server: sparse byte objects, one per file, generation and place.
//!
//! The offset in an object is the offset in the file (decision 2), so an object is sparse when the
//! file is striped. The store knows nothing of handles, fences, tombstones or sizes in the name
//! space: the data server keeps those in its index. Calls are synchronous; the caller decides
//! which may run on its event loop (page-cache reads and writes) and which go to a blocking pool (syncs).
//!
//! Entry points: [`ObjectStore`], [`MemObjects`]. Adapters pass the [`contract`].
#![forbid(unsafe_code)]

#[cfg(any(test, feature = "contract"))]
pub mod contract;
mod mem;

pub use mem::{KEPT_FACTOR_MAX, MemObjects, MemOptions, PAGE_BYTES};

use bytes::Bytes;
use std::any::Any;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Largest size of an object in bytes: file offsets are signed (RFC 8881 §5.8.2.11 maxfilesize is below it).
pub const OBJECT_BYTES_MAX: u64 = i64::MAX as u64;

/// One past the last byte of a range of an object.
///
/// # Errors
/// [`ObjectError::TooLarge`] when no object has it.
pub fn range_end(offset: u64, len: u64) -> Result<u64, ObjectError> {
    let end = offset.checked_add(len);
    end.filter(|end| *end <= OBJECT_BYTES_MAX)
        .ok_or(ObjectError::TooLarge)
}

/// Names one object of a data server. File ids are never reused; the generation distinguishes
/// successive contents of one file id (for example after a restore), the place its copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId {
    /// File id, unique in the cluster for ever.
    pub file_id: u64,
    /// Generation of the file id.
    pub generation: u32,
    /// Place in the file's placement group; 0 everywhere in a group of earlier versions.
    pub place: u8,
}

/// What went wrong with an object.
#[derive(Debug)]
pub enum ObjectError {
    /// There is no such object.
    NotFound,
    /// The store is full (ENOSPC, EDQUOT).
    NoSpace,
    /// The offset or size is above what the store can hold.
    TooLarge,
    /// Readers hold the bytes that would be cut, and did not let go in time; trying again can help.
    Busy,
    /// The file system below cannot do this.
    Unsupported,
    /// The disk or file system failed.
    Io(std::io::Error),
}

impl std::fmt::Display for ObjectError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotFound => write!(f, "no such object"),
            Self::NoSpace => write!(f, "the object store is full"),
            Self::TooLarge => write!(f, "offset or size above the object store's limit"),
            Self::Busy => write!(f, "readers hold the end of the object"),
            Self::Unsupported => write!(f, "the object store's file system cannot do this"),
            Self::Io(e) => write!(f, "object store: {e}"),
        }
    }
}

impl std::error::Error for ObjectError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(e) => Some(e),
            _ => None,
        }
    }
}

/// Keeps the bytes of a [`Span`] where they are: while any clone lives, no `set_size` cuts them (rule R16).
/// The holder must let go in bounded time; a data server closes readers that are too slow.
pub type Hold = Arc<dyn Any + Send + Sync>;

/// Bytes of an object, where they lie: nothing is copied until they leave.
#[derive(Debug, Clone)]
pub enum Span {
    /// In memory, in pieces that follow each other; none is empty.
    Pieces(Vec<Bytes>),
    /// In a file, for sendfile.
    File {
        /// The object's file.
        file: Arc<File>,
        /// First byte.
        offset: u64,
        /// Bytes; the object holds at least as many until `hold` is dropped.
        len: u32,
        /// To be dropped when the last byte has left.
        hold: Hold,
    },
}

impl Span {
    /// Bytes in this span.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Pieces(pieces) => pieces.iter().map(Bytes::len).sum(),
            Self::File { len, .. } => *len as usize,
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The bytes of a span in one piece. Reads a file, and may wait for the disk.
///
/// # Errors
/// [`ObjectError::Io`].
pub fn whole(span: Span) -> Result<Bytes, ObjectError> {
    match span {
        Span::Pieces(pieces) if pieces.len() == 1 => {
            Ok(pieces.into_iter().next().unwrap_or_default())
        }
        Span::Pieces(pieces) => Ok(pieces.concat().into()),
        Span::File {
            file, offset, len, ..
        } => {
            let mut bytes = vec![0; len as usize];
            file.read_exact_at(&mut bytes, offset)
                .map_err(ObjectError::Io)?;
            Ok(bytes.into())
        }
    }
}

/// Space of a store in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Capacity {
    /// All of it.
    pub total_bytes: u64,
    /// What is left to write.
    pub free_bytes: u64,
    /// Bytes without data: `free_bytes`, and what the file system keeps for its administrator.
    pub unused_bytes: u64,
    /// Largest object that the file system takes, in bytes.
    pub object_bytes_max: u64,
    /// The disk behind it: equal for stores that share one, so that its room is counted once. 0 shares with nobody.
    pub disk: u64,
}

/// What a store says of one object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectStat {
    /// One past the last byte.
    pub size_bytes: u64,
    /// Bytes of storage behind it.
    pub allocated_bytes: u64,
}

/// What [`ObjectStore::seek`] looks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// Bytes that may be other than zero.
    Data,
    /// Bytes that take no storage, and read as zeros.
    Hole,
}

/// Sparse byte objects. All methods may be called from any thread.
pub trait ObjectStore: Send + Sync + 'static {
    /// At most `len` bytes from `offset`. Fewer (or none) at the end of the object; holes are zeros.
    ///
    /// # Errors
    /// [`ObjectError::NotFound`] or the store's own failure.
    fn read(&self, id: ObjectId, offset: u64, len: u32) -> Result<Span, ObjectError>;

    /// As [`ObjectStore::read`], from the disk where the store can: what the page cache has is no proof of what lies there.
    /// May wait for the disk, and copies.
    ///
    /// # Errors
    /// As [`ObjectStore::read`].
    fn read_from_disk(&self, id: ObjectId, offset: u64, len: u32) -> Result<Bytes, ObjectError> {
        self.read(id, offset, len).and_then(whole)
    }

    /// Writes all of `data` at `offset`, making the object when it does not exist, also when `data` is empty.
    /// Not durable.
    ///
    /// # Errors
    /// [`ObjectError::NoSpace`] (part of the data may have been written) or the store's own failure.
    fn write(&self, id: ObjectId, offset: u64, data: &[u8]) -> Result<(), ObjectError>;

    /// As [`ObjectStore::write`], of bytes that the store may keep as they are instead of a copy. As long as it keeps any of
    /// them, `buffer_bytes` of memory stay taken. How much more that may be than what it keeps is the store's business to bound.
    /// A store that keeps none has nothing to do here.
    ///
    /// # Errors
    /// As [`ObjectStore::write`].
    fn write_shared(
        &self,
        id: ObjectId,
        offset: u64,
        data: &Bytes,
        buffer_bytes: usize,
    ) -> Result<(), ObjectError> {
        let _ = buffer_bytes;
        self.write(id, offset, data)
    }

    /// As [`ObjectStore::write`], of bytes that the store has accepted before, in an earlier process that a crash has ended. What
    /// the store keeps in reserve is open to them.
    ///
    /// # Errors
    /// As [`ObjectStore::write`].
    fn write_again(&self, id: ObjectId, offset: u64, data: &[u8]) -> Result<(), ObjectError> {
        self.write(id, offset, data)
    }

    /// Bytes that reads and writes have copied so far, in memory or between memory and files. What leaves a file without
    /// passing through this process is not among them.
    fn copied_bytes(&self) -> u64;

    /// Makes data, size and existence (the directory entry) of the object durable. After an error the
    /// state of unsynced data is unknown: the caller must change its write verifier.
    ///
    /// # Errors
    /// [`ObjectError::NotFound`] or the store's own failure.
    fn sync(&self, id: ObjectId) -> Result<(), ObjectError>;

    /// To be called after a failed sync, if nobody counts on what it should have written. Linux takes those bytes for
    /// written: reads give them, no later sync writes them, and a power cut brings the old ones back. Afterwards
    /// reads give what the disk has, as far as the store can see to that.
    ///
    /// # Errors
    /// [`ObjectError::NotFound`] or the store's own failure.
    fn drop_unwritten(&self, id: ObjectId) -> Result<(), ObjectError>;

    /// Size and storage of the object.
    ///
    /// # Errors
    /// [`ObjectError::NotFound`] or the store's own failure.
    fn stat(&self, id: ObjectId) -> Result<ObjectStat, ObjectError>;

    /// The first byte at or after `offset` that is `what`; `None` when there is none before the end. Only a hint: a store may
    /// take a hole for data, never data for a hole.
    ///
    /// # Errors
    /// [`ObjectError::NotFound`] or the store's own failure.
    fn seek(&self, id: ObjectId, offset: u64, what: Content) -> Result<Option<u64>, ObjectError>;

    /// Makes a hole of a range: it reads as zeros and what storage can be given back is. The size stays. What is
    /// reserved after the end may stay reserved. Not durable.
    ///
    /// # Errors
    /// [`ObjectError::NotFound`], [`ObjectError::Unsupported`] or the store's own failure.
    fn punch(&self, id: ObjectId, offset: u64, len: u64) -> Result<(), ObjectError>;

    /// Takes the storage for a range, so that writes there do not fail for lack of it, making the object when it does not
    /// exist. What is there stays, and so does the size, also when the range goes beyond it. Not durable.
    ///
    /// # Errors
    /// [`ObjectError::NoSpace`] (part of the range may have its storage then), [`ObjectError::Unsupported`] or the store's
    /// own failure.
    fn reserve(&self, id: ObjectId, offset: u64, len: u64) -> Result<(), ObjectError>;

    /// Makes the `len` bytes of `dst` at its offset what those of `src` at its offset are, by sharing their storage. Holes stay
    /// holes, and so becomes what lies after the end of `src`, which need not exist. `dst` is made when it does not exist, and
    /// grows as far as `src` has bytes. The ranges may not overlap. Not durable. With a `len` of 0 nothing is done, but to tell
    /// whether the store can.
    ///
    /// # Errors
    /// [`ObjectError::Unsupported`], [`ObjectError::NoSpace`] (part of the range may be done then), [`ObjectError::TooLarge`] or
    /// the store's own failure.
    fn clone_range(
        &self,
        src: (ObjectId, u64),
        dst: (ObjectId, u64),
        len: u64,
    ) -> Result<(), ObjectError>;

    /// Cuts or extends the object, which must exist, and makes that durable; storage reserved after the new end is given
    /// back. A cut waits for the spans that reach beyond it; reads that come meanwhile end at the new size.
    ///
    /// # Errors
    /// [`ObjectError::NotFound`], [`ObjectError::Busy`] (nothing was cut) or the store's own failure.
    fn set_size(&self, id: ObjectId, size_bytes: u64) -> Result<(), ObjectError>;

    /// Removes the object and makes that durable. Removing what does not exist succeeds. Spans that were read before
    /// keep their bytes.
    ///
    /// # Errors
    /// The store's own failure.
    fn remove(&self, id: ObjectId) -> Result<(), ObjectError>;

    /// Whether `read` of these bytes would not wait for a disk. Never waits for one itself; a guess, in doubt false.
    fn is_cached(&self, id: ObjectId, offset: u64, len: u32) -> bool;

    /// Space of the store.
    ///
    /// # Errors
    /// The store's own failure.
    fn capacity(&self) -> Result<Capacity, ObjectError>;

    /// Calls `visit` for every object, in no order, until it returns false.
    ///
    /// # Errors
    /// The store's own failure.
    fn list(&self, visit: &mut dyn FnMut(ObjectId, ObjectStat) -> bool) -> Result<(), ObjectError>;

    /// Whether objects outlive this process.
    fn is_persistent(&self) -> bool;

    /// Ties the objects for good to the index that knows them, by its id; a store that no process outlives has nothing
    /// to tie. `knows_objects` says that the index has entries, so that a store which was just made cannot be its own.
    ///
    /// # Errors
    /// One sentence: the store is tied to another index, or is new and the index is not.
    fn tie(&self, index_id: u64, knows_objects: bool) -> Result<(), ObjectError>;
}
