//! What a place needs next: a member more, another primary, a member less (rules P14, P15).
//!
//! Every movement is the same: a member is added and filled, then another one leaves. A primary that is to leave first
//! hands its place over. What comes next follows from the row and the data servers alone, so a movement that was cut
//! short goes on after a restart.
//!
//! Decides for one place at a time. May call the tables of this crate; changes no table and stores nothing.

use crate::records::{OrdersRecord, Substitute};
use crate::servers::{Server, Servers};
use control::Capacity;
use layout::{Group, MEMBERS_MAX, Member, MemberState, Row};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Two data servers whose fill differs by less, in thousandths of their size, are level.
const LEVEL_PERMILLE: u64 = 30;

/// What an administrator has asked for, and what goes on.
#[derive(Default)]
pub(crate) struct Moves {
    /// Where the places of a drained data server go, if there.
    pub(crate) substitutes: BTreeMap<u32, u32>,
    /// Whether data servers are to be made level.
    pub(crate) is_rebalancing: bool,
    /// Places that were moved for that: each is moved once.
    pub(crate) levelled: BTreeSet<(u32, usize)>,
    /// Primaries that are asked to let go.
    pub(crate) handing_over: BTreeSet<u32>,
}

impl Moves {
    /// With the orders of an earlier process.
    pub(crate) fn load(record: Option<OrdersRecord>) -> Self {
        let Some(OrdersRecord {
            is_rebalancing,
            substitutes,
        }) = record
        else {
            return Self::default();
        };
        let pair = |s: Substitute| (s.drained, s.substitute);
        Self {
            substitutes: substitutes.0.into_iter().map(pair).collect(),
            is_rebalancing,
            ..Self::default()
        }
    }

    /// What outlives this process.
    pub(crate) fn record(&self) -> OrdersRecord {
        let pairs = self.substitutes.iter();
        let pair = |(drained, substitute): (&u32, &u32)| Substitute {
            drained: *drained,
            substitute: *substitute,
        };
        OrdersRecord {
            is_rebalancing: self.is_rebalancing,
            substitutes: pairs.map(pair).collect::<Vec<_>>().into(),
        }
    }
}

/// What a place needs next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Another member, to be filled.
    Add(u32),
    /// Another primary, which is in sync.
    HandOver(u32),
    /// Another primary, which is in sync; the disk of the present one has failed, so it is not.
    Depose(u32),
    /// A member that leaves.
    Release(u32),
}

/// The data servers as movements look at them.
pub(crate) struct Look<'a> {
    servers: &'a Servers,
    substitutes: &'a BTreeMap<u32, u32>,
    /// Those that serve.
    live: BTreeSet<u32>,
    /// Of those, the ones that are about to stop.
    stopping: BTreeSet<u32>,
    /// Those that are slow: others are primary of their places, where there are such.
    slow: BTreeSet<u32>,
    /// Of those, the ones that have been so for long: a place from which one was left out gets another member.
    slow_for_long: BTreeSet<u32>,
    /// Those that take places: they serve, have room, and are not drained.
    roomy: Vec<u32>,
    /// Those that are to be no members: drained, expelled, or away for long.
    unwanted: BTreeSet<u32>,
    /// Places of which each is a member.
    places: BTreeMap<u32, u64>,
}

impl<'a> Look<'a> {
    pub(crate) fn new<'g>(
        servers: &'a Servers,
        substitutes: &'a BTreeMap<u32, u32>,
        groups: impl Iterator<Item = &'g Arc<Group>>,
        replace_after: Duration,
    ) -> Self {
        let mut places: BTreeMap<u32, u64> = BTreeMap::new();
        let members = groups.flat_map(|g| &g.rows).flat_map(|row| &row.members.0);
        for member in members.filter(|m| m.state != MemberState::Leaving) {
            *places.entry(member.ds).or_default() += 1;
        }
        let now = Instant::now();
        let is_unwanted = |s: &Server| {
            let is_lost = now.saturating_duration_since(s.heard) > replace_after;
            !s.is_member() || s.is_draining() || !s.is_live(now) && is_lost
        };
        let unwanted = servers.map.iter().filter(|(_, s)| is_unwanted(s));
        let stopping = servers.map.iter().filter(|(_, s)| s.is_stopping);
        let sick = &servers.sick;
        let is_lasting = |ds: &u32| {
            let since = sick.slow_since(*ds);
            since.is_some_and(|since| now.saturating_duration_since(since) > replace_after)
        };
        Self {
            servers,
            substitutes,
            slow: sick.all_slow().collect(),
            slow_for_long: sick.all_slow().filter(is_lasting).collect(),
            stopping: stopping.map(|(id, _)| *id).collect(),
            live: servers.live_ids().into_iter().collect(),
            roomy: servers.lasting_ids(),
            unwanted: unwanted.map(|(id, _)| *id).collect(),
            places,
        }
    }

    fn is_live(&self, ds: u32) -> bool {
        self.live.contains(&ds)
    }

    /// Whether it serves and is not about to stop.
    fn stays(&self, ds: u32) -> bool {
        self.is_live(ds) && !self.stopping.contains(&ds)
    }

    fn is_unwanted(&self, ds: u32) -> bool {
        self.unwanted.contains(&ds)
    }

    fn is_slow(&self, ds: u32) -> bool {
        self.slow.contains(&ds)
    }

    /// Whether another member is to be in the stead of one: it is unwanted, or was left out as slow and has long been so.
    fn is_given_up(&self, member: &Member) -> bool {
        let is_out = member.state == MemberState::Stale && self.slow_for_long.contains(&member.ds);
        self.is_unwanted(member.ds) || is_out
    }

    /// How full a data server is, then how many places it has. Those on one disk differ in places alone.
    fn load(&self, ds: u32) -> (u64, u64) {
        let capacity = self.capacity(ds);
        let permille = permille(used_bytes(&capacity), capacity.total_bytes);
        (permille, self.places_of(ds))
    }

    /// As it last said; zeros of one that is unknown.
    fn capacity(&self, ds: u32) -> Capacity {
        let server = self.servers.map.get(&ds);
        server.map(|s| s.capacity).unwrap_or_default()
    }

    fn places_of(&self, ds: u32) -> u64 {
        self.places.get(&ds).copied().unwrap_or(0)
    }

    /// The data server that a place gets beside those that stay, if there is one with room.
    fn candidate(&self, row: &Row, staying: &[u32]) -> Option<u32> {
        let named = row.members.0.iter().filter(|m| self.is_unwanted(m.ds));
        let named = named.filter_map(|m| self.substitutes.get(&m.ds).copied());
        let is_free = |ds: &u32| self.roomy.contains(ds) && row.state_of(*ds).is_none();
        let mut named = named.filter(is_free);
        if let Some(named) = named.next() {
            return Some(named);
        }
        let is_apart = |ds: u32| {
            staying
                .iter()
                .all(|other| self.servers.are_apart(ds, *other))
        };
        let free = self.roomy.iter().copied().filter(is_free);
        free.min_by_key(|ds| (self.is_slow(*ds), !is_apart(*ds), self.load(*ds)))
    }
}

fn used_bytes(capacity: &Capacity) -> u64 {
    capacity.total_bytes.saturating_sub(capacity.free_bytes)
}

fn permille(part: u64, whole: u64) -> u64 {
    let permille = u128::from(part) * 1000 / u128::from(whole.max(1));
    u64::try_from(permille).unwrap_or(1000)
}

/// What a place with so many copies needs next. `is_settled` says that it has had all of them for a while.
pub(crate) fn next_step(row: &Row, copies: u32, is_settled: bool, look: &Look<'_>) -> Option<Step> {
    let copies = copies as usize;
    let members = row
        .members
        .0
        .iter()
        .filter(|m| m.state != MemberState::Leaving);
    let (unwanted, staying): (Vec<&Member>, Vec<&Member>) =
        members.partition(|m| look.is_given_up(m));
    let staying: Vec<u32> = staying.into_iter().map(|m| m.ds).collect();
    let is_sync = |ds: &u32| row.state_of(*ds) == Some(MemberState::Sync);
    let in_sync: Vec<u32> = staying.iter().copied().filter(is_sync).collect();
    let may_take_over = |ds: &u32| *ds != row.primary && look.stays(*ds);
    let heirs = in_sync.iter().copied().filter(may_take_over);
    // A slow one only if there is no other.
    let heir = heirs.min_by_key(|ds| look.is_slow(*ds));
    if look.is_live(row.primary) && look.stopping.contains(&row.primary) {
        return heir.map(Step::HandOver);
    }
    if look.is_live(row.primary)
        && look.is_slow(row.primary)
        && let Some(quick) = heir.filter(|ds| !look.is_slow(*ds))
    {
        return Some(Step::HandOver(quick));
    }
    if staying.len() < copies {
        let has_room = row.members.0.len() < MEMBERS_MAX as usize;
        let candidate = look
            .candidate(row, &staying)
            .filter(|_| has_room && look.is_live(row.primary));
        return candidate.map(Step::Add);
    }
    // One that is silent may be lost already.
    if in_sync.iter().filter(|ds| look.is_live(**ds)).count() < copies {
        return None;
    }
    let leave = |ds: u32| match ds == row.primary {
        false => Some(Step::Release(ds)),
        // Another one becomes primary without being asked when its lease is over.
        true => heir.filter(|_| look.is_live(ds)).map(Step::HandOver),
    };
    if let Some(member) = unwanted.first() {
        return leave(member.ds);
    }
    if staying.len() > copies {
        // Not the newest, which the place was just given for one that is fuller.
        let older = staying.iter().take(staying.len() - 1).copied();
        let fullest = older.max_by_key(|ds| look.load(*ds));
        return fullest
            .filter(|_| in_sync.len() == staying.len())
            .and_then(leave);
    }
    let first = staying[0];
    let returns = is_settled && first != row.primary && look.stays(first) && !look.is_slow(first);
    returns.then_some(Step::HandOver(first))
}

/// What a place needs first whose primary has said that its disk fails.
pub(crate) fn depose(row: &Row, look: &Look<'_>) -> Option<Step> {
    let mut in_sync = row.in_state(MemberState::Sync);
    let heir = in_sync.find(|ds| *ds != row.primary && look.stays(*ds));
    heir.filter(|_| look.is_live(row.primary)).map(Step::Depose)
}

/// Does a step that needs no answer. Returns whether the row has changed.
pub(crate) fn apply(row: &mut Row, step: Step) -> bool {
    match step {
        Step::Add(ds) => {
            row.members.0.push(Member::new(ds, MemberState::Stale));
            true
        }
        Step::Release(ds) => {
            // The newest member takes its position: the first member is the one that is primary if it can.
            let Some(at) = row.members.0.iter().position(|m| m.ds == ds) else {
                return false;
            };
            row.members.0.swap_remove(at);
            row.members.0.push(Member::new(ds, MemberState::Leaving));
            true
        }
        Step::HandOver(_) | Step::Depose(_) => false,
    }
}

/// The place that is moved to make data servers more level, and the member that it gets, of places that `may_move`.
/// `None` when they are as level as these make them.
pub(crate) fn levelled<'g>(
    groups: impl Iterator<Item = &'g Arc<Group>>,
    look: &Look<'_>,
    may_move: impl Fn(u32, usize) -> bool,
) -> Option<(u32, usize, u32)> {
    let by_load = |ds: &&u32| look.load(**ds);
    let (emptiest, fullest) = (
        *look.roomy.iter().min_by_key(by_load)?,
        *look.roomy.iter().max_by_key(by_load)?,
    );
    if !is_uneven(look, fullest, emptiest) {
        return None;
    }
    for group in groups {
        for (place, row) in group.rows.iter().enumerate() {
            let is_movable = may_move(group.id, place)
                && row.members.0.len() == group.copies as usize
                && row.state_of(fullest).is_some()
                && row.state_of(emptiest).is_none();
            if is_movable {
                return Some((group.id, place, emptiest));
            }
        }
    }
    None
}

/// Whether a place is better at another data server. It must not be fuller with it than the first one is without it.
fn is_uneven(look: &Look<'_>, from: u32, to: u32) -> bool {
    let (one, other) = (look.capacity(from), look.capacity(to));
    if one.disk != 0 && one.disk == other.disk {
        return look.places_of(from) > look.places_of(to) + 1;
    }
    let (used, others) = (used_bytes(&one), used_bytes(&other));
    let moved = used / look.places_of(from).max(1);
    let after = permille(used.saturating_sub(moved), one.total_bytes);
    let gets = permille(others.saturating_add(moved), other.total_bytes);
    look.load(from).0 > look.load(to).0 + LEVEL_PERMILLE && after >= gets
}

#[cfg(test)]
mod tests {
    //! Goal: from each state of a place the steps lead to its copies at wanted data servers, one member at a time, and
    //! never through fewer copies than there were.

    use super::*;
    use crate::records;
    use MemberState::{Filling, Leaving, Stale, Sync};

    fn row(primary: u32, members: &[(u32, MemberState)]) -> Row {
        let mut row = Row::single(primary, 1);
        let member = |(ds, state): &(u32, MemberState)| Member::new(*ds, *state);
        row.members = members.iter().map(member).collect::<Vec<_>>().into();
        row
    }

    struct World {
        servers: Servers,
        substitutes: BTreeMap<u32, u32>,
        live: Vec<u32>,
        unwanted: Vec<u32>,
        stopping: Vec<u32>,
        slow: Vec<u32>,
        slow_for_long: Vec<u32>,
    }

    impl World {
        /// Four data servers that serve.
        fn new() -> Self {
            let mut servers = Servers::default();
            (1..=4).for_each(|id| servers.add_at(id, ""));
            Self {
                servers,
                substitutes: BTreeMap::new(),
                live: vec![1, 2, 3, 4],
                unwanted: Vec::new(),
                stopping: Vec::new(),
                slow: Vec::new(),
                slow_for_long: Vec::new(),
            }
        }

        fn look(&self) -> Look<'_> {
            let unwanted: BTreeSet<u32> = self.unwanted.iter().copied().collect();
            let roomy = self
                .live
                .iter()
                .copied()
                .filter(|ds| !unwanted.contains(ds));
            Look {
                servers: &self.servers,
                substitutes: &self.substitutes,
                live: self.live.iter().copied().collect(),
                stopping: self.stopping.iter().copied().collect(),
                slow: self.slow.iter().copied().collect(),
                slow_for_long: self.slow_for_long.iter().copied().collect(),
                roomy: roomy.collect(),
                unwanted,
                places: BTreeMap::from([(3, 2), (4, 1)]),
            }
        }

        fn next(&self, row: &Row) -> Option<Step> {
            next_step(row, 2, false, &self.look())
        }
    }

    #[test]
    fn orders_outlive_the_process() {
        let store = meta::MemStore::new();
        let load = || Moves::load(records::load_orders(&store).unwrap());
        assert_eq!(
            load().record(),
            Moves::default().record(),
            "a store without any"
        );
        let mut moves = Moves {
            is_rebalancing: true,
            ..Moves::default()
        };
        moves.substitutes.extend([(1, 4), (3, 5)]);
        records::put_orders(&store, &moves.record()).unwrap();
        let loaded = load();
        assert!(loaded.is_rebalancing);
        assert_eq!(loaded.substitutes, moves.substitutes);
    }

    #[test]
    fn a_whole_place_stays_as_it_is_and_its_first_member_is_primary_again() {
        let world = World::new();
        let whole = row(2, &[(1, Sync), (2, Sync)]);
        assert_eq!(world.next(&whole), None);
        let returned = next_step(&whole, 2, true, &world.look());
        assert_eq!(returned, Some(Step::HandOver(1)));
        for state in [Stale, Filling] {
            let unsettled = row(2, &[(1, state), (2, Sync)]);
            assert_eq!(next_step(&unsettled, 2, true, &world.look()), None);
        }
    }

    #[test]
    fn a_primary_that_is_about_to_stop_hands_over_to_one_that_is_not() {
        let mut world = World::new();
        world.stopping = vec![1];
        let place = row(1, &[(1, Sync), (2, Sync)]);
        assert_eq!(world.next(&place), Some(Step::HandOver(2)));
        assert_eq!(world.next(&row(2, &[(1, Sync), (2, Sync)])), None);
        assert_eq!(world.next(&row(1, &[(1, Sync), (2, Stale)])), None);
        world.stopping = vec![1, 2];
        assert_eq!(world.next(&place), None);
    }

    #[test]
    fn a_primary_whose_disk_fails_is_deposed_by_a_member_in_sync_alone() {
        let mut world = World::new();
        let deposed = |world: &World, row: &Row| depose(row, &world.look());
        let place = row(1, &[(1, Sync), (2, Sync)]);
        assert_eq!(deposed(&world, &place), Some(Step::Depose(2)));
        for state in [Filling, Stale, Leaving] {
            assert_eq!(deposed(&world, &row(1, &[(1, Sync), (2, state)])), None);
        }
        world.stopping = vec![2];
        assert_eq!(deposed(&world, &place), None);
        (world.stopping, world.live) = (Vec::new(), vec![2, 3, 4]);
        assert_eq!(deposed(&world, &place), None, "its lease will end");
    }

    #[test]
    fn a_slow_primary_hands_over_to_a_quick_one_and_gets_nothing_until_it_is_well() {
        let mut world = World::new();
        world.slow = vec![1];
        assert_eq!(
            world.next(&row(1, &[(1, Sync), (2, Sync)])),
            Some(Step::HandOver(2))
        );
        assert_eq!(world.next(&row(1, &[(1, Sync), (2, Stale)])), None);
        let handed = row(2, &[(1, Sync), (2, Sync)]);
        assert_eq!(next_step(&handed, 2, true, &world.look()), None);
        // It is not lost: where it was left out nobody takes its stead for now.
        assert_eq!(world.next(&row(2, &[(1, Stale), (2, Sync)])), None);
        let lacking = row(2, &[(2, Sync), (3, Sync), (4, Sync)]);
        assert_eq!(
            next_step(&lacking, 4, true, &world.look()),
            Some(Step::Add(1))
        );
        world.slow = vec![1, 2];
        assert_eq!(world.next(&row(1, &[(1, Sync), (2, Sync)])), None);
        let third = row(1, &[(1, Sync), (2, Sync), (3, Sync)]);
        assert_eq!(
            next_step(&third, 3, true, &world.look()),
            Some(Step::HandOver(3))
        );
        world.slow.clear();
        assert_eq!(
            next_step(&handed, 2, true, &world.look()),
            Some(Step::HandOver(1))
        );
    }

    #[test]
    fn one_that_is_slow_for_long_is_replaced_where_it_was_left_out() {
        let mut world = World::new();
        (world.slow, world.slow_for_long) = (vec![1], vec![1]);
        assert_eq!(
            world.next(&row(2, &[(1, Stale), (2, Sync)])),
            Some(Step::Add(4))
        );
        let filled = row(2, &[(1, Stale), (2, Sync), (4, Sync)]);
        assert_eq!(world.next(&filled), Some(Step::Release(1)));
        assert_eq!(world.next(&row(2, &[(1, Sync), (2, Sync)])), None);
        assert_eq!(world.next(&row(2, &[(1, Filling), (2, Sync)])), None);
    }

    #[test]
    fn a_drained_primary_is_replaced_by_the_emptiest_other_and_leaves_last() {
        let mut world = World::new();
        world.unwanted = vec![1];
        let mut place = row(1, &[(1, Sync), (2, Sync)]);
        assert_eq!(world.next(&place), Some(Step::Add(4)));
        world.substitutes.insert(1, 3);
        assert_eq!(world.next(&place), Some(Step::Add(3)));
        assert!(apply(&mut place, Step::Add(3)));
        assert_eq!(world.next(&place), None, "it is not filled yet");
        place = row(1, &[(1, Sync), (2, Sync), (3, Sync)]);
        assert_eq!(world.next(&place), Some(Step::HandOver(2)));
        place.primary = 2;
        assert_eq!(world.next(&place), Some(Step::Release(1)));
        assert!(apply(&mut place, Step::Release(1)));
        assert_eq!(place, row(2, &[(3, Sync), (2, Sync), (1, Leaving)]));
        assert_eq!(world.next(&place), None);
    }

    #[test]
    fn a_lost_member_is_replaced_and_a_lost_primary_is_waited_for() {
        let mut world = World::new();
        (world.live, world.unwanted) = (vec![2, 3, 4], vec![1]);
        assert_eq!(
            world.next(&row(2, &[(1, Stale), (2, Sync)])),
            Some(Step::Add(4))
        );
        let filled = row(2, &[(1, Stale), (2, Sync), (4, Sync)]);
        assert_eq!(world.next(&filled), Some(Step::Release(1)));
        let alone = row(1, &[(1, Sync), (2, Stale)]);
        assert_eq!(world.next(&alone), None, "nobody could fill another");
    }

    #[test]
    fn a_place_with_a_member_too_many_gives_up_the_fullest() {
        let world = World::new();
        let place = row(1, &[(1, Sync), (3, Sync), (4, Sync)]);
        assert_eq!(world.next(&place), Some(Step::Release(3)));
        let led = row(3, &[(3, Sync), (1, Sync), (4, Sync)]);
        assert_eq!(world.next(&led), Some(Step::HandOver(1)));
        let filling = row(1, &[(1, Sync), (3, Sync), (4, Filling)]);
        assert_eq!(world.next(&filling), None);
    }

    #[test]
    fn places_move_to_the_emptiest_until_data_servers_are_level() {
        let mut world = World::new();
        for (id, free_bytes) in [(1, 100), (2, 500), (3, 500), (4, 900)] {
            let server = world.servers.map.get_mut(&id).unwrap();
            server.capacity.total_bytes = 1000;
            server.capacity.free_bytes = free_bytes;
        }
        let groups = [Arc::new(Group::new(7, &[vec![2, 3], vec![1, 3]]))];
        let mut look = world.look();
        look.places = BTreeMap::from([(1, 9), (4, 1)]);
        let any = |_, _| true;
        assert_eq!(levelled(groups.iter(), &look, any), Some((7, 1, 4)));
        assert_eq!(levelled(groups.iter(), &look, |_, place| place == 0), None);
        // One place alone has all of it: with it the other one would be as full.
        look.places = BTreeMap::from([(1, 1), (4, 1)]);
        assert_eq!(levelled(groups.iter(), &look, any), None);
    }
}
