//! The metadata store on fjall: an embedded LSM tree with group commit.
//!
//! A transaction runs under one writer lock and buffers its writes. They are applied when they are gathered with those of other
//! transactions. They go into fjall as one batch (see `queue`), and before that into the store's own log (see `ring`). The log
//! is synced while somebody waits in `durable`, for all who wait at once (see `commit`). Without a waiter nothing is synced.
//!
//! `transact` is synchronous: it works in memory, and it reads blocks that are not cached from disk. Its worst case is
//! a stall of the engine. With four memtables unflushed or thirty runs in level 0 it sleeps in steps of 10-100 ms. It
//! goes on when the flush or the compaction has caught up with the disk.
//!
//! # Ownership
//! A [`FjallStore`] owns its directory (see `store_dir`); a second one, in this process or another, is refused.
//!
//! # Ordering
//! `applied` rises before a transaction becomes visible, so it is never behind what a read has seen (rule R7).
//! Scans go through a snapshot and what is gathered at the same moment. Both hold whole transactions, so scans see whole ones.
//! A batch is gathered, appended to the logs, written into the engine, synced, and then the gate opens.
//!
//! # Failure
//! The first error of a batch or a sync poisons the store: no write is accepted and nothing more becomes durable.
//! When the file system is nearly full, transactions are refused with [`MetaError::NoSpace`] before the
//! engine would fail, and the store goes on; see [`Options::reserve_bytes`].
//! Entry point: [`FjallStore::open`].
#![forbid(unsafe_code)]

mod background;
mod ballast;
mod checkpoint;
mod commit;
mod engine;
mod journal;
mod keys;
mod memtables;
mod queue;
mod reclaim;
mod ring;
mod store_dir;

use bytes::Bytes;
use commit::Committer;
use engine::Engine;
use fjall::compaction::Leveled;
use fjall::{CompressionType, Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use meta::{
    BatchLog, BoxFuture, MetaError, MetaStore, Overlay, Pair, Purpose, Read, Seq, SpotLimits, Tx,
    TxBody, TxOutcome,
};
use reclaim::Reclaim;
use ring_log::RingLog;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::sync::Arc;
use store_dir::StoreDir;

/// Smallest limit of journal bytes that fjall takes.
pub const JOURNAL_BYTES_MIN: u64 = 64 * 1024 * 1024;
/// Threads that flush and compact. fjall's default is one for each processor, 4 at most. With 2 one of them compacts.
/// The other, which is kept for flushes, hands the next compaction round and round, and a processor is lost for that
/// long (fjall 3.1.13, `worker_tick`).
const WORKER_THREADS: usize = 4;
/// Tables that are written out of memory before they are merged; fjall's default is 4, and at 30 it holds writers up.
const RUNS_IN_LEVEL_0: u8 = 8;
/// The one keyspace of the engine.
const KEYSPACE: &str = "meta";

/// How to open a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Memory for cached blocks.
    pub cache_bytes: u64,
    /// Journals are flushed into tables to stay below this; at least [`JOURNAL_BYTES_MIN`]. A restart reads them.
    pub journal_bytes: u64,
    /// Writes in memory before they are flushed into a table; up to four such tables wait for the disk.
    pub memtable_bytes: u64,
    /// Free space of the file system below which ordinary transactions are refused, beside what merges of the store's tables
    /// take for a while: as much as it has, at most 1.5 GiB. Upkeep goes on to half of it,
    /// removals to a quarter ([`Purpose`]). What is then left is for the engine, which writes out tables of
    /// `memtable_bytes`. 0 never refuses.
    pub reserve_bytes: u64,
    /// Size of the store's own log, at least [`ring_log::CAPACITY_BYTES_MIN`]. 0 makes none: each commit syncs the engine's
    /// journal then. A store that has a log keeps it.
    pub log_bytes: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            cache_bytes: 256 * 1024 * 1024,
            journal_bytes: 256 * 1024 * 1024,
            memtable_bytes: 32 * 1024 * 1024,
            reserve_bytes: 128 * 1024 * 1024,
            log_bytes: 32 * 1024 * 1024,
        }
    }
}

/// The store.
#[derive(Debug)]
pub struct FjallStore {
    // Dropped in this order: the threads go before the engine.
    reclaim: Reclaim,
    committer: Committer,
    engine: Arc<Engine>,
    torn_bytes: u64,
}

pub(crate) fn engine_error(error: fjall::Error) -> MetaError {
    match error {
        fjall::Error::Io(e) | fjall::Error::Storage(fjall::LsmError::Io(e)) => e.into(),
        fjall::Error::Poisoned => MetaError::Poisoned,
        other => MetaError::Corrupt(other.to_string()),
    }
}

impl FjallStore {
    /// Opens the store in `dir`, making it when the directory is empty or absent.
    ///
    /// # Errors
    /// [`MetaError::Io`] with one sentence that names the directory: in use by another process, not writable, not
    /// a store, another format. [`MetaError::Corrupt`] when something that was durable is gone.
    pub fn open(dir: &Path, options: Options) -> Result<Self, MetaError> {
        Self::open_with(dir, options, SpotLimits::USUAL, None)
    }

    /// As [`FjallStore::open`], with a log of its own beside the engine's journal. Each batch is in `log` before the
    /// engine has it, and a transaction is durable only then.
    ///
    /// # Errors
    /// As [`FjallStore::open`].
    pub fn open_logged(
        dir: &Path,
        options: Options,
        log: Arc<dyn BatchLog>,
    ) -> Result<Self, MetaError> {
        Self::open_with(dir, options, SpotLimits::USUAL, Some(log))
    }

    fn open_with(
        dir: &Path,
        options: Options,
        limits: SpotLimits,
        log: Option<Arc<dyn BatchLog>>,
    ) -> Result<Self, MetaError> {
        let (store_dir, new) = StoreDir::take(dir)?;
        let engine_dir = store_dir.engine_dir();
        let checked = if new {
            journal::Checked::default()
        } else {
            journal::check(&engine_dir, store_dir.watermark()?)?
        };
        let database = Database::builder(&engine_dir)
            .cache_size(options.cache_bytes)
            .max_journaling_size(options.journal_bytes.max(JOURNAL_BYTES_MIN))
            .journal_compression(CompressionType::None)
            .manual_journal_persist(true)
            .worker_threads(WORKER_THREADS)
            .open()
            .map_err(engine_error)?;
        let keyspace = database
            .keyspace(KEYSPACE, || {
                KeyspaceCreateOptions::default()
                    .compaction_strategy(Arc::new(compaction()))
                    .manual_journal_persist(true)
                    .max_memtable_size(options.memtable_bytes)
            })
            .map_err(engine_error)?;
        if new {
            database
                .persist(PersistMode::SyncAll)
                .map_err(engine_error)?;
            store_dir.finish_creation()?;
        }
        let commit = number(&keyspace, keys::COMMIT_KEY)?.unwrap_or(0);
        let ring = open_ring(&store_dir, (&database, &keyspace), options.log_bytes)?;
        let engine = Arc::new(Engine::new(
            (database, keyspace),
            store_dir,
            options,
            commit,
            (log, ring),
        )?);
        let replayed = engine.replay()?;
        let (commit, watermark) = (engine.written().commit, engine.store_dir.watermark()?);
        if commit < watermark {
            return Err(MetaError::Corrupt(format!(
                "{} ends at batch {commit}, but {watermark} had been synced; restore it from a backup",
                engine.store_dir.dir().display()
            )));
        }
        if replayed > 0 {
            tracing::info!(
                replayed,
                "applied batches of the log that the engine had lost"
            );
        }
        // From here on the ring holds what comes after this.
        checkpoint::checkpoint(&engine, &mut journal::NewestJournal::default())?;
        Ok(Self {
            reclaim: Reclaim::start(engine.clone())?,
            committer: Committer::start(engine.clone(), limits)?,
            engine,
            torn_bytes: checked.torn_bytes,
        })
    }

    /// Bytes at the end of the journal that a crash had torn and that were cut when the store was opened.
    /// None of them was ever reported as durable. For the log.
    #[must_use]
    pub fn torn_bytes(&self) -> u64 {
        self.torn_bytes
    }
}

/// Few merges of what was written last: inline files make most of it, and many are replaced or removed soon. Bytes written
/// for each byte of such files: of 3,000 bytes in 60 MB 3.5 instead of 3.7, of 32 KiB in 330 MB 2.7 instead of 3.3.
fn compaction() -> Leveled {
    Leveled::default().with_l0_threshold(RUNS_IN_LEVEL_0)
}

/// A number of the store's own.
fn number(keyspace: &Keyspace, key: [u8; 2]) -> Result<Option<u64>, MetaError> {
    let Some(value) = keyspace.get(key).map_err(engine_error)? else {
        return Ok(None);
    };
    let number = <[u8; 8]>::try_from(&*value);
    number
        .map(|bytes| Some(u64::from_be_bytes(bytes)))
        .map_err(|_| MetaError::Corrupt("a number of the store is not eight bytes".into()))
}

/// Opens the store's own log, or makes it where it is wanted and there was none.
fn open_ring(
    store_dir: &StoreDir,
    (database, keyspace): (&Database, &Keyspace),
    log_bytes: u64,
) -> Result<Option<RingLog>, MetaError> {
    let known = number(keyspace, keys::ID_KEY)?;
    if known.is_none() && log_bytes == 0 {
        return Ok(None);
    }
    let ring = RingLog::open(&store_dir.log_path(), log_bytes).map_err(ring::ring_error)?;
    if known.is_none() && ring.durable_through() > 0 {
        return Err(MetaError::Corrupt(format!(
            "{} has a log with records, but the engine knows of no log; restore it from a backup",
            store_dir.dir().display()
        )));
    }
    // A start that a crash cut short has tied an empty log.
    let begun = ring.tied_to();
    let random = || RandomState::new().hash_one(store_dir.dir()).max(1);
    let id = known.or(begun).unwrap_or_else(random);
    ring.tie(id, known.is_some()).map_err(ring::ring_error)?;
    if known.is_none() {
        // A program that knows no logs must not open the store any more, before the log holds anything.
        store_dir.note_log()?;
        let noted = keyspace.insert(keys::ID_KEY, id.to_be_bytes());
        noted.map_err(engine_error)?;
        let synced = database.persist(PersistMode::SyncAll);
        synced.map_err(engine_error)?;
    }
    Ok(Some(ring))
}

fn pairs(iter: fjall::Iter) -> impl Iterator<Item = Result<Pair, MetaError>> {
    iter.map(|guard| {
        let (key, value) = guard.into_inner().map_err(engine_error)?;
        Ok((keys::callers(&key), Bytes::copy_from_slice(&value)))
    })
}

impl Read for FjallStore {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, MetaError> {
        self.engine.get(key)
    }

    fn scan(&self, start: &[u8], end: &[u8], limit: usize) -> Result<Vec<Pair>, MetaError> {
        if start >= end {
            return Ok(Vec::new());
        }
        self.engine.scan((start, end), limit).collect()
    }
}

struct FjallTx<'s> {
    engine: &'s Engine,
    overlay: Overlay,
}

impl Read for FjallTx<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, MetaError> {
        if let Some(written) = self.overlay.get(key) {
            return Ok(written);
        }
        self.engine.get(key)
    }

    fn scan(&self, start: &[u8], end: &[u8], limit: usize) -> Result<Vec<Pair>, MetaError> {
        if start >= end {
            return Ok(Vec::new());
        }
        let limit_below = limit.saturating_add(self.overlay.writes_count());
        let below = self.engine.scan((start, end), limit_below);
        self.overlay.scan(start, end, limit, below)
    }
}

impl Tx for FjallTx<'_> {
    fn purpose(&mut self, purpose: Purpose) {
        self.overlay.raise_purpose(purpose);
    }

    fn put(&mut self, key: &[u8], value: &[u8]) {
        self.overlay.put(key, value);
    }

    fn delete(&mut self, key: &[u8]) {
        self.overlay.delete(key);
    }
}

impl MetaStore for FjallStore {
    fn transact(&self, body: &mut TxBody<'_>) -> Result<Seq, MetaError> {
        let mut writer = self.engine.writer();
        if self.engine.queue.gate.failure().is_some() {
            return Err(MetaError::Poisoned);
        }
        let mut tx = FjallTx {
            engine: &self.engine,
            overlay: Overlay::new(),
        };
        let outcome = body(&mut tx)?;
        if outcome == TxOutcome::Abort || tx.overlay.is_empty() {
            return Ok(self.applied());
        }
        let overlay = tx.overlay;
        let applied = self.engine.apply(&mut writer, overlay);
        if matches!(applied, Err(MetaError::NoSpace)) {
            self.reclaim.ask();
        }
        applied
    }

    fn put_later(&self, key: &[u8], value: &[u8]) -> Result<Seq, MetaError> {
        self.engine.put_later(key, value)
    }

    fn applied(&self) -> Seq {
        self.engine.queue.applied()
    }

    fn durable_through(&self) -> Seq {
        self.engine.queue.gate.durable_through()
    }

    fn durable(&self, seq: Seq) -> BoxFuture<'_, Result<(), MetaError>> {
        self.committer.durable(seq)
    }

    fn disk_bytes(&self) -> u64 {
        self.engine.database.disk_space().unwrap_or(0)
    }
}

#[cfg(test)]
mod damage;
#[cfg(test)]
mod tests;
