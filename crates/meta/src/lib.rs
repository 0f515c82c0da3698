//! The metadata store seam: an ordered, transactional key-value store (decision 5).
//!
//! Keys and values are bytes; what they mean belongs to the crates above. A transaction is a closure over [`Tx`]. The
//! store may run it again when an engine reports a conflict. Its effects must follow from what it reads, and it must
//! have no others. Applied transactions are visible at once and numbered by [`Seq`]. They are durable once
//! [`MetaStore::durable`] says so. Replies wait for the newest transaction that they observed (rule R7), so one fsync
//! serves all that wait.
//!
//! Entry points: [`MetaStore`], [`Tx`], [`transact`]. Adapters use [`Gate`] for their waiters, and
//! pass [`contract`].
#![forbid(unsafe_code)]

#[cfg(any(test, feature = "contract"))]
pub mod contract;
mod gate;
mod log;
mod mem;
mod on_the_spot;
mod overlay;

pub use gate::{Gate, Wait};
pub use log::BatchLog;
pub use mem::MemStore;
pub use on_the_spot::{OnTheSpot, SpotLimits, others_first};
pub use overlay::{Overlay, WRITE_OVERHEAD_BYTES, Write, Writes, merge, newest_of_each};

use bytes::Bytes;
use std::future::Future;
use std::pin::Pin;

/// Longest key in bytes; the shortest has one.
pub const KEY_BYTES_MAX: usize = 1024;
/// Longest value in bytes.
pub const VALUE_BYTES_MAX: usize = 1024 * 1024;
/// Most bytes that one transaction may write, counting keys, values and 64 bytes for each write.
pub const TX_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The number of an applied transaction. Transactions of one store are totally ordered; 0 is before
/// all of them. Numbers start again at 1 when a store is opened and have no gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Seq(pub u64);

/// An operational failure of the store. After the first one of a writing call the store refuses all
/// further writes: memory and disk may differ, and only a restart tells which.
#[derive(Debug, Clone)]
pub enum MetaError {
    /// The engine or the disk failed; the text is for the log.
    Io(std::sync::Arc<std::io::Error>),
    /// The stored bytes are not what was written.
    Corrupt(String),
    /// An earlier write failed, so the store refuses this one.
    Poisoned,
    /// An empty key, or a key, value or transaction above its limit. It is a bug of the caller, answered as an error of
    /// the transaction that wrote it. Nothing is applied and the store goes on.
    TooLarge,
    /// The file system under the store is too full for this transaction's [`Purpose`]. Nothing is applied and the
    /// store goes on. From [`MetaStore::durable`] it is a failed sync, after which nothing is written any more.
    NoSpace,
}

impl std::fmt::Display for MetaError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Io(e) => write!(f, "metadata store: {e}"),
            Self::Corrupt(what) => write!(f, "metadata store is corrupt: {what}"),
            Self::Poisoned => {
                write!(
                    f,
                    "metadata store stopped after a failed write; restart the server"
                )
            }
            Self::TooLarge => write!(f, "metadata key, value or transaction outside its limits"),
            Self::NoSpace => write!(f, "no space left for the metadata store"),
        }
    }
}

impl std::error::Error for MetaError {}

impl From<std::io::Error> for MetaError {
    fn from(e: std::io::Error) -> Self {
        if e.kind() == std::io::ErrorKind::StorageFull {
            Self::NoSpace
        } else {
            Self::Io(std::sync::Arc::new(e))
        }
    }
}

/// A key and its value.
pub type Pair = (Bytes, Bytes);

/// A future that is owned by its caller.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Reads, of the store or inside a transaction.
pub trait Read {
    /// The value of `key`.
    ///
    /// # Errors
    /// [`MetaError::Io`] or [`MetaError::Corrupt`].
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, MetaError>;

    /// Pairs with `start <= key < end`, ascending, at most `limit`.
    ///
    /// # Errors
    /// [`MetaError::Io`] or [`MetaError::Corrupt`].
    fn scan(&self, start: &[u8], end: &[u8], limit: usize) -> Result<Vec<Pair>, MetaError>;
}

/// What a transaction is for. It decides how far a nearly full file system's reserve is open to it. Each may go deeper
/// than those before it: a full store can still be started, read and made empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Purpose {
    /// Makes something new. Stops at the reserve.
    #[default]
    Ordinary,
    /// Records what was accepted before: sizes and times of data that were written, what is open for writing.
    Upkeep,
    /// Makes room, or must be possible before anything can: removals, cuts, floors and tombstones. Also all that a
    /// start, a client and a data server need to get so far. A transaction that deletes a key is one of these.
    Removal,
}

/// A transaction: reads see its own writes and nobody else's later ones.
pub trait Tx: Read {
    /// Says what the transaction is for; of several that were said, the deepest counts.
    fn purpose(&mut self, purpose: Purpose);
    /// Sets `key`.
    fn put(&mut self, key: &[u8], value: &[u8]);
    /// Removes `key`; removing an absent key is nothing.
    fn delete(&mut self, key: &[u8]);
}

/// What a transaction's closure decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TxOutcome {
    /// Apply the writes.
    Commit,
    /// Drop them: nothing happened.
    Abort,
}

/// The body of a transaction. It may run more than once.
pub type TxBody<'a> = dyn FnMut(&mut dyn Tx) -> Result<TxOutcome, MetaError> + 'a;

/// An ordered, transactional key-value store.
pub trait MetaStore: Read + Send + Sync + 'static {
    /// Runs `body` with no other writer in between and applies its writes at once, all or none.
    /// Returns the number of this transaction; after [`TxOutcome::Abort`], and when there were no writes,
    /// the number of the newest transaction it could have observed.
    ///
    /// # Errors
    /// What the body returned (nothing is applied), or the store's own failure.
    fn transact(&self, body: &mut TxBody<'_>) -> Result<Seq, MetaError>;

    /// Sets `key` in a transaction that the store chooses: the next one of anybody, or one that holds all such pairs that
    /// wait. Returns its number. A read may see the pair before that; of a key that both set, the transaction's value counts.
    /// For what only a later opening reads, such as the end of a reply: it costs no transaction of its own.
    ///
    /// # Errors
    /// [`MetaError::TooLarge`], and the store's own failure.
    fn put_later(&self, key: &[u8], value: &[u8]) -> Result<Seq, MetaError> {
        self.transact(&mut |tx| {
            tx.purpose(Purpose::Upkeep);
            tx.put(key, value);
            Ok(TxOutcome::Commit)
        })
    }

    /// The newest applied transaction: at least the number of every transaction whose writes a read that
    /// has returned could have seen.
    fn applied(&self) -> Seq;

    /// The newest transaction known to be on stable storage.
    fn durable_through(&self) -> Seq;

    /// Waits until `seq` is on stable storage, starting a group commit when none is under way.
    /// Returns at once, without allocating a waiter, when it already is.
    fn durable(&self, seq: Seq) -> BoxFuture<'_, Result<(), MetaError>>;

    /// Bytes on stable storage, for `ropewalk status`; an estimate.
    fn disk_bytes(&self) -> u64;
}

/// Runs a typed transaction: `Ok` commits, `Err` aborts and is handed back.
///
/// # Errors
/// The outer error is the store's, the inner one is the body's own verdict.
pub fn transact<T, E>(
    store: &(impl MetaStore + ?Sized),
    mut body: impl FnMut(&mut dyn Tx) -> Result<Result<T, E>, MetaError>,
) -> Result<(Result<T, E>, Seq), MetaError> {
    let mut result = None;
    let seq = store.transact(&mut |tx| {
        let verdict = body(tx)?;
        let outcome = if verdict.is_ok() {
            TxOutcome::Commit
        } else {
            TxOutcome::Abort
        };
        result = Some(verdict);
        Ok(outcome)
    })?;
    Ok((
        result.expect("a store that returns a Seq has run the body"),
        seq,
    ))
}

/// The smallest key that is greater than every key with this prefix, for [`Read::scan`].
#[must_use]
pub fn prefix_end(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return end;
        }
    }
    vec![u8::MAX; KEY_BYTES_MAX + 1]
}
