//! The count of a store's changes (rule R9): from when on transactions count.
//!
//! Owns the count that the index tells; [`crate::rollback_guard`] tells it to the MDS.
//!
//! # Ordering
//! Transactions of a process count once the MDS has taken its HELLO, and never before. A copy of a store applies redo
//! records, syncs and scrubs as well while it is refused or waits. Counted, that would make it look as new as the store
//! itself, and what it lacks would be lost.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use meta::{MetaError, MetaStore, Purpose, Seq, TxOutcome};

/// Where the index keeps the count.
pub(crate) const CHANGES_KEY: &[u8] = b"schanges";

/// How many changes there were before this process, and after which transaction it counts.
pub(crate) struct Changes {
    before: u64,
    are_counted: AtomicBool,
    /// The largest number until then.
    since: AtomicU64,
}

impl Changes {
    /// Of a process that was just started.
    pub(crate) fn new(before: u64) -> Self {
        Self {
            before,
            are_counted: AtomicBool::new(false),
            since: AtomicU64::new(u64::MAX),
        }
    }

    /// Whether a transaction counts; to be asked inside of it.
    pub(crate) fn are_counted(&self) -> bool {
        self.are_counted.load(SeqCst)
    }

    /// Changes up to a transaction of this process: numbers of transactions have no gaps.
    pub(crate) fn at(&self, seq: Seq) -> u64 {
        self.before + seq.0.saturating_sub(self.since.load(SeqCst))
    }

    /// From now on transactions are changes: the MDS has taken this process.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) fn count_from_now(&self, store: &dyn MetaStore) -> Result<(), MetaError> {
        if self.are_counted() {
            return Ok(());
        }
        // A transaction of its own tells those before it from those after it.
        let begun = store.transact(&mut |tx| {
            tx.purpose(Purpose::Removal);
            tx.put(CHANGES_KEY, &xdr::encode_to_vec(&self.before));
            self.are_counted.store(true, SeqCst);
            Ok(TxOutcome::Commit)
        });
        match begun {
            Ok(seq) => self.since.store(seq.0, SeqCst),
            Err(_) => self.are_counted.store(false, SeqCst),
        }
        begun.map(drop)
    }
}
