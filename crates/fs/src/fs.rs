//! What the file service owns, and the questions that are answered without waiting.
//!
//! # Ownership
//! [`Fs`] is shared by `Arc`: work that outlives its operation takes a clone. Its mutexes are never held across an
//! `await`.
//!
//! # Failure
//! Tables are rebuilt at start from the name space's marks and intents, and from what data servers say.

use crate::atimes::Atimes;
use crate::busy_tables::BusyTables;
use crate::delegating::{Delegating, DelegationCounts};
use crate::far_drains::FarDrain;
use crate::foreign_place;
use crate::hint::{Facts, Guard, Hinted};
use crate::host_grants::HostGrants;
use crate::layout_tables::LayoutTables;
use crate::mirror_reports::MirrorReports;
use crate::offloads::Offloads;
use crate::own_writes::OwnWrites;
use crate::pools::Pools;
use crate::restripes::Restripes;
use crate::resyncs::Resyncs;
use crate::space_notes::SpaceNotes;
use crate::unknown_sizes;
use client_table::ClientTable;
use cluster::{Cluster, ClusterConfig, Job, KeyTimes, NoPlace, Random};
use foreign::{Foreign, ForeignConfig, MayLack};
use layout::{ClientTag, MdsHandle, MdsHandleError, MdsHandleKind};
use meta::{MetaError, MetaStore, Seq};
use namespace::{
    FILE_SIZE_MAX, FileId, INLINE_BYTES_MAX, Inode, LayoutPolicy, Namespace, NsError, Placement,
    Time,
};
use nfs4::{FileHandle, NfsStatus, Verifier};
use state::{DelegationLimits, FileStates, StateLimits};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use stripes::{Peers, PeersConfig};
use tokio::sync::Semaphore;
use tracing_mutex::parkinglot::Mutex;
use transport::{Connector, Preference};

/// Smallest stripe unit in bytes: an I/O must not fall into more pieces than it has pages.
pub const STRIPE_UNIT_BYTES_MIN: u32 = 4096;
/// Largest stripe unit in bytes.
pub const STRIPE_UNIT_BYTES_MAX: u32 = 1 << 30;
/// Copies of more bytes take seconds where data servers have disks: a client that lets them is answered before.
pub const COPY_ASYNC_ABOVE_BYTES: u64 = 16 << 20;
/// Most files that are made ahead for a group of servers of others.
pub const FOREIGN_POOL_MAX: usize = 256;
/// Most notifications of freed locks under way at once.
const NOTIFICATIONS_MAX: usize = 256;
/// Chunks that all copies together hold in memory.
pub(crate) const COPY_CHUNKS_MAX: usize = 64;

/// Wall time, for the times of files.
pub type WallClock = Arc<dyn Fn() -> Time + Send + Sync>;

/// When the objects of a new file are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Creation {
    /// By the first WRITE to each data server.
    #[default]
    Lazy,
    /// With the file, on all of its data servers.
    Eager,
}

/// Data servers and layouts.
pub struct DataConfig {
    /// Bytes of a stripe unit of new files: a power of two, at least [`STRIPE_UNIT_BYTES_MIN`].
    pub stripe_unit_bytes: u32,
    /// Copies of new files, where no layout policy says otherwise.
    pub copies: u32,
    /// With fewer copies in sync nothing is written; 1 to `copies`.
    pub copies_min: u32,
    /// A data server that is away for so long is given up: another one gets the copies that it had.
    pub replace_after: Duration,
    /// Files below this size are to be written through the metadata server (`mdsthreshold`); 0 for none.
    pub mds_threshold_bytes: u64,
    /// Largest file whose bytes lie in the metadata store, where no layout policy says otherwise; 0 for none. At most
    /// [`namespace::INLINE_BYTES_MAX`].
    pub inline_max_bytes: u64,
    /// A copy of more bytes is answered before it is done, when its client allows that ([`COPY_ASYNC_ABOVE_BYTES`]).
    pub copy_async_above_bytes: u64,
    /// When the objects of a new file are made.
    pub creation: Creation,
    /// Files whose objects are made ahead for each placement group of foreign servers that is used: at most [`FOREIGN_POOL_MAX`], 0
    /// for none.
    pub foreign_pool: usize,
    /// Lease of data servers in milliseconds.
    pub ds_lease_ms: u32,
    /// Connects to data servers for the server's own I/O.
    pub connector: Arc<dyn Connector>,
    /// Which of their addresses that takes.
    pub proxy_transport: Preference,
    /// Which of their addresses clients are told.
    pub data_transport: Preference,
    /// How long signing keys are used.
    pub keys: KeyTimes,
}

/// What a file service is made of.
pub struct FsConfig {
    /// The name space, open and durable.
    pub ns: Namespace,
    /// The clients that it serves.
    pub clients: Arc<ClientTable>,
    /// Lease of clients in milliseconds.
    pub lease_ms: u64,
    /// Wall time.
    pub clock: WallClock,
    /// Randomness.
    pub random: Random,
    /// Data servers and layouts.
    pub data: DataConfig,
    /// How many delegations clients are granted; `None` for none at all.
    pub delegations: Option<DelegationLimits>,
    /// Whether clients that ask keep the times of files that they make and hold (RFC 9754 §5).
    pub delegates_times: bool,
}

/// Why a file service does not start.
#[derive(Debug)]
pub enum FsError {
    /// The name space cannot be opened.
    Namespace(NsError),
    /// A stored record makes no sense or cannot be read.
    Store(MetaError),
}

impl std::fmt::Display for FsError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Namespace(e) => write!(f, "name space: {e}"),
            Self::Store(e) => write!(f, "{e}"),
        }
    }
}

impl std::error::Error for FsError {}

impl From<NsError> for FsError {
    fn from(e: NsError) -> Self {
        Self::Namespace(e)
    }
}

impl From<MetaError> for FsError {
    fn from(e: MetaError) -> Self {
        Self::Store(e)
    }
}

/// Somebody holds a delegation.
const DELEGATIONS: u8 = 1;
/// State was revoked that its client has not freed.
const REVOKED: u8 = 2;

impl Facts for FileStates {
    fn facts(&self) -> u8 {
        let delegations = if self.delegations.is_empty() {
            0
        } else {
            DELEGATIONS
        };
        let revoked = if self.has_revoked() { REVOKED } else { 0 };
        delegations | revoked
    }
}

/// What the configuration says of files.
pub(crate) struct Settings {
    pub(crate) stripe_unit_bytes: u32,
    pub(crate) mds_threshold_bytes: u64,
    pub(crate) inline_max_bytes: u64,
    pub(crate) copy_async_above_bytes: u64,
    pub(crate) creation: Creation,
    pub(crate) foreign_pool: usize,
}

impl Settings {
    fn of(data: &DataConfig) -> Self {
        let unit = data.stripe_unit_bytes.max(STRIPE_UNIT_BYTES_MIN);
        Self {
            stripe_unit_bytes: power_of_two(unit),
            mds_threshold_bytes: data.mds_threshold_bytes,
            inline_max_bytes: data.inline_max_bytes.min(INLINE_BYTES_MAX.into()),
            copy_async_above_bytes: data.copy_async_above_bytes,
            creation: data.creation,
            foreign_pool: data.foreign_pool.min(FOREIGN_POOL_MAX),
        }
    }
}

/// Background work, one task of each kind at a time.
#[derive(Default)]
pub(crate) struct Jobs {
    pub(crate) sizes: Job,
    pub(crate) space: Job,
    pub(crate) truncates: Job,
    pub(crate) removals: Job,
    pub(crate) overdue: Job,
    pub(crate) orphans: Job,
    pub(crate) ahead: Job,
    pub(crate) level: Job,
    pub(crate) far_drain: Job,
    /// All orphans were looked at after the grace period.
    pub(crate) orphans_swept: AtomicBool,
    /// What sessions of earlier runs kept is gone.
    pub(crate) replies_swept: AtomicBool,
}

/// The file service of one metadata server.
pub struct Fs {
    pub(crate) ns: Namespace,
    pub(crate) state: Hinted<FileStates>,
    pub(crate) clients: Arc<ClientTable>,
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) peers: Peers,
    pub(crate) foreign: Arc<Foreign>,
    pub(crate) settings: Settings,
    pub(crate) layouts: LayoutTables,
    pub(crate) delegating: Delegating,
    pub(crate) atimes: Atimes,
    pub(crate) busy: BusyTables,
    pub(crate) space_noted: Hinted<SpaceNotes>,
    pub(crate) offloads: Mutex<Offloads>,
    pub(crate) restripes: Restripes,
    pub(crate) mirror_reports: Mutex<MirrorReports>,
    /// Mirrors of files that are looked at.
    pub(crate) mirror_looks: Mutex<MirrorReports>,
    pub(crate) own_writes: Mutex<OwnWrites>,
    pub(crate) resyncs: Mutex<Resyncs>,
    pub(crate) pools: Mutex<Pools>,
    pub(crate) far_drain: Mutex<FarDrain>,
    /// Places for chunks that copies hold.
    pub(crate) copy_chunks: Arc<Semaphore>,
    /// One permit for each CB_NOTIFY_LOCK under way.
    pub(crate) lock_notifications: Arc<Semaphore>,
    pub(crate) host_grants: HostGrants,
    pub(crate) jobs: Jobs,
    pub(crate) lease_ms: u64,
    /// Bytes that this server itself has read from foreign servers and written there.
    pub(crate) foreign_read_bytes: AtomicU64,
    pub(crate) foreign_written_bytes: AtomicU64,
    too_wide_count: AtomicU64,
    clock: WallClock,
}

impl Fs {
    /// Opens the file service of a name space.
    ///
    /// # Errors
    /// [`FsError`] when the store fails or its records make no sense.
    pub async fn open(config: FsConfig) -> Result<Arc<Self>, FsError> {
        let FsConfig { ns, data, .. } = config;
        let clock = config.clock;
        let owner = format!("ropewalk-mds-{:016x}-{}", ns.cluster_id(), ns.boot()).into_bytes();
        let cluster = Cluster::open(ClusterConfig {
            cluster_id: ns.cluster_id(),
            boot: ns.boot(),
            store: Arc::clone(ns.store()),
            ds_lease_ms: data.ds_lease_ms,
            data_transport: data.data_transport,
            proxy_tag: ClientTag::of(ns.cluster_id(), &owner),
            copies: data.copies,
            copies_min: data.copies_min,
            replace_after: data.replace_after,
            key_times: data.keys,
            wall_ms: wall_ms(&clock),
            random: Arc::clone(&config.random),
        })
        .await?;
        let (unknown, truncating) = unknown_sizes::load(&ns)?;
        let foreign = Foreign::open(ForeignConfig {
            cluster_id: ns.cluster_id(),
            store: Arc::clone(ns.store()),
            connector: Arc::clone(&data.connector),
            random: Arc::clone(&config.random),
        })?;
        let peers = PeersConfig {
            connector: Arc::clone(&data.connector),
            transport: data.proxy_transport,
            owner,
            verifier: Verifier {
                bytes: (config.random)().to_be_bytes(),
            },
        };
        let limits = StateLimits {
            delegations: config.delegations.unwrap_or_default(),
            ..StateLimits::default()
        };
        Ok(Arc::new(Self {
            state: Hinted::new(FileStates::new(limits, ns.boot())),
            busy: BusyTables::new(config.clients.now_ms()),
            clients: config.clients,
            peers: Peers::new(Arc::clone(&cluster), peers),
            cluster,
            foreign,
            settings: Settings::of(&data),
            layouts: LayoutTables::new(unknown, truncating),
            delegating: Delegating::new(config.delegations.is_some(), config.delegates_times),
            atimes: Atimes::new(clock()),
            space_noted: Hinted::default(),
            restripes: Restripes::default(),
            mirror_reports: Mutex::default(),
            mirror_looks: Mutex::default(),
            own_writes: Mutex::default(),
            resyncs: Mutex::default(),
            pools: Mutex::default(),
            far_drain: Mutex::default(),
            offloads: Mutex::new(Offloads::new(ns.boot())),
            copy_chunks: Arc::new(Semaphore::new(COPY_CHUNKS_MAX)),
            lock_notifications: Arc::new(Semaphore::new(NOTIFICATIONS_MAX)),
            host_grants: HostGrants::default(),
            jobs: Jobs::default(),
            lease_ms: config.lease_ms,
            foreign_read_bytes: AtomicU64::new(0),
            foreign_written_bytes: AtomicU64::new(0),
            too_wide_count: AtomicU64::new(0),
            clock,
            ns,
        }))
    }

    /// The name space.
    pub fn namespace(&self) -> &Namespace {
        &self.ns
    }

    /// The metadata store.
    pub fn store(&self) -> &Arc<dyn MetaStore> {
        self.ns.store()
    }

    /// Opens, locks, delegations and layouts. Never hold the guard across an `await`.
    pub fn state(&self) -> Guard<'_, FileStates> {
        self.state.lock()
    }

    /// The clients, their connections and the clock of leases.
    pub fn clients(&self) -> &Arc<ClientTable> {
        &self.clients
    }

    /// Locks that waiting hosts of NLM were granted, for who tells them.
    pub fn host_grants(&self) -> &HostGrants {
        &self.host_grants
    }

    /// The data servers.
    pub fn cluster(&self) -> &Arc<Cluster> {
        &self.cluster
    }

    /// The NFSv3 servers of others that have data of files.
    pub fn foreign(&self) -> &Arc<Foreign> {
        &self.foreign
    }

    /// Access times that are not stored yet.
    pub fn atimes(&self) -> &Atimes {
        &self.atimes
    }

    /// Whether anybody holds a delegation: without the mutex, since every GETATTR asks.
    pub fn has_delegations(&self) -> bool {
        self.state.has(DELEGATIONS)
    }

    /// Whether state was revoked that its client has not freed.
    pub fn has_revoked(&self) -> bool {
        self.state.has(REVOKED)
    }

    /// Whether delegations are granted.
    pub fn grants_delegations(&self) -> bool {
        self.delegating.enabled
    }

    /// Whether holders of files that they made are the authority for their times (RFC 9754 §5).
    pub fn delegates_times(&self) -> bool {
        self.delegating.enabled && self.delegating.with_times
    }

    /// A delegation was granted.
    pub fn note_delegation_granted(&self) {
        self.delegating.note_granted();
    }

    /// Delegations, for metrics.
    pub fn delegation_counts(&self) -> DelegationCounts {
        self.delegating.counts(self.state().delegations.len())
    }

    /// At most `max` clients that wait for delegations of others, in the order of files.
    #[must_use]
    pub fn waiting(&self, max: usize) -> Vec<crate::RecallWait> {
        self.delegating.waits.current(self.clients.now_ms(), max)
    }

    /// Wall time.
    pub fn now(&self) -> Time {
        (self.clock)()
    }

    /// Lease of clients in milliseconds.
    pub fn lease_ms(&self) -> u64 {
        self.lease_ms
    }

    /// Waits until a transaction is durable.
    ///
    /// # Errors
    /// `ServerFault` when the store has failed.
    pub async fn durable(&self, seq: Seq) -> Result<(), NfsStatus> {
        self.store().durable(seq).await.map_err(|error| {
            tracing::error!(%error, "metadata store");
            NfsStatus::ServerFault
        })
    }

    /// Bytes of a stripe unit of new files.
    pub fn stripe_unit_bytes(&self) -> u32 {
        self.settings.stripe_unit_bytes
    }

    /// Below which size files are to be written through this server; 0 for none.
    pub fn mds_threshold_bytes(&self) -> u64 {
        self.settings.mds_threshold_bytes
    }

    /// Largest inline file under a policy; 0 for none. Where objects are made with their files, none is inline.
    pub fn inline_max_bytes(&self, policy: LayoutPolicy) -> u64 {
        match self.settings.creation {
            Creation::Eager => 0,
            Creation::Lazy => policy
                .inline_max_bytes
                .map_or(self.settings.inline_max_bytes, u64::from),
        }
    }

    /// A copy of more bytes is answered before it is done.
    pub fn copy_async_above_bytes(&self) -> u64 {
        self.settings.copy_async_above_bytes
    }

    /// Where a new file goes, under the policy of its directory: in a foreign tree, to servers of others.
    ///
    /// # Errors
    /// [`NfsStatus::NoSpc`] when all data servers are full. [`NfsStatus::Delay`] as long as none has joined, or the
    /// ones with room have just gone: a file made without a place would never get one.
    pub fn place(&self, policy: LayoutPolicy, is_foreign: bool) -> Result<Placement, NfsStatus> {
        let unit = match policy.stripe_unit {
            0 => self.settings.stripe_unit_bytes,
            unit => unit,
        };
        let stripe_unit = power_of_two(unit);
        if is_foreign {
            return foreign_place::place(&self.foreign, policy, stripe_unit, MayLack::Mirrors);
        }
        let picked = self.cluster.pick(policy.stripe_count, policy.copies);
        let placed = picked
            .inspect_err(|error| tracing::error!(%error, "placement groups"))
            .map_err(|_| NfsStatus::Io)?
            .map_err(|why| match why {
                NoPlace::NotYet => NfsStatus::Delay,
                NoPlace::Full => NfsStatus::NoSpc,
            })?;
        Ok(Placement {
            group: placed.group,
            stripe_unit,
            first_index: placed.first_index,
        })
    }

    /// The largest file that every data server of a tree holds, in bytes (RFC 8881 §5.8.2.11).
    pub fn file_bytes_max(&self, of_tree: &Inode) -> u64 {
        let held = match of_tree.is_foreign() {
            true => self.foreign.file_bytes_max(),
            false => self.cluster.object_bytes_max(),
        };
        held.min(FILE_SIZE_MAX)
    }

    /// The end of a range of a file that is to be written.
    ///
    /// # Errors
    /// As [`Fs::check_end`].
    pub fn check_range(&self, inode: &Inode, offset: u64, len: u64) -> Result<u64, NfsStatus> {
        let end = offset.checked_add(len).ok_or(NfsStatus::FBig)?;
        self.check_end(inode, end)?;
        Ok(end)
    }

    /// Refuses what would end beyond the largest file, before anything is changed.
    ///
    /// # Errors
    /// `FBig`.
    pub fn check_end(&self, inode: &Inode, end: u64) -> Result<(), NfsStatus> {
        if end > self.file_bytes_max(inode) {
            return Err(NfsStatus::FBig);
        }
        Ok(())
    }

    /// Refuses what must wait for a truncation of the file.
    ///
    /// # Errors
    /// `Delay`, or `Io` when a data server's store fails it.
    pub fn check_not_truncating(&self, file: FileId) -> Result<(), NfsStatus> {
        match self.layouts.truncating.lock().get(&file) {
            Some(status) => Err(*status),
            None => Ok(()),
        }
    }

    /// A layout is longer than its client takes. Logged ever more rarely: each open may end so.
    pub fn note_too_wide(&self, group: u32, result_bytes: usize, maxcount: u32) {
        let count = self.too_wide_count.fetch_add(1, Relaxed) + 1;
        if count.is_power_of_two() {
            let width = self.cluster.width(group);
            tracing::warn!(
                group,
                width,
                result_bytes,
                maxcount,
                count,
                "a client gets no layout of a file, since it takes no reply of this size: its I/O goes through this server"
            );
        }
    }

    pub(crate) fn too_wide_count(&self) -> u64 {
        self.too_wide_count.load(Relaxed)
    }

    /// The data of a file have changed: soon the data servers are asked what they take up.
    pub(crate) fn note_space(&self, file: FileId) {
        self.space_noted.lock().add(file);
    }

    /// The handle of an inode.
    pub fn handle_of(&self, inode: &Inode) -> FileHandle {
        let handle = MdsHandle {
            kind: MdsHandleKind::Inode,
            cluster_id: self.cluster.id(),
            file_id: inode.id.0,
            generation: inode.generation,
        };
        FileHandle::from(handle.to_bytes().as_slice())
    }

    /// Reads a handle of ours.
    ///
    /// # Errors
    /// `Stale` for one of another cluster, `BadHandle`.
    pub fn parse_handle(&self, fh: &[u8]) -> Result<MdsHandle, NfsStatus> {
        let handle = MdsHandle::parse(fh, self.cluster.id()).map_err(|e| match e {
            MdsHandleError::WrongCluster => NfsStatus::Stale,
            _ => NfsStatus::BadHandle,
        })?;
        // No other kind is ever handed out: the export is the root itself.
        match handle.kind {
            MdsHandleKind::Inode => Ok(handle),
            MdsHandleKind::Pseudo => Err(NfsStatus::BadHandle),
        }
    }
}

/// The clock in milliseconds.
fn wall_ms(clock: &WallClock) -> Arc<dyn Fn() -> u64 + Send + Sync> {
    let wall = Arc::clone(clock);
    Arc::new(move || ms_of(wall()))
}

/// Milliseconds since 1970; 0 before.
fn ms_of(time: Time) -> u64 {
    let seconds = u64::try_from(time.secs).unwrap_or(0);
    seconds.saturating_mul(1000) + u64::from(time.nanos) / 1_000_000
}

/// The status of what the name space answers.
#[must_use]
pub fn status(e: &NsError) -> NfsStatus {
    match e {
        NsError::NoEnt => NfsStatus::NoEnt,
        NsError::Exist => NfsStatus::Exist,
        NsError::NotDir => NfsStatus::NotDir,
        NsError::IsDir => NfsStatus::IsDir,
        NsError::NotEmpty => NfsStatus::NotEmpty,
        NsError::Access => NfsStatus::Access,
        NsError::Perm => NfsStatus::Perm,
        NsError::NameTooLong => NfsStatus::NameTooLong,
        NsError::BadName => NfsStatus::BadName,
        NsError::Stale => NfsStatus::Stale,
        NsError::NoSpace | NsError::AclTooLong | NsError::Store(MetaError::NoSpace) => {
            NfsStatus::NoSpc
        }
        NsError::MLink => NfsStatus::MLink,
        NsError::Inval | NsError::NeedsTruncate => NfsStatus::Inval,
        NsError::OtherTree => NfsStatus::XDev,
        NsError::BadCookie => NfsStatus::BadCookie,
        NsError::FileTooBig => NfsStatus::FBig,
        NsError::Busy | NsError::TooMany | NsError::NeedsPlace => NfsStatus::Delay,
        NsError::NoXattr => NfsStatus::NoXattr,
        NsError::XattrTooBig => NfsStatus::Xattr2Big,
        NsError::Store(error) => {
            tracing::error!(%error, "metadata store");
            NfsStatus::ServerFault
        }
    }
}

/// A stripe unit that a handle can say: earlier versions took others than powers of two.
fn power_of_two(unit_bytes: u32) -> u32 {
    let next = unit_bytes.checked_next_power_of_two();
    next.map_or(STRIPE_UNIT_BYTES_MAX, |unit| {
        unit.min(STRIPE_UNIT_BYTES_MAX)
    })
}
