//! Data servers of unequal size fill evenly: of four new files one goes over all of them, and three over those that are
//! not fuller than the others, while some are.
//!
//! Each file takes the same from every data server of its group, so a small one would be full first. Deterministic, and
//! no clock: what it says follows from what data servers said of their room, and from what it said before.

use control::Capacity;
use std::collections::BTreeSet;

/// A data server is fuller than the others when its fill is above that of all together by more, in thousandths.
const FULLER_PERMILLE: u64 = 40;
/// It is so no more when it is above by less.
const LEVEL_PERMILLE: u64 = 10;
/// Shares of new files of the groups without the fuller ones; the groups of all have one.
const EVEN_SHARES: u32 = 3;

/// The room of a data server: id, size and used bytes.
pub(crate) type Room = (u32, u64, u64);

/// What a data server said of its room. What the file system keeps for its administrator is none of it.
pub(crate) fn room_of(id: u32, capacity: &Capacity) -> Room {
    let kept = capacity.unused_bytes.saturating_sub(capacity.free_bytes);
    let total = capacity.total_bytes.saturating_sub(kept);
    (id, total, total.saturating_sub(capacity.free_bytes))
}

fn permille(used: u64, total: u64) -> u64 {
    let permille = u128::from(used) * 1000 / u128::from(total.max(1));
    u64::try_from(permille).unwrap_or(1000)
}

/// Those that are fuller than all together, the fullest first left out, so that `least` are left. `was` are those that
/// were fuller before.
pub(crate) fn fuller(rooms: &[Room], was: &BTreeSet<u32>, least: usize) -> BTreeSet<u32> {
    let sum = |of: fn(&Room) -> u64| rooms.iter().map(of).fold(0, u64::saturating_add);
    let all = permille(sum(|room| room.2), sum(|room| room.1));
    let mut fuller: Vec<(u64, u32)> = Vec::new();
    for (id, total, used) in rooms {
        let limit = match was.contains(id) {
            true => LEVEL_PERMILLE,
            false => FULLER_PERMILLE,
        };
        let fill = permille(*used, *total);
        if *total > 0 && fill > all + limit {
            fuller.push((fill, *id));
        }
    }
    fuller.sort_unstable_by(|one, other| other.cmp(one));
    fuller.truncate(rooms.len().saturating_sub(least.max(1)));
    fuller.into_iter().map(|(_, id)| id).collect()
}

/// The weights of a group of all and of one without the fuller ones, by their widths and those of all such groups.
pub(crate) fn weights(all_widths: u32, even_widths: u32, (width, is_even): (u32, bool)) -> u32 {
    match (is_even, even_widths) {
        (false, 0) => width,
        (false, _) => width.saturating_mul(even_widths),
        (true, _) => width
            .saturating_mul(EVEN_SHARES)
            .saturating_mul(all_widths.max(1)),
    }
}

/// Whether the next file, number `turn`, goes to those that are not fuller, where the table of groups does not choose.
pub(crate) fn is_even_turn(turn: u32) -> bool {
    !turn.is_multiple_of(EVEN_SHARES + 1)
}

#[cfg(test)]
mod tests {
    //! Goal: servers of very unequal size are filled at the same pace, by few groups.

    use super::*;
    use layout::{Group, PlacementTable};
    use std::collections::BTreeMap;

    const FILE_BYTES: u64 = 1_200;

    /// Fills servers of these sizes up to `permille` of all, and returns their fills and how many groups there were.
    fn filled(sizes: &[u64], used: &[u64], until: u64) -> (Vec<u64>, usize) {
        let mut rooms: Vec<Room> = (1..)
            .zip(sizes.iter().zip(used))
            .map(|(id, (size, used))| (id, *size, *used))
            .collect();
        let mut table = PlacementTable::new(1);
        let mut groups: BTreeMap<Vec<u32>, u32> = BTreeMap::new();
        let mut was = BTreeSet::new();
        let fill = |rooms: &[Room]| {
            let sum = |of: fn(&Room) -> u64| rooms.iter().map(of).sum::<u64>();
            permille(sum(|r| r.2), sum(|r| r.1))
        };
        let ids: Vec<u32> = rooms.iter().map(|room| room.0).collect();
        let mut sets: (Vec<u32>, Vec<u32>) = Default::default();
        while fill(&rooms) < until {
            was = fuller(&rooms, &was, 1);
            let even = ids.iter().copied().filter(|id| !was.contains(id));
            let now = (ids.clone(), even.collect::<Vec<u32>>());
            if now != sets {
                sets = now;
                for set in [&sets.0, &sets.1] {
                    let next = u32::try_from(groups.len() + 1).unwrap();
                    let id = *groups.entry(set.clone()).or_insert(next);
                    table.add(Group::single(id, set), 0, 0).unwrap();
                    table.set_available(id, true).unwrap();
                }
                let width = |set: &Vec<u32>| u32::try_from(set.len()).unwrap();
                let has_even = sets.0 != sets.1;
                let even_widths = if has_even { width(&sets.1) } else { 0 };
                for (set, id) in &groups {
                    let is_even = has_even && *set == sets.1;
                    let own = (width(set), is_even);
                    let weight = match is_even || *set == sets.0 {
                        true => weights(width(&sets.0), even_widths, own),
                        false => 0,
                    };
                    table.set_weight(*id, weight).unwrap();
                }
            }
            let placed = table.pick().unwrap();
            let servers = table.group(placed.group).unwrap().primaries();
            for ds in &servers {
                rooms[*ds as usize - 1].2 += FILE_BYTES / servers.len() as u64;
            }
        }
        let fills = rooms.iter().map(|(_, total, used)| permille(*used, *total));
        (fills.collect(), groups.len())
    }

    #[test]
    fn servers_of_sizes_one_two_and_four_fill_within_ten_points_at_every_time() {
        for until in [100, 250, 500, 750, 900] {
            let (fills, groups) = filled(&[1_000_000, 2_000_000, 4_000_000], &[0; 3], until);
            let (least, most) = (fills.iter().min().unwrap(), fills.iter().max().unwrap());
            assert!(most - least <= 100, "{until}: {fills:?}");
            assert!(groups <= 4, "{groups}");
        }
    }

    #[test]
    fn servers_of_one_size_take_every_file_together() {
        let (fills, groups) = filled(&[1_000_000; 4], &[0; 4], 900);
        assert!(fills.iter().all(|fill| *fill == fills[0]), "{fills:?}");
        assert_eq!(groups, 1);
    }

    #[test]
    fn a_new_server_is_filled_first_and_others_get_some_files_meanwhile() {
        let sizes = [1_000_000; 4];
        let (fills, _) = filled(&sizes, &[600_000, 600_000, 600_000, 0], 550);
        assert!(fills[..3].iter().all(|fill| *fill > 600), "{fills:?}");
        let (fills, _) = filled(&sizes, &[600_000, 600_000, 600_000, 0], 900);
        assert!(
            fills.iter().max().unwrap() - fills.iter().min().unwrap() <= 60,
            "{fills:?}"
        );
    }

    #[test]
    fn as_many_are_left_as_files_have_copies_and_a_fuller_one_comes_back_when_it_is_level() {
        let rooms = [(1, 1000, 900), (2, 1000, 500), (3, 1000, 0), (4, 0, 0)];
        let none = BTreeSet::new();
        assert_eq!(fuller(&rooms, &none, 1), BTreeSet::from([1]));
        assert_eq!(fuller(&rooms, &none, 4), none);
        let close = [(1, 1000, 520), (2, 1000, 480)];
        assert_eq!(fuller(&close, &none, 1), none);
        assert_eq!(fuller(&close, &BTreeSet::from([1]), 1), BTreeSet::from([1]));
    }
}
