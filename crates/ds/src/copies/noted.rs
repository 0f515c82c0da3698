//! What writers note while a member is filled.

use std::collections::BTreeSet;

use objects::ObjectId;
use tracing_mutex::parkinglot::Mutex;

/// Parts that may change while a member is filled; above it the filling begins anew.
const TOUCHED_MAX: usize = 1 << 18;

/// Group, place and member.
pub(super) type FillKey = (u32, u8, u32);

/// What writers note while a member is filled.
#[derive(Default)]
pub(super) struct Fill {
    noted: Mutex<Noted>,
    progress: Mutex<Progress>,
}

/// How far a filling has come.
#[derive(Default, Clone, Copy)]
pub(super) struct Progress {
    has_begun: bool,
    /// Parts of the place when it was begun.
    pub(super) parts: u64,
    /// Parts that were compared.
    pub(super) parts_done: u64,
    /// Bytes that were sent.
    pub(super) bytes_sent: u64,
}

#[derive(Default)]
struct Noted {
    /// Parts that were passed on since the filling began: to be synced at the end.
    touched: BTreeSet<ObjectId>,
    /// Parts that were changed without being passed on: to be compared again.
    again: BTreeSet<ObjectId>,
    has_overflowed: bool,
    is_waited_for: bool,
}

impl Fill {
    /// A part is about to be passed on. Returns whether promises wait for the member. To be held together with the
    /// queueing under the lock of all fillings: else an item could be queued after the last sync with nobody waiting.
    pub(super) fn note(&self, id: ObjectId) -> bool {
        let mut noted = self.noted.lock();
        if !noted.is_waited_for {
            noted.has_overflowed |= noted.touched.len() >= TOUCHED_MAX;
            if !noted.has_overflowed {
                noted.touched.insert(id);
            }
        }
        noted.is_waited_for
    }

    /// A part was changed and not passed on.
    pub(super) fn compare_again(&self, id: ObjectId) {
        let mut noted = self.noted.lock();
        noted.has_overflowed |= noted.again.len() >= TOUCHED_MAX;
        if !noted.has_overflowed {
            noted.again.insert(id);
        }
    }

    /// The filling begins, with so many parts to compare.
    pub(super) fn begin(&self, parts: u64) {
        *self.progress.lock() = Progress {
            has_begun: true,
            parts,
            ..Progress::default()
        };
        let mut noted = self.noted.lock();
        noted.has_overflowed = false;
    }

    pub(super) fn note_progress(&self, parts: u64, bytes: u64) {
        let mut progress = self.progress.lock();
        progress.parts_done += parts;
        progress.bytes_sent += bytes;
    }

    pub(super) fn progress(&self) -> Progress {
        *self.progress.lock()
    }

    /// Parts that were not compared yet; `None` before it has begun.
    pub(super) fn left(&self) -> Option<u64> {
        let progress = self.progress();
        progress
            .has_begun
            .then(|| progress.parts.saturating_sub(progress.parts_done))
    }

    pub(super) fn take_again(&self) -> Vec<ObjectId> {
        std::mem::take(&mut self.noted.lock().again)
            .into_iter()
            .collect()
    }

    /// From now on promises wait for the member. Returns what is to be synced there; `None` when that is not known.
    pub(super) fn wait_for(&self) -> Option<Vec<ObjectId>> {
        let mut noted = self.noted.lock();
        if noted.has_overflowed {
            return None;
        }
        noted.is_waited_for = true;
        Some(std::mem::take(&mut noted.touched).into_iter().collect())
    }
}
