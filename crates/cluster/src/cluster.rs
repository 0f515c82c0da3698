//! The tables of one cluster, and the questions that the file service asks of them.
//!
//! # Ownership
//! Tables sit behind mutexes that are never held across an `await`. They are locked in the order of the fields of
//! [`Cluster`].
//!
//! # Failure
//! Tables are rebuilt at start from the records of the store and from what data servers say.

use crate::fences::{Delivering, Fences};
use crate::groups::{Groups, NoPlace};
use crate::job::Job;
use crate::keys::{KeyTimes, Keys};
use crate::layout_limits::FILE_WIDTH_MAX;
use crate::servers::{Server, Servers};
use crate::steps::Moves;
use crate::{multipath, records};
use control::Capacity;
use layout::{ClientTag, Group, GroupForm, MemberState, Placed, SigningKey};
use meta::{MetaError, MetaStore};
use nfs4::{DeviceId, NetAddr, Verifier};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;
use tracing_mutex::parkinglot::Mutex;
use transport::{ConnHandle, Preference, TransportKind};

/// Longest pause between two looks at what is waited for.
const LOOK_MS: u64 = 100;

/// Random 64-bit values.
pub type Random = Arc<dyn Fn() -> u64 + Send + Sync>;
/// Wall time in milliseconds since 1970.
pub type WallMs = Arc<dyn Fn() -> u64 + Send + Sync>;

/// What a cluster is opened with.
pub struct ClusterConfig {
    /// Identity of the cluster.
    pub cluster_id: u64,
    /// Number of this start of the metadata server. It must be durable.
    pub boot: u32,
    /// The metadata store.
    pub store: Arc<dyn MetaStore>,
    /// Lease of data servers in milliseconds.
    pub ds_lease_ms: u32,
    /// Which addresses of data servers clients are told.
    pub data_transport: Preference,
    /// The client tag of the metadata server's own I/O.
    pub proxy_tag: ClientTag,
    /// Copies of new files, 1 to [`layout::COPIES_MAX`]; fewer where there are fewer data servers.
    pub copies: u32,
    /// With fewer members of a place in sync nothing is written there, 1 to `copies`. A group with fewer copies needs all
    /// of its own.
    pub copies_min: u32,
    /// A member of places that is away for so long is given up, and another data server gets what it had.
    pub replace_after: Duration,
    /// How long signing keys are used.
    pub key_times: KeyTimes,
    /// Wall time.
    pub wall_ms: WallMs,
    /// Randomness.
    pub random: Random,
}

/// Capacity of all data servers together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Space {
    /// Size in bytes.
    pub total_bytes: u64,
    /// Bytes that can still be written.
    pub free_bytes: u64,
    /// Bytes without data: `free_bytes`, and what the file system keeps for its administrator.
    pub unused_bytes: u64,
}

/// Why a data server cannot be used for I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemberError {
    /// It is unknown, or was expelled: what it had is lost.
    Lost,
    /// It does not serve now.
    Away,
}

/// The data servers of one cluster, shared by everything that speaks to them.
pub struct Cluster {
    pub(crate) cluster_id: u64,
    pub(crate) boot: u32,
    /// The newest order to scrub, 0 for none.
    pub(crate) scrub_order: AtomicU64,
    /// Bytes per second that the fillings of each data server may send; 0 for no limit.
    pub(crate) fill_bytes_per_s: AtomicU64,
    pub(crate) store: Arc<dyn MetaStore>,
    pub(crate) ds_lease_ms: u32,
    pub(crate) data_transport: Preference,
    pub(crate) proxy_tag: ClientTag,
    pub(crate) key_times: KeyTimes,
    pub(crate) wall_ms: WallMs,
    pub(crate) random: Random,
    pub(crate) keys: Mutex<Keys>,
    pub(crate) groups: Mutex<Groups>,
    pub(crate) servers: Mutex<Servers>,
    pub(crate) delivering: Delivering,
    /// Data servers that are being told rows.
    pub(crate) telling_rows: Mutex<BTreeSet<u32>>,
    pub(crate) fences: Mutex<Fences>,
    /// Data servers that have not removed all that is to be removed; `None` while that is not known.
    pub(crate) lacking_removals: Mutex<Option<BTreeSet<u32>>>,
    /// Verifiers of places that do not follow from that of the process, with the latter.
    pub(crate) verifiers: Mutex<BTreeMap<(u32, u32), (Verifier, Verifier)>>,
    /// Told whenever something that an operation may wait for has changed.
    pub(crate) changed: Notify,
    /// What is moved between data servers.
    pub(crate) moves: Mutex<Moves>,
    /// A member of places that is away for so long is given up.
    pub(crate) replace_after: Duration,
    /// When this process opened it.
    pub(crate) opened: Instant,
    /// Held over each change of the keys, from its transaction until it is in memory.
    pub(crate) key_work: tokio::sync::Mutex<()>,
    pub(crate) key_job: Job,
    file_bytes_max: Arc<AtomicU64>,
}

impl Cluster {
    /// Opens the cluster of a store. The first signing key is durable when this returns.
    ///
    /// # Errors
    /// [`MetaError`] when the store fails or its records make no sense.
    pub async fn open(config: ClusterConfig) -> Result<Arc<Self>, MetaError> {
        let store = config.store;
        let (keys, seq) = Keys::open(&*store, &config.random, (config.wall_ms)())?;
        store.durable(seq).await?;
        let seed = u32::try_from((config.random)() >> 32).unwrap_or(0);
        let loaded = records::load_groups(&*store)?;
        let copies = (config.copies, config.copies_min);
        let groups = Groups::load((config.cluster_id, copies), loaded, seed)
            .map_err(|e| MetaError::Corrupt(format!("placement groups: {e}")))?;
        let (servers, changes) = (
            records::load_servers(&*store)?,
            records::load_changes(&*store)?,
        );
        let orders = records::load_orders(&*store)?;
        let servers = Servers::load(servers, changes, config.ds_lease_ms);
        Ok(Arc::new(Self {
            cluster_id: config.cluster_id,
            boot: config.boot,
            scrub_order: AtomicU64::new(0),
            fill_bytes_per_s: AtomicU64::new(0),
            store,
            ds_lease_ms: config.ds_lease_ms,
            data_transport: config.data_transport,
            proxy_tag: config.proxy_tag,
            key_times: config.key_times,
            wall_ms: config.wall_ms,
            random: config.random,
            keys: Mutex::new(keys),
            groups: Mutex::new(groups),
            file_bytes_max: servers.file_bytes_max(),
            servers: Mutex::new(servers),
            delivering: Delivering::default(),
            telling_rows: Mutex::default(),
            fences: Mutex::default(),
            verifiers: Mutex::default(),
            lacking_removals: Mutex::default(),
            changed: Notify::new(),
            moves: Mutex::new(Moves::load(orders)),
            replace_after: config.replace_after,
            opened: Instant::now(),
            key_work: tokio::sync::Mutex::default(),
            key_job: Job::default(),
        }))
    }

    /// Leases, groups and fences. To be called about every second.
    pub fn tick(self: &Arc<Self>) {
        {
            let mut groups = self.groups.lock();
            let mut servers = self.servers.lock();
            servers.look_who_is_away();
            if let Err(error) = groups.observe(&*self.store, &servers) {
                tracing::error!(%error, "placement groups");
            }
        }
        self.changed.notify_waiters();
        self.deliver_fences();
        self.tend_members();
        self.deliver_rows();
    }

    /// Identity of the cluster.
    pub fn id(&self) -> u64 {
        self.cluster_id
    }

    /// Copies of new files whose directory says nothing.
    pub fn copies(&self) -> u32 {
        self.groups.lock().copies()
    }

    /// Members of a place that must be in sync for anything to be written there.
    pub fn copies_min(&self) -> u32 {
        self.groups.lock().copies_min()
    }

    /// Lease of data servers in milliseconds.
    pub fn ds_lease_ms(&self) -> u32 {
        self.ds_lease_ms
    }

    /// The client tag of the metadata server's own I/O.
    pub fn proxy_tag(&self) -> ClientTag {
        self.proxy_tag
    }

    /// Told whenever something that an operation may wait for has changed.
    pub fn changed(&self) -> &Notify {
        &self.changed
    }

    pub(crate) fn now_wall_ms(&self) -> u64 {
        (self.wall_ms)()
    }

    /// Where a new file over `width` data servers goes, with so many copies; 0 is a whole group, and the cluster's own
    /// number of copies.
    ///
    /// # Errors
    /// [`MetaError`] when a new group cannot be stored; [`NoPlace`] when no data server takes the file.
    pub fn pick(
        self: &Arc<Self>,
        width: u32,
        copies: u32,
    ) -> Result<Result<Placed, NoPlace>, MetaError> {
        let (picked, is_grown) = {
            let mut groups = self.groups.lock();
            let mut servers = self.servers.lock();
            servers.look_who_is_away();
            let before = groups.placement().groups().count();
            let picked = groups.pick(&*self.store, &servers, (width, copies));
            (picked, groups.placement().groups().count() > before)
        };
        if is_grown {
            self.deliver_rows();
        }
        picked
    }

    /// Most data servers that a file can have now.
    pub fn stripe_count_max(&self) -> u32 {
        let servers = self.servers.lock();
        let members = servers.map.values().filter(|s| s.is_member()).count();
        let members = u32::try_from(members).unwrap_or(u32::MAX);
        members.min(FILE_WIDTH_MAX)
    }

    /// The largest object that every data server holds, in bytes; [`u64::MAX`] while none has said.
    pub fn object_bytes_max(&self) -> u64 {
        self.file_bytes_max.load(Relaxed)
    }

    /// Room on all data servers, as they last said; a disk that some of them share counts once.
    pub fn space(&self) -> Space {
        let servers = self.servers.lock();
        let mut disks = BTreeSet::new();
        let members = servers.map.values().filter(|s| s.is_member());
        let capacities = members.map(|s| s.capacity);
        let counted = capacities.filter(|c: &Capacity| c.disk == 0 || disks.insert(c.disk));
        counted.fold(Space::default(), |sum, capacity| Space {
            total_bytes: sum.total_bytes.saturating_add(capacity.total_bytes),
            free_bytes: sum.free_bytes.saturating_add(capacity.free_bytes),
            unused_bytes: sum.unused_bytes.saturating_add(capacity.unused_bytes),
        })
    }

    /// Of each group: its id, its version, and the version at which a place of it last got another primary.
    pub fn versions(&self) -> Vec<(u32, u32, u32)> {
        let groups = self.groups.lock();
        let reign = |g: &Arc<Group>| g.rows.iter().map(|row| row.reign).max().unwrap_or(0);
        let all = groups.placement().groups();
        all.map(|g| (g.id, g.version, reign(g))).collect()
    }

    /// A placement group as it is now.
    pub fn group(&self, id: u32) -> Option<Arc<Group>> {
        self.groups.lock().placement().group(id).cloned()
    }

    /// Places of a placement group; 0 for an unknown one.
    pub fn width(&self, group: u32) -> u32 {
        self.group(group).map_or(0, |g| g.width())
    }

    /// The group of a device, and the addresses of its data servers in stripe order. They are those for a client on a connection
    /// of this kind.
    pub fn device(
        &self,
        id: DeviceId,
        kind: TransportKind,
    ) -> Option<(Arc<Group>, Vec<Vec<NetAddr>>)> {
        let group = Arc::clone(self.groups.lock().placement().by_device(id)?);
        let servers = self.servers.lock();
        let addresses = |ds: u32| -> Vec<NetAddr> {
            let list = servers.map.get(&ds).map(|s| &s.record.addresses.0[..]);
            let wire = |a: &control::NetAddr| NetAddr {
                netid: a.netid.as_str().as_bytes().into(),
                uaddr: a.uaddr.as_str().as_bytes().into(),
            };
            let list = list.unwrap_or_default().iter().map(wire).collect();
            multipath::offered(self.data_transport, kind, list)
        };
        let lists = group.primaries().into_iter().map(addresses).collect();
        Some((group, lists))
    }

    /// The primaries of a group, by place; none for an unknown one.
    pub fn group_servers(&self, group: u32) -> Vec<u32> {
        self.groups.lock().servers_of(group).unwrap_or_default()
    }

    /// All members of all places of a group, ascending; none for an unknown one.
    pub fn group_members(&self, group: u32) -> Vec<u32> {
        self.group(group).map_or_else(Vec::new, |g| g.members())
    }

    /// Whether a pending fence on the file may still matter at a data server of the group.
    pub fn is_fencing(&self, group: u32, file: u64) -> bool {
        let ids = self.group_servers(group);
        let servers = self.servers.lock();
        self.fences.lock().outstanding(&servers, &ids, file)
    }

    /// The connection of a data server that serves.
    pub fn live_conn(&self, ds: u32) -> Option<ConnHandle> {
        self.servers.lock().live_conn(ds)
    }

    /// Connections to all of `ids`, in their order, `None` for one that was expelled and serves nothing any more. No
    /// answer as long as another is away, or an expelled one may not know it.
    pub fn conns_but_expelled(&self, ids: &[u32]) -> Option<Vec<Option<ConnHandle>>> {
        self.servers.lock().conns_but_expelled(ids)
    }

    /// Of `ids`, those that belong to the cluster.
    pub fn members_of(&self, ids: &[u32]) -> Vec<u32> {
        self.servers.lock().members_of(ids)
    }

    /// Whether all of `ids` are members and serve.
    ///
    /// # Errors
    /// [`MemberError`] of the worst of them.
    pub fn check_all_live(&self, ids: &[u32]) -> Result<(), MemberError> {
        let servers = self.servers.lock();
        if servers.members_of(ids).len() < ids.len() {
            return Err(MemberError::Lost);
        }
        if servers.all_live(ids) {
            Ok(())
        } else {
            Err(MemberError::Away)
        }
    }

    /// Whether some primary of a group does not serve, and each such place has another member that is about to take over.
    pub fn is_failing_over(&self, group: u32) -> bool {
        let Some(group) = self.group(group) else {
            return false;
        };
        let servers = self.servers.lock();
        let now = Instant::now();
        let is_live = |ds: u32| servers.map.get(&ds).is_some_and(|s| s.is_live(now));
        let mut unserved = group
            .rows
            .iter()
            .filter(|row| !is_live(row.primary))
            .peekable();
        unserved.peek().is_some()
            && unserved.all(|row| row.in_state(MemberState::Sync).any(is_live))
    }

    /// Waits while a group is failing over, for `wait_ms` at most.
    pub async fn failed_over(&self, group: u32, wait_ms: u64) {
        self.until(wait_ms, || !self.is_failing_over(group)).await;
    }

    /// Waits until `is_so`, for `wait_ms` at most. It is looked at whenever something has changed. Returns whether it is so.
    pub(crate) async fn until(&self, wait_ms: u64, is_so: impl Fn() -> bool) -> bool {
        let deadline = Instant::now() + Duration::from_millis(wait_ms);
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if is_so() {
                return true;
            }
            if Instant::now() >= deadline {
                return false;
            }
            let _either = tokio::time::timeout(Duration::from_millis(LOOK_MS), changed).await;
        }
    }

    /// Whether a data server can be used for I/O. Returns how often it has moved: its addresses are those of then as
    /// long as this stays the same.
    ///
    /// # Errors
    /// [`MemberError`].
    pub fn check_for_io(&self, ds: u32) -> Result<u32, MemberError> {
        let servers = self.servers.lock();
        let server = servers.map.get(&ds).ok_or(MemberError::Lost)?;
        if !server.is_member() {
            return Err(MemberError::Lost);
        }
        if !server.is_live(Instant::now()) {
            return Err(MemberError::Away);
        }
        Ok(server.moves_count)
    }

    /// The addresses of a data server, the preferred one first.
    pub fn addresses(&self, ds: u32) -> Vec<control::NetAddr> {
        let servers = self.servers.lock();
        let server = servers.map.get(&ds);
        server.map_or_else(Vec::new, |s| s.record.addresses.0.clone())
    }

    /// Those of `ids` that are asked to make the objects of a new file.
    pub fn asked_for_objects(&self, ids: &[u32]) -> Vec<u32> {
        self.servers.lock().asked_for_objects(ids)
    }

    /// Leaves the objects of new files to their first WRITE at a data server for a while: it has not made one.
    pub fn make_lazily(&self, ds: u32, pause: Duration) {
        if let Some(server) = self.servers.lock().map.get_mut(&ds) {
            server.lazy_until = Some(Instant::now() + pause);
        }
    }

    /// Notes write verifiers of places, and returns the last known ones of all places of a group (rules R11, P16).
    pub fn note_verifiers(&self, group: &Group, seen: &BTreeMap<u32, Verifier>) -> Vec<Verifier> {
        let servers = self.servers.lock();
        let mut others = self.verifiers.lock();
        let places = (0..).zip(&group.rows);
        let known = places.map(|(place, row)| {
            let server = servers.map.get(&row.primary);
            let process = server.and_then(|s| s.verifier).unwrap_or_default();
            let expected = verifier_of(group, place, process);
            let key = (group.id, place);
            match seen.get(&place) {
                Some(verifier) if *verifier == expected => {
                    others.remove(&key);
                    expected
                }
                // A sync has failed there: each verifier of that process is another one now.
                Some(verifier) => {
                    others.insert(key, (process, *verifier));
                    *verifier
                }
                None => match others.get(&key) {
                    Some((then, verifier)) if *then == process => *verifier,
                    _ => expected,
                },
            }
        });
        known.collect()
    }

    /// Notes which data servers have not removed all that is to be removed; `None` when that is not known. From such a
    /// one no member is filled: it would give back what was removed (rule P15).
    pub fn note_removals(&self, lacking: Option<BTreeSet<u32>>) {
        *self.lacking_removals.lock() = lacking;
    }

    /// Notes data servers that are about to be told of removals.
    pub fn add_removals(&self, lacking: &BTreeSet<u32>) {
        if let Some(known) = &mut *self.lacking_removals.lock() {
            known.extend(lacking);
        }
    }

    /// Notes the verifier of a data server's process, as COMMIT tells it.
    pub fn note_process(&self, ds: u32, verifier: Verifier) {
        if let Some(server) = self.servers.lock().map.get_mut(&ds) {
            server.verifier = Some(verifier);
        }
    }

    /// The key that signs now, for I/O of the metadata server itself. To be taken before the epoch is read.
    pub fn signing_key(&self) -> Option<SigningKey> {
        self.keys.lock().ring().active().cloned()
    }

    /// Runs `work` with the key that signs now. The key does not retire before `work` is done: a layout that is counted
    /// under it in `work` keeps it.
    pub fn with_signing_key<T>(&self, work: impl FnOnce(&SigningKey) -> T) -> Option<T> {
        let keys = self.keys.lock();
        keys.ring().active().map(work)
    }

    /// The newest key, which floors and tombstones name.
    pub fn newest_key_id(&self) -> u32 {
        self.keys.lock().ring().newest_id()
    }

    /// A data server joined: its record is durable.
    pub(crate) fn add_server(&self, ds: u32, server: Server) {
        self.servers.lock().map.insert(ds, server);
    }
}

/// The write verifier of a place whose primary is a process with this verifier (rule P16). In a group without places it
/// is that of the process.
#[must_use]
pub fn verifier_of(group: &Group, place: u32, process: Verifier) -> Verifier {
    let reign = group.rows.get(place as usize).map_or(0, |row| row.reign);
    match group.form {
        GroupForm::Shared => process,
        GroupForm::Places => Verifier {
            bytes: layout::place_verifier(process.bytes, group.id, place, reign),
        },
    }
}
