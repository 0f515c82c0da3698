//! What one open has locked.

use crate::Error;
use nfs4::ops::LockDenied;
use nfs4::{LockType, NfsStatus, Stateid};
use parking_lot::Mutex;
use std::ops::Range;
use tokio::sync::Mutex as AsyncMutex;

/// Where ranges end that go on after every byte.
pub(crate) const NO_END: u64 = u64::MAX;

/// Whether a lock goes together with others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockKind {
    /// With others of this kind.
    Shared,
    /// With none.
    Exclusive,
}

impl LockKind {
    pub(crate) const fn wire(self) -> LockType {
        match self {
            Self::Shared => LockType::Read,
            Self::Exclusive => LockType::Write,
        }
    }
}

/// Somebody else's lock that is in the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockConflict {
    /// Its kind.
    pub kind: LockKind,
    /// Its bytes; the end is `u64::MAX` where it has none.
    pub range: Range<u64>,
}

impl From<LockDenied<'_>> for LockConflict {
    fn from(denied: LockDenied<'_>) -> Self {
        Self {
            kind: match denied.lock_type.is_write() {
                true => LockKind::Exclusive,
                false => LockKind::Shared,
            },
            range: denied.offset..denied.offset.saturating_add(denied.length),
        }
    }
}

/// The locks of one open.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    pub(crate) asking: AsyncMutex<()>,
    pub(crate) held: Mutex<Held>,
}

#[derive(Debug, Default)]
pub(crate) struct Held {
    /// Names them at the server, once there was one.
    pub(crate) stateid: Option<Stateid>,
    /// No two overlap.
    pub(crate) ranges: Vec<(Range<u64>, LockKind)>,
    pub(crate) lost: bool,
}

impl Held {
    /// Sets what the range is locked for.
    pub(crate) fn set(&mut self, range: &Range<u64>, kind: Option<LockKind>) {
        let mut left = Vec::with_capacity(self.ranges.len() + 2);
        for (old, kind) in self.ranges.drain(..) {
            let before = old.start..old.end.min(range.start);
            let behind = old.start.max(range.end)..old.end;
            left.extend([before, behind].map(|part| (part, kind)));
        }
        left.extend(kind.map(|kind| (range.clone(), kind)));
        left.retain(|(part, _)| !part.is_empty());
        self.ranges = left;
    }
}

impl Locks {
    /// # Errors
    /// [`Error::LocksLost`].
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.held.lock().lost {
            Err(Error::LocksLost)
        } else {
            Ok(())
        }
    }

    /// The server has forgotten what was locked.
    pub(crate) fn lose(&self) {
        let mut held = self.held.lock();
        held.lost |= !held.ranges.is_empty();
        held.ranges.clear();
        held.stateid = None;
    }

    pub(crate) fn stateid(&self) -> Option<Stateid> {
        self.held.lock().stateid
    }

    /// Notes what a request has done, unless a recovery came between: `is_same` tells that the open is the one that it was sent
    /// under.
    pub(crate) fn note(
        &self,
        is_same: impl FnOnce() -> bool,
        stateid: Stateid,
        range: &Range<u64>,
        kind: Option<LockKind>,
    ) -> bool {
        let mut held = self.held.lock();
        let is_same = is_same();
        if is_same {
            held.stateid = Some(stateid);
            held.set(range, kind);
        }
        is_same
    }
}

/// Bytes of a range as LOCK counts them: all ones for one without an end.
pub(crate) fn length_of(range: &Range<u64>) -> Result<u64, Error> {
    match range.end {
        _ if range.is_empty() => Err(Error::Status(NfsStatus::Inval)),
        NO_END => Ok(u64::MAX),
        end => Ok(end - range.start),
    }
}
