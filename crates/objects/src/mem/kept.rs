//! Buffers that were handed over, and which pages of an object are parts of them.
//!
//! A buffer stays in memory as long as any page is a part of it. So only buffers that whole pages mostly fill are kept. When
//! the pages left fill less than 1 / [`KEPT_FACTOR_MAX`] of a buffer, they are copied out and the buffer is given back. An
//! object never holds more than [`KEPT_FACTOR_MAX`] times the bytes of those pages, and nothing is copied twice for that.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Range, RangeInclusive};

/// Bytes of a whole page.
pub const PAGE_BYTES: u64 = 64 * 1024;

/// Most memory that is held by a buffer which was handed over, as a multiple of the bytes of an object in it.
pub const KEPT_FACTOR_MAX: u64 = 2;

/// Whether these pages fill so much of their buffer, two thirds, that it is kept instead of copied.
pub(super) fn is_worth(pages: &Range<u64>, buffer_bytes: usize) -> bool {
    let bytes = pages.end.saturating_sub(pages.start) * PAGE_BYTES;
    bytes > 0 && bytes * 3 >= buffer_bytes as u64 * 2
}

/// The buffers of one object.
#[derive(Debug, Clone, Default)]
pub(super) struct Kept {
    /// The buffer of each page that is a part of one.
    of_page: BTreeMap<u64, u64>,
    buffers: BTreeMap<u64, Buffer>,
    next: u64,
}

#[derive(Debug, Clone)]
struct Buffer {
    /// Those that were parts of it at first.
    pages: Range<u64>,
    /// How many still are.
    left: u64,
    bytes: u64,
}

impl Kept {
    pub(super) fn is_empty(&self) -> bool {
        self.buffers.is_empty()
    }

    /// These pages, released before, are parts of a buffer of so many bytes.
    pub(super) fn add(&mut self, pages: Range<u64>, buffer_bytes: usize) {
        let id = self.next;
        self.next += 1;
        self.of_page.extend(pages.clone().map(|page| (page, id)));
        let left = pages.end - pages.start;
        let bytes = buffer_bytes as u64;
        self.buffers.insert(id, Buffer { pages, left, bytes });
    }

    /// Pages that are no longer to be parts of buffers. They are those of the range, and all others of the buffers that
    /// would be too empty without them.
    pub(super) fn release(&mut self, range: RangeInclusive<u64>) -> Vec<u64> {
        let found = self.of_page.range(range);
        let found: Vec<(u64, u64)> = found.map(|(page, id)| (*page, *id)).collect();
        let mut touched = BTreeSet::new();
        let mut released = Vec::with_capacity(found.len());
        for (page, id) in found {
            self.of_page.remove(&page);
            if let Some(buffer) = self.buffers.get_mut(&id) {
                buffer.left -= 1;
            }
            touched.insert(id);
            released.push(page);
        }
        for id in touched {
            let too_empty =
                |b: &Buffer| b.left == 0 || b.left * PAGE_BYTES * KEPT_FACTOR_MAX < b.bytes;
            let Some(buffer) = self.buffers.get(&id).filter(|b| too_empty(b)) else {
                continue;
            };
            for page in buffer.pages.clone() {
                if self.of_page.get(&page) == Some(&id) {
                    self.of_page.remove(&page);
                    released.push(page);
                }
            }
            self.buffers.remove(&id);
        }
        released
    }

    /// Bytes of the buffers, and of the pages that are parts of them.
    #[cfg(test)]
    pub(super) fn held_bytes(&self) -> (u64, u64) {
        let bytes = self.buffers.values().map(|buffer| buffer.bytes).sum();
        (bytes, self.of_page.len() as u64 * PAGE_BYTES)
    }
}
