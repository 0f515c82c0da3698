//! The table of data servers: who belongs to the cluster, who is connected, whose lease runs.
//!
//! ```text
//!   joined --HELLO--> connected --floors acknowledged--> serving
//!     ^                   |                                 |
//!     +---- connection gone; the lease still runs out ------+        expelled: never again
//! ```
//! # Ownership
//! The connection belongs to the data server; the table holds a handle.
//!
//! # Ordering
//! A data server counts its lease from when it sent HELLO or HEARTBEAT; the table counts from when it answers. The
//! table's end is never before the data server's own (rule R6).
//!
//! # Failure
//! A store that was copied may come twice. While the first is connected and has its lease, the second must wait. Once
//! the first is gone, what either changed tells which of them went back (R9).
//!
//! After a restart of the MDS every known data server is taken to have a lease: the previous run may have renewed it.

use crate::eta::FillTimes;
use crate::keys::HeldKeys;
use crate::records::{Membership, ServerRecord};
use crate::sick::Sick;
use control::{Capacity, Counters, FillProgress, MemberLag, PlaceReign, PlaceRow, ScrubState};
use meta::Seq;
use nfs4::Verifier;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::time::Instant;
use transport::{CloseReason, ConnHandle};

/// Added to a lease before it counts as ended: clocks of two machines do not run equally fast.
pub(crate) const LEASE_MARGIN_MS: u64 = 1_000;

/// How often a data server is to be heard of. A lease is longer; this is for what must not wait so long.
pub(crate) const HEARTBEAT_MS: u32 = 600;
/// After so long without a word a data server counts as away: two heartbeats, and a little. New files avoid it. What it
/// may still serve is a matter of its lease alone (R6).
const SILENT_MS: u64 = 1_500;
/// After a start data servers have this long to come back before they count as away.
const RETURN_MS: u64 = 5_000;
/// Least time between two looks at which data servers are away.
const LOOK_MS: u64 = 200;

/// Room that new files leave to those that are there: 1 % of a data server, at least this. Of a small store it is no
/// more than an eighth.
const RESERVE_BYTES_MIN: u64 = 64 * 1024 * 1024;
/// 1 % as a divisor.
const RESERVE_DIVISOR: u64 = 100;
/// An eighth, for small stores.
const RESERVE_DIVISOR_SMALL: u64 = 8;

/// Free bytes below which a data server counts as full, if `total_bytes` are for us.
fn reserve_bytes(total_bytes: u64) -> u64 {
    let small = RESERVE_BYTES_MIN.min(total_bytes / RESERVE_DIVISOR_SMALL);
    small.max(total_bytes / RESERVE_DIVISOR)
}

/// Whether a data server is full by what it said. One that was full must have a quarter more than the reserve to
/// be taken again, so that it does not come and go. A total of 0 says nothing.
fn is_full(capacity: &Capacity, was_full: bool) -> bool {
    // What the file system keeps for its administrator is not for us: it may be most of the disk.
    let kept = capacity.unused_bytes.saturating_sub(capacity.free_bytes);
    let reserve = reserve_bytes(capacity.total_bytes.saturating_sub(kept));
    let limit = if was_full {
        reserve.saturating_add(reserve / 4)
    } else {
        reserve
    };
    capacity.total_bytes > 0 && capacity.free_bytes < limit
}

/// One data server.
pub(crate) struct Server {
    pub(crate) record: ServerRecord,
    pub(crate) conn: Option<ConnHandle>,
    /// All floors that it missed are acknowledged.
    pub(crate) serving: bool,
    /// When its lease ends at the latest.
    pub(crate) lease_end: Option<Instant>,
    /// When it was last heard of while it served.
    pub(crate) heard: Instant,
    pub(crate) boot_nonce: [u8; 16],
    /// Changes of its store that it told of, and the transaction that made the number durable.
    pub(crate) changes: u64,
    pub(crate) changes_seq: Seq,
    /// Why its last HELLO was refused.
    pub(crate) refused: Option<String>,
    /// Its write verifier, as last seen (R11).
    pub(crate) verifier: Option<Verifier>,
    pub(crate) capacity: Capacity,
    pub(crate) counters: Counters,
    /// How full its fullest table of floors is.
    pub(crate) floors_fill_percent: u32,
    /// Members that it fills, as it last said.
    pub(crate) fillings: Vec<FillProgress>,
    /// What it knows of its disk, as it last said.
    pub(crate) scrub: ScrubState,
    /// Mean time of its own syncs in microseconds, as it last said; 0 when there was none lately.
    pub(crate) sync_us: u32,
    /// How far members are behind it, as it last said.
    pub(crate) lags: Vec<MemberLag>,
    /// By group and place of which it is primary, the parts that lack a copy, as it last said.
    pub(crate) lacking: BTreeMap<(u32, u32), u64>,
    /// When fillings were first heard of.
    pub(crate) fill_times: FillTimes,
    /// Whether it has said on this connection that it is about to stop.
    pub(crate) is_stopping: bool,
    /// Places of which it is primary and that its disk fails, as it last said.
    pub(crate) failing: Vec<PlaceReign>,
    /// Which signing keys it has.
    pub(crate) keys: HeldKeys,
    /// By group, the version of the rows that it was told on this connection.
    pub(crate) rows_told: BTreeMap<u32, u32>,
    /// By group, the newest version that this process has sent it, whether it was taken or not.
    pub(crate) rows_sent: BTreeMap<u32, u32>,
    /// Its failure domain, as it last said.
    pub(crate) location: String,
    /// How often its addresses have changed since the start.
    pub(crate) moves_count: u32,
    /// Until then the objects of new files are left to their first WRITE, as it has not made one.
    pub(crate) lazy_until: Option<Instant>,
}

impl Server {
    pub(crate) fn new(record: ServerRecord) -> Self {
        Self {
            record,
            conn: None,
            serving: false,
            lease_end: None,
            heard: Instant::now(),
            boot_nonce: [0; 16],
            changes: 0,
            changes_seq: Seq(0),
            refused: None,
            verifier: None,
            capacity: Capacity::default(),
            counters: Counters::default(),
            floors_fill_percent: 0,
            fillings: Vec::new(),
            scrub: ScrubState::default(),
            sync_us: 0,
            lags: Vec::new(),
            lacking: BTreeMap::new(),
            fill_times: FillTimes::default(),
            is_stopping: false,
            failing: Vec::new(),
            keys: HeldKeys::default(),
            rows_told: BTreeMap::new(),
            rows_sent: BTreeMap::new(),
            location: String::new(),
            moves_count: 0,
            lazy_until: None,
        }
    }

    /// Rows are about to be sent to it.
    pub(crate) fn note_sent(&mut self, rows: &[PlaceRow]) {
        for row in rows {
            let sent = self.rows_sent.entry(row.group).or_default();
            *sent = row.version.max(*sent);
        }
    }

    pub(crate) fn is_member(&self) -> bool {
        self.record.membership != Membership::Expelled
    }

    /// Whether its places go to others.
    pub(crate) fn is_draining(&self) -> bool {
        self.record.membership == Membership::Draining
    }

    /// Whether it may be serving clients right now, for all that the MDS knows.
    pub(crate) fn has_lease(&self, now: Instant) -> bool {
        self.lease_end.is_some_and(|end| now < end)
    }

    /// Whether it serves and can be told things.
    pub(crate) fn is_live(&self, now: Instant) -> bool {
        self.serving && self.conn.is_some() && self.has_lease(now) && self.is_member()
    }

    /// Whether new files are to avoid it for now: it does not serve, or is silent.
    pub(crate) fn is_away(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.heard) > Duration::from_millis(SILENT_MS)
    }

    /// Whether it has said nothing for a while, neither HELLO nor HEARTBEAT: each renews the lease.
    pub(crate) fn is_silent(&self, now: Instant, lease_ms: u32) -> bool {
        let full = Duration::from_millis(u64::from(lease_ms) + LEASE_MARGIN_MS);
        let silent = Duration::from_millis(SILENT_MS);
        self.lease_end.is_none_or(|end| now + full > end + silent)
    }

    /// It was heard of, or got an answer that this server had made it wait for.
    pub(crate) fn note_heard(&mut self, now: Instant) {
        if self.serving {
            self.heard = now;
        }
    }

    /// Whether another process than that of `boot_nonce` is connected as this data server and may serve.
    pub(crate) fn is_taken(&self, boot_nonce: [u8; 16], now: Instant) -> bool {
        let is_connected = self.conn.as_ref().is_some_and(|conn| !conn.is_closed());
        is_connected && self.has_lease(now) && self.boot_nonce != boot_nonce
    }

    pub(crate) fn renew(&mut self, now: Instant, lease_ms: u32) {
        self.lease_end = Some(now + Duration::from_millis(u64::from(lease_ms) + LEASE_MARGIN_MS));
    }
}

/// All data servers, by id.
pub(crate) struct Servers {
    pub(crate) map: BTreeMap<u32, Server>,
    /// Ids below this were given out, used or not.
    pub(crate) next_id: u32,
    /// Those that have no room for new files, or were expelled.
    full: BTreeSet<u32>,
    /// Those whose places go to others.
    pub(crate) draining: BTreeSet<u32>,
    /// Members that are away, and when that was looked at.
    away: (BTreeSet<u32>, Instant),
    /// Those that are slow.
    pub(crate) sick: Sick,
    /// Largest file that all members hold, as far as they have said.
    file_bytes_max: Arc<AtomicU64>,
}

impl Default for Servers {
    fn default() -> Self {
        Self {
            map: BTreeMap::new(),
            next_id: 1,
            full: BTreeSet::new(),
            draining: BTreeSet::new(),
            away: (BTreeSet::new(), Instant::now()),
            sick: Sick::default(),
            file_bytes_max: Arc::new(AtomicU64::new(u64::MAX)),
        }
    }
}

impl Servers {
    /// Closes the connections of those that were told rows of these groups: they hold rows for as long as a connection lasts.
    pub(crate) fn end_told_of(&self, groups: &[u32]) {
        let is_told = |s: &&Server| groups.iter().any(|id| s.rows_told.contains_key(id));
        let told = self.map.values().filter(is_told);
        for conn in told.filter_map(|server| server.conn.as_ref()) {
            conn.close(CloseReason::Asked);
        }
    }

    pub(crate) fn load(
        records: Vec<(u32, ServerRecord)>,
        changes: Vec<(u32, u64)>,
        lease_ms: u32,
    ) -> Self {
        let now = Instant::now();
        let mut out = Self::default();
        for (id, record) in records {
            let mut server = Server::new(record);
            server.renew(now, lease_ms);
            server.heard = now + Duration::from_millis(RETURN_MS);
            if !server.is_member() {
                out.full.insert(id);
            }
            if server.is_draining() {
                out.draining.insert(id);
            }
            out.next_id = out.next_id.max(id.saturating_add(1));
            out.map.insert(id, server);
        }
        for (id, changes) in changes {
            if let Some(server) = out.map.get_mut(&id) {
                server.changes = changes;
            }
        }
        out
    }

    /// The data server that said HELLO on this connection and has not said it on another since.
    pub(crate) fn by_conn(&mut self, conn: &ConnHandle) -> Option<(u32, &mut Server)> {
        self.map
            .iter_mut()
            .find(|(_, server)| server.conn.as_ref() == Some(conn))
            .map(|(id, server)| (*id, server))
    }

    pub(crate) fn live_conn(&self, id: u32) -> Option<ConnHandle> {
        let server = self.map.get(&id)?;
        if server.is_live(Instant::now()) {
            server.conn.clone()
        } else {
            None
        }
    }

    /// Those of `ids` that are asked to make the objects of a new file.
    pub(crate) fn asked_for_objects(&self, ids: &[u32]) -> Vec<u32> {
        let now = Instant::now();
        let is_asked = |s: &Server| {
            s.is_live(now) && !s.is_away(now) && s.lazy_until.is_none_or(|until| now >= until)
        };
        let ids = ids.iter().copied();
        ids.filter(|id| self.map.get(id).is_some_and(is_asked))
            .collect()
    }

    pub(crate) fn all_live(&self, ids: &[u32]) -> bool {
        let now = Instant::now();
        ids.iter()
            .all(|id| self.map.get(id).is_some_and(|s| s.is_live(now)))
    }

    /// Whether every data server that serves can verify what key `id` signs.
    pub(crate) fn all_have_key(&self, id: u32) -> bool {
        let now = Instant::now();
        self.map
            .values()
            .all(|s| !s.is_live(now) || s.keys.newest_id >= id)
    }

    /// How full the fullest table of floors is at any data server that serves.
    pub(crate) fn floors_fill_percent(&self) -> u32 {
        let now = Instant::now();
        let live = self.map.values().filter(|s| s.is_live(now));
        live.map(|s| s.floors_fill_percent).max().unwrap_or(0)
    }

    /// Takes what a data server says of its room.
    pub(crate) fn note_capacity(&mut self, id: u32, capacity: Capacity) {
        let Some(server) = self.map.get_mut(&id) else {
            return;
        };
        let was = std::mem::replace(&mut server.capacity, capacity);
        if was.object_bytes_max != capacity.object_bytes_max {
            self.note_file_bytes_max();
        }
        let was_full = self.full.contains(&id);
        match (was_full, is_full(&capacity, was_full)) {
            (false, true) => {
                tracing::warn!(
                    ds = id,
                    free_bytes = capacity.free_bytes,
                    "data server is full"
                );
                self.full.insert(id);
            }
            (true, false) => {
                tracing::info!(ds = id, "data server has room again");
                self.full.remove(&id);
            }
            _ => {}
        }
    }

    /// The largest file that all members hold, in bytes: kept up to date.
    pub(crate) fn file_bytes_max(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.file_bytes_max)
    }

    fn note_file_bytes_max(&self) {
        let members = self.map.values().filter(|s| s.is_member());
        let said = members.map(|s| s.capacity.object_bytes_max);
        // One that has not come yet has said nothing.
        let least = said.filter(|bytes| *bytes > 0).min();
        let bytes = least.unwrap_or(u64::MAX);
        self.file_bytes_max.store(bytes, Relaxed);
    }

    /// It is out of the cluster: what was written there is lost, and the write verifiers of its files say so.
    pub(crate) fn note_expelled(&mut self, id: u32, record: ServerRecord) {
        self.full.insert(id);
        self.draining.remove(&id);
        if let Some(server) = self.map.get_mut(&id) {
            server.record = record;
            server.serving = false;
            server.verifier = None;
        }
        self.note_file_bytes_max();
    }

    /// Connections to all of `ids`, in their order, `None` for one that was expelled and serves nothing any more. No
    /// answer as long as another is away, or an expelled one may not know it.
    pub(crate) fn conns_but_expelled(&self, ids: &[u32]) -> Option<Vec<Option<ConnHandle>>> {
        let now = Instant::now();
        let conn = |id: &u32| match self.map.get(id) {
            Some(server) if server.is_member() => self.live_conn(*id).map(Some),
            Some(server) if server.has_lease(now) => None,
            _ => Some(None),
        };
        ids.iter().map(conn).collect()
    }

    /// Looks which data servers are away, unless that was done just now.
    pub(crate) fn look_who_is_away(&mut self) {
        let now = Instant::now();
        if now.saturating_duration_since(self.away.1) < Duration::from_millis(LOOK_MS) {
            return;
        }
        let away = |(_, s): &(&u32, &Server)| s.is_member() && s.is_away(now);
        let away = self.map.iter().filter(away).map(|(id, _)| *id).collect();
        self.away = (away, now);
    }

    /// Members that were away at the last look.
    pub(crate) fn away(&self) -> &BTreeSet<u32> {
        &self.away.0
    }

    /// Those that have no room for new files, and those that were expelled.
    pub(crate) fn full(&self) -> &BTreeSet<u32> {
        &self.full
    }

    /// Those that new files avoid. When all members are away, none is avoided for that: some will be back.
    pub(crate) fn avoided(&self) -> Cow<'_, BTreeSet<u32>> {
        let mut members = self.map.iter().filter(|(_, s)| s.is_member());
        let none_is_away =
            self.away.0.is_empty() || members.all(|(id, _)| self.away.0.contains(id));
        let are_drained = !self.draining.is_empty() && !self.lasting_ids().is_empty();
        if none_is_away && !are_drained {
            return Cow::Borrowed(&self.full);
        }
        let mut avoided = self.full.clone();
        if are_drained {
            avoided.extend(&self.draining);
        }
        if !none_is_away {
            avoided.extend(&self.away.0);
        }
        Cow::Owned(avoided)
    }

    /// Members that serve and have room, ascending: those that are drained only when there is no other.
    pub(crate) fn usable_ids(&self) -> Vec<u32> {
        let lasting = self.lasting_ids();
        if !lasting.is_empty() {
            return lasting;
        }
        self.roomy_ids().collect()
    }

    /// Members that serve, have room and are not drained, ascending.
    pub(crate) fn lasting_ids(&self) -> Vec<u32> {
        let ids = self.roomy_ids();
        ids.filter(|id| !self.draining.contains(id)).collect()
    }

    fn roomy_ids(&self) -> impl Iterator<Item = u32> + '_ {
        let ids = self.live_ids().into_iter();
        ids.filter(|id| !self.full.contains(id) && !self.away.0.contains(id))
    }

    /// Whether a member that is not known to be full may come back any moment.
    pub(crate) fn room_may_return(&self) -> bool {
        let now = Instant::now();
        let mut members = self.map.iter().filter(|(_, s)| s.is_member());
        members.any(|(id, s)| s.has_lease(now) && !self.full.contains(id))
    }

    /// Members that serve, ascending.
    pub(crate) fn live_ids(&self) -> Vec<u32> {
        let now = Instant::now();
        self.map
            .iter()
            .filter(|(_, s)| s.is_live(now))
            .map(|(id, _)| *id)
            .collect()
    }

    /// Whether two data servers are in different failure domains. One without a location is one by itself.
    pub(crate) fn are_apart(&self, one: u32, other: u32) -> bool {
        let location = |ds| self.map.get(&ds).map_or("", |s| s.location.as_str());
        one != other && (location(one).is_empty() || location(one) != location(other))
    }

    /// Of `ids`, those that belong to the cluster.
    pub(crate) fn members_of(&self, ids: &[u32]) -> Vec<u32> {
        ids.iter()
            .copied()
            .filter(|id| self.map.get(id).is_some_and(Server::is_member))
            .collect()
    }

    /// Of `ids`, those that must be told of a fence: members, and expelled ones that may not know it yet.
    pub(crate) fn told_of(&self, ids: &[u32]) -> Vec<u32> {
        let now = Instant::now();
        let told = |s: &Server| s.is_member() || s.has_lease(now);
        ids.iter()
            .copied()
            .filter(|id| self.map.get(id).is_some_and(told))
            .collect()
    }
}

#[cfg(test)]
impl Servers {
    /// A data server of a test, in a failure domain.
    pub(crate) fn add_at(&mut self, id: u32, location: &str) {
        let mut server = Server::new(ServerRecord {
            membership: Membership::Active,
            store_id: u64::from(id),
            counter: 1,
            fingerprint: [0; 32],
            addresses: Vec::new().into(),
        });
        server.location = location.to_owned();
        self.map.insert(id, server);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1024 * 1024;

    fn capacity(total_bytes: u64, free_bytes: u64) -> Capacity {
        Capacity {
            total_bytes,
            free_bytes,
            unused_bytes: free_bytes,
            object_bytes_max: u64::MAX,
            disk: 0,
            objects_count: 0,
        }
    }

    #[test]
    fn the_reserve_is_one_percent_at_least_64_mib_and_fair_to_small_stores() {
        assert_eq!(reserve_bytes(100 * 1024 * MIB), 1024 * MIB);
        assert_eq!(reserve_bytes(1024 * MIB), 64 * MIB);
        assert_eq!(reserve_bytes(80 * MIB), 10 * MIB);
        assert!(!is_full(&capacity(0, 0), false), "nothing was said");
        assert!(is_full(&capacity(1024 * MIB, 64 * MIB - 1), false));
        assert!(!is_full(&capacity(1024 * MIB, 64 * MIB), false));
        assert!(is_full(&capacity(1024 * MIB, 79 * MIB), true));
        assert!(!is_full(&capacity(1024 * MIB, 80 * MIB), true));
    }

    #[test]
    fn what_the_administrator_keeps_does_not_raise_the_reserve() {
        let mut kept = capacity(256 * 1024 * MIB, 1024 * MIB);
        assert!(is_full(&kept, false));
        kept.unused_bytes = (1 + 160) * 1024 * MIB;
        assert!(!is_full(&kept, false));
    }
}
