//! Everything of the metadata server that touches data servers.
//!
//! `port` is the port that data servers connect to, `servers` the table of them, `groups` where new files go, `fence`
//! what must be known everywhere before something is granted again, `keys` what signs handles, `grants` layouts and their recall, `sizes` the
//! recovery of sizes, `truncate` and `removal` the durable intents, `proxy` the I/O of clients without layouts, `ranges` holes and reserved storage,
//! `width` how many data servers a file may have, `eager` objects that are made with their file, `copy` and `offload` copies within this server, `clone` shared storage, `exclusive` what keeps others off a file. Names and
//! open state are not here; they call in by the functions that this module exports.
//!
//! # Ownership
//! Tables sit behind mutexes that are never held across an `await`. Locks are taken in the order of the fields of
//! [`DataPlane`]; the state table's lock comes after a file's grant lock and before none of these.
//!
//! # Failure
//! Tables are rebuilt at start from the records, from the name space's marks and intents, and from what data servers say.

mod call;
mod clone;
mod copy;
mod eager;
mod exclusive;
mod fence;
mod grants;
mod groups;
mod join;
mod keys;
mod narrow;
mod offer;
mod offload;
mod port;
mod proxy;
mod ranges;
mod records;
mod removal;
mod servers;
mod sizes;
mod space;
mod status;
mod truncate;
mod width;
mod writers;

pub use eager::Creation;
pub use join::{AdminError, WaitingToken, add_token, expel, waiting_tokens};
pub use keys::{KeyStatus, KeyTimes, RotatedKey, rotate_key};
pub use layout::KeyState;
pub use port::{ControlService, Issuer, PeerOf, tls_peer};
pub use removal::{REMOVALS_COUNTED_MAX, removals_waiting};
pub use status::{DataStatus, ServerState, ServerStatus};
pub use width::FILE_WIDTH_MAX;

pub(crate) use clone::{CLONE_BLOCK_BYTES, CloneJob, clone_range};
pub(crate) use copy::{Copied, Copy, copy, is_zero};
pub(crate) use eager::make_objects;
pub(crate) use exclusive::writes_reported;
pub(crate) use grants::{
    GrantRequest, access_narrowed, client_gone, commit_layout, grant, grantable, layout_committed,
};
pub(crate) use grants::{
    fence_off, is_unsettled, layouts_returned, may_have_data, return_layouts, settle_returned,
};
pub(crate) use offload::{
    offload_cancel, offload_status, offloads_of_gone, start as start_offload,
};
pub(crate) use proxy::{commit, read, write};
pub(crate) use ranges::{Content, Sought, allocate, deallocate, end_of, seek};
pub(crate) use removal::{file_removed, grace_over, last_close, orphan_closed};
pub(crate) use sizes::{current, current_to_open, ready, stamps, until_ready};
pub(crate) use space::look_at_space;
pub(crate) use truncate::truncate;

use crate::glance::Glanced;
use crate::mds::Random;
use crate::{Mds, MdsError};
use fence::Fences;
use groups::{Groups, NoPlace};
use keys::Keys;
use layout::{ClientTag, Group};
use meta::MetaStore;
use namespace::{FileId, LayoutPolicy, Namespace, Placement, Time};
use nfs4::{DeviceId, NetAddr, NfsStatus, Verifier};
use parking_lot::Mutex;
use server::Nfsd;
use servers::Servers;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, Weak};
use tokio::sync::{Notify, RwLock, Semaphore};
use transport::{Connector, Preference, TransportKind};

/// Smallest stripe unit: an I/O must not fall into more pieces than it has pages.
pub const STRIPE_UNIT_BYTES_MIN: u32 = 4096;
/// Copies of more bytes take seconds where data servers have disks: a client that lets them is answered before.
pub const COPY_ASYNC_ABOVE_BYTES: u64 = 16 << 20;
/// Locks that order grants and returns of layouts, by file.
const GRANT_LOCKS_COUNT: usize = 64;
/// Callbacks under way at one time.
const RECALLS_MAX: usize = 256;

/// What the data plane is made of.
pub struct DataConfig {
    /// Bytes of a stripe unit of new files: a multiple of 64, at least [`STRIPE_UNIT_BYTES_MIN`].
    pub stripe_unit_bytes: u32,
    /// Files below this size are to be written through the metadata server (`mdsthreshold`); 0 for none.
    pub mds_threshold_bytes: u64,
    /// A copy of more bytes is answered before it is done, when its client allows that ([`COPY_ASYNC_ABOVE_BYTES`]).
    pub copy_async_above_bytes: u64,
    /// When the objects of a new file are made.
    pub creation: Creation,
    /// Lease of data servers in milliseconds.
    pub ds_lease_ms: u32,
    /// Connects to data servers for proxy I/O.
    pub connector: Arc<dyn Connector>,
    /// Which of their addresses proxy I/O takes.
    pub proxy_transport: Preference,
    /// Which of their addresses clients are told.
    pub data_transport: Preference,
    /// How long signing keys are used.
    pub keys: KeyTimes,
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

/// The data plane of one metadata server.
pub struct DataPlane {
    cluster_id: u64,
    stripe_unit_bytes: u32,
    mds_threshold_bytes: u64,
    copy_async_above_bytes: u64,
    creation: Creation,
    ds_lease_ms: u32,
    connector: Arc<dyn Connector>,
    proxy_transport: Preference,
    data_transport: Preference,
    store: Arc<dyn MetaStore>,
    /// `co_ownerid` of the MDS at the data servers, its verifier there, and its client tag.
    proxy_owner: Vec<u8>,
    proxy_verifier: Verifier,
    proxy_tag: ClientTag,
    me: OnceLock<Weak<Nfsd<Mds>>>,
    /// Orders "a holder is entered" and "its mark is made" against "the last holder is gone" and "the mark goes".
    grant_locks: Vec<Mutex<()>>,
    keys: Mutex<Keys>,
    groups: Mutex<Groups>,
    servers: Mutex<Servers>,
    fences: Mutex<Fences>,
    delivering: Mutex<BTreeSet<u32>>,
    unknown: Glanced<sizes::Unknown>,
    /// Files whose truncation has an intent, and what those are told that come meanwhile.
    truncating: Mutex<BTreeMap<FileId, NfsStatus>>,
    writers: Mutex<writers::Writers>,
    /// Proxied I/O against truncations, by file.
    gates: Mutex<BTreeMap<u64, Arc<RwLock<()>>>>,
    /// Told whenever something that an operation may wait for has changed.
    changed: Notify,
    recalls: Arc<Semaphore>,
    jobs: Jobs,
    key_times: KeyTimes,
    /// Held over each change of the keys, from its transaction until it is in memory.
    key_work: tokio::sync::Mutex<()>,
    random: Random,
    proxied_read_bytes: AtomicU64,
    proxied_written_bytes: AtomicU64,
    offloads: Mutex<offload::Offloads>,
    space_noted: Glanced<space::Noted>,
    too_wide: width::TooWide,
    file_bytes_max: Arc<AtomicU64>,
    /// Places for chunks that copies hold.
    copy_chunks: Arc<Semaphore>,
}

/// Background work: one task of each kind at a time.
#[derive(Default)]
struct Jobs {
    sizes: AtomicBool,
    space: AtomicBool,
    truncates: AtomicBool,
    removals: AtomicBool,
    overdue: AtomicBool,
    orphans: AtomicBool,
    keys: AtomicBool,
    orphans_swept: AtomicBool,
}

impl DataPlane {
    /// Opens the data plane of a name space that is open and durable.
    ///
    /// # Errors
    /// [`MdsError`] when the store fails or its records make no sense.
    pub async fn open(
        config: DataConfig,
        ns: &Namespace,
        random: Random,
        now: Time,
    ) -> Result<Self, MdsError> {
        let store = Arc::clone(ns.store());
        let (keys, seq) = Keys::open(&*store, &random, join::ms_of(now))?;
        store.durable(seq).await?;
        let (unknown, truncating) = sizes::load(ns)?;
        let seed = u32::try_from(random() >> 32).unwrap_or(0);
        let groups = Groups::load(ns.cluster_id(), records::load_groups(&*store)?, seed)
            .map_err(|e| meta::MetaError::Corrupt(format!("placement groups: {e}")))?;
        let (servers, changes) = (
            records::load_servers(&*store)?,
            records::load_changes(&*store)?,
        );
        let servers = Servers::load(servers, changes, config.ds_lease_ms);
        let unit = config.stripe_unit_bytes.max(STRIPE_UNIT_BYTES_MIN);
        let owner = format!("ropewalk-mds-{:016x}-{}", ns.cluster_id(), ns.boot()).into_bytes();
        Ok(Self {
            cluster_id: ns.cluster_id(),
            stripe_unit_bytes: unit - unit % layout::UNIT_STEP_BYTES,
            mds_threshold_bytes: config.mds_threshold_bytes,
            copy_async_above_bytes: config.copy_async_above_bytes,
            creation: config.creation,
            ds_lease_ms: config.ds_lease_ms,
            connector: config.connector,
            proxy_transport: config.proxy_transport,
            data_transport: config.data_transport,
            proxy_tag: ClientTag::of(ns.cluster_id(), &owner),
            proxy_owner: owner,
            proxy_verifier: Verifier {
                bytes: random().to_be_bytes(),
            },
            me: OnceLock::new(),
            grant_locks: (0..GRANT_LOCKS_COUNT).map(|_| Mutex::new(())).collect(),
            keys: Mutex::new(keys),
            groups: Mutex::new(groups),
            file_bytes_max: servers.file_bytes_max(),
            servers: Mutex::new(servers),
            fences: Mutex::default(),
            delivering: Mutex::default(),
            unknown: Glanced::new(unknown),
            truncating: Mutex::new(truncating),
            writers: Mutex::default(),
            gates: Mutex::default(),
            changed: Notify::new(),
            recalls: Arc::new(Semaphore::new(RECALLS_MAX)),
            jobs: Jobs::default(),
            key_times: config.keys,
            key_work: tokio::sync::Mutex::default(),
            random,
            proxied_read_bytes: AtomicU64::new(0),
            proxied_written_bytes: AtomicU64::new(0),
            offloads: Mutex::default(),
            space_noted: Glanced::default(),
            too_wide: width::TooWide::default(),
            copy_chunks: copy::chunk_places(),
            store,
        })
    }

    /// Tells the data plane whose it is; background work needs it. Done once; later calls change nothing.
    pub(crate) fn attach(&self, nfsd: &Arc<Nfsd<Mds>>) {
        let _already = self.me.set(Arc::downgrade(nfsd));
    }

    /// The service, for tasks that outlive the operation which starts them.
    pub(crate) fn service(&self) -> Option<Arc<Nfsd<Mds>>> {
        self.me.get().and_then(Weak::upgrade)
    }

    /// Leases, overdue recalls, groups, recovery, removals. To be called about every second.
    pub async fn tick(nfsd: &Nfsd<Mds>) {
        let data = nfsd.role().data();
        let Some(me) = data.service() else { return };
        {
            let mut groups = data.groups.lock();
            let mut servers = data.servers.lock();
            servers.look_who_is_away();
            if let Err(error) = groups.observe(&*data.store, &servers) {
                tracing::error!(%error, "placement groups");
            }
        }
        data.changed.notify_waiters();
        fence::deliver_all(&me);
        data.run(&data.jobs.overdue, &me, |me| async move {
            grants::fence_overdue(&me).await;
        });
        data.run(&data.jobs.truncates, &me, |me| async move {
            truncate::redo_all(&me).await;
        });
        data.recover_sizes(&me);
        data.run(&data.jobs.space, &me, |me| async move {
            space::measure_all(&me).await;
        });
        data.run(&data.jobs.removals, &me, |me| async move {
            removal::drain(&me).await;
        });
        data.run(&data.jobs.keys, &me, |me| async move {
            keys::turn(&me).await;
        });
        if !data.jobs.orphans_swept.load(Relaxed) {
            data.run(&data.jobs.orphans, &me, |me| async move {
                removal::sweep(&me).await;
            });
        }
    }

    /// One pass over all files whose size is unknown, unless there is one.
    fn recover_sizes(&self, me: &Arc<Nfsd<Mds>>) {
        self.run(&self.jobs.sizes, me, |me| async move {
            sizes::recover(&me).await;
        });
    }

    /// Starts a job unless it is running. The flag is cleared by a guard, so a panic does not stop the job for good.
    fn run<F>(&self, flag: &AtomicBool, me: &Arc<Nfsd<Mds>>, job: impl FnOnce(Arc<Nfsd<Mds>>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        if flag.swap(true, Relaxed) {
            return;
        }
        let which = self.jobs.index_of(flag);
        let work = job(Arc::clone(me));
        let done = JobDone {
            nfsd: Arc::clone(me),
            which,
        };
        tokio::spawn(async move {
            let _done = done;
            work.await;
        });
    }

    /// Bytes of a stripe unit of new files.
    pub fn stripe_unit_bytes(&self) -> u32 {
        self.stripe_unit_bytes
    }

    /// Below which size files are to be written through this server; 0 for none.
    pub(crate) fn mds_threshold_bytes(&self) -> u64 {
        self.mds_threshold_bytes
    }

    /// A copy of more bytes is answered before it is done.
    pub(crate) fn copy_async_above_bytes(&self) -> u64 {
        self.copy_async_above_bytes
    }

    /// Where a new file goes, under the policy of its directory.
    ///
    /// # Errors
    /// [`NfsStatus::NoSpc`] when all data servers are full; [`NfsStatus::Delay`] as long as none has joined, or the
    /// ones with room have just gone: a file made without a place would never get one.
    pub fn place(&self, policy: LayoutPolicy) -> Result<Placement, NfsStatus> {
        let mut groups = self.groups.lock();
        let mut servers = self.servers.lock();
        servers.look_who_is_away();
        let picked = groups.pick(&*self.store, &servers, policy.stripe_count);
        drop(servers);
        let placed = picked
            .inspect_err(|error| tracing::error!(%error, "placement groups"))
            .map_err(|_| NfsStatus::Io)?
            .map_err(|why| match why {
                NoPlace::NotYet => NfsStatus::Delay,
                NoPlace::Full => NfsStatus::NoSpc,
            })?;
        Ok(Placement {
            group: placed.group,
            stripe_unit: match policy.stripe_unit {
                0 => self.stripe_unit_bytes,
                unit => unit,
            },
            first_index: placed.first_index,
        })
    }

    /// Most data servers that a file can have now.
    pub(crate) fn stripe_count_max(&self) -> u32 {
        let servers = self.servers.lock();
        let members = servers.map.values().filter(|s| s.is_member()).count();
        let members = u32::try_from(members).unwrap_or(u32::MAX);
        members.min(FILE_WIDTH_MAX)
    }

    /// The largest file that every data server of the cluster holds, in bytes (RFC 8881 §5.8.2.11).
    pub(crate) fn file_bytes_max(&self) -> u64 {
        self.file_bytes_max.load(Relaxed)
    }

    /// The end of a range that is to be written; refused as [`Self::check_end`] does.
    pub(crate) fn check_range(&self, offset: u64, len: u64) -> Result<u64, NfsStatus> {
        let end = offset.checked_add(len).ok_or(NfsStatus::FBig)?;
        self.check_end(end)?;
        Ok(end)
    }

    /// Refuses what would end beyond the largest file, before anything is changed.
    pub(crate) fn check_end(&self, end: u64) -> Result<(), NfsStatus> {
        if end > self.file_bytes_max() {
            return Err(NfsStatus::FBig);
        }
        Ok(())
    }

    /// Room on all data servers of the cluster, as they last said; a disk that some of them share counts once.
    pub fn space(&self) -> Space {
        let servers = self.servers.lock();
        let mut disks = BTreeSet::new();
        let members = servers.map.values().filter(|s| s.is_member());
        let counted = members.filter(|s| s.capacity.disk == 0 || disks.insert(s.capacity.disk));
        counted.fold(Space::default(), |sum, server| Space {
            total_bytes: sum.total_bytes.saturating_add(server.capacity.total_bytes),
            free_bytes: sum.free_bytes.saturating_add(server.capacity.free_bytes),
            unused_bytes: sum
                .unused_bytes
                .saturating_add(server.capacity.unused_bytes),
        })
    }

    /// The device id of a placement group.
    pub(crate) fn device_id(&self, group: u32) -> Option<DeviceId> {
        let groups = self.groups.lock();
        groups
            .placement()
            .group(group)
            .map(|g| g.device_id(self.cluster_id))
    }

    /// Data servers of a placement group; 0 for an unknown one.
    pub(crate) fn width(&self, group: u32) -> u32 {
        let groups = self.groups.lock();
        groups.placement().group(group).map_or(0, Group::width)
    }

    /// The group of a device, with the addresses of its data servers in stripe order that a client on a connection of this kind is told.
    pub(crate) fn device(
        &self,
        id: DeviceId,
        kind: TransportKind,
    ) -> Option<(Group, Vec<Vec<NetAddr>>)> {
        let group = self.groups.lock().placement().by_device(id)?.clone();
        let servers = self.servers.lock();
        let addresses = |ds: &u32| -> Vec<NetAddr> {
            let list = servers.map.get(ds).map(|s| &s.record.addresses.0[..]);
            let wire = |a: &::control::NetAddr| NetAddr {
                netid: a.netid.as_str().as_bytes().into(),
                uaddr: a.uaddr.as_str().as_bytes().into(),
            };
            let list = list.unwrap_or_default().iter().map(wire).collect();
            offer::offered(self.data_transport, kind, list)
        };
        let lists = group.servers.0.iter().map(addresses).collect();
        Some((group, lists))
    }

    /// The data servers of a group, in stripe order.
    fn group_servers(&self, group: u32) -> Vec<u32> {
        self.groups.lock().servers_of(group).unwrap_or_default()
    }

    /// Refuses what must wait for a truncation of the file: DELAY, or IO when a data server's store fails it.
    pub(crate) fn cutting(&self, file: FileId) -> Result<(), NfsStatus> {
        match self.truncating.lock().get(&file) {
            Some(status) => Err(*status),
            None => Ok(()),
        }
    }

    /// The lock that orders grants and returns on a file.
    fn grant_lock(&self, file: FileId) -> &Mutex<()> {
        let count = u64::try_from(self.grant_locks.len()).unwrap_or(1);
        &self.grant_locks[usize::try_from(file.0 % count).unwrap_or(0)]
    }

    /// Whether a pending fence on the file may still matter at a data server of the group.
    fn is_fencing(&self, group: u32, file: FileId) -> bool {
        let ids = self.group_servers(group);
        let servers = self.servers.lock();
        self.fences.lock().outstanding(&servers, &ids, file.0)
    }

    fn begin_delivery(&self, ds: u32) -> bool {
        self.delivering.lock().insert(ds)
    }

    /// Ends a delivery unless there is more to deliver.
    fn end_delivery(&self, ds: u32) -> bool {
        let connected = self.servers.lock().live_conn(ds).is_some();
        let mut delivering = self.delivering.lock();
        let more = connected && !self.fences.lock().first(ds, 1).is_empty();
        if !more {
            delivering.remove(&ds);
        }
        !more
    }

    fn abort_delivery(&self, ds: u32) {
        self.delivering.lock().remove(&ds);
    }

    /// The gate of a file; it lives as long as somebody uses it.
    fn gate(&self, file: FileId) -> Arc<RwLock<()>> {
        let mut gates = self.gates.lock();
        gates.retain(|_, gate| Arc::strong_count(gate) > 1);
        Arc::clone(gates.entry(file.0).or_default())
    }
}

impl Jobs {
    fn all(&self) -> [&AtomicBool; 7] {
        [
            &self.sizes,
            &self.space,
            &self.truncates,
            &self.removals,
            &self.overdue,
            &self.orphans,
            &self.keys,
        ]
    }

    fn index_of(&self, flag: &AtomicBool) -> usize {
        let all = self.all();
        all.iter()
            .position(|f| std::ptr::eq(*f, flag))
            .expect("a flag of this struct")
    }
}

/// Clears the flag of a job when its task ends, however that is.
struct JobDone {
    nfsd: Arc<Nfsd<Mds>>,
    which: usize,
}

impl Drop for JobDone {
    fn drop(&mut self) {
        self.nfsd.role().data().jobs.all()[self.which].store(false, Relaxed);
    }
}
