//! The redo log seam of a data server: small stable writes that are durable before their objects are.
//!
//! A stable WRITE of at most [`DATA_BYTES_MAX`] goes to the object without a sync and into this log. One sync of the log
//! makes it durable. The object is synced later. After a crash the records are applied again, in the order of their
//! numbers, before the object is served.
//!
//! Which records still count is the data server's business: its index says up to which number an object is durable by
//! itself. The log keeps everything after the number up to which it was told to retire.
//!
//! Entry points: [`RedoLog`], [`RedoRecord`], [`MemRedo`]. Adapters pass the [`contract`]. This crate knows no files.
#![forbid(unsafe_code)]

#[cfg(any(test, feature = "contract"))]
pub mod contract;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod mem;
mod record;

pub use mem::MemRedo;
pub use record::{DATA_BYTES_MAX, RECORD_HEAD_BYTES, RedoRecord};

use meta::BoxFuture;
use std::sync::Arc;

/// A failure of the log. After the first one it takes no more records.
#[derive(Debug, Clone)]
pub enum RedoError {
    /// The disk or file system failed.
    Io(Arc<std::io::Error>),
    /// The stored bytes are not what was written: file, position and what to do.
    Corrupt(String),
}

impl std::fmt::Display for RedoError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Io(e) => write!(f, "redo log: {e}"),
            Self::Corrupt(what) => write!(f, "redo log is corrupt: {what}"),
        }
    }
}

impl std::error::Error for RedoError {}

impl From<std::io::Error> for RedoError {
    fn from(e: std::io::Error) -> Self {
        Self::Io(Arc::new(e))
    }
}

/// How full a log is, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Fill {
    /// Taken by records that were not retired.
    pub used_bytes: u64,
    /// All that the log may take.
    pub capacity_bytes: u64,
}

/// A log of records with numbers that rise by one, over all openings. All methods may be called from any thread.
pub trait RedoLog: Send + Sync + 'static {
    /// Calls `visit` with each record that is durable and not retired, oldest first. It ends when `visit` returns false.
    /// Records may be appended meanwhile; retiring waits. Reads all of the log.
    ///
    /// # Errors
    /// [`RedoError::Corrupt`] for a record that was durable and is not whole, or of a form that this version does not know.
    fn replay(&self, visit: &mut dyn FnMut(u64, RedoRecord<'_>) -> bool) -> Result<(), RedoError>;

    /// Takes a record: its number. Not durable yet. `None` when there is no room for it, or the log has failed.
    fn append(&self, record: &RedoRecord<'_>) -> Option<u64>;

    /// Waits until the record with this number is durable. One sync serves all that wait.
    fn durable(&self, number: u64) -> BoxFuture<'_, Result<(), RedoError>>;

    /// The newest durable record, 0 for none in the life of the log.
    fn durable_through(&self) -> u64;

    /// Records up to `number` are not needed any more: their room may be used again. Returns the number up to which no
    /// record will be visited again. That may be less: room is given back in steps. Waits for the disk.
    ///
    /// # Errors
    /// The log's failure.
    fn retire(&self, number: u64) -> Result<u64, RedoError>;

    /// How full it is.
    fn fill(&self) -> Fill;

    /// Ties the log for good to the index that knows its records, by its id. `is_known` says that the index was tied to a
    /// log before, so that a log which was just made cannot be its own.
    ///
    /// # Errors
    /// One sentence: the log is tied to another index, or is new and the index is not.
    fn tie(&self, index_id: u64, is_known: bool) -> Result<(), RedoError>;
}
