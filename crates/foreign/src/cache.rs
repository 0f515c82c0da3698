//! Handles of objects and the epoch whose ids each has; bounded, oldest out.
//!
//! Owns the table. An entry without a handle remembers only that nobody may go back to an earlier epoch.

use nfs3_client::Fh;
use std::collections::{HashMap, VecDeque};
use tracing_mutex::parkinglot::Mutex;

/// Most objects that are remembered.
pub const HANDLES_MAX: usize = 65_536;

/// Server, number, generation.
pub(crate) type ObjectKey = (u32, u64, u32);

/// What is known of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) fh: Option<Fh>,
    /// It never gets ids of an earlier epoch.
    pub(crate) epoch: Option<u64>,
    /// Whether it has the ids of that epoch.
    pub(crate) is_given: bool,
}

/// The epoch of an object that was removed: nothing comes after it.
pub(crate) const REMOVED: u64 = u64::MAX;

#[derive(Default)]
struct Table {
    known: HashMap<ObjectKey, (u64, Known)>,
    /// Keys in the order in which they came, with the number of their entry; some are not in the table any more.
    order: VecDeque<(u64, ObjectKey)>,
    last: u64,
}

#[derive(Default)]
pub(crate) struct HandleCache(Mutex<Table>);

impl HandleCache {
    pub(crate) fn get(&self, key: ObjectKey) -> Option<Known> {
        self.0
            .lock()
            .known
            .get(&key)
            .map(|(_, known)| known.clone())
    }

    pub(crate) fn put(&self, key: ObjectKey, known: Known) {
        let mut table = self.0.lock();
        table.last += 1;
        let entry = table.last;
        table.known.insert(key, (entry, known));
        table.order.push_back((entry, key));
        while table.known.len() > HANDLES_MAX || table.order.len() > 2 * HANDLES_MAX {
            let Some((old, key)) = table.order.pop_front() else {
                break;
            };
            if table.known.get(&key).is_some_and(|(at, _)| *at == old) {
                table.known.remove(&key);
            }
        }
    }

    /// Remembers that an object was removed, so that nobody makes it again.
    pub(crate) fn removed(&self, key: ObjectKey) {
        let known = Known {
            fh: None,
            epoch: Some(REMOVED),
            is_given: false,
        };
        self.put(key, known);
    }

    /// Forgets a handle that its server does not know any more. The epoch stays.
    pub(crate) fn forget_handle(&self, key: ObjectKey, stale: &Fh) {
        let mut table = self.0.lock();
        if let Some((_, known)) = table.known.get_mut(&key)
            && known.fh.as_ref() == Some(stale)
        {
            known.fh = None;
            known.is_given = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(epoch: u64) -> Known {
        Known {
            fh: None,
            epoch: Some(epoch),
            is_given: false,
        }
    }

    #[test]
    fn the_oldest_goes_and_one_that_came_again_stays() {
        let cache = HandleCache::default();
        cache.put((1, 0, 0), known(1));
        cache.put((1, 1, 0), known(1));
        cache.put((1, 0, 0), known(2));
        for number in 2..=HANDLES_MAX as u64 {
            cache.put((1, number, 0), known(1));
        }
        assert_eq!(cache.get((1, 1, 0)), None, "the oldest");
        assert_eq!(cache.get((1, 0, 0)), Some(known(2)));
        for _ in 0..3 * HANDLES_MAX {
            cache.put((1, 7, 0), known(9));
        }
        assert!(cache.0.lock().order.len() <= 2 * HANDLES_MAX);
    }
}
