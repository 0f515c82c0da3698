//! The places whose last copy a data server has (rule P20). Reads the tables alone.

use crate::groups::Groups;
use crate::servers::{Server, Servers};
use layout::{MemberState, Row};
use std::collections::BTreeSet;

/// The places whose last copy in sync a data server has: others that were expelled do not count.
pub(crate) fn last_copies(groups: &Groups, servers: &Servers, ds: u32) -> BTreeSet<(u32, u32)> {
    let is_other = |other: &u32| {
        let server = servers.map.get(other);
        *other != ds && server.is_some_and(Server::is_member)
    };
    let is_last = |row: &Row| {
        let has_it = row.state_of(ds) == Some(MemberState::Sync);
        has_it
            && !row
                .in_state(MemberState::Sync)
                .any(|other| is_other(&other))
    };
    let mut last = BTreeSet::new();
    for group in groups.placement().groups() {
        let places = (0..).zip(&group.rows).filter(|(_, row)| is_last(row));
        last.extend(places.map(|(place, _)| (group.id, place)));
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::Membership;
    use MemberState::{Filling, Stale, Sync};
    use layout::Group;

    #[test]
    fn a_last_copy_is_one_in_sync_beside_which_no_member_has_another() {
        let mut servers = Servers::default();
        (1..=3).for_each(|id| servers.add_at(id, ""));
        let last = |servers: &Servers, state, ds| {
            let mut group = Group::new(7, &[vec![1, 2], vec![3]]);
            group.rows[0].members.0[1].state = state;
            let groups = Groups::load((1, (2, 1)), vec![group], 0).unwrap();
            last_copies(&groups, servers, ds)
                .into_iter()
                .collect::<Vec<_>>()
        };
        assert_eq!(last(&servers, Sync, 1), []);
        assert_eq!(last(&servers, Sync, 3), [(7, 1)]);
        for state in [Stale, Filling] {
            assert_eq!(last(&servers, state, 1), [(7, 0)]);
            assert_eq!(last(&servers, state, 2), []);
        }
        let gone = servers.map.get_mut(&2).unwrap();
        gone.record.membership = Membership::Expelled;
        assert_eq!(last(&servers, Sync, 1), [(7, 0)]);
    }
}
