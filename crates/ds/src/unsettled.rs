//! Which parts may differ between the members of a place (rules P9, P10).
//!
//! A part is *settled* at a member when all members of its place had all of it durably, and it has not changed here since.
//! So a part in which two members differ, both of which have been in sync, is not settled at one of them at least. A member
//! that comes back is given those parts, and no others.
//!
//! # Ownership
//! The index has the truth (`part_index`). [`Unsettled`] has parts that this process knows to be unsettled, durably or
//! with their entry.
//!
//! # Ordering
//! A part is durably unsettled before its first byte changes. A new part needs no sync for that: without its entry it is
//! nothing, and the entry has the mark. A primary settles a part after every member has synced it, while no member is out,
//! if no change was begun meanwhile; so does each member when its turn comes in the stream ([`crate::copies`]).
//!
//! # Failure
//! A mark too many costs a comparison. What memory has forgotten the index is asked for.

use objects::ObjectId;
use parking_lot::Mutex;
use rustc_hash::FxHashSet;

/// Tables, by file.
const STRIPES: usize = 64;
/// Parts that one table remembers.
const STRIPE_PARTS_MAX: usize = 2048;

/// See the module.
pub(crate) struct Unsettled(Box<[Mutex<FxHashSet<ObjectId>>]>);

impl Default for Unsettled {
    fn default() -> Self {
        Self((0..STRIPES).map(|_| Mutex::default()).collect())
    }
}

impl Unsettled {
    fn stripe(&self, id: ObjectId) -> &Mutex<FxHashSet<ObjectId>> {
        let at = id.file_id % STRIPES as u64;
        &self.0[usize::try_from(at).expect("below STRIPES")]
    }

    /// Whether the part is known to be unsettled.
    pub(crate) fn has(&self, id: ObjectId) -> bool {
        self.stripe(id).lock().contains(&id)
    }

    pub(crate) fn note(&self, id: ObjectId) {
        let mut parts = self.stripe(id).lock();
        if parts.len() >= STRIPE_PARTS_MAX {
            parts.clear();
        }
        parts.insert(id);
    }

    pub(crate) fn forget(&self, id: ObjectId) {
        self.stripe(id).lock().remove(&id);
    }
}
