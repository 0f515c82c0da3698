//! Open objects: their files, who holds their bytes, and the bounded cache of them.
//!
//! # Ownership
//! A [`Handles`] is cut into shards by object. A shard's lock covers opening, making and unlinking of its objects' files. So an
//! object has at most one [`Handle`], which all users of the object share. A handle in use is never evicted; above the limit the
//! cache holds only such handles.
//!
//! # Ordering
//! [`Handle::cut`] first announces the new size: later spans end at it. It then waits only for older spans that reach beyond it, and
//! new readers cannot starve it (rule R16).

use crate::store_dir::StoreDir;
use objects::{Hold, ObjectError, ObjectId};
use parking_lot::{Condvar, Mutex, MutexGuard};
use rustc_hash::FxHashMap;
use rustix::fs::SeekFrom;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Shards of the cache: as many as threads may plausibly meet here.
const SHARDS: usize = 32;
/// Most spans of one object that may be held at once.
const HOLDS_MAX: usize = 65_536;

/// An open object.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) file: Arc<File>,
    /// Written since the last sync.
    pub(crate) dirty: AtomicBool,
    used: AtomicU64,
    holds: Mutex<Holds>,
    /// Cuts that are done; rises under the lock of `holds`.
    cuts_count: AtomicU64,
    released: Condvar,
    /// One `set_size` at a time.
    resize: Mutex<()>,
}

#[derive(Debug, Default)]
struct Holds {
    /// End of each held span, by ticket.
    ends: BTreeMap<u64, u64>,
    last_ticket: u64,
    /// The size that a cut under way will leave.
    cut: Option<u64>,
}

struct Held {
    handle: Arc<Handle>,
    ticket: u64,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.handle.holds.lock().ends.remove(&self.ticket);
        self.handle.released.notify_all();
    }
}

impl Handle {
    fn new(file: File) -> Self {
        Self {
            file: Arc::new(file),
            dirty: AtomicBool::new(false),
            used: AtomicU64::new(0),
            holds: Mutex::default(),
            cuts_count: AtomicU64::new(0),
            released: Condvar::new(),
            resize: Mutex::new(()),
        }
    }

    /// Clips a range to the object and holds what is left of it.
    pub(crate) fn hold(
        self: &Arc<Self>,
        offset: u64,
        len: u32,
    ) -> Result<(u32, Hold), ObjectError> {
        // Nobody uses the place in the file, and to ask for its end costs a fraction of what statx does.
        let size = || {
            let end = rustix::fs::seek(&*self.file, SeekFrom::End(0));
            end.map_err(|e| crate::io_error(e.into()))
        };
        // All readers of a file meet at this lock, so the system is asked before it is taken.
        let cuts_before = self.cuts_count.load(Ordering::Acquire);
        let mut object_size = size()?;
        let mut holds = self.holds.lock();
        if self.cuts_count.load(Ordering::Relaxed) != cuts_before {
            // A cut ended in between, so what was heard may be too much.
            object_size = size()?;
        }
        let size = holds.cut.map_or(object_size, |cut| cut.min(object_size));
        let len = u64::from(len).min(size.saturating_sub(offset));
        let len = u32::try_from(len).expect("not longer than asked for");
        if len == 0 {
            return Ok((0, Arc::new(())));
        }
        if holds.ends.len() == HOLDS_MAX {
            return Err(ObjectError::Busy);
        }
        holds.last_ticket += 1;
        let ticket = holds.last_ticket;
        holds.ends.insert(ticket, offset + u64::from(len));
        let handle = self.clone();
        Ok((len, Arc::new(Held { handle, ticket })))
    }

    /// What `read` says, unless a cut was under way meanwhile: then it may have seen the zeros that the system puts after the new end.
    pub(crate) fn uncut<T>(&self, read: impl FnOnce() -> T) -> Option<T> {
        let cuts_before = self.cuts_count.load(Ordering::Acquire);
        let done = read();
        let holds = self.holds.lock();
        let is_same = self.cuts_count.load(Ordering::Relaxed) == cuts_before;
        (is_same && holds.cut.is_none()).then_some(done)
    }

    /// Sets the size; a cut waits at most `wait` for the spans beyond it.
    pub(crate) fn cut(&self, size: u64, wait: Duration) -> Result<(), ObjectError> {
        let _one = self.resize.lock();
        let deadline = Instant::now() + wait;
        let mut holds = self.holds.lock();
        holds.cut = Some(size);
        while holds.ends.values().any(|end| *end > size) {
            let late = self.released.wait_until(&mut holds, deadline).timed_out();
            if late && holds.ends.values().any(|end| *end > size) {
                holds.cut = None;
                return Err(ObjectError::Busy);
            }
        }
        drop(holds);
        // A span made meanwhile ends at `size`; one that a write makes room for ends there too.
        let done = self.file.set_len(size).map_err(crate::io_error);
        let mut holds = self.holds.lock();
        self.cuts_count.fetch_add(1, Ordering::Release);
        holds.cut = None;
        done
    }
}

/// No client chooses the numbers: they count, and a handle that names them is signed.
type Shard = FxHashMap<ObjectId, Arc<Handle>>;

/// The cache of open objects.
#[derive(Debug)]
pub(crate) struct Handles {
    shards: Vec<Mutex<Shard>>,
    shard_max: usize,
    clock: AtomicU64,
}

impl Handles {
    /// A cache that closes what is not in use above `max` handles.
    pub(crate) fn new(max: usize) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            shard_max: max.div_ceil(SHARDS).max(1),
            clock: AtomicU64::new(0),
        }
    }

    fn shard(&self, id: ObjectId) -> MutexGuard<'_, Shard> {
        let mixed = id.file_id.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(id.place);
        let shard = usize::from(mixed.to_be_bytes()[0]) % SHARDS;
        self.shards[shard].lock()
    }

    fn touch(&self, handle: &Handle) {
        let now = self.clock.fetch_add(1, Ordering::Relaxed);
        handle.used.store(now, Ordering::Relaxed);
    }

    /// The object's handle if it is open; touches no disk.
    pub(crate) fn cached(&self, id: ObjectId) -> Option<Arc<Handle>> {
        self.shard(id).get(&id).cloned()
    }

    /// The object's handle; opens its file, or makes it.
    pub(crate) fn open(
        &self,
        store_dir: &StoreDir,
        id: ObjectId,
        create: bool,
    ) -> Result<Arc<Handle>, Error> {
        let mut shard = self.shard(id);
        if let Some(handle) = shard.get(&id) {
            self.touch(handle);
            return Ok(handle.clone());
        }
        let handle = Arc::new(Handle::new(store_dir.open_file(id, create)?));
        self.touch(&handle);
        if shard.len() >= self.shard_max {
            evict(&mut shard);
        }
        shard.insert(id, handle.clone());
        Ok(handle)
    }

    /// Unlinks the object's file and forgets its handle; those who have it keep it.
    pub(crate) fn remove(&self, store_dir: &StoreDir, id: ObjectId) -> Result<(), Error> {
        let mut shard = self.shard(id);
        store_dir.unlink(id)?;
        shard.remove(&id);
        Ok(())
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }
}

/// Closes the handle that was unused for longest. One with unsynced writes goes last: its file remembers errors
/// of writing back that happened while it was open.
fn evict(shard: &mut Shard) {
    let idle = shard
        .iter()
        .filter(|(_, handle)| Arc::strong_count(handle) == 1);
    let oldest = idle.min_by_key(|(_, handle)| {
        (
            handle.dirty.load(Ordering::Relaxed),
            handle.used.load(Ordering::Relaxed),
        )
    });
    if let Some(id) = oldest.map(|(id, _)| *id) {
        shard.remove(&id);
    }
}
