//! Files that were removed lately, for items of a stream that come late (rule P6).
//!
//! A tombstone goes when no live key could have signed a handle of the file. An item needs no handle, so it may come
//! after that: it was queued before the removal, and lags by seconds.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

/// Removals that are remembered: those of seconds.
const REMOVED_MAX: usize = 1 << 16;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct RecentlyRemoved {
    /// By file, the lowest generation that is not removed.
    generations: FxHashMap<u64, u32>,
    order: VecDeque<u64>,
}

impl RecentlyRemoved {
    /// Generations of a file below `generation` are removed.
    pub(crate) fn note(&mut self, file_id: u64, generation: u32) {
        let known = self.generations.entry(file_id).or_insert_with(|| {
            self.order.push_back(file_id);
            0
        });
        *known = generation.max(*known);
        if self.order.len() > REMOVED_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.generations.remove(&oldest);
        }
    }

    /// Whether a generation of a file was removed lately.
    pub(crate) fn has(&self, file_id: u64, generation: u32) -> bool {
        let lowest = self.generations.get(&file_id);
        lowest.is_some_and(|lowest| generation < *lowest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_removals_are_remembered() {
        let mut removed = RecentlyRemoved::default();
        removed.note(7, 2);
        removed.note(7, 1);
        assert!(removed.has(7, 1) && !removed.has(7, 2) && !removed.has(8, 1));
        for file in 0..REMOVED_MAX as u64 {
            removed.note(1000 + file, 1);
        }
        assert!(!removed.has(7, 1));
        assert!(removed.has(1000, 0));
        assert_eq!(removed.order.len(), removed.generations.len());
    }
}
