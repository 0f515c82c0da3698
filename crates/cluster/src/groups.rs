//! Placement groups: made of the data servers that are there, chosen for new files, never changed but for the version of
//! their device.
//!
//! # Ordering
//! A group's record is a transaction before that of the first file in it, and durability is in the order of
//! transactions. No file ever refers to a group that a crash took.
//!
//! # Failure
//! A group with a member that is away or full takes no new files. When no other is left, those that serve and have room
//! make one, down to a single data server. A member that stays away for [`REGROUP_MS`] is left out of all groups for
//! new files. The old groups are taken up again when their members are back. When all are away, files go where they
//! went before.

use crate::closed::Closed;
use crate::copies::{members_of_places, narrow_members, shifts};
use crate::even::{fuller, is_even_turn, room_of, weights};
use crate::layout_limits::{FILE_WIDTH_MAX, fits};
use crate::narrow::{NARROW_GROUPS_MAX, NARROW_ID_MIN, Narrow, run_of};
use crate::records;
use crate::servers::Servers;
use control::GroupVersion;
use layout::{
    COPIES_MAX, GROUPS_MAX, Group, GroupForm, MemberState, Placed, PlacementError, PlacementTable,
    Row,
};
use meta::{MetaError, MetaStore};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A set of data servers must be stable so long before it makes a group, unless a file needs one.
const SETTLE_MS: u64 = 1_000;
/// A member must be away for so long before the other members of its group make another, if any group has all of its.
const REGROUP_MS: u64 = 30_000;

/// With so many groups no further one is made to leave out data servers that are fuller than others.
const EVEN_GROUPS_MAX: usize = GROUPS_MAX / 4;
/// A member that was left out is not filled before this, which doubles with each filling that comes to nothing.
const FILL_AFTER: Duration = Duration::from_secs(2);
const FILL_AFTER_MAX: Duration = Duration::from_secs(60);

/// The groups, and which of them new files go to.
pub(crate) struct Groups {
    placement: PlacementTable,
    /// Groups for new files.
    current: Vec<u32>,
    /// Groups for most new files while some data servers are fuller than others: those without them.
    even: Vec<u32>,
    /// Data servers that are fuller than others.
    fuller: BTreeSet<u32>,
    /// The best standing of a current group.
    best: Standing,
    /// The live data servers with room when last looked at, and since when they are these.
    seen: (Vec<u32>, Instant),
    /// The data servers that new files avoid, as the availability of groups has it.
    avoided: BTreeSet<u32>,
    next_id: u32,
    seed: u32,
    /// Copies of new files whose directory says nothing.
    copies: u32,
    /// Members of a place that must be in sync for changes and promises.
    copies_min: u32,
    /// When a member was last left out at a place.
    left_out: BTreeMap<(u32, usize), Instant>,
    /// Fillings that came to nothing since a member was last filled, by place.
    failed_fillings: BTreeMap<(u32, usize), u32>,
    /// Groups of files whose directory wants fewer data servers: of all, and without those that are fuller than others.
    narrow: [Narrow; 2],
    /// Files that were placed so.
    narrow_files: u32,
    /// The versions of groups when this process began.
    loaded: BTreeMap<u32, u32>,
    /// Those whose rows nobody is told, and nothing changes.
    closed: Closed,
}

/// Whether files without a policy may go to a group.
fn is_whole(group: &&Arc<Group>) -> bool {
    group.id < NARROW_ID_MIN
}

/// Whether a group was made of these members, by place, the first primary first. One of an earlier version never was.
fn is_of(group: &Group, places: &[Vec<u32>]) -> bool {
    let is_row = |(row, members): (&Row, &Vec<u32>)| {
        let ids = row.members.0.iter().map(|m| m.ds);
        ids.eq(members.iter().copied())
    };
    group.form == GroupForm::Places
        && group.rows.len() == places.len()
        && group.rows.iter().zip(places).all(is_row)
}

/// Why a new file has no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoPlace {
    /// No data server is there yet, or the one with room is away for a moment: ask again.
    NotYet,
    /// All that serve are full.
    Full,
}

/// How well a group keeps the copies of new files, from the worst to the best.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    /// A member that takes writes is away or full.
    Unusable,
    /// A place has fewer copies than it should have.
    Missing,
    /// Each place has its copies, and one of them is being filled.
    Filling,
    /// Each place has all its copies in sync.
    Whole,
}

fn standing(group: &Group, avoided: &BTreeSet<u32>) -> Standing {
    let members = || group.rows.iter().flat_map(|row| &row.members.0);
    let has = |state| members().any(|m| m.state == state);
    let mut takers = group.rows.iter().flat_map(Row::takers);
    if takers.any(|ds| avoided.contains(&ds)) {
        Standing::Unusable
    } else if has(MemberState::Stale) {
        Standing::Missing
    } else if has(MemberState::Filling) {
        Standing::Filling
    } else {
        Standing::Whole
    }
}

/// Cuts a sorted list of data servers into as few groups as the width allows, of nearly equal size.
fn plan(live: &[u32]) -> Vec<Vec<u32>> {
    let groups_count = live.len().div_ceil(FILE_WIDTH_MAX as usize);
    if groups_count == 0 {
        return Vec::new();
    }
    live.chunks(live.len().div_ceil(groups_count))
        .map(<[u32]>::to_vec)
        .collect()
}

impl Groups {
    pub(crate) fn load(
        (cluster_id, (copies, copies_min)): (u64, (u32, u32)),
        groups: Vec<Group>,
        seed: u32,
    ) -> Result<Self, PlacementError> {
        let mut out = Self {
            placement: PlacementTable::new(cluster_id),
            current: Vec::new(),
            even: Vec::new(),
            fuller: BTreeSet::new(),
            best: Standing::Unusable,
            seen: (Vec::new(), Instant::now()),
            avoided: BTreeSet::new(),
            next_id: 1,
            seed,
            copies: copies.clamp(1, COPIES_MAX),
            copies_min: copies_min.clamp(1, copies.clamp(1, COPIES_MAX)),
            left_out: BTreeMap::new(),
            failed_fillings: BTreeMap::new(),
            narrow: Default::default(),
            narrow_files: 0,
            loaded: groups.iter().map(|g| (g.id, g.version)).collect(),
            closed: Closed::default(),
        };
        // Until the data servers are back, the newest group takes new files.
        let newest = groups.iter().rfind(|g| g.id < NARROW_ID_MIN);
        out.current = newest
            .filter(|g| fits(g))
            .map(|g| g.id)
            .into_iter()
            .collect();
        out.next_id = newest.map_or(1, |g| g.id.saturating_add(1));
        for group in groups {
            out.placement.add(group, 0, seed)?;
        }
        out.apply_current();
        Ok(out)
    }

    /// Copies of new files whose directory says nothing.
    pub(crate) fn copies(&self) -> u32 {
        self.copies
    }

    /// Members of a place that must be in sync for changes and promises, where a group has as many copies.
    pub(crate) fn copies_min(&self) -> u32 {
        self.copies_min
    }

    pub(crate) fn placement(&self) -> &PlacementTable {
        &self.placement
    }

    /// The groups whose parts have places of their own, but those that are closed.
    pub(crate) fn of_places(&self) -> impl Iterator<Item = &Arc<Group>> {
        let all = self.placement.groups();
        all.filter(|g| g.form == GroupForm::Places && !self.closed.has(g.id))
    }

    /// A group that is not closed.
    pub(crate) fn open_group(&self, id: u32) -> Option<&Arc<Group>> {
        self.placement.group(id).filter(|_| !self.closed.has(id))
    }

    /// Takes in which versions a data server knows (rule P21). Each was told by an earlier process, which the store must
    /// then have had when this one began, or was `sent` by this one: others of this number are of another history. Returns
    /// the groups that are closed from now on.
    pub(crate) fn note_known(
        &mut self,
        ds: u32,
        known: &[GroupVersion],
        sent: &BTreeMap<u32, u32>,
    ) -> Vec<u32> {
        let in_history = |id: &u32| self.loaded.get(id).max(sent.get(id)).copied();
        let is_newer = |k: &&GroupVersion| Some(k.version) > in_history(&k.group);
        let newer: Vec<GroupVersion> = known.iter().filter(is_newer).copied().collect();
        let was_open = |k: &&GroupVersion| self.closed.note(ds, k.group, k.version);
        let closed: Vec<u32> = newer.iter().filter(was_open).map(|k| k.group).collect();
        if !closed.is_empty() {
            tracing::error!(
                ds,
                groups = ?closed,
                "the metadata store went back: a data server knows newer versions of these placement groups, which are closed"
            );
            // The id of one that the store has lost is not given away again. Ids are given in order, so there are no larger ones.
            let lost = closed.iter().filter(|id| **id as usize <= GROUPS_MAX).max();
            let next = lost.map_or(0, |id| id.saturating_add(1));
            self.next_id = self.next_id.max(next);
            self.apply_current();
        }
        closed
    }

    /// The members of closed groups.
    pub(crate) fn closed_members(&self) -> BTreeSet<u32> {
        let groups = self.closed.ids().filter_map(|id| self.placement.group(id));
        groups.flat_map(|group| group.members()).collect()
    }

    /// Opens all closed groups. The versions that data servers know count as told from now on.
    pub(crate) fn open_closed(&mut self) {
        for (id, newest) in self.closed.open() {
            self.loaded.insert(id, newest);
        }
        self.apply_current();
    }

    /// What a data server knows counts no more.
    pub(crate) fn forget_known(&mut self, ds: u32) {
        self.closed.forget(ds);
        self.apply_current();
    }

    /// The groups that are closed.
    pub(crate) fn closed(&self) -> &Closed {
        &self.closed
    }

    /// Whether new files go to a group, when it is whole.
    pub(crate) fn is_current(&self, group: u32) -> bool {
        self.current.contains(&group) || self.even.contains(&group)
    }

    pub(crate) fn servers_of(&self, group: u32) -> Option<Vec<u32>> {
        self.placement.group(group).map(|g| g.primaries())
    }

    /// The groups of a data server, but closed ones, as they are once clients are to fetch its addresses anew.
    pub(crate) fn renewed(&self, ds: u32) -> Vec<Group> {
        let mut renewed = self.placement.renewed(ds);
        renewed.retain(|group| !self.closed.has(group.id));
        renewed
    }

    /// Takes newer versions of groups, once they are stored.
    pub(crate) fn take(&mut self, groups: &[Group]) {
        for group in groups {
            self.change(group.clone());
        }
        self.apply_current();
    }

    fn change(&mut self, group: Group) {
        for (place, row) in group.rows.iter().enumerate() {
            if row.era == group.version && row.in_state(MemberState::Stale).next().is_some() {
                self.left_out.insert((group.id, place), Instant::now());
            }
        }
        let known = self.placement.change(group);
        known.expect("a newer version of a group of the table, under the same lock");
    }

    /// When a member was last left out at a place, if that was in this process.
    pub(crate) fn left_out_at(&self, group: u32, place: usize) -> Option<Instant> {
        self.left_out.get(&(group, place)).copied()
    }

    /// A filling has come to nothing, or to its end.
    pub(crate) fn note_filling(&mut self, group: u32, place: usize, is_done: bool) {
        if is_done {
            self.failed_fillings.remove(&(group, place));
        } else {
            let failed = self.failed_fillings.entry((group, place)).or_default();
            *failed = failed.saturating_add(1);
        }
    }

    /// How long a place waits for another filling after a member was left out: each one that comes to nothing doubles it.
    pub(crate) fn fill_after(&self, group: u32, place: usize) -> Duration {
        let failed = self.failed_fillings.get(&(group, place));
        let doubled = 1_u32.checked_shl(failed.copied().unwrap_or(0));
        let after = doubled.and_then(|factor| FILL_AFTER.checked_mul(factor));
        after.map_or(FILL_AFTER_MAX, |after| after.min(FILL_AFTER_MAX))
    }

    /// Looks which data servers are live and have room, and regroups when that has been so for long enough.
    pub(crate) fn observe(
        &mut self,
        store: &dyn MetaStore,
        servers: &Servers,
    ) -> Result<(), MetaError> {
        let usable = servers.usable_ids();
        if self.seen.0 != usable {
            self.seen = (usable, Instant::now());
        }
        self.note_avoided(servers);
        // Only of a member that is away one may hope that it is back soon.
        let grown = self
            .current_servers()
            .iter()
            .all(|id| self.seen.0.contains(id) || servers.full().contains(id));
        let wait_ms = if grown { SETTLE_MS } else { REGROUP_MS };
        if self.seen.1.elapsed() >= Duration::from_millis(wait_ms) {
            self.regroup(store, servers)?;
        }
        Ok(())
    }

    /// Those of the current groups that serve and have room.
    fn servers_with_room(&self) -> Vec<u32> {
        let mut servers = self.current_servers();
        servers.retain(|id| !self.avoided.contains(id));
        servers
    }

    fn current_servers(&self) -> Vec<u32> {
        let servers = self.current.iter().filter_map(|id| self.servers_of(*id));
        servers.flatten().collect()
    }

    /// Makes the groups of the data servers seen the current ones.
    fn regroup(&mut self, store: &dyn MetaStore, servers: &Servers) -> Result<(), MetaError> {
        let lists = plan(&self.seen.0);
        let is_fewer = self.seen.0.len() < self.copies as usize && self.best > Standing::Unusable;
        let is_too_few = self.seen.0.len() < self.copies_min as usize;
        if lists.is_empty() || is_fewer || is_too_few {
            // A file with a copy missing is made whole when its data server is back. One with fewer copies is not.
            return Ok(());
        }
        let current = self.groups_over((store, servers), lists, GROUPS_MAX)?;
        let current = current.unwrap_or_else(|| self.widest_seen());
        let even = self.regroup_evenly(store, servers)?;
        let is_other = !current.is_empty() && current != self.current;
        if is_other {
            tracing::info!(groups = ?current, "new files go to these placement groups");
            self.current = current;
        }
        if is_other || even != self.even {
            self.even = even;
            self.apply_current();
        }
        Ok(())
    }

    /// The groups over each list of data servers, made where there are none yet. `None` when there would be too many.
    fn groups_over(
        &mut self,
        (store, servers): (&dyn MetaStore, &Servers),
        lists: Vec<Vec<u32>>,
        groups_max: usize,
    ) -> Result<Option<Vec<u32>>, MetaError> {
        let mut ids = Vec::with_capacity(lists.len());
        for list in lists {
            for shift in shifts(list.len(), self.copies) {
                let places = members_of_places(&list, (shift, self.copies), servers);
                let same = {
                    let mut whole = self.placement.groups().filter(is_whole);
                    whole.find(|g| is_of(g, &places)).map(|g| g.id)
                };
                match same {
                    Some(id) => ids.push(id),
                    None if self.placement.groups().count() >= groups_max => return Ok(None),
                    None => ids.push(self.make(store, &places)?),
                }
            }
        }
        Ok(Some(ids))
    }

    /// The groups without the data servers that are fuller than others; none while all are level.
    fn regroup_evenly(
        &mut self,
        store: &dyn MetaStore,
        servers: &Servers,
    ) -> Result<Vec<u32>, MetaError> {
        let room = |id: &u32| servers.map.get(id).map(|s| room_of(*id, &s.capacity));
        let rooms: Vec<_> = self.seen.0.iter().filter_map(room).collect();
        let fuller = fuller(&rooms, &self.fuller, self.copies as usize);
        if fuller != self.fuller {
            tracing::info!(data_servers = ?fuller, "these are fuller than others and get few new files");
            self.fuller = fuller;
        }
        if self.fuller.is_empty() {
            return Ok(Vec::new());
        }
        let mut lasting = self.seen.0.clone();
        lasting.retain(|id| !self.fuller.contains(id));
        let made = self.groups_over((store, servers), plan(&lasting), EVEN_GROUPS_MAX)?;
        Ok(made.unwrap_or_default())
    }

    /// With no room for another group: the widest of those that are there whose members were all seen.
    fn widest_seen(&self) -> Vec<u32> {
        let seen = |g: &&Arc<Group>| g.members().iter().all(|id| self.seen.0.contains(id));
        let whole = self.placement.groups().filter(is_whole);
        let groups = whole.filter(|g| fits(g)).filter(seen);
        let widest = groups.max_by_key(|g| g.width()).map(|g| g.id);
        widest.into_iter().collect()
    }

    /// Makes groups with a member that is full or away unavailable, and others available again.
    fn note_avoided(&mut self, servers: &Servers) {
        let avoided = servers.avoided();
        if self.avoided != *avoided {
            self.avoided = avoided.into_owned();
            self.apply_current();
        }
    }

    fn make(&mut self, store: &dyn MetaStore, places: &[Vec<u32>]) -> Result<u32, MetaError> {
        let id = self.add(store, self.next_id, places)?;
        self.next_id = self.next_id.saturating_add(1);
        Ok(id)
    }

    /// Stores a group and takes it into the table.
    fn add(
        &mut self,
        store: &dyn MetaStore,
        id: u32,
        places: &[Vec<u32>],
    ) -> Result<u32, MetaError> {
        let group = Group::new(id, places);
        records::put_group(store, &group)?;
        if let Err(error) = self.placement.add(group, 0, self.seed) {
            return Err(MetaError::Corrupt(format!("placement group {id}: {error}")));
        }
        Ok(id)
    }

    /// New files go to those of the current groups that have their copies in the best state.
    fn apply_current(&mut self) {
        let standings: BTreeMap<u32, Standing> = self
            .placement
            .groups()
            .filter(|g| self.is_current(g.id))
            .map(|g| match self.closed.has(g.id) {
                true => (g.id, Standing::Unusable),
                false => (g.id, standing(g, &self.avoided)),
            })
            .collect();
        let best = standings.values().copied().max();
        let best = best.unwrap_or(Standing::Unusable);
        let is_taken =
            |g: &&Arc<Group>| best > Standing::Unusable && standings.get(&g.id) == Some(&best);
        let is_even = |id: u32| self.even.contains(&id);
        let widths = |even: bool| -> u32 {
            let taken = self.placement.groups().filter(is_taken);
            taken
                .filter(|g| is_even(g.id) == even)
                .map(|g| g.width())
                .sum()
        };
        let (all_widths, even_widths) = (widths(false), widths(true));
        let weights = self.placement.groups().map(|g| {
            let own = (g.width(), is_even(g.id));
            let weight = if is_taken(&g) {
                weights(all_widths, even_widths, own)
            } else {
                0
            };
            (g.id, weight)
        });
        for (id, weight) in weights.collect::<Vec<_>>() {
            let known = "an id of the table itself";
            self.placement.set_weight(id, weight).expect(known);
            self.placement.set_available(id, weight > 0).expect(known);
        }
        self.best = best;
    }

    /// Where a new file goes. `width` is the number of data servers that it is to have (no more than [`FILE_WIDTH_MAX`] count), 0 for
    /// all of a group. Its members serve, as far as is known, unless none does: an inode needs no data server.
    pub(crate) fn pick(
        &mut self,
        store: &dyn MetaStore,
        servers: &Servers,
        (width, copies): (u32, u32),
    ) -> Result<Result<Placed, NoPlace>, MetaError> {
        self.note_avoided(servers);
        let copies = match copies {
            0 => self.copies,
            copies => copies.min(COPIES_MAX),
        };
        let width = width.min(FILE_WIDTH_MAX);
        if let Some(placed) = self.pick_narrow((store, servers), width, copies)? {
            return Ok(Ok(placed));
        }
        if self.best > Standing::Missing
            && let Some(placed) = self.placement.pick()
        {
            return Ok(Ok(placed));
        }
        self.seen = (servers.usable_ids(), Instant::now());
        self.regroup(store, servers)?;
        Ok(self.placement.pick().ok_or_else(|| {
            if servers.live_ids().is_empty() || servers.room_may_return() {
                NoPlace::NotYet
            } else {
                NoPlace::Full
            }
        }))
    }
}

impl Groups {
    /// Where a new file over `width` data servers with so many copies goes. `None` when any other goes to such a group, or no group
    /// can be made for it: then it goes where any other does.
    fn pick_narrow(
        &mut self,
        (store, all): (&dyn MetaStore, &Servers),
        width: u32,
        copies: u32,
    ) -> Result<Option<Placed>, MetaError> {
        let mut servers = self.servers_with_room();
        let count = u32::try_from(servers.len()).unwrap_or(u32::MAX);
        let is_whole = width == 0 || width >= count;
        if count == 0 || is_whole && copies == self.copies {
            return Ok(None);
        }
        let mut lasting = servers.clone();
        lasting.retain(|id| !self.fuller.contains(id));
        let is_enough = lasting.len() >= width.max(copies) as usize;
        let is_even = !self.fuller.is_empty() && is_enough && is_even_turn(self.narrow_files);
        self.narrow_files = self.narrow_files.wrapping_add(1);
        if is_even {
            servers = lasting;
        }
        let count = u32::try_from(servers.len()).unwrap_or(u32::MAX);
        let width = match is_whole {
            true => count.min(FILE_WIDTH_MAX),
            false => width,
        };
        let at = usize::from(is_even);
        if self.narrow[at].servers != servers {
            self.narrow[at] = Narrow {
                servers,
                runs: BTreeMap::new(),
            };
        }
        let runs_count = usize::try_from(count.div_ceil(width)).unwrap_or(usize::MAX);
        let entry = self.narrow[at].runs.entry((width, copies));
        let (runs, placed) = entry.or_insert_with(|| (vec![None; runs_count], 0));
        let turn = usize::try_from(*placed).unwrap_or(0);
        *placed = placed.wrapping_add(1);
        let index = turn % runs_count;
        let first_index = u32::try_from(turn / runs_count).unwrap_or(0) % width;
        let group = match runs[index] {
            Some(id) => id,
            None => {
                let run = run_of(&self.narrow[at].servers, width, index);
                let places = narrow_members(&self.narrow[at].servers, &run, (index, copies), all);
                if self.has_too_few(&places, copies) {
                    return Ok(None);
                }
                match self.narrow_group(store, &places)? {
                    Some(id) => id,
                    None => return Ok(None),
                }
            }
        };
        if let Some((runs, _)) = self.narrow[at].runs.get_mut(&(width, copies)) {
            runs[index] = Some(group);
        }
        Ok(Some(Placed { group, first_index }))
    }

    /// Whether a file with so many copies would have fewer than it must have.
    fn has_too_few(&self, places: &[Vec<u32>], copies: u32) -> bool {
        let least = copies.min(self.copies_min) as usize;
        places.iter().any(|members| members.len() < least)
    }

    /// The narrow group of a run, made if there is none yet and room for one.
    fn narrow_group(
        &mut self,
        store: &dyn MetaStore,
        places: &[Vec<u32>],
    ) -> Result<Option<u32>, MetaError> {
        let narrow = |g: &&Arc<Group>| g.id >= NARROW_ID_MIN;
        let groups = || self.placement().groups().filter(narrow);
        if let Some(same) = groups().find(|g| is_of(g, places)) {
            return Ok(Some(same.id));
        }
        let is_full = self.placement.groups().count() >= GROUPS_MAX;
        if is_full || groups().count() >= NARROW_GROUPS_MAX {
            tracing::warn!("no more narrow placement groups can be made");
            return Ok(None);
        }
        let last = groups().map(|g| g.id).max();
        let Some(id) = last.map_or(Some(NARROW_ID_MIN), |id| id.checked_add(1)) else {
            return Ok(None);
        };
        self.add(store, id, places).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_uses_every_server_once_in_groups_of_nearly_equal_width() {
        assert!(plan(&[]).is_empty());
        assert_eq!(plan(&[1, 2, 3, 4]), vec![vec![1, 2, 3, 4]]);
        for (count, widths) in [(58, vec![58]), (59, vec![30, 29]), (170, vec![57, 57, 56])] {
            let many: Vec<u32> = (0..count).collect();
            let groups = plan(&many);
            let found: Vec<usize> = groups.iter().map(Vec::len).collect();
            assert_eq!(found, widths);
            assert_eq!(groups.concat(), many);
        }
    }

    #[test]
    fn new_files_go_to_the_groups_with_their_copies_in_the_best_state() {
        let places = [vec![1, 2], vec![2, 1]];
        let stored = vec![Group::new(1, &places), Group::new(2, &places)];
        let mut groups = Groups::load((1, (2, 1)), stored, 0).unwrap();
        groups.current = vec![1, 2];
        let mut set = |id: u32, state: MemberState| {
            let mut group = Group::clone(groups.placement.group(id).unwrap());
            group.version += 1;
            group.rows[0].members.0[1].state = state;
            groups.take(&[group]);
            let picks = (0..64).filter_map(|_| groups.placement.pick());
            picks.map(|placed| placed.group).collect::<BTreeSet<u32>>()
        };
        use MemberState::{Filling, Stale, Sync};
        let (one, two, both) = ([1].into(), [2].into(), [1, 2].into());
        assert_eq!(set(1, Stale), two);
        assert_eq!(set(2, Stale), both, "a copy less is better than no file");
        assert_eq!(set(1, Filling), one);
        assert_eq!(set(2, Filling), both);
        assert_eq!(set(2, Sync), two);
        assert_eq!(set(1, Sync), both);
    }

    #[test]
    fn a_group_without_a_member_that_takes_writes_takes_no_new_files() {
        let mut group = Group::new(1, &[vec![1, 2]]);
        let away = BTreeSet::from([2]);
        assert_eq!(standing(&group, &away), Standing::Unusable);
        group.rows[0].members.0[1].state = MemberState::Stale;
        assert_eq!(standing(&group, &away), Standing::Missing);
    }

    #[test]
    fn a_stored_group_that_is_too_wide_takes_no_new_files() {
        for (width, taken) in [(FILE_WIDTH_MAX, vec![7]), (FILE_WIDTH_MAX + 1, vec![])] {
            let stored = Group::single(7, &(1..=width).collect::<Vec<_>>());
            let groups = Groups::load((1, (1, 1)), vec![stored], 0).unwrap();
            assert_eq!(groups.current, taken, "{width}");
            assert_eq!(groups.next_id, 8);
            assert_eq!(groups.servers_of(7).unwrap().len(), width as usize);
        }
    }
}
