//! Chooses the data servers that hold the copies of a place. None is the primary. Each is in a failure domain of its own
//! where there are enough of them.
//!
//! Backups lie at different distances from the primary in different groups. So what one lost data server had is copied by
//! all others, not by its neighbour alone.

use crate::servers::Servers;

/// Most groups over the same data servers.
const SHIFTS_MAX: usize = 16;

/// Distances from a primary to its first backup, one for each group over `count` data servers.
pub(crate) fn shifts(count: usize, copies: u32) -> std::ops::Range<usize> {
    match copies {
        0 | 1 => 0..1,
        _ if count < 2 => 0..1,
        _ => 1..count.min(SHIFTS_MAX + 1),
    }
}

/// The members of each place of a group over `list`: the primary, then its backups from `shift` on around the list.
pub(crate) fn members_of_places(
    list: &[u32],
    (shift, copies): (usize, u32),
    servers: &Servers,
) -> Vec<Vec<u32>> {
    let members = |at: usize| members(list, list[at], at + shift, copies, servers);
    (0..list.len()).map(members).collect()
}

/// The members of each place of a narrow group: its run has the primaries, backups come from all data servers with room.
pub(crate) fn narrow_members(
    all: &[u32],
    run: &[u32],
    (turn, copies): (usize, u32),
    servers: &Servers,
) -> Vec<Vec<u32>> {
    let distance = 1 + turn % all.len().saturating_sub(1).max(1);
    let members = |primary: &u32| {
        let at = all.iter().position(|ds| ds == primary).unwrap_or(0);
        members(all, *primary, at + distance, copies, servers)
    };
    run.iter().map(members).collect()
}

/// A primary and its backups: the next ones around the ring from `from` on, those of other failure domains first.
fn members(ring: &[u32], primary: u32, from: usize, copies: u32, servers: &Servers) -> Vec<u32> {
    let mut members = vec![primary];
    let candidates = || ring.iter().cycle().skip(from % ring.len()).take(ring.len());
    let wanted = copies as usize;
    for ds in candidates() {
        let is_apart = members.iter().all(|other| servers.are_apart(*ds, *other));
        if members.len() < wanted && is_apart {
            members.push(*ds);
        }
    }
    for ds in candidates() {
        if members.len() < wanted && !members.contains(ds) {
            members.push(*ds);
        }
    }
    members
}

#[cfg(test)]
mod tests {
    use super::*;

    fn servers(locations: &[&str]) -> Servers {
        let mut servers = Servers::default();
        for (id, location) in (1..).zip(locations) {
            servers.add_at(id, location);
        }
        servers
    }

    #[test]
    fn each_distance_is_a_group_and_each_place_has_its_copies_elsewhere() {
        let servers = servers(&["", "", "", ""]);
        let list = [1, 2, 3, 4];
        assert_eq!(shifts(4, 1), 0..1);
        assert_eq!(shifts(1, 2), 0..1);
        assert_eq!(shifts(4, 2), 1..4);
        assert_eq!(shifts(40, 2).len(), SHIFTS_MAX);
        let places = |shift, copies| members_of_places(&list, (shift, copies), &servers);
        assert_eq!(places(0, 1), [[1], [2], [3], [4]]);
        assert_eq!(places(1, 2), [[1, 2], [2, 3], [3, 4], [4, 1]]);
        assert_eq!(places(3, 2), [[1, 4], [2, 1], [3, 2], [4, 3]]);
        assert_eq!(places(2, 3)[0], [1, 3, 4]);
        assert_eq!(members_of_places(&[7], (0, 2), &servers), [[7]]);
    }

    #[test]
    fn copies_are_in_other_failure_domains_where_there_are_enough() {
        let racks = servers(&["a", "a", "b", "b"]);
        let places = members_of_places(&[1, 2, 3, 4], (1, 2), &racks);
        assert_eq!(places, [[1, 3], [2, 3], [3, 1], [4, 1]]);
        let three = members_of_places(&[1, 2, 3, 4], (1, 3), &racks);
        assert_eq!(three[0], [1, 3, 2], "two racks are too few for three");
    }

    #[test]
    fn a_narrow_group_takes_its_copies_from_all() {
        let servers = servers(&["", "", "", ""]);
        let all = [1, 2, 3, 4];
        let places = |turn| narrow_members(&all, &[2], (turn, 2), &servers);
        assert_eq!(
            [places(0), places(1), places(2)],
            [[[2, 3]], [[2, 4]], [[2, 1]]]
        );
        assert_eq!(narrow_members(&[5], &[5], (0, 2), &servers), [[5]]);
    }
}
