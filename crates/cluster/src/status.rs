//! What `ropewalk status` shows of the data servers.

use crate::cluster::Cluster;
use crate::eta::seconds_left;
use crate::keys::KeyStatus;
use crate::lags::PairLag;
use crate::records::Membership;
use crate::servers::{Server, Servers};
use crate::slow::SlowStatus;
use control::{Capacity, Counters, FillProgress, ScrubState};
use layout::{Group, MemberState, Row};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering::Relaxed;
use tokio::time::Instant;

/// State of a data server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerState {
    /// Serves.
    Serving,
    /// Serves, and its places go to others.
    Draining,
    /// Connected, and being told what it missed.
    Joining,
    /// Not connected, or silent.
    Away,
    /// Expelled.
    Expelled,
}

/// One data server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerStatus {
    /// Its id.
    pub id: u32,
    /// State.
    pub state: ServerState,
    /// Netid and universal address each, preferred first.
    pub addresses: Vec<(String, String)>,
    /// Milliseconds until its lease ends at the latest; 0 when it has ended.
    pub lease_left_ms: u64,
    /// As it last said.
    pub capacity: Capacity,
    /// Whether new files avoid it for want of room.
    pub is_full: bool,
    /// As it last said.
    pub counters: Counters,
    /// Why it was refused when it last came, if it was.
    pub refused: Option<String>,
    /// Groups that are closed because it knows a newer version of them than the store has (rule P21).
    pub closed_groups: Vec<u32>,
    /// That it is slow, if it is.
    pub slow: Option<SlowStatus>,
    /// Places of which it is a member.
    pub places: usize,
    /// What it knows of its disk, as it last said.
    pub scrub: ScrubState,
    /// Mean time of its own syncs in microseconds, as it last said; 0 when there was none lately.
    pub sync_us: u32,
}

/// A place, and the data servers that hold its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlaceStatus {
    /// The placement group.
    pub group: u32,
    /// The place in it.
    pub place: u32,
    /// Copies that it is to have.
    pub copies: u32,
    /// The member that orders writes.
    pub primary: u32,
    /// Whether two of its members may be lost together: they have one failure domain.
    pub shares_domain: bool,
    /// Parts that have fewer copies than they are to have, as the primary says. `None` while it has not counted them.
    pub lacking_parts: Option<u64>,
    /// Whether the primary serves, and the group is not closed.
    pub is_served: bool,
    /// The other members in sync.
    pub sync: Vec<u32>,
    /// Members that are being given what they lack.
    pub filling: Vec<u32>,
    /// Members that were left out.
    pub stale: Vec<u32>,
    /// Data servers that have left, and remove what they had.
    pub leaving: Vec<u32>,
}

/// The data servers of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterStatus {
    /// All data servers, expelled ones included.
    pub servers: Vec<ServerStatus>,
    /// Placement groups: id, and the primaries by place.
    pub groups: Vec<(u32, Vec<u32>)>,
    /// Places that are to have copies, or lack a primary that serves.
    pub places: Vec<PlaceStatus>,
    /// How far members are filled.
    pub fillings: Vec<FillProgress>,
    /// How far members are behind their primaries.
    pub lags: Vec<PairLag>,
    /// Seconds until each place has its copies, if fillings keep their present pace; `None` while that is unknown.
    pub full_redundancy_seconds: Option<u64>,
    /// Whether data servers are being made level.
    pub is_rebalancing: bool,
    /// Fences that some data server has not acknowledged.
    pub fences_pending: usize,
    /// Signing keys, oldest first.
    pub keys: Vec<KeyStatus>,
}

/// Whether two members of a place, those that leave aside, are in one failure domain.
fn shares_domain(row: &Row, servers: &Servers) -> bool {
    let members = row.members.0.iter();
    let members = members.filter(|m| m.state != MemberState::Leaving);
    let ids: Vec<u32> = members.map(|m| m.ds).collect();
    let pairs = ids.iter().enumerate();
    let mut pairs =
        pairs.flat_map(|(at, one)| ids[at + 1..].iter().map(move |other| (*one, *other)));
    pairs.any(|(one, other)| !servers.are_apart(one, other))
}

/// Parts of a place that lack a copy; none where all copies are in sync.
fn lacking_parts(
    (group, place): (&Group, u32),
    row: &Row,
    servers: &Servers,
    now: Instant,
) -> Option<u64> {
    if row.in_state(MemberState::Sync).count() >= group.copies as usize {
        return Some(0);
    }
    let primary = servers.map.get(&row.primary).filter(|s| s.is_live(now))?;
    primary.lacking.get(&(group.id, place)).copied()
}

impl Cluster {
    /// Failure domains of the data servers that belong to the cluster; one without a location is one by itself.
    pub fn domains(&self) -> usize {
        let servers = self.servers.lock();
        let members = servers.map.values().filter(|s| s.is_member());
        let (mut named, mut alone) = (BTreeSet::new(), 0);
        for server in members {
            match server.location.is_empty() {
                true => alone += 1,
                false => {
                    named.insert(server.location.clone());
                }
            }
        }
        named.len() + alone
    }

    /// The state of the data servers now.
    pub fn status(&self) -> ClusterStatus {
        let (groups, places) = {
            let groups = self.groups.lock();
            let all = || groups.placement().groups();
            let primaries = all().map(|g| (g.id, g.primaries())).collect();
            let is_closed = |g: &Group| groups.closed().has(g.id);
            let places = all().flat_map(|g| self.places_status(g, is_closed(g)));
            let places: Vec<PlaceStatus> = places.collect();
            (primaries, places)
        };
        // In statements of their own: a guard in the expression below would be held to its end, against the order of locks.
        let keys = self.keys.lock().status();
        let fences_pending = self.fences.lock().len();
        ClusterStatus {
            servers: self.servers_status(),
            fillings: self.fillings(),
            lags: self.lags(),
            full_redundancy_seconds: self.seconds_left(&places),
            is_rebalancing: self.is_rebalancing(),
            groups,
            places,
            fences_pending,
            keys,
        }
    }

    /// Orders all data servers to compare what lies on their disks with its sums, at once (rule P26). Returns the number of
    /// the order, which [`ScrubState::order`] reaches when a data server follows it.
    pub fn order_scrub(&self) -> u64 {
        // The boot keeps numbers rising over a restart.
        let first = u64::from(self.boot) << 32;
        let next = |order: u64| Some(order.max(first) + 1);
        let last = self.scrub_order.fetch_update(Relaxed, Relaxed, next);
        last.unwrap_or_default().max(first) + 1
    }

    fn seconds_left(&self, places: &[PlaceStatus]) -> Option<u64> {
        let lacks = |p: &&PlaceStatus| 1 + p.sync.len() < p.copies as usize;
        let waiting = places.iter().filter(lacks).filter(|p| p.filling.is_empty());
        let now = Instant::now();
        let servers = self.servers.lock();
        let live = servers.map.values().filter(|s| s.is_live(now));
        let timed = live.flat_map(|s| {
            let timed = |f: &FillProgress| (*f, s.fill_times.seconds(f, now));
            s.fillings.iter().map(timed)
        });
        let timed: Vec<_> = timed.collect();
        seconds_left(&timed, u64::try_from(waiting.count()).unwrap_or(u64::MAX))
    }

    /// What primaries that serve say of the members that they fill.
    fn fillings(&self) -> Vec<FillProgress> {
        let now = Instant::now();
        let servers = self.servers.lock();
        let live = servers.map.values().filter(|s| s.is_live(now));
        live.flat_map(|s| s.fillings.iter().copied()).collect()
    }

    fn places_status(&self, group: &Group, is_closed: bool) -> Vec<PlaceStatus> {
        let now = Instant::now();
        let servers = self.servers.lock();
        let place = |(place, row): (u32, &Row)| PlaceStatus {
            group: group.id,
            place,
            copies: group.copies,
            primary: row.primary,
            shares_domain: shares_domain(row, &servers),
            lacking_parts: lacking_parts((group, place), row, &servers, now),
            is_served: !is_closed
                && servers
                    .map
                    .get(&row.primary)
                    .is_some_and(|s| s.is_live(now)),
            sync: row
                .in_state(MemberState::Sync)
                .filter(|ds| *ds != row.primary)
                .collect(),
            filling: row.in_state(MemberState::Filling).collect(),
            stale: row.in_state(MemberState::Stale).collect(),
            leaving: row.in_state(MemberState::Leaving).collect(),
        };
        let places = (0..).zip(&group.rows).map(place);
        let is_moving = |p: &PlaceStatus| !p.filling.is_empty() || !p.leaving.is_empty();
        places
            .filter(|p| p.copies > 1 || !p.is_served || is_moving(p))
            .collect()
    }

    /// Places of which each data server is a member.
    fn places_by_server(&self) -> BTreeMap<u32, usize> {
        let groups = self.groups.lock();
        let rows = groups.placement().groups().flat_map(|g| &g.rows);
        let mut places = BTreeMap::new();
        for member in rows.flat_map(|row| &row.members.0) {
            *places.entry(member.ds).or_default() += 1;
        }
        places
    }

    fn servers_status(&self) -> Vec<ServerStatus> {
        let now = Instant::now();
        let places = self.places_by_server();
        let groups = self.groups.lock();
        let mut servers = self.servers.lock();
        servers.look_who_is_away();
        let servers = &*servers;
        // Of one that serves, silence is what makes new files avoid it: a data server shown as away gets none.
        let is_quiet = |id: &u32, s: &Server| match s.is_live(now) {
            true => servers.away().contains(id),
            false => s.is_silent(now, self.ds_lease_ms),
        };
        let is_there = |id: &u32, s: &Server| s.conn.is_some() && !is_quiet(id, s);
        let status = |(id, s): (&u32, &Server)| ServerStatus {
            id: *id,
            state: match (s.record.membership, is_there(id, s), s.is_live(now)) {
                (Membership::Expelled, ..) => ServerState::Expelled,
                (Membership::Draining, true, true) => ServerState::Draining,
                (_, true, true) => ServerState::Serving,
                (_, true, false) => ServerState::Joining,
                (_, false, _) => ServerState::Away,
            },
            addresses: s
                .record
                .addresses
                .0
                .iter()
                .map(|a| (a.netid.as_str().to_owned(), a.uaddr.as_str().to_owned()))
                .collect(),
            lease_left_ms: s.lease_end.map_or(0, |end| {
                let left = end.saturating_duration_since(now).as_millis();
                u64::try_from(left).unwrap_or(u64::MAX)
            }),
            capacity: s.capacity,
            is_full: s.is_member() && servers.full().contains(id),
            counters: s.counters,
            refused: s.refused.clone(),
            closed_groups: groups.closed().by(*id),
            slow: servers.sick.why(*id).map(|why| SlowStatus {
                why,
                is_out: servers.sick.is_out(*id, now),
            }),
            places: places.get(id).copied().unwrap_or(0),
            scrub: s.scrub.clone(),
            sync_us: s.sync_us,
        };
        servers.map.iter().map(status).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_in_one_failure_domain_are_told_of_and_one_without_a_name_is_apart() {
        let mut servers = Servers::default();
        for (id, location) in [(1, "a"), (2, "a"), (3, "b"), (4, ""), (5, "")] {
            servers.add_at(id, location);
        }
        let shares = |members: &[u32]| shares_domain(&Row::new(members, 1), &servers);
        assert!(shares(&[1, 2]) && shares(&[3, 1, 2]));
        assert!(!shares(&[1, 3]) && !shares(&[4, 5]) && !shares(&[1]));
    }
}
