//! The disk under a redo log: records are durable after a sync that takes time, as in [`crate::store`].

use crate::disk::DiskTrouble;
use crate::injected_bug::InjectedBug;
use crate::rng::Rng;
use crate::store::sync_ms;
use meta::BoxFuture;
use parking_lot::Mutex;
use redo::{Fill, MemRedo, RedoError, RedoLog, RedoRecord};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// Room of a log: little, so that it gets full.
const CAPACITY_BYTES: u64 = 128 * 1024;

/// A log whose durability lags.
#[derive(Debug)]
pub(crate) struct SimRedo {
    inner: MemRedo,
    wanted: Notify,
    rng: Mutex<Rng>,
    bug: Option<InjectedBug>,
    disk: DiskTrouble,
}

impl SimRedo {
    /// An empty log on a disk.
    pub(crate) fn new(rng: Rng, bug: Option<InjectedBug>, disk: DiskTrouble) -> Arc<Self> {
        Self::over(MemRedo::manual(CAPACITY_BYTES), rng, bug, disk)
    }

    fn over(inner: MemRedo, rng: Rng, bug: Option<InjectedBug>, disk: DiskTrouble) -> Arc<Self> {
        Arc::new(Self {
            inner,
            wanted: Notify::new(),
            rng: Mutex::new(rng),
            bug,
            disk,
        })
    }

    /// Group commits, until dropped.
    pub(crate) async fn run(self: Arc<Self>) {
        loop {
            self.wanted.notified().await;
            let ms = sync_ms(&mut self.rng.lock()) + self.disk.delay_ms();
            tokio::time::sleep(Duration::from_millis(ms)).await;
            self.inner.sync();
        }
    }

    /// What a crash now leaves.
    pub(crate) fn crash(&self) -> Arc<Self> {
        let mut rng = self.rng.lock().split();
        let kept = rng.below(self.inner.unsynced() + 1);
        let left = self.inner.after_crash(kept);
        Self::over(left, rng, self.bug, self.disk.clone())
    }
}

impl RedoLog for SimRedo {
    fn replay(&self, visit: &mut dyn FnMut(u64, RedoRecord<'_>) -> bool) -> Result<(), RedoError> {
        self.inner.replay(visit)
    }

    fn append(&self, record: &RedoRecord<'_>) -> Option<u64> {
        let number = self.inner.append(record)?;
        if self.bug == Some(InjectedBug::DropRecords) {
            let _ = self.inner.retire(number);
        }
        Some(number)
    }

    fn durable(&self, number: u64) -> BoxFuture<'_, Result<(), RedoError>> {
        self.wanted.notify_one();
        self.inner.durable(number)
    }

    fn durable_through(&self) -> u64 {
        self.inner.durable_through()
    }

    fn retire(&self, number: u64) -> Result<u64, RedoError> {
        self.inner.retire(number)
    }

    fn fill(&self) -> Fill {
        self.inner.fill()
    }

    fn tie(&self, index_id: u64, is_known: bool) -> Result<(), RedoError> {
        self.inner.tie(index_id, is_known)
    }
}
