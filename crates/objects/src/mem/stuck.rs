//! Pages that a failed sync has left behind.
//!
//! When Linux cannot write a page, it tells one fsync so and takes the page for clean. Reads still give it. No later sync
//! writes it, until somebody changes it. Once it leaves memory, the old page is back.
//!
//! Owns which pages those are. [`super`] asks it what lies on the disk.

use super::{Object, PAGE_BYTES};
use crate::ObjectId;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// Pages by object.
#[derive(Debug, Default)]
pub(super) struct Stuck(BTreeMap<ObjectId, BTreeSet<u64>>);

impl Stuck {
    /// A sync failed: what it should have written stays in memory.
    pub(super) fn add(&mut self, id: ObjectId, live: &Object, synced: &Object) {
        let pages = live.pages.keys().chain(synced.pages.keys());
        let differs = |page: &&u64| live.pages.get(page) != synced.pages.get(page);
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

    /// What a disk has that was written all but the pages which are stuck.
    pub(super) fn on_disk<'o>(
        &self,
        id: ObjectId,
        live: &'o Object,
        synced: &Object,
    ) -> Cow<'o, Object> {
        let Some(pages) = self.0.get(&id) else {
            return Cow::Borrowed(live);
        };
        let mut left = live.clone();
        for page in pages {
            match synced.pages.get(page) {
                Some(old) => left.pages.insert(*page, old.clone()),
                None => left.pages.remove(page),
            };
        }
        Cow::Owned(left)
    }
}
