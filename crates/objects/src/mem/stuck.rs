//! Pages that a failed sync has left behind.
//!
//! When Linux cannot write a page, it tells one fsync so and takes the page for clean. Reads still give it. No later sync
//! writes it, until somebody changes it. Once it leaves memory, the old page is back.
//!
//! Owns which pages those are. [`super`] asks it what lies on the disk.

use super::kept::PAGE_BYTES;
use crate::ObjectId;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};

/// Pages of an object, by index.
type Pages = BTreeMap<u64, Bytes>;

/// Pages by object.
#[derive(Debug, Default)]
pub(super) struct Stuck(BTreeMap<ObjectId, BTreeSet<u64>>);

impl Stuck {
    /// A sync failed: what it should have written stays in memory.
    pub(super) fn add(&mut self, id: ObjectId, live: &Pages, synced: &Pages) {
        let pages = live.keys().chain(synced.keys());
        let differs = |page: &&u64| live.get(page) != synced.get(page);
        let unwritten: BTreeSet<u64> = pages.filter(differs).copied().collect();
        if !unwritten.is_empty() {
            self.0.entry(id).or_default().extend(unwritten);
        }
    }

    /// These bytes are changed: the next sync writes their pages.
    pub(super) fn write(&mut self, id: ObjectId, (offset, len): (u64, u64)) {
        let Some(pages) = self.0.get_mut(&id).filter(|_| len > 0) else {
            return;
        };
        let (first, last) = (offset / PAGE_BYTES, (offset + len - 1) / PAGE_BYTES);
        pages.retain(|page| !(first..=last).contains(page));
        if pages.is_empty() {
            self.0.remove(&id);
        }
    }

    /// The object ends here.
    pub(super) fn cut(&mut self, id: ObjectId, size_bytes: u64) {
        self.write(id, (size_bytes, u64::MAX - size_bytes));
    }

    pub(super) fn remove(&mut self, id: ObjectId) {
        self.0.remove(&id);
    }

    /// The pages of an object that are stuck.
    pub(super) fn of(&self, id: ObjectId) -> Option<&BTreeSet<u64>> {
        self.0.get(&id)
    }
}
