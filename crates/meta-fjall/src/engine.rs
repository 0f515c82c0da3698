//! fjall's handles, the writer lock, and how what was gathered gets into the engine.
//!
//! # Ordering
//! Locks are taken in this order: the writer's, that of batches, that of the ballast or of the queue. Batches are written in the order in which they were gathered, one at a time.

use crate::ballast::Ballast;
use crate::queue::{Full, Queue};
use crate::store_dir::StoreDir;
use crate::{Options, engine_error, keys, pairs, ring};
use bytes::Bytes;
use fjall::{Database, Keyspace, OwnedWriteBatch as WriteBatch, Readable};
use meta::{
    BatchLog, KEY_BYTES_MAX, MetaError, Overlay, Pair, Purpose, Seq, VALUE_BYTES_MAX, Writes,
};
use parking_lot::{Mutex, MutexGuard};
use ring_log::RingLog;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicU64};

/// Free space is asked for again after this many written bytes, where there is plenty of it.
const SPACE_CHECK_BYTES: u64 = 1024 * 1024;
/// Plenty is this many times the reserve. Below it every transaction asks (a statvfs, about 1 µs): others fill the disk too,
/// and a write that fails stops the store.
const PLENTY_RESERVES: u64 = 4;
/// What merges of tables write before what they merge is removed: never more than all tables, and in a large store never
/// more than this.
pub(crate) const MERGE_BYTES_MAX: u64 = 1536 * 1024 * 1024;
/// Below this part of the reserve, half of what the least purpose needs, the ballast goes.
const BRIM_PART: u64 = 8;

/// The open engine of a store.
pub(crate) struct Engine {
    pub(crate) keyspace: Keyspace,
    pub(crate) database: Database,
    pub(crate) queue: Queue,
    pub(crate) store_dir: StoreDir,
    writer: Mutex<Writer>,
    written: Mutex<Written>,
    ballast: Mutex<Ballast>,
    /// There was no plenty of room when somebody last looked.
    is_tight: AtomicBool,
    options: Options,
    /// Where a batch goes before the engine; `None`: the engine's journal is the log.
    log: Option<Arc<dyn BatchLog>>,
    /// The store's own log; `None`: the engine's journal is synced at each commit.
    pub(crate) ring: Option<RingLog>,
    /// The newest batch that the engine's journal has durably.
    in_journal: AtomicU64,
    /// Keys removed since somebody asked.
    removed_count: AtomicU64,
}

/// How far the engine is: what its batches hold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Written {
    /// The newest transaction.
    pub(crate) seq: Seq,
    /// Batches in the life of the store, in which this opening is not the first.
    pub(crate) commit: u64,
    /// The newest batch that is not in the ring.
    unlogged: u64,
    /// The newest record in the ring.
    pub(crate) record: u64,
}

/// Fails the gate if the work with a batch ends by a panic, so that nobody waits for ever and nothing is written after it.
pub(crate) struct FailOnPanic<'e>(pub(crate) &'e Engine);

impl Drop for FailOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.queue.gate.fail(MetaError::Poisoned);
        }
    }
}

impl std::fmt::Debug for Engine {
    // fjall's handles print nothing useful.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("store_dir", &self.store_dir)
            .field("queue", &self.queue)
            .finish_non_exhaustive()
    }
}

/// What the writer lock protects: the right to apply, and what is known of the room for it.
#[derive(Debug)]
pub(crate) struct Writer {
    unchecked_bytes: u64,
    room: Room,
}

/// Room on the disk, as it was when somebody looked.
#[derive(Debug, Clone, Copy)]
struct Room {
    /// The least purpose that there is room for; `None` for none.
    least: Option<Purpose>,
    /// Bytes that this user may still write.
    free_bytes: u64,
    /// Whether it need not be looked at again soon.
    is_plenty: bool,
}

impl Engine {
    pub(crate) fn new(
        (database, keyspace): (Database, Keyspace),
        store_dir: StoreDir,
        options: Options,
        commit: u64,
        (log, ring): (Option<Arc<dyn BatchLog>>, Option<RingLog>),
    ) -> Result<Self, MetaError> {
        let room = measure_room(&store_dir, &database, options)?;
        let engine = Self {
            keyspace,
            database,
            queue: Queue::default(),
            ballast: Mutex::new(Ballast::new(store_dir.dir(), options.reserve_bytes)),
            is_tight: AtomicBool::new(false),
            store_dir,
            writer: Mutex::new(Writer {
                unchecked_bytes: 0,
                room,
            }),
            written: Mutex::new(Written {
                seq: Seq(0),
                commit,
                unlogged: commit,
                record: 0,
            }),
            options,
            log,
            ring,
            in_journal: AtomicU64::new(commit),
            removed_count: AtomicU64::new(0),
        };
        engine.note_room(room);
        Ok(engine)
    }

    /// Keeps the ballast while there is room for ordinary transactions.
    fn note_room(&self, room: Room) {
        self.is_tight.store(!room.is_plenty, Relaxed);
        if room.least == Some(Purpose::Ordinary) {
            self.ballast.lock().take();
        }
    }

    #[cfg(test)]
    pub(crate) fn ballast(&self) -> MutexGuard<'_, Ballast> {
        self.ballast.lock()
    }

    /// Before a batch is written: gives the ballast up if others have taken what the batch was admitted for.
    fn make_room(&self) -> Result<(), MetaError> {
        if !self.is_tight.load(Relaxed) {
            return Ok(());
        }
        let mut ballast = self.ballast.lock();
        if !ballast.is_held() {
            return Ok(());
        }
        let free_bytes = self.measure_room()?.free_bytes;
        if free_bytes < self.options.reserve_bytes / BRIM_PART {
            tracing::warn!(free_bytes, "the disk is full: the store uses its ballast");
            ballast.release();
        }
        Ok(())
    }

    /// The right to apply.
    pub(crate) fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock()
    }

    /// Keys that were removed since the last call, or since the store was opened.
    pub(crate) fn take_removed(&self) -> u64 {
        self.removed_count.swap(0, Relaxed)
    }

    /// Bytes that this user may still write to the file system.
    pub(crate) fn free_bytes(&self) -> Result<u64, MetaError> {
        Ok(self.measure_room()?.free_bytes)
    }

    fn measure_room(&self) -> Result<Room, MetaError> {
        measure_room(&self.store_dir, &self.database, self.options)
    }

    fn check_room(&self, writer: &mut Writer, purpose: Purpose) -> Result<(), MetaError> {
        if !writer.room.is_plenty || writer.unchecked_bytes >= SPACE_CHECK_BYTES {
            writer.room = self.measure_room()?;
            writer.unchecked_bytes = 0;
            self.note_room(writer.room);
        }
        match writer.room.least {
            Some(least) if purpose >= least => Ok(()),
            _ => Err(MetaError::NoSpace),
        }
    }

    /// Applies a transaction: its number.
    pub(crate) fn apply(&self, writer: &mut Writer, overlay: Overlay) -> Result<Seq, MetaError> {
        let (purpose, bytes) = (overlay.purpose(), overlay.bytes());
        let mut writes = overlay.into_writes()?;
        self.check_room(writer, purpose)?;
        writer.unchecked_bytes += bytes as u64;
        self.gather(|| self.queue.apply(&mut writes, bytes))
    }

    /// Adds a pair to the next transaction: its number. It is small and belongs to what has been admitted, so it does not ask for room.
    pub(crate) fn put_later(&self, key: &[u8], value: &[u8]) -> Result<Seq, MetaError> {
        if key.is_empty() || key.len() > KEY_BYTES_MAX || value.len() > VALUE_BYTES_MAX {
            return Err(MetaError::TooLarge);
        }
        if self.queue.gate.failure().is_some() {
            return Err(MetaError::Poisoned);
        }
        self.gather(|| self.queue.put_later(key, value))
    }

    /// Makes room until something could be gathered.
    fn gather(&self, mut add: impl FnMut() -> Result<Seq, Full>) -> Result<Seq, MetaError> {
        loop {
            match add() {
                Ok(seq) => return Ok(seq),
                Err(Full) => self.write_out()?,
            };
        }
    }

    /// Writes what was gathered as one batch, and says how far the engine is then.
    pub(crate) fn write_out(&self) -> Result<Written, MetaError> {
        let mut written = self.written.lock();
        let _guard = FailOnPanic(self);
        if self.queue.gate.failure().is_some() {
            return Err(MetaError::Poisoned);
        }
        if let Some((seq, writes)) = self.queue.begin_batch() {
            let commit = written.commit + 1;
            let made = self.make_room();
            let logged = made.and_then(|()| self.log(&writes, commit));
            // What the other log lacks, this one must lack too.
            let ring = self.ring.as_ref().filter(|_| logged.is_ok());
            let record = ring.and_then(|ring| ring::append(ring, commit, &writes));
            logged
                .and_then(|()| self.write(&writes, commit))
                .inspect_err(|error| {
                    self.queue.gate.fail(error.clone());
                })?;
            self.queue.end_batch();
            *written = Written {
                seq,
                commit,
                unlogged: record.map_or(commit, |_| written.unlogged),
                record: record.unwrap_or(written.record),
            };
        }
        Ok(*written)
    }

    /// How far the engine is.
    pub(crate) fn written(&self) -> Written {
        *self.written.lock()
    }

    /// Whether all that is written is durable once the ring is.
    pub(crate) fn is_in_ring(&self, written: Written) -> bool {
        written.unlogged <= self.in_journal.load(Acquire)
    }

    /// The engine's journal has durably what is written.
    pub(crate) fn journal_is_synced(&self, written: Written) -> Result<(), MetaError> {
        self.in_journal.fetch_max(written.commit, AcqRel);
        self.store_dir.record(written.commit)
    }

    /// Applies what the ring has and a crash took from the engine: how many batches.
    pub(crate) fn replay(&self) -> Result<u64, MetaError> {
        let Some(ring) = &self.ring else {
            return Ok(0);
        };
        let mut written = self.written.lock();
        let apply = &mut |commit, writes: &Writes| self.write(writes, commit);
        let count = ring::replay(ring, written.commit, apply)?;
        written.commit += count;
        written.record = ring.durable_through();
        Ok(count)
    }

    fn log(&self, writes: &Writes, commit: u64) -> Result<(), MetaError> {
        let log = self.log.as_ref();
        log.map_or(Ok(()), |log| log.append(commit, writes))
    }

    fn write(&self, writes: &Writes, commit: u64) -> Result<(), MetaError> {
        let mut batch = WriteBatch::with_capacity(self.database.clone(), writes.len() + 1);
        let mut stored = Vec::new();
        for (key, value) in writes {
            keys::store_into(&mut stored, key);
            match value {
                Some(value) => batch.insert(&self.keyspace, &*stored, &**value),
                None => {
                    batch.remove(&self.keyspace, &*stored);
                    self.removed_count.fetch_add(1, Relaxed);
                }
            }
        }
        batch.insert(&self.keyspace, keys::COMMIT_KEY, commit.to_be_bytes());
        batch.commit().map_err(engine_error)
    }

    /// The newest value of a key.
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Bytes>, MetaError> {
        if let Some(unwritten) = self.queue.get(key) {
            return Ok(unwritten);
        }
        let found = self.keyspace.get(keys::stored(key)).map_err(engine_error)?;
        Ok(found.map(|value| Bytes::copy_from_slice(&value)))
    }

    /// The first `limit` pairs with `start <= key < end`; whole transactions, and all that were applied before. It writes
    /// nothing: what is not in the log must not be in the engine.
    pub(crate) fn scan(
        &self,
        (start, end): (&[u8], &[u8]),
        limit: usize,
    ) -> impl Iterator<Item = Result<Pair, MetaError>> + use<> {
        let snapshot = || self.database.snapshot();
        let (unwritten, snapshot) = self.queue.unwritten((start, end), limit, snapshot);
        let range = keys::stored(start)..keys::stored(end);
        let written = pairs(snapshot.range(&self.keyspace, range));
        meta::merge(unwritten.into_iter(), written).take(limit)
    }
}

/// What the file system has room for. What an ordinary transaction makes will be merged with what is there, for which room
/// is needed once more.
fn measure_room(
    store_dir: &StoreDir,
    database: &Database,
    options: Options,
) -> Result<Room, MetaError> {
    let stat = rustix::fs::statvfs(store_dir.dir()).map_err(std::io::Error::from)?;
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    let reserve = options.reserve_bytes;
    let merged = match reserve {
        0 => 0,
        _ => database
            .disk_space()
            .map_err(engine_error)?
            .min(MERGE_BYTES_MAX),
    };
    let least = if free >= reserve.saturating_add(merged) {
        Some(Purpose::Ordinary)
    } else if free >= reserve / 2 {
        Some(Purpose::Upkeep)
    } else if free >= reserve / 4 {
        Some(Purpose::Removal)
    } else {
        None
    };
    Ok(Room {
        least,
        free_bytes: free,
        is_plenty: free
            >= reserve
                .saturating_mul(PLENTY_RESERVES)
                .saturating_add(merged),
    })
}
