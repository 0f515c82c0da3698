//! What `ropewalk status` shows of the data servers.

use crate::cluster::Cluster;
use crate::keys::KeyStatus;
use crate::records::Membership;
use crate::servers::Server;
use control::{Capacity, Counters};
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

/// The data servers of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterStatus {
    /// All data servers, expelled ones included.
    pub servers: Vec<ServerStatus>,
    /// Placement groups: id, and the ids of its data servers.
    pub groups: Vec<(u32, Vec<u32>)>,
    /// Fences that some data server has not acknowledged.
    pub fences_pending: usize,
    /// Signing keys, oldest first.
    pub keys: Vec<KeyStatus>,
}

impl Cluster {
    /// The state of the data servers now.
    pub fn status(&self) -> ClusterStatus {
        let groups = self.groups.lock();
        let groups = groups
            .placement()
            .groups()
            .map(|g| (g.id, g.primaries()))
            .collect();
        ClusterStatus {
            servers: self.servers_status(),
            groups,
            fences_pending: self.fences.lock().len(),
            keys: self.keys.lock().status(),
        }
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
