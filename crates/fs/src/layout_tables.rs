//! What is under way on files with layouts: locks, gates, writers, truncations.
//!
//! # Ownership
//! Tables sit behind mutexes that are never held across an `await`. The state table's lock comes after a file's grant
//! lock and before none of these.

use crate::following::Following;
use crate::hint::Hinted;
use crate::unknown_sizes::{Truncating, UnknownSizes};
use crate::writer_set::WriterSet;
use namespace::FileId;
use state::Other;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::{RwLock, Semaphore};
use tracing_mutex::parkinglot::Mutex;

/// Locks that order grants and returns of layouts, by file.
const GRANT_LOCKS_COUNT: usize = 64;
/// Callbacks under way at one time.
const RECALLS_MAX: usize = 256;

/// The tables.
pub(crate) struct LayoutTables {
    /// Orders "a holder is entered" and "its mark is made" against "the last holder is gone" and "the mark goes".
    grant_locks: Vec<Mutex<()>>,
    pub(crate) unknown: Hinted<UnknownSizes>,
    pub(crate) truncating: Mutex<Truncating>,
    pub(crate) writers: Mutex<WriterSet>,
    /// I/O of this server itself against truncations, by file.
    gates: Mutex<BTreeMap<u64, Arc<RwLock<()>>>>,
    /// One permit for each recall under way.
    pub(crate) recalls: Arc<Semaphore>,
    /// Where the search for layouts under old keys goes on.
    pub(crate) recall_after: Mutex<Option<Other>>,
    /// Clients that are told of other versions of devices.
    pub(crate) following: Following,
}

impl LayoutTables {
    pub(crate) fn new(unknown: UnknownSizes, truncating: Truncating) -> Self {
        Self {
            grant_locks: (0..GRANT_LOCKS_COUNT).map(|_| Mutex::new(())).collect(),
            unknown: Hinted::new(unknown),
            truncating: Mutex::new(truncating),
            writers: Mutex::default(),
            gates: Mutex::default(),
            recalls: Arc::new(Semaphore::new(RECALLS_MAX)),
            recall_after: Mutex::default(),
            following: Following::default(),
        }
    }

    /// The lock that orders grants and returns on a file.
    pub(crate) fn grant_lock(&self, file: FileId) -> &Mutex<()> {
        let count = u64::try_from(self.grant_locks.len()).unwrap_or(1);
        &self.grant_locks[usize::try_from(file.0 % count).unwrap_or(0)]
    }

    /// The gate of a file; it lives as long as somebody uses it.
    pub(crate) fn gate(&self, file: FileId) -> Arc<RwLock<()>> {
        let mut gates = self.gates.lock();
        gates.retain(|_, gate| Arc::strong_count(gate) > 1);
        Arc::clone(gates.entry(file.0).or_default())
    }
}
