//! What `ropewalk status` shows of the data servers.

use crate::cluster::Cluster;
use crate::keys::KeyStatus;
use crate::records::Membership;
use crate::servers::Server;
use control::{Capacity, Counters};
use layout::{Group, MemberState, Row};
use tokio::time::Instant;

/// State of a data server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerState {
    /// Serves.
    Serving,
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
    /// Whether the primary serves.
    pub is_served: bool,
    /// The other members in sync.
    pub sync: Vec<u32>,
    /// Members that are being given what they lack.
    pub filling: Vec<u32>,
    /// Members that were left out.
    pub stale: Vec<u32>,
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
    /// Fences that some data server has not acknowledged.
    pub fences_pending: usize,
    /// Signing keys, oldest first.
    pub keys: Vec<KeyStatus>,
}

impl Cluster {
    /// The state of the data servers now.
    pub fn status(&self) -> ClusterStatus {
        let (groups, places) = {
            let groups = self.groups.lock();
            let all = || groups.placement().groups();
            let primaries = all().map(|g| (g.id, g.primaries())).collect();
            let places: Vec<PlaceStatus> = all().flat_map(|g| self.places_status(g)).collect();
            (primaries, places)
        };
        ClusterStatus {
            servers: self.servers_status(),
            groups,
            places,
            fences_pending: self.fences.lock().len(),
            keys: self.keys.lock().status(),
        }
    }

    fn places_status(&self, group: &Group) -> Vec<PlaceStatus> {
        let now = Instant::now();
        let servers = self.servers.lock();
        let place = |(place, row): (u32, &Row)| PlaceStatus {
            group: group.id,
            place,
            copies: group.copies,
            primary: row.primary,
            is_served: servers
                .map
                .get(&row.primary)
                .is_some_and(|s| s.is_live(now)),
            sync: row
                .in_state(MemberState::Sync)
                .filter(|ds| *ds != row.primary)
                .collect(),
            filling: row.in_state(MemberState::Filling).collect(),
            stale: row.in_state(MemberState::Stale).collect(),
        };
        let places = (0..).zip(&group.rows).map(place);
        places.filter(|p| p.copies > 1 || !p.is_served).collect()
    }

    fn servers_status(&self) -> Vec<ServerStatus> {
        let now = Instant::now();
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
        };
        servers.map.iter().map(status).collect()
    }
}
