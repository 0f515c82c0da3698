//! Beside the state table, delegations have counters and tasks that wait.

use crate::waits::Waits;
use cluster::Job;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use tokio::sync::{Notify, Semaphore};

/// Callbacks under way at one time.
const CALLBACKS_MAX: usize = 256;

/// What the metadata server has for delegations beside the state table.
pub(crate) struct Delegating {
    /// Whether any are granted.
    pub(crate) enabled: bool,
    /// Whether holders may be the authority for times.
    pub(crate) with_times: bool,
    /// Told when one came back or was revoked.
    pub(crate) changed: Notify,
    pub(crate) callbacks: Arc<Semaphore>,
    pub(crate) revoking: Job,
    pub(crate) counts: Counts,
    /// Clients that wait for some to come back.
    pub(crate) waits: Waits,
}

/// What happened since the start.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) granted: AtomicU64,
    pub(crate) recalled: AtomicU64,
    pub(crate) revoked: AtomicU64,
}

/// Delegations, for whoever watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DelegationCounts {
    /// Held now.
    pub held: usize,
    /// Granted since the start.
    pub granted: u64,
    /// Recalls since the start.
    pub recalled: u64,
    /// Revoked since the start.
    pub revoked: u64,
}

impl Delegating {
    pub(crate) fn new(enabled: bool, with_times: bool) -> Self {
        Self {
            enabled,
            with_times,
            changed: Notify::new(),
            callbacks: Arc::new(Semaphore::new(CALLBACKS_MAX)),
            revoking: Job::default(),
            counts: Counts::default(),
            waits: Waits::default(),
        }
    }

    pub(crate) fn note_granted(&self) {
        self.counts.granted.fetch_add(1, Relaxed);
    }

    pub(crate) fn counts(&self, held: usize) -> DelegationCounts {
        DelegationCounts {
            held,
            granted: self.counts.granted.load(Relaxed),
            recalled: self.counts.recalled.load(Relaxed),
            revoked: self.counts.revoked.load(Relaxed),
        }
    }
}
