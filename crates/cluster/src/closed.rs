//! Placement groups of which a data server knows a newer version than the store has: the store went back (rule P21).
//!
//! What their rows should say is not known. So nobody is told them, and nothing changes them, or their version would rise past
//! that of the data server. They open when the newest store is put back, when such a data server is expelled, or when an
//! administrator accepts the older store.

use layout::{Group, Member, MemberState};
use std::collections::BTreeMap;

/// The closed groups, each with the data servers that know newer versions, and these.
#[derive(Debug, Default)]
pub(crate) struct Closed {
    by_group: BTreeMap<u32, BTreeMap<u32, u32>>,
}

impl Closed {
    pub(crate) fn has(&self, group: u32) -> bool {
        self.by_group.contains_key(&group)
    }

    /// The groups that a data server has closed.
    pub(crate) fn by(&self, ds: u32) -> Vec<u32> {
        let own = self
            .by_group
            .iter()
            .filter(|(_, all)| all.contains_key(&ds));
        own.map(|(group, _)| *group).collect()
    }

    /// A data server knows a newer version of a group. Returns whether that was open.
    pub(crate) fn note(&mut self, ds: u32, group: u32, version: u32) -> bool {
        let all = self.by_group.entry(group).or_default();
        let was_open = all.is_empty();
        all.insert(ds, version);
        was_open
    }

    /// What a data server knows counts no more.
    pub(crate) fn forget(&mut self, ds: u32) {
        self.by_group.retain(|_, all| {
            all.remove(&ds);
            !all.is_empty()
        });
    }

    /// The ids of all.
    pub(crate) fn ids(&self) -> impl Iterator<Item = u32> {
        self.by_group.keys().copied()
    }

    /// All, each with the versions that data servers know.
    pub(crate) fn all(&self) -> &BTreeMap<u32, BTreeMap<u32, u32>> {
        &self.by_group
    }

    /// Opens all; returns the newest version of each that is known.
    pub(crate) fn open(&mut self) -> BTreeMap<u32, u32> {
        let closed = std::mem::take(&mut self.by_group);
        let newest = |all: &BTreeMap<u32, u32>| all.values().copied().max().unwrap_or(0);
        closed.iter().map(|(id, all)| (*id, newest(all))).collect()
    }
}

/// A closed group as it is opened, above all versions that are known. Of the members that are or were in sync by the older store,
/// that one is primary which knows the newest version: the older store may have left it out since, for want of better
/// knowledge. All parts of the others are compared with its own.
pub(crate) fn accepted(group: &Group, known: &BTreeMap<u32, u32>) -> Group {
    let newest = known.values().copied().max().unwrap_or(0);
    let mut next = group.clone();
    next.version = newest.max(group.version).saturating_add(1);
    for row in &mut next.rows {
        let had_all = |m: &&Member| m.was_sync || m.state == MemberState::Sync;
        let rank = |m: &Member| {
            let is_sync = m.state == MemberState::Sync;
            (known.get(&m.ds).copied(), is_sync, m.ds == row.primary)
        };
        let heir = row.members.0.iter().filter(had_all).max_by_key(|m| rank(m));
        let primary = heir.map_or(row.primary, |m| m.ds);
        row.primary = primary;
        (row.era, row.reign) = (next.version, next.version);
        for member in &mut row.members.0 {
            member.was_sync = false;
            match member.state {
                _ if member.ds == primary => member.state = MemberState::Sync,
                MemberState::Leaving => {}
                _ => member.state = MemberState::Stale,
            }
        }
    }
    next
}

#[cfg(test)]
mod tests {
    use super::*;
    use layout::Row;

    #[test]
    fn a_group_opens_when_nobody_knows_a_newer_version() {
        let mut closed = Closed::default();
        assert!(closed.note(1, 7, 3));
        assert!(!closed.note(2, 7, 4) && closed.note(2, 8, 2));
        assert_eq!((closed.by(1), closed.by(2)), (vec![7], vec![7, 8]));
        closed.forget(2);
        assert!(closed.has(7) && !closed.has(8));
        closed.forget(1);
        assert!(!closed.has(7));
    }

    #[test]
    fn who_knows_most_becomes_primary_and_the_others_are_filled() {
        let group = Group {
            version: 5,
            rows: vec![Row::new(&[1, 2], 5), Row::new(&[3, 1], 5)],
            ..Group::new(9, &[vec![1, 2], vec![3, 1]])
        };
        let next = accepted(&group, &BTreeMap::from([(1, 6), (2, 8)]));
        assert_eq!((next.version, next.primaries()), (9, vec![2, 1]));
        assert!(next.is_sound());
        for (row, stale) in next.rows.iter().zip([1, 3]) {
            assert_eq!((row.era, row.reign), (9, 9));
            assert_eq!(row.state_of(stale), Some(MemberState::Stale));
            assert!(row.members.0.iter().all(|m| !m.was_sync));
        }
    }
}
