//! The disk under a metadata store: transactions are applied at once and durable after a group commit that takes time.
//!
//! # Ordering
//! A sync begins when somebody waits, lasts as long as the generator says, and covers what was applied when it ends.
//! Between syncs a crash takes back whatever nobody waited for.
//!
//! # Failure
//! [`SimStore::crash`] leaves the store of the next incarnation. The old one never becomes durable again, so whoever
//! still waits for it waits for ever.

use crate::disk::DiskTrouble;
use crate::injected_bug::{self, InjectedBug, Nameless};
use crate::rng::Rng;
use bytes::Bytes;
use meta::{BoxFuture, MemStore, MetaError, MetaStore, Pair, Read, Seq, TxBody};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// Longest group commit in milliseconds.
const SYNC_MS_MAX: u64 = 12;
/// Rarely the disk stalls for up to this.
const STALL_MS_MAX: u64 = 400;
const STALL_PER_MILLE: u32 = 20;

/// How long a sync takes.
pub(crate) fn sync_ms(rng: &mut Rng) -> u64 {
    let most = match rng.chance(STALL_PER_MILLE) {
        true => STALL_MS_MAX,
        false => SYNC_MS_MAX,
    };
    rng.within(0, most)
}

/// A store whose durability lags.
#[derive(Debug)]
pub(crate) struct SimStore {
    inner: MemStore,
    wanted: Notify,
    rng: Mutex<Rng>,
    bug: Option<InjectedBug>,
    nameless: Nameless,
    disk: DiskTrouble,
}

impl SimStore {
    /// An empty store on a disk.
    #[must_use]
    pub(crate) fn new(rng: Rng, bug: Option<InjectedBug>, disk: DiskTrouble) -> Arc<Self> {
        Arc::new(Self {
            inner: MemStore::manual(),
            wanted: Notify::new(),
            rng: Mutex::new(rng),
            bug,
            nameless: Nameless::default(),
            disk,
        })
    }

    /// The nameless files that a metadata store with [`InjectedBug::LoseRewrites`] has, this one or one that a crash leaves.
    pub(crate) fn nameless(&self) -> Nameless {
        self.nameless.clone()
    }

    fn lies(&self) -> bool {
        self.bug == Some(InjectedBug::ReplyBeforeDurable)
    }

    /// Group commits, until dropped.
    pub(crate) async fn run(self: Arc<Self>) {
        loop {
            self.wanted.notified().await;
            // A disk that lies is slow as well, so that the lie matters.
            let ms = match self.lies() {
                true => self.rng.lock().within(0, STALL_MS_MAX),
                false => sync_ms(&mut self.rng.lock()),
            };
            let ms = ms + self.disk.delay_ms();
            tokio::time::sleep(Duration::from_millis(ms)).await;
            self.inner.sync();
        }
    }

    /// What a crash now leaves: all that was synced, and by chance the oldest of the rest. Also returns how many
    /// transactions it took back.
    #[must_use]
    pub(crate) fn crash(&self) -> (Arc<Self>, usize) {
        let mut rng = self.rng.lock().split();
        let unsynced = self.inner.unsynced();
        let kept = if rng.chance(500) {
            0
        } else {
            rng.index(unsynced + 1)
        };
        let next = Self {
            inner: self.inner.after_crash_keeping(kept),
            wanted: Notify::new(),
            rng: Mutex::new(rng),
            bug: self.bug,
            nameless: self.nameless(),
            disk: self.disk.clone(),
        };
        (Arc::new(next), unsynced - kept)
    }

    /// Makes everything durable now, as an orderly stop does.
    pub(crate) fn sync(&self) {
        self.inner.sync();
    }
}

impl Read for SimStore {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, MetaError> {
        self.inner.get(key)
    }

    fn scan(&self, start: &[u8], end: &[u8], limit: usize) -> Result<Vec<Pair>, MetaError> {
        self.inner.scan(start, end, limit)
    }
}

impl MetaStore for SimStore {
    fn transact(&self, body: &mut TxBody<'_>) -> Result<Seq, MetaError> {
        self.inner
            .transact(&mut |tx| injected_bug::transact((self.bug, &self.nameless), body, tx))
    }

    fn applied(&self) -> Seq {
        self.inner.applied()
    }

    fn durable_through(&self) -> Seq {
        if self.lies() {
            return self.inner.applied();
        }
        self.inner.durable_through()
    }

    fn durable(&self, seq: Seq) -> BoxFuture<'_, Result<(), MetaError>> {
        if self.inner.durable_through() < seq {
            self.wanted.notify_one();
        }
        if self.lies() {
            return Box::pin(std::future::ready(Ok(())));
        }
        self.inner.durable(seq)
    }

    fn disk_bytes(&self) -> u64 {
        self.inner.disk_bytes()
    }
}
