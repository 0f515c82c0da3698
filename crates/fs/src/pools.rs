//! Names of objects that were made ahead of their files, by placement group.
//!
//! Owns the tables that [`crate::ahead`] fills and empties. Calls nothing.

use namespace::{DataName, Placement};
use std::collections::{BTreeMap, BTreeSet};

/// Most placement groups with a pool; files of others are made without.
const POOLS_MAX: usize = 64;

/// The names of one group.
#[derive(Default)]
pub(crate) struct Pool {
    stripe_unit: u32,
    /// Names whose objects are there.
    pub(crate) ready: Vec<DataName>,
    /// Names whose objects are not known to be there.
    pub(crate) unmade: Vec<DataName>,
}

/// The pools of one metadata server.
#[derive(Default)]
pub(crate) struct Pools {
    pub(crate) by_group: BTreeMap<u32, Pool>,
    /// Groups whose pool has become low.
    pub(crate) low: Vec<u32>,
    /// Names that an earlier run has left, of groups without a pool; `None` until they were looked for.
    pub(crate) left: Option<BTreeMap<u32, Vec<DataName>>>,
}

impl Pools {
    /// Takes a ready name. The group is noted when its pool has become low.
    pub(crate) fn take(&mut self, placement: Placement, size: usize) -> Option<DataName> {
        let group = placement.group;
        if !self.by_group.contains_key(&group) && self.by_group.len() >= POOLS_MAX {
            return None;
        }
        let pool = self.by_group.entry(group).or_default();
        pool.stripe_unit = placement.stripe_unit;
        let name = pool.ready.pop();
        if pool.ready.len() * 2 <= size && !self.low.contains(&group) {
            self.low.push(group);
        }
        name
    }

    /// Forgets the names of groups.
    pub(crate) fn forget(&mut self, groups: &BTreeSet<u32>) {
        self.by_group.retain(|group, _| !groups.contains(group));
        self.low.retain(|group| !groups.contains(group));
        if let Some(left) = &mut self.left {
            left.retain(|group, _| !groups.contains(group));
        }
    }

    /// Names of a group whose objects are to be made, how many more it needs, and its stripe unit.
    pub(crate) fn begin(&mut self, group: u32, size: usize) -> Option<(Vec<DataName>, usize, u32)> {
        let left = self.left.as_mut().and_then(|left| left.remove(&group));
        let pool = self.by_group.get_mut(&group)?;
        pool.unmade.extend(left.unwrap_or_default());
        let names = std::mem::take(&mut pool.unmade);
        let missing = size.saturating_sub(pool.ready.len() + names.len());
        Some((names, missing, pool.stripe_unit))
    }
}

#[cfg(test)]
mod tests {
    //! Goal: a pool gives each name once, asks for more when it is half empty, and loses none.
    use super::*;
    use namespace::FileId;

    const PLACE: Placement = Placement {
        group: 0x4000_0001,
        stripe_unit: 4096,
        first_index: 0,
    };

    fn name(number: u64) -> DataName {
        DataName {
            file: FileId(number),
            generation: 1,
        }
    }

    #[test]
    fn a_pool_is_filled_when_half_of_it_is_gone() {
        let mut pools = Pools::default();
        assert_eq!(pools.take(PLACE, 4), None);
        assert_eq!(pools.low, [PLACE.group]);
        pools.low.clear();
        pools.left = Some(BTreeMap::from([(PLACE.group, vec![name(7)])]));
        assert_eq!(pools.begin(PLACE.group, 4), Some((vec![name(7)], 3, 4096)));
        assert_eq!(pools.begin(9, 4), None);
        let ready = &mut pools.by_group.get_mut(&PLACE.group).unwrap().ready;
        ready.extend((1..=4).map(name));
        assert_eq!(pools.take(PLACE, 4), Some(name(4)));
        assert_eq!(pools.low, []);
        assert_eq!(pools.take(PLACE, 4), Some(name(3)));
        assert_eq!(pools.take(PLACE, 4), Some(name(2)));
        assert_eq!(pools.low, [PLACE.group]);
        assert_eq!(pools.begin(PLACE.group, 4), Some((vec![], 3, 4096)));
    }

    #[test]
    fn groups_beyond_the_limit_have_no_pool() {
        let mut pools = Pools::default();
        for group in 0..=64 {
            pools.take(Placement { group, ..PLACE }, 4);
        }
        assert_eq!(pools.by_group.len(), POOLS_MAX);
        assert_eq!(pools.low.len(), POOLS_MAX);
    }
}
