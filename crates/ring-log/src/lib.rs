//! A log in one file that is written over and over: what one sync makes durable, until its reader has it elsewhere.
//!
//! A data server has small stable writes in one ([`FileRedo`]).
//! The file's blocks are written before they are needed, with zeros. So the fdatasync of a record writes the record
//! alone, and neither size nor extents of the file. Records wait in memory until somebody waits for one of them. Then all
//! go out by one write and one sync (see `commit`).
//!
//! # Ownership
//! A [`RingLog`] owns its file; a second one, in this process or another, is refused. The file grows in steps of
//! [`GROWTH_BYTES`] up to its full size, and then stays as it is.
//!
//! # Ordering
//! The slot that moves the oldest record on is durable before the room before it is used again.
//!
//! # Failure
//! The first failed write or sync of a record ends the log: nobody knows what the disk has. It refuses records from then
//! on, and what waited gets the error. A disk without room for the file to grow makes it refuse records until there is.
//! Entry points: [`RingLog::open`], [`FileRedo::open`].
#![forbid(unsafe_code)]

mod commit;
mod error;
mod format;
mod redo_log;
mod walk;

pub use error::LogError;
pub use redo_log::FileRedo;

use commit::Shared;
use format::{ALIGN, HEAD_BYTES, Head, RING_AT, SLOT_BYTES, Slot, size_of_record};
use meta::{BoxFuture, Gate, OnTheSpot, Seq, SpotLimits};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Error, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use walk::Ring;

/// Smallest size of a log in bytes.
pub const CAPACITY_BYTES_MIN: u64 = 1024 * 1024;
/// Largest size of a log in bytes: a start reads all of it.
pub const CAPACITY_BYTES_MAX: u64 = 1024 * 1024 * 1024;
/// Bytes by which the file grows.
const GROWTH_BYTES: u64 = 4 * 1024 * 1024;
/// The file grows when less than this is left before its end.
const GROWTH_AHEAD_BYTES: u64 = 2 * 1024 * 1024;
/// Longest payload of a record.
pub const PAYLOAD_BYTES_MAX: usize = 1024 * 1024;
/// Bytes of records that wait in memory; above it a record is refused.
const PENDING_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Distance of the records whose places are known: room is given back in such steps.
const STEP_BYTES: u64 = 64 * 1024;

/// The log.
#[derive(Debug)]
pub struct RingLog {
    shared: Arc<Shared>,
    path: PathBuf,
    thread: Option<JoinHandle<()>>,
}

/// What appenders, the committer and the one who retires share.
#[derive(Debug)]
pub(crate) struct Pending {
    /// Records that are not written yet, as they lie in the ring from `buffer_at` on.
    pub(crate) buffer: Vec<u8>,
    pub(crate) buffer_at: u64,
    pub(crate) next: u64,
    tail_at: u64,
    /// Of the records that are needed.
    steps: Steps,
    /// Bytes of the ring that the file has.
    pub(crate) grown_bytes: u64,
    /// The newest record that somebody waits for.
    pub(crate) wanted: u64,
    pub(crate) is_growth_wanted: bool,
    pub(crate) is_stopped: bool,
}

impl Pending {
    fn end_at(&self) -> u64 {
        self.buffer_at + self.buffer.len() as u64
    }

    /// Makes room in the buffer for a record: bytes to the ring's end that stay empty before it; `None` if there is no room.
    fn place(&mut self, ring_bytes: u64, whole_bytes: u64) -> Option<u64> {
        let place = self.end_at() % ring_bytes;
        let filler = match ring_bytes - place {
            left if left < whole_bytes => left,
            _ => 0,
        };
        let taken = filler + whole_bytes;
        let is_full = self.end_at() + taken - self.tail_at > ring_bytes;
        if is_full || self.buffer.len() as u64 + taken > PENDING_BYTES_MAX as u64 {
            return None;
        }
        let end = if filler > 0 {
            place + filler
        } else {
            place + whole_bytes
        };
        let is_short = self.grown_bytes < ring_bytes;
        self.is_growth_wanted |= is_short && end + GROWTH_AHEAD_BYTES > self.grown_bytes;
        (end <= self.grown_bytes).then_some(filler)
    }

    /// Where the oldest record lies that is needed after those up to `number`, and its number.
    fn tail_after(&mut self, number: u64) -> (u64, u64) {
        if self.next == number + 1 && self.buffer.is_empty() {
            self.steps.clear();
            return (self.end_at(), self.next);
        }
        // The newest step that is still needed, or begins what is.
        while self.steps.get(1).is_some_and(|(n, _)| *n <= number + 1) {
            self.steps.pop_front();
        }
        match self.steps.front() {
            Some((number, at)) => (*at, *number),
            None => (self.tail_at, number.min(self.next - 1) + 1),
        }
    }

    fn push(&mut self, head: Head, payload: &[u8]) {
        self.buffer.extend_from_slice(&head.to_bytes(payload));
        self.buffer.extend_from_slice(payload);
        let whole = self.buffer.len().next_multiple_of(ALIGN);
        self.buffer.resize(whole, 0);
    }
}

/// Numbers and positions of some records, oldest first, at least [`STEP_BYTES`] apart.
type Steps = VecDeque<(u64, u64)>;

fn add_step(steps: &mut Steps, number: u64, at: u64) {
    if steps.back().is_none_or(|(_, last)| at - last >= STEP_BYTES) {
        steps.push_back((number, at));
    }
}

fn failure(path: &Path, what: &str, e: &Error) -> LogError {
    Error::new(e.kind(), format!("{what} {}: {e}", path.display())).into()
}

fn refusal(path: &Path, why: &str) -> LogError {
    Error::new(ErrorKind::InvalidInput, format!("{} {why}", path.display())).into()
}

impl RingLog {
    /// Opens the log, or makes it with room for `capacity_bytes`. An existing log takes another size only when it holds no
    /// records.
    ///
    /// # Errors
    /// [`LogError::Io`] with one sentence that names the file: in use, not writable.
    /// [`LogError::Corrupt`] when something that was durable is gone.
    pub fn open(path: &Path, capacity_bytes: u64) -> Result<Self, LogError> {
        let ring_bytes = capacity_bytes
            .clamp(CAPACITY_BYTES_MIN, CAPACITY_BYTES_MAX)
            .next_multiple_of(STEP_BYTES);
        let new = Slot {
            store_id: 0,
            ring_bytes,
            version: 0,
            opening: 0,
            tail_at: 0,
            tail_number: 1,
        };
        if !path.try_exists()? {
            create(path, new)?;
        }
        let (mut file, mut slot) = take(path)?;
        let (mut end, mut steps) = scan(&file, path, slot)?;
        if slot.ring_bytes != ring_bytes && end.number == slot.tail_number {
            let fresh = Slot {
                tail_number: end.number,
                store_id: slot.store_id,
                ..new
            };
            create(path, fresh)?;
            (file, slot) = take(path)?;
            (end, steps) = scan(&file, path, slot)?;
        }
        slot.opening += 1;
        let file = Arc::new(file);
        let slots = Mutex::new(slot);
        let shared = Shared {
            pending: Mutex::new(Pending {
                buffer: Vec::new(),
                buffer_at: end.at,
                next: end.number,
                tail_at: slot.tail_at,
                steps,
                grown_bytes: (file.metadata()?.len() - RING_AT).min(slot.ring_bytes),
                wanted: 0,
                is_growth_wanted: false,
                is_stopped: false,
            }),
            ring_bytes: slot.ring_bytes,
            opening: slot.opening,
            file,
            slots,
            round: Mutex::default(),
            gate: Gate::new(),
            wake: Condvar::new(),
            spot: OnTheSpot::new(SpotLimits::USUAL),
        };
        // Records of this opening can be told from what an earlier one has left after the last whole one.
        shared.write_slot(|_| {})?;
        shared.gate.advance(Seq(end.number - 1));
        let shared = Arc::new(shared);
        let of_thread = shared.clone();
        let thread = std::thread::Builder::new().name("ring-log".into());
        Ok(Self {
            thread: Some(thread.spawn(move || of_thread.run())?),
            shared,
            path: path.to_path_buf(),
        })
    }
}

impl Drop for RingLog {
    fn drop(&mut self) {
        self.shared.stop();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has failed the gate; there is nobody left to tell.
            let _ = thread.join();
        }
    }
}

/// Makes the file, at once and durably, in place of what has its name.
fn create(path: &Path, slot: Slot) -> Result<(), LogError> {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let new = PathBuf::from(name);
    let make = || {
        let file = File::create(&new)?;
        for version in 0..2 {
            let slot = Slot { version, ..slot };
            file.write_all_at(&slot.to_bytes(), slot.offset())?;
        }
        commit::write_zeros(&file, 0, GROWTH_BYTES.min(slot.ring_bytes))?;
        file.sync_all()?;
        std::fs::rename(&new, path)?;
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
        File::open(dir.unwrap_or(Path::new(".")))?.sync_all()
    };
    make().map_err(|e| failure(path, "cannot make", &e))
}

/// Opens the file for this process alone, and reads its newer slot.
fn take(path: &Path) -> Result<(File, Slot), LogError> {
    let opened = OpenOptions::new().read(true).write(true).open(path);
    let file = opened.map_err(|e| failure(path, "cannot open", &e))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let text = format!("{} is in use by another process", path.display());
            return Err(Error::new(ErrorKind::ResourceBusy, text).into());
        }
        Err(TryLockError::Error(e)) => return Err(failure(path, "cannot lock", &e)),
    }
    let mut newest: Option<Slot> = None;
    for offset in [0, SLOT_BYTES as u64] {
        let mut bytes = [0; SLOT_BYTES];
        match file.read_exact_at(&mut bytes, offset) {
            Ok(()) => {}
            Err(e) if e.kind() == ErrorKind::UnexpectedEof => {}
            Err(e) => return Err(failure(path, "cannot read", &e)),
        }
        let slot = Slot::parse(&bytes).filter(|slot| slot.offset() == offset);
        if slot.is_some_and(|slot| newest.is_none_or(|n| n.version < slot.version)) {
            newest = slot;
        }
    }
    let is_sane = |slot: &Slot| {
        let sizes = CAPACITY_BYTES_MIN..=CAPACITY_BYTES_MAX;
        sizes.contains(&slot.ring_bytes)
            && slot.ring_bytes.is_multiple_of(STEP_BYTES)
            && slot.tail_at.is_multiple_of(ALIGN as u64)
            && slot.tail_at < u64::MAX / 4
            && (1..u64::MAX / 4).contains(&slot.tail_number)
    };
    let has_ring = file.metadata()?.len() > RING_AT;
    match newest.filter(is_sane).filter(|_| has_ring) {
        Some(slot) => Ok((file, slot)),
        None => Err(LogError::Corrupt(format!(
            "{}: no slot at its start is whole; restore the state_dir of this data server from a backup",
            path.display()
        ))),
    }
}

/// Where the records end, and the places of some.
fn scan(file: &File, path: &Path, slot: Slot) -> Result<(walk::End, Steps), LogError> {
    let mut steps = Steps::new();
    let end = Ring { file, path, slot }.walk(&mut |number, at, _| {
        add_step(&mut steps, number, at);
        true
    })?;
    Ok((end, steps))
}

impl RingLog {
    /// Calls `visit` with number and payload of each record that is durable and not retired, oldest first. It ends when
    /// `visit` returns false. Records may be appended meanwhile; [`RingLog::retire`] waits.
    ///
    /// # Errors
    /// [`LogError::Corrupt`] for a record that was durable and is not whole.
    pub fn replay(&self, visit: &mut dyn FnMut(u64, &[u8]) -> bool) -> Result<(), LogError> {
        // While the oldest record stays where it is, nothing from there on is written over.
        let slot = self.shared.slots.lock();
        let durable = self.durable_through();
        if slot.tail_number > durable {
            return Ok(());
        }
        let ring = Ring {
            file: &self.shared.file,
            path: &self.path,
            slot: *slot,
        };
        let mut is_over = false;
        let end = ring.walk(&mut |number, _, payload| {
            is_over = !visit(number, payload) || number == durable;
            !is_over
        })?;
        match is_over {
            true => Ok(()),
            false => Err(ring.missing(end)),
        }
    }

    /// Takes a record: its number. Not durable yet. `None` when there is no room for it, or the log has failed.
    pub fn append(&self, payload: &[u8]) -> Option<u64> {
        let shared = &*self.shared;
        if payload.len() > PAYLOAD_BYTES_MAX || shared.gate.failure().is_some() {
            return None;
        }
        let whole_bytes = size_of_record(payload.len());
        let mut pending = shared.pending.lock();
        let Some(filler) = pending.place(shared.ring_bytes, whole_bytes) else {
            if pending.is_growth_wanted {
                shared.wake.notify_one();
            }
            return None;
        };
        let number = pending.next;
        let mut head = Head {
            payload_bytes: None,
            number,
            at: pending.end_at(),
            durable: shared.gate.durable_through().0,
            opening: shared.opening,
        };
        if filler > 0 {
            let end = pending.buffer.len() + usize::try_from(filler).expect("below a record");
            pending.push(head, &[]);
            pending.buffer.resize(end, 0);
            head.at += filler;
        }
        add_step(&mut pending.steps, number, head.at);
        head.payload_bytes = Some(u32::try_from(payload.len()).ok()?);
        pending.push(head, payload);
        pending.next += 1;
        Some(number)
    }

    /// Waits until the record with this number is durable. One sync serves all that wait.
    pub fn durable(&self, number: u64) -> BoxFuture<'_, Result<(), LogError>> {
        if self.shared.gate.durable_through().0 >= number {
            return self.shared.gate.wait_boxed(Seq(number));
        }
        Box::pin(self.shared.wait(number))
    }

    /// Makes what was appended durable, in the calling thread: how long the sync took.
    ///
    /// # Errors
    /// The log's failure, which is final.
    pub fn sync(&self) -> Result<Duration, LogError> {
        let took = self.shared.commit(&mut self.shared.round.lock())?;
        if self.shared.pending.lock().is_growth_wanted {
            self.shared.wake.notify_one();
        }
        Ok(took)
    }

    /// The newest durable record, 0 for none in the life of the log.
    #[must_use]
    pub fn durable_through(&self) -> u64 {
        self.shared.gate.durable_through().0
    }

    /// Records up to `number` are not needed any more: their room may be used again. Returns the number up to which no
    /// record will be visited again. That may be less: room is given back in steps. Waits for the disk.
    ///
    /// # Errors
    /// The log's failure.
    pub fn retire(&self, number: u64) -> Result<u64, LogError> {
        let (tail_at, tail_number) = self.shared.pending.lock().tail_after(number);
        if tail_at != self.shared.slots.lock().tail_at {
            self.shared.write_slot(|slot| {
                slot.tail_at = tail_at;
                slot.tail_number = tail_number;
            })?;
            self.shared.pending.lock().tail_at = tail_at;
        }
        Ok(tail_number - 1)
    }

    /// Bytes taken by records that were not retired, and all that the log may take.
    #[must_use]
    pub fn fill(&self) -> (u64, u64) {
        let pending = self.shared.pending.lock();
        (pending.end_at() - pending.tail_at, self.shared.ring_bytes)
    }

    /// The store that the log is tied to.
    #[must_use]
    pub fn tied_to(&self) -> Option<u64> {
        let id = self.shared.slots.lock().store_id;
        (id != 0).then_some(id)
    }

    /// Ties the log for good to the store that knows its records, by an id that is not 0. `is_known` says that the store
    /// was tied to a log before.
    ///
    /// # Errors
    /// One sentence: the log is tied to another store, or is new and the store is not.
    pub fn tie(&self, store_id: u64, is_known: bool) -> Result<(), LogError> {
        match self.tied_to() {
            None if is_known => {
                let why = "is new, but there were records before: is the file gone?";
                Err(refusal(&self.path, why))
            }
            None => self.shared.write_slot(|slot| slot.store_id = store_id),
            Some(found) if found == store_id => Ok(()),
            Some(_) => {
                let why = "belongs to another store: were directories mixed up?";
                Err(refusal(&self.path, why))
            }
        }
    }
}

const _: () = assert!(HEAD_BYTES <= ALIGN && GROWTH_BYTES >= CAPACITY_BYTES_MIN);

#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]
mod power;
#[cfg(test)]
mod tests;
