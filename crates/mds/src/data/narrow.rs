//! Narrow placement groups: for directories whose layout policy wants fewer data servers than a whole group has.
//!
//! The data servers of the current groups that have room are cut into runs of the wanted width, the last one going on at the
//! front; files go to the runs in turn, and begin at each of a run's data servers in turn. A run becomes a group, and is stored,
//! when its first file comes. Ids of narrow groups have their highest bit set: so a start knows that they are none for
//! files without a policy.

use super::groups::Groups;
use layout::{GROUPS_MAX, Group, Placed};
use meta::{MetaError, MetaStore};
use std::collections::BTreeMap;

/// The lowest id of a narrow group.
pub(super) const NARROW_ID_MIN: u32 = 1 << 31;
/// Most narrow groups: the rest is for whole ones.
const NARROW_GROUPS_MAX: usize = GROUPS_MAX / 2;

/// The runs of the data servers of now.
#[derive(Default)]
pub(super) struct Narrow {
    /// The data servers that the runs are cut from.
    servers: Vec<u32>,
    /// By width: the group of each run, as far as it has one, and how many files were placed.
    runs: BTreeMap<u32, (Vec<Option<u32>>, u32)>,
}

/// Run `index` of `width` out of more servers than that.
fn run_of(servers: &[u32], width: u32, index: usize) -> Vec<u32> {
    let width = usize::try_from(width).unwrap_or(usize::MAX);
    let from = index.saturating_mul(width);
    let ring = servers.iter().cycle();
    ring.skip(from).take(width).copied().collect()
}

impl Groups {
    /// Where a new file over `width` data servers goes; `None` when that is no fewer than there are, or no group can be made for
    /// it: then it goes where any other does.
    pub(super) fn pick_narrow(
        &mut self,
        store: &dyn MetaStore,
        width: u32,
    ) -> Result<Option<Placed>, MetaError> {
        let servers = self.servers_with_room();
        let count = u32::try_from(servers.len()).unwrap_or(u32::MAX);
        if width == 0 || width >= count {
            return Ok(None);
        }
        if self.narrow.servers != servers {
            self.narrow = Narrow {
                servers,
                runs: BTreeMap::new(),
            };
        }
        let runs_count = usize::try_from(count.div_ceil(width)).unwrap_or(usize::MAX);
        let entry = self.narrow.runs.entry(width);
        let (runs, placed) = entry.or_insert_with(|| (vec![None; runs_count], 0));
        let turn = usize::try_from(*placed).unwrap_or(0);
        *placed = placed.wrapping_add(1);
        let index = turn % runs_count;
        let first_index = u32::try_from(turn / runs_count).unwrap_or(0) % width;
        let group = match runs[index] {
            Some(id) => id,
            None => match self.narrow_group(store, run_of(&self.narrow.servers, width, index))? {
                Some(id) => id,
                None => return Ok(None),
            },
        };
        if let Some((runs, _)) = self.narrow.runs.get_mut(&width) {
            runs[index] = Some(group);
        }
        Ok(Some(Placed { group, first_index }))
    }

    /// The narrow group of a run, made if there is none yet and room for one.
    fn narrow_group(
        &mut self,
        store: &dyn MetaStore,
        list: Vec<u32>,
    ) -> Result<Option<u32>, MetaError> {
        let narrow = |g: &&Group| g.id >= NARROW_ID_MIN;
        let groups = || self.placement().groups().filter(narrow);
        if let Some(same) = groups().find(|g| g.servers.0 == list) {
            return Ok(Some(same.id));
        }
        if groups().count() >= NARROW_GROUPS_MAX {
            tracing::warn!("no more narrow placement groups can be made");
            return Ok(None);
        }
        let last = groups().map(|g| g.id).max();
        let Some(id) = last.map_or(Some(NARROW_ID_MIN), |id| id.checked_add(1)) else {
            return Ok(None);
        };
        self.add(store, id, list).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_take_every_server_and_the_last_goes_on_at_the_front() {
        let servers = [1, 2, 3, 4, 5];
        let runs: Vec<_> = (0..3).map(|i| run_of(&servers, 2, i)).collect();
        assert_eq!(runs, [[1, 2], [3, 4], [5, 1]]);
        let single: Vec<_> = (0..5).flat_map(|i| run_of(&servers, 1, i)).collect();
        assert_eq!(single, servers);
    }
}
