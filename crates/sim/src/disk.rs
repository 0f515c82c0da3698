//! What ails the disk of a data server for some time: it is full, fails, or is slow.
//!
//! # Ownership
//! A [`DiskTrouble`] belongs to a host and outlives its crashes. The nemesis begins a trouble; it ends by itself. The stores of the
//! host ask it: [`HostObjects`] for objects, `store` and `redo` for how long their syncs take.
//!
//! # Failure
//! A write that fails has done nothing. After a sync that fails, what was written before stays in memory and is taken for
//! written: no later sync does it, and it is lost with the power (`MemObjects::fail_sync`).

use crate::injected_bug::Lie;
use crate::rng::Rng;
use bytes::Bytes;
use nfs4::NfsStatus;
use objects::{
    Capacity, Content, MemObjects, ObjectError, ObjectId, ObjectStat, ObjectStore, Span,
};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A sync of a slow disk takes between these, in milliseconds.
const SLOW_MS: (u64, u64) = (1_000, 4_000);
/// How long a disk is full or fails, in milliseconds.
const SHORT_MS: (u64, u64) = (200, 8_000);
/// How long a disk is slow, in milliseconds: the metadata server judges one after 10 s.
const LONG_MS: (u64, u64) = (2_000, 25_000);
/// Full disks that say so, in 1000. Others have a quota, or none of what their file system needs.
const SAYS_SO_PER_MILLE: u32 = 600;
/// Full disks on which also nothing can be overwritten, in 1000: their file system writes to new blocks.
const ELSEWHERE_PER_MILLE: u32 = 500;
/// Changes and syncs that fail on a disk on which not all do, in 1000.
const SOME_PER_MILLE: u32 = 400;

/// What ails a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ailment {
    /// Nothing more fits.
    Full {
        /// It tells that nothing is free.
        says_so: bool,
        /// What is there cannot be overwritten either.
        writes_elsewhere: bool,
    },
    /// So many changes and syncs of 1000 are answered with an I/O error.
    Failing {
        /// Of changes, in 1000.
        changes: u32,
        /// Of syncs, in 1000.
        syncs: u32,
    },
    /// Syncs take seconds.
    Slow,
}

impl Ailment {
    /// One that the generator chooses, and how long it lasts.
    pub(crate) fn draw(rng: &mut Rng) -> (Self, Duration) {
        let (ailment, (least, most)) = match rng.below(3) {
            0 => {
                let says_so = rng.chance(SAYS_SO_PER_MILLE);
                let writes_elsewhere = rng.chance(ELSEWHERE_PER_MILLE);
                let full = Self::Full {
                    says_so,
                    writes_elsewhere,
                };
                (full, SHORT_MS)
            }
            1 => {
                let (changes, syncs) = match rng.below(4) {
                    // The page cache takes all.
                    0..2 => (0, 1000),
                    2 => (1000, 1000),
                    _ => (SOME_PER_MILLE, SOME_PER_MILLE),
                };
                (Self::Failing { changes, syncs }, SHORT_MS)
            }
            _ => (Self::Slow, LONG_MS),
        };
        (ailment, Duration::from_millis(rng.within(least, most)))
    }

    /// What clients may be told while a disk has this.
    pub(crate) const fn answer(self) -> Option<NfsStatus> {
        match self {
            Self::Full { .. } => Some(NfsStatus::NoSpc),
            Self::Failing { .. } => Some(NfsStatus::Io),
            Self::Slow => None,
        }
    }
}

struct Begun {
    ailment: Ailment,
    until: Instant,
    rng: Rng,
}

/// What ails the disk of one host. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct DiskTrouble(Arc<Mutex<Option<Begun>>>);

impl std::fmt::Debug for DiskTrouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("DiskTrouble").field(&self.now()).finish()
    }
}

impl DiskTrouble {
    /// Begins a trouble in place of an earlier one. `rng` is for all that is chosen while it lasts.
    pub(crate) fn begin(&self, ailment: Ailment, how_long: Duration, rng: Rng) {
        let until = Instant::now() + how_long;
        *self.0.lock() = Some(Begun {
            ailment,
            until,
            rng,
        });
    }

    /// The disk is well from now on.
    pub(crate) fn end(&self) {
        *self.0.lock() = None;
    }

    /// What ails the disk now.
    pub(crate) fn now(&self) -> Option<Ailment> {
        let begun = self.0.lock();
        let begun = begun.as_ref().filter(|b| Instant::now() < b.until);
        begun.map(|b| b.ailment)
    }

    /// How much longer a sync takes, in milliseconds.
    pub(crate) fn delay_ms(&self) -> u64 {
        match (self.now(), self.0.lock().as_mut()) {
            (Some(Ailment::Slow), Some(begun)) => begun.rng.within(SLOW_MS.0, SLOW_MS.1),
            _ => 0,
        }
    }

    /// An error of a change that the disk does not take.
    fn try_change(&self) -> Result<(), ObjectError> {
        self.try_one_of(|changes, _| changes)
    }

    /// An error of a sync.
    fn try_sync(&self) -> Result<(), ObjectError> {
        self.try_one_of(|_, syncs| syncs)
    }

    fn try_one_of(&self, per_mille: impl Fn(u32, u32) -> u32) -> Result<(), ObjectError> {
        let fails = match (self.now(), self.0.lock().as_mut()) {
            (Some(Ailment::Failing { changes, syncs }), Some(begun)) => {
                begun.rng.chance(per_mille(changes, syncs))
            }
            _ => false,
        };
        match fails {
            true => Err(ObjectError::Io(std::io::Error::other("EIO"))),
            false => Ok(()),
        }
    }
}

/// The objects of a host, on a disk that may ail, in a store that may lie.
pub(crate) struct HostObjects {
    /// What keeps them.
    pub(crate) objects: Arc<MemObjects>,
    /// What ails the disk.
    pub(crate) trouble: DiskTrouble,
    /// What is said and not done.
    pub(crate) lie: Option<Lie>,
}

impl HostObjects {
    /// Whether a write is answered without being done.
    fn drops(&self, id: ObjectId, offset: u64) -> bool {
        let lie = self.lie.as_ref();
        lie.is_some_and(|lie| lie.drops(&self.objects, id, offset))
    }

    /// Before a change that takes storage where the range has none yet.
    fn try_take(&self, id: ObjectId, (offset, len): (u64, u64)) -> Result<(), ObjectError> {
        self.trouble.try_change()?;
        match self.trouble.now() {
            Some(Ailment::Full {
                writes_elsewhere, ..
            }) if writes_elsewhere || !self.has_storage(id, (offset, len)) => {
                Err(ObjectError::NoSpace)
            }
            _ => Ok(()),
        }
    }

    /// Whether all of a range has bytes, so that they are overwritten where they lie.
    fn has_storage(&self, id: ObjectId, (offset, len): (u64, u64)) -> bool {
        let end = offset.saturating_add(len);
        let is_within = || Some(self.objects.stat(id).ok()?.size_bytes >= end);
        let is_hole = || {
            let hole = self.objects.seek(id, offset, Content::Hole);
            hole.map_or(true, |at| at.is_some_and(|at| at < end))
        };
        is_within().unwrap_or(false) && !is_hole()
    }
}

impl ObjectStore for HostObjects {
    fn read(&self, id: ObjectId, offset: u64, len: u32) -> Result<Span, ObjectError> {
        self.objects.read(id, offset, len)
    }

    fn read_from_disk(&self, id: ObjectId, offset: u64, len: u32) -> Result<Bytes, ObjectError> {
        self.objects.read_from_disk(id, offset, len)
    }

    fn write(&self, id: ObjectId, offset: u64, data: &[u8]) -> Result<(), ObjectError> {
        self.try_take(id, (offset, data.len() as u64))?;
        match self.drops(id, offset) {
            true => Ok(()),
            false => self.objects.write(id, offset, data),
        }
    }

    fn write_shared(
        &self,
        id: ObjectId,
        offset: u64,
        data: &Bytes,
        buffer_bytes: usize,
    ) -> Result<(), ObjectError> {
        self.try_take(id, (offset, data.len() as u64))?;
        match self.drops(id, offset) {
            true => Ok(()),
            false => self.objects.write_shared(id, offset, data, buffer_bytes),
        }
    }

    fn write_again(&self, id: ObjectId, offset: u64, data: &[u8]) -> Result<(), ObjectError> {
        // What is kept in reserve is open to it.
        self.trouble.try_change()?;
        self.objects.write_again(id, offset, data)
    }

    fn copied_bytes(&self) -> u64 {
        self.objects.copied_bytes()
    }

    fn sync(&self, id: ObjectId) -> Result<(), ObjectError> {
        match (self.trouble.try_sync(), &self.lie) {
            (Err(_), Some(Lie::NotFailed)) => Ok(()),
            (Err(failed), _) => {
                self.objects.fail_sync(id);
                Err(failed)
            }
            (Ok(()), Some(Lie::Synced)) => Ok(()),
            (Ok(()), _) => self.objects.sync(id),
        }
    }

    fn drop_unwritten(&self, id: ObjectId) -> Result<(), ObjectError> {
        self.objects.drop_unwritten(id)
    }

    fn stat(&self, id: ObjectId) -> Result<ObjectStat, ObjectError> {
        self.objects.stat(id)
    }

    fn seek(&self, id: ObjectId, offset: u64, what: Content) -> Result<Option<u64>, ObjectError> {
        self.objects.seek(id, offset, what)
    }

    fn punch(&self, id: ObjectId, offset: u64, len: u64) -> Result<(), ObjectError> {
        self.trouble.try_change()?;
        match self.lie {
            Some(Lie::Punched) => self.objects.stat(id).map(drop),
            _ => self.objects.punch(id, offset, len),
        }
    }

    fn reserve(&self, id: ObjectId, offset: u64, len: u64) -> Result<(), ObjectError> {
        self.try_take(id, (offset, len))?;
        self.objects.reserve(id, offset, len)
    }

    fn clone_range(
        &self,
        src: (ObjectId, u64),
        dst: (ObjectId, u64),
        len: u64,
    ) -> Result<(), ObjectError> {
        if len > 0 {
            self.try_take(dst.0, (dst.1, len))?;
        }
        self.objects.clone_range(src, dst, len)
    }

    fn set_size(&self, id: ObjectId, size_bytes: u64) -> Result<(), ObjectError> {
        self.trouble.try_change()?;
        self.objects.set_size(id, size_bytes)
    }

    fn remove(&self, id: ObjectId) -> Result<(), ObjectError> {
        self.trouble.try_change()?;
        self.objects.remove(id)
    }

    fn is_cached(&self, id: ObjectId, offset: u64, len: u32) -> bool {
        self.objects.is_cached(id, offset, len)
    }

    fn capacity(&self) -> Result<Capacity, ObjectError> {
        let capacity = self.objects.capacity()?;
        Ok(match self.trouble.now() {
            Some(Ailment::Full { says_so: true, .. }) => Capacity {
                free_bytes: 0,
                unused_bytes: 0,
                ..capacity
            },
            _ => capacity,
        })
    }

    fn list(&self, visit: &mut dyn FnMut(ObjectId, ObjectStat) -> bool) -> Result<(), ObjectError> {
        self.objects.list(visit)
    }

    fn is_persistent(&self) -> bool {
        self.objects.is_persistent()
    }

    fn tie(&self, index_id: u64, knows_objects: bool) -> Result<(), ObjectError> {
        self.objects.tie(index_id, knows_objects)
    }
}
