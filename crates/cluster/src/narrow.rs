//! Narrow placement groups: for directories whose layout policy wants fewer data servers than a whole group has.
//!
//! The data servers with room of the current groups are cut into runs of the wanted width; the last run continues at the front.
//! Files go to the runs in turn, and begin at each of a run's data servers in turn. A run becomes a group, and is stored, when its
//! first file comes. Ids of narrow groups have their highest bit set: a start knows that they are none for files without a policy.

use layout::GROUPS_MAX;
use std::collections::BTreeMap;

/// The lowest id of a narrow group.
pub(crate) const NARROW_ID_MIN: u32 = 1 << 31;
/// Most narrow groups: the rest is for whole ones.
pub(crate) const NARROW_GROUPS_MAX: usize = GROUPS_MAX / 2;

/// The group of each run, as far as it has one, and how many files were placed.
pub(crate) type Runs = (Vec<Option<u32>>, u32);

/// The runs of the current data servers.
#[derive(Default)]
pub(crate) struct Narrow {
    /// The data servers that the runs are cut from.
    pub(crate) servers: Vec<u32>,
    /// By width and copies.
    pub(crate) runs: BTreeMap<(u32, u32), Runs>,
}

/// Run `index` of `width` out of more servers than that.
pub(crate) fn run_of(servers: &[u32], width: u32, index: usize) -> Vec<u32> {
    let width = usize::try_from(width).unwrap_or(usize::MAX);
    let from = index.saturating_mul(width);
    let ring = servers.iter().cycle();
    ring.skip(from).take(width).copied().collect()
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
