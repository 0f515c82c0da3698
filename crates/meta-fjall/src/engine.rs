//! fjall's handles, the writer lock and what is applied under it.
//!
//! # Ordering
//! A number is given out under the lock of the queue, together with the pairs that wait to go along; only then does the batch
//! become visible. So a number that was promised to such a pair is that of the batch which holds it.

use crate::commit::Queue;
use crate::home::Home;
use crate::{Options, keys};
use fjall::{Database, Keyspace};
use meta::{KEY_BYTES_MAX, MetaError, Overlay, Purpose, Seq, VALUE_BYTES_MAX, Writes};
use parking_lot::{Mutex, MutexGuard};

/// Free space is asked for again after this many written bytes, where there is plenty of it.
const SPACE_CHECK_BYTES: u64 = 1024 * 1024;
/// Plenty is this many times the reserve. Below it every transaction asks (a statvfs, about 1 µs): others fill the disk too,
/// and a write that fails stops the store.
const PLENTY_RESERVES: u64 = 4;
/// Bytes of pairs that wait for the next transaction; above it they are one of their own at once.
const LATER_BYTES_MAX: usize = 1024 * 1024;

/// The open engine of a store.
pub(crate) struct Engine {
    pub(crate) keyspace: Keyspace,
    pub(crate) database: Database,
    pub(crate) queue: Queue,
    pub(crate) home: Home,
    writer: Mutex<Writer>,
    options: Options,
    /// Commit number at opening: that of transaction 0.
    base: u64,
}

impl std::fmt::Debug for Engine {
    // fjall's handles print nothing useful.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("home", &self.home)
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
    /// Whether it need not be looked at again soon.
    is_plenty: bool,
}

impl Engine {
    pub(crate) fn new(
        (database, keyspace): (Database, Keyspace),
        home: Home,
        options: Options,
        base: u64,
    ) -> Result<Self, MetaError> {
        let room = measure_room(&home, options)?;
        Ok(Self {
            keyspace,
            database,
            queue: Queue::default(),
            home,
            writer: Mutex::new(Writer {
                unchecked_bytes: 0,
                room,
            }),
            options,
            base,
        })
    }

    /// The right to apply.
    pub(crate) fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock()
    }

    /// The number of a transaction in the life of the store, in which this opening is not the first.
    pub(crate) fn commit_number(&self, seq: Seq) -> u64 {
        self.base + seq.0
    }

    fn check_room(&self, writer: &mut Writer, purpose: Purpose) -> Result<(), MetaError> {
        if !writer.room.is_plenty || writer.unchecked_bytes >= SPACE_CHECK_BYTES {
            writer.room = measure_room(&self.home, self.options)?;
            writer.unchecked_bytes = 0;
        }
        match writer.room.least {
            Some(least) if purpose >= least => Ok(()),
            _ => Err(MetaError::NoSpace),
        }
    }

    /// Applies a transaction, and with it what waited for the next one.
    pub(crate) fn apply(&self, writer: &mut Writer, overlay: Overlay) -> Result<Seq, MetaError> {
        let purpose = overlay.purpose();
        let writes = overlay.into_writes()?;
        self.check_room(writer, purpose)?;
        let (seq, later) = self.queue.begin();
        self.write(writer, seq, later, writes)
    }

    /// Applies what waits for the next transaction, if anything does. It is small and belongs to what has been
    /// admitted, so it does not ask for room.
    pub(crate) fn apply_later(&self) -> Result<(), MetaError> {
        let mut writer = self.writer();
        let Some((seq, later)) = self.queue.begin_later() else {
            return Ok(());
        };
        self.write(&mut writer, seq, later, Writes::new()).map(drop)
    }

    /// Writes one batch: of a key in both, the transaction's value counts.
    fn write(
        &self,
        writer: &mut Writer,
        seq: Seq,
        mut later: Writes,
        writes: Writes,
    ) -> Result<Seq, MetaError> {
        let mut batch = self.database.batch();
        for key in writes.keys() {
            later.remove(key);
        }
        for (key, value) in later.into_iter().chain(writes) {
            let stored = keys::stored(&key);
            writer.unchecked_bytes += stored.len() as u64;
            match value {
                Some(value) => {
                    writer.unchecked_bytes += value.len() as u64;
                    batch.insert(&self.keyspace, stored, value);
                }
                None => batch.remove(&self.keyspace, stored),
            }
        }
        let commit = self.commit_number(seq);
        batch.insert(&self.keyspace, keys::COMMIT_KEY, commit.to_be_bytes());
        if let Err(error) = batch.commit() {
            let error = crate::engine_error(error);
            self.queue.gate.fail(error.clone());
            return Err(error);
        }
        self.queue.committed(seq);
        Ok(seq)
    }

    /// Adds a pair to the next transaction: its number.
    pub(crate) fn put_later(&self, key: &[u8], value: &[u8]) -> Result<Seq, MetaError> {
        if key.is_empty() || key.len() > KEY_BYTES_MAX || value.len() > VALUE_BYTES_MAX {
            return Err(MetaError::TooLarge);
        }
        if self.queue.gate.failure().is_some() {
            return Err(MetaError::Poisoned);
        }
        let (seq, waiting_bytes) = self.queue.put_later(key, value);
        if waiting_bytes > LATER_BYTES_MAX {
            self.apply_later()?;
        }
        Ok(seq)
    }
}

/// What the file system has room for.
fn measure_room(home: &Home, options: Options) -> Result<Room, MetaError> {
    let stat = rustix::fs::statvfs(home.dir()).map_err(std::io::Error::from)?;
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    let reserve = options.reserve_bytes;
    let least = if free >= reserve {
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
        is_plenty: free >= reserve.saturating_mul(PLENTY_RESERVES),
    })
}
