//! The table of fences that data servers have not acknowledged.

use crate::servers::Servers;
use layout::{ClientTag, Floor, FloorKey};
use std::collections::{BTreeMap, BTreeSet};
use tokio::time::Instant;
use tracing_mutex::parkinglot::Mutex;

/// Most floors that wait for one data server. One that missed more is refused until the keys have changed, or the MDS
/// restarts.
const PENDING_MAX: usize = 262_144;

/// Floors that are not acknowledged yet, by data server.
#[derive(Default)]
pub(crate) struct Fences {
    pending: BTreeMap<u32, BTreeMap<FloorKey, Floor>>,
    /// Data servers for which floors were dropped, and the newest key that those need.
    overflowed: BTreeMap<u32, u32>,
}

impl Fences {
    /// Notes a floor for a data server; the higher epoch of two wins.
    pub(crate) fn add(&mut self, ds: u32, floor: Floor) {
        let of_ds = self.pending.entry(ds).or_default();
        let key = floor.key();
        let higher = of_ds
            .get(&key)
            .is_some_and(|old| epoch_of(old) >= epoch_of(&floor));
        if higher {
            return;
        }
        if of_ds.len() >= PENDING_MAX && !of_ds.contains_key(&key) {
            let through_key = floor.through_key().unwrap_or(u32::MAX);
            let newest = self.overflowed.entry(ds).or_insert_with(|| {
                tracing::error!(
                    ds,
                    "too many fences wait; it is readmitted after the keys have changed"
                );
                0
            });
            *newest = through_key.max(*newest);
            return;
        }
        of_ds.insert(key, floor);
    }

    /// Forgets what was acknowledged, unless it was raised meanwhile.
    pub(crate) fn acked(&mut self, ds: u32, floors: &[Floor]) {
        let Some(of_ds) = self.pending.get_mut(&ds) else {
            return;
        };
        for floor in floors {
            if of_ds.get(&floor.key()) == Some(floor) {
                of_ds.remove(&floor.key());
            }
        }
        if of_ds.is_empty() {
            self.pending.remove(&ds);
        }
    }

    /// Whether floors were dropped for lack of room: such a data server cannot come back before the keys that those
    /// need have retired.
    pub(crate) fn has_overflowed(&self, ds: u32) -> bool {
        self.overflowed.contains_key(&ds)
    }

    /// Drops what only keys up to `key` need. For data servers that serve nothing, and have other keys before they
    /// serve again. At one that serves, a fence also says that older I/O has ended.
    pub(crate) fn retire_key(&mut self, ds: u32, key: u32) {
        if let Some(of_ds) = self.pending.get_mut(&ds) {
            of_ds.retain(|_, floor| floor.through_key().is_none_or(|through| through > key));
            if of_ds.is_empty() {
                self.pending.remove(&ds);
            }
        }
        if self
            .overflowed
            .get(&ds)
            .is_some_and(|through| *through <= key)
        {
            self.overflowed.remove(&ds);
        }
    }

    pub(crate) fn first(&self, ds: u32, limit: usize) -> Vec<Floor> {
        let of_ds = self.pending.get(&ds);
        of_ds.map_or_else(Vec::new, |m| m.values().take(limit).copied().collect())
    }

    pub(crate) fn all(&self, ds: u32) -> Vec<Floor> {
        self.first(ds, usize::MAX)
    }

    fn names(&self, ds: u32, file: u64) -> bool {
        let (low, high) = (
            ClientTag::from_bytes([0; 12]),
            ClientTag::from_bytes([u8::MAX; 12]),
        );
        self.pending.get(&ds).is_some_and(|m| {
            m.contains_key(&FloorKey::File(file))
                || m.range(FloorKey::Client(file, low)..=FloorKey::Client(file, high))
                    .next()
                    .is_some()
        })
    }

    /// Whether a data server of `ids` may still honour what a pending floor on the file forbids.
    pub(crate) fn outstanding(&self, servers: &Servers, ids: &[u32], file: u64) -> bool {
        let now = Instant::now();
        ids.iter().any(|ds| {
            let leased = servers.map.get(ds).is_some_and(|s| s.has_lease(now));
            leased && (self.overflowed.contains_key(ds) || self.names(*ds, file))
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.pending.values().map(BTreeMap::len).sum()
    }

    pub(crate) fn waiting_servers(&self) -> Vec<u32> {
        self.pending.keys().copied().collect()
    }

    pub(crate) fn forget_server(&mut self, ds: u32) {
        self.pending.remove(&ds);
        self.overflowed.remove(&ds);
    }
}

fn epoch_of(floor: &Floor) -> u64 {
    match floor {
        Floor::Cluster { epoch } | Floor::File { epoch, .. } | Floor::Client { epoch, .. } => {
            epoch.as_u64()
        }
        Floor::Tombstone { generation, .. } => u64::from(*generation),
    }
}

/// Which data servers are being sent their fences: one task at a time for each.
#[derive(Debug, Default)]
pub(crate) struct Delivering(pub(crate) Mutex<BTreeSet<u32>>);

#[cfg(test)]
mod tests {
    use super::*;
    use layout::Epoch;

    #[test]
    fn a_data_server_that_missed_too_much_may_come_back_when_the_keys_have_retired() {
        let mut fences = Fences::default();
        let floor = |file_id: usize, through_key| Floor::File {
            file_id: file_id as u64,
            epoch: Epoch::new(1, 1),
            through_key,
        };
        for file in 0..PENDING_MAX {
            fences.add(7, floor(file, 1));
        }
        assert!(!fences.has_overflowed(7));
        fences.add(7, floor(PENDING_MAX, 2));
        fences.add(7, floor(PENDING_MAX + 1, 1));
        assert!(fences.has_overflowed(7));
        fences.retire_key(7, 1);
        assert_eq!(fences.len(), 0);
        assert!(fences.has_overflowed(7), "one that is lost needs key 2");
        fences.retire_key(7, 2);
        assert!(!fences.has_overflowed(7));
    }
}
