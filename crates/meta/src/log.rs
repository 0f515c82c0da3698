//! The log of a store: where a batch must be before the engine has it.
//!
//! An adapter gathers transactions into a batch, appends it to the log, writes it into its engine, and opens the gate, in that
//! order. An embedded engine is its own log: its journal. A metadata server that survives the loss of a machine needs another
//! one, which other machines have too.

use crate::{MetaError, Writes};

/// A log of batches.
pub trait BatchLog: Send + Sync + std::fmt::Debug {
    /// Appends batch `commit` of the store's life; batches come in order, one at a time. Blocks until the batch is durable
    /// wherever the log promises it.
    ///
    /// # Errors
    /// The batch may or may not be in the log. The store writes nothing after it: neither this batch nor another.
    fn append(&self, commit: u64, writes: &Writes) -> Result<(), MetaError>;
}
