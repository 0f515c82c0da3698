//! The metadata server as a role of the COMPOUND engine.
//!
//! # Ownership
//! [`Mds`] owns the name space, the file states and the data plane. Its mutexes are never held across an `await`.
//!
//! # Ordering
//! A client's durable record (rule R18) precedes the reply that grants its first state; its deletion precedes what
//! others are granted in its place.
//!
//! # Failure
//! When the store fails, replies stop: [`server::Role::settle`] fails and the connection is closed.

use crate::atimes::{self, Atimes};
use crate::cx::{self, Caller, Cx};
use crate::data::{DataConfig, DataPlane};
use crate::delegations::{self, Delegating};
use crate::exports::Exports;
use crate::glance::{Facts, Glanced, Guard};
use crate::identities::{Identities, IdentityConfig, Question};
use crate::{ops, ops::notify_lock::NOTIFICATIONS_MAX, persist};
use bytes::Bytes;
use meta::{MetaError, MetaStore, Seq};
use namespace::{Cred, Format, Limits, Namespace, NsError, Time};
use nfs4::ops::EXCHGID_USE_PNFS_MDS;
use nfs4::{ClientId, FileHandle, NfsStatus, OpNum, OpReader, ReplyWriter, SessionId};
use rpc::{AuthStat, Credential};
use server::{Identity, Nfsd, NfsdConfig, Role, SlotOf};
use state::{
    ClientLimits, ClientRecord, Clients, DelegationLimits, FileStates, Grace, Removed, StateLimits,
};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use tokio::sync::Semaphore;
use transport::ConnHandle;

/// Wall time, for the times of files.
pub type WallClock = Arc<dyn Fn() -> Time + Send + Sync>;
/// Random 64-bit values.
pub type Random = Arc<dyn Fn() -> u64 + Send + Sync>;

/// What a metadata server is made of.
pub struct MdsConfig {
    /// The metadata store.
    pub store: Arc<dyn MetaStore>,
    /// Who may mount.
    pub exports: Exports,
    /// How users and groups are translated.
    pub identities: IdentityConfig,
    /// Lease of clients in milliseconds.
    pub lease_ms: u64,
    /// Wall time.
    pub clock: WallClock,
    /// Randomness.
    pub random: Random,
    /// Cache sizes and limits of the name space.
    pub limits: Limits,
    /// Data servers and layouts.
    pub data: DataConfig,
    /// How many delegations clients are granted; `None` for none at all.
    pub delegations: Option<DelegationLimits>,
}

/// Why a metadata server does not start.
#[derive(Debug)]
pub enum MdsError {
    /// The name space cannot be opened.
    Namespace(NsError),
    /// A stored record makes no sense or cannot be read.
    Store(MetaError),
}

impl std::fmt::Display for MdsError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Namespace(e) => write!(f, "name space: {e}"),
            Self::Store(e) => write!(f, "{e}"),
        }
    }
}

impl std::error::Error for MdsError {}

impl From<NsError> for MdsError {
    fn from(e: NsError) -> Self {
        Self::Namespace(e)
    }
}

impl From<MetaError> for MdsError {
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

/// The metadata server.
pub struct Mds {
    ns: Namespace,
    state: Glanced<FileStates>,
    data: DataPlane,
    delegating: Delegating,
    atimes: Atimes,
    identity: Identity,
    exports: Exports,
    identities: Identities,
    clock: WallClock,
    lease_ms: u64,
    lock_notifications: Arc<Semaphore>,
    /// What sessions of earlier runs kept is gone.
    swept: AtomicBool,
}

impl Mds {
    /// Opens (or formats) the store and makes the service. Its `boot` number is durable when this returns.
    ///
    /// # Errors
    /// [`MdsError`].
    pub async fn open(config: MdsConfig) -> Result<Arc<Nfsd<Self>>, MdsError> {
        let random = Arc::clone(&config.random);
        let mut hash_key = [0; 16];
        hash_key[..8].copy_from_slice(&random().to_be_bytes());
        hash_key[8..].copy_from_slice(&random().to_be_bytes());
        let format = Format {
            cluster_id: random().max(1),
            hash_key,
        };
        let store = Arc::clone(&config.store);
        let (ns, seq) =
            Namespace::open(Arc::clone(&store), format, (config.clock)(), config.limits)?;
        store.durable(seq).await?;
        let records = ops::client_record::load(&*store)?;
        let lease_ms = config.lease_ms;
        let grace = Grace::begin(records, 0, lease_ms);
        let limits = ClientLimits {
            lease_ms,
            ..ClientLimits::default()
        };
        let clients = Clients::new(limits, ns.boot(), grace);
        let limits = StateLimits {
            delegations: config.delegations.unwrap_or_default(),
            ..StateLimits::default()
        };
        let state = FileStates::new(limits, ns.boot());
        let data = DataPlane::open(config.data, &ns, Arc::clone(&random), (config.clock)()).await?;
        let identity = Identity {
            major_id: format!("ropewalk-mds-{:016x}", ns.cluster_id()),
            role_flag: EXCHGID_USE_PNFS_MDS,
        };
        let mds = Self {
            ns,
            state: Glanced::new(state),
            data,
            delegating: Delegating::new(config.delegations.is_some()),
            atimes: Atimes::new((config.clock)()),
            identity,
            exports: config.exports,
            identities: Identities::new(config.identities),
            clock: config.clock,
            lease_ms,
            lock_notifications: Arc::new(Semaphore::new(NOTIFICATIONS_MAX)),
            swept: AtomicBool::new(false),
        };
        let random = Box::new(move || random());
        let nfsd = Nfsd::new(mds, NfsdConfig { clients, random });
        nfsd.role().data().attach(&nfsd);
        // Where nobody held anything nobody is waited for.
        ops::client_record::poll_grace(&nfsd).await;
        Ok(nfsd)
    }

    /// The name space.
    pub fn namespace(&self) -> &Namespace {
        &self.ns
    }

    /// Opens, locks, delegations and layouts. Never hold the guard across an `await`.
    pub fn state(&self) -> Guard<'_, FileStates> {
        self.state.lock()
    }

    /// Whether anybody holds a delegation: without the mutex, since every GETATTR asks.
    pub(crate) fn has_delegations(&self) -> bool {
        self.state.has(DELEGATIONS)
    }

    /// Data servers, layouts and proxy I/O.
    pub fn data(&self) -> &DataPlane {
        &self.data
    }

    pub(crate) fn delegating(&self) -> &Delegating {
        &self.delegating
    }

    /// Access times that are not stored yet.
    pub(crate) fn atimes(&self) -> &Atimes {
        &self.atimes
    }

    /// Users and groups.
    pub(crate) fn identities(&self) -> &Identities {
        &self.identities
    }

    /// One permit for each CB_NOTIFY_LOCK under way.
    pub(crate) fn lock_notifications(&self) -> &Arc<Semaphore> {
        &self.lock_notifications
    }

    /// Wall time.
    pub fn now(&self) -> Time {
        (self.clock)()
    }

    /// Identity of the cluster.
    pub fn cluster_id(&self) -> u64 {
        self.ns.cluster_id()
    }

    /// Lease of clients in milliseconds.
    pub fn lease_ms(&self) -> u64 {
        self.lease_ms
    }

    pub(crate) fn is_swept(&self) -> bool {
        self.swept.load(Relaxed)
    }

    pub(crate) fn set_swept(&self) {
        self.swept.store(true, Relaxed);
    }

    /// The metadata store.
    pub fn store(&self) -> &Arc<dyn MetaStore> {
        self.ns.store()
    }

    /// Waits until a transaction is durable.
    ///
    /// # Errors
    /// `ServerFault` when the store has failed.
    pub(crate) async fn durable(&self, seq: Seq) -> Result<(), NfsStatus> {
        self.store().durable(seq).await.map_err(|error| {
            tracing::error!(%error, "metadata store");
            NfsStatus::ServerFault
        })
    }

    /// One pass of everything that time brings: leases, grace, recalls, removals. To be called about every second.
    pub async fn tick(nfsd: &Nfsd<Self>) {
        nfsd.expire().await;
        ops::client_record::poll_grace(nfsd).await;
        ops::client_record::note_idle(nfsd);
        if let Some(me) = nfsd.role().data().service() {
            delegations::tick(&me);
        }
        persist::sweep(nfsd);
        atimes::tick(nfsd.role());
        if let Some(me) = nfsd.role().data().service() {
            me.recall_slots();
        }
        DataPlane::tick(nfsd).await;
    }
}

impl Role for Mds {
    type Caller = Caller;

    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn admits(&self, peer: IpAddr) -> bool {
        self.exports.contains(peer)
    }

    async fn prepare(&self, cred: &Credential<'_>) {
        if let Credential::Sys(sys) = cred
            && self.identities.manages_groups()
        {
            self.identities.learn([Question::Groups(sys.uid)]).await;
        }
    }

    fn admit(&self, conn: &ConnHandle, cred: &Credential<'_>) -> Result<Caller, AuthStat> {
        // A connection within the process (tests, the simulator) comes from this machine.
        let peer = conn
            .peer()
            .socket()
            .map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |a| a.ip());
        let looked_up;
        let identity = match cred {
            Credential::Sys(sys) => {
                looked_up = self.identities.groups(sys.uid);
                let groups = looked_up.as_deref().unwrap_or(&sys.gids);
                Some((sys.uid, sys.gid, groups))
            }
            _ => None,
        };
        let admitted = self
            .exports
            .admit(peer, identity)
            .ok_or(AuthStat::TooWeak)?;
        Ok(Caller {
            cred: Cred {
                is_root: admitted.uid == 0,
                uid: admitted.uid,
                gid: admitted.gid,
                groups: admitted.gids,
            },
            read_only: admitted.read_only,
            atime: admitted.atime,
        })
    }

    fn root(&self) -> Result<FileHandle, NfsStatus> {
        let cred = Cred::root();
        let mut op = namespace::Op::new(&cred, self.now());
        let root = self.ns.getattr(&mut op, namespace::FileId::ROOT);
        root.map(|root| cx::handle_of(self, &root))
            .map_err(|e| cx::status(&e))
    }

    fn put_fh(&self, fh: &[u8]) -> Result<(), NfsStatus> {
        cx::parse(self, fh).map(drop)
    }

    async fn perform<'r>(
        nfsd: &'r Nfsd<Self>,
        cx: &mut Cx<'r>,
        op: OpNum,
        args: &mut OpReader<'r>,
        reply: &mut ReplyWriter<OpNum>,
    ) -> NfsStatus {
        ops::perform(nfsd, cx, op, args, reply).await
    }

    async fn settle(&self, cx: &Cx<'_>) -> Result<(), NfsStatus> {
        self.durable(Seq(cx.observed_seq)).await
    }

    fn sequence_flags(&self, client: ClientId) -> u32 {
        if !self.state.has(REVOKED) {
            return 0;
        }
        self.state().revoked_flags(client)
    }

    fn persists(&self) -> bool {
        true
    }

    fn keep(&self, slot: SlotOf, reply: &[u8]) -> Result<u64, NfsStatus> {
        persist::keep(self, slot, reply)
    }

    fn kept(&self, slot: SlotOf) -> Result<Option<Bytes>, NfsStatus> {
        persist::kept(self, slot)
    }

    fn is_ended(&self, file: &FileHandle) -> Result<(), NfsStatus> {
        persist::is_ended(self, file)
    }

    fn session_destroyed(&self, session: SessionId) {
        persist::destroyed(self, session);
    }

    fn has_state(&self, client: ClientId) -> bool {
        self.state().has_state(client)
    }

    async fn client_removed(nfsd: &Nfsd<Self>, removed: Removed) {
        ops::client_record::removed(nfsd, removed).await;
    }

    async fn reclaim_complete(nfsd: &Nfsd<Self>, client: ClientId) -> Result<(), NfsStatus> {
        ops::client_record::reclaim_complete(nfsd, client).await
    }
}

/// Durable records of clients, as read from the store.
pub(crate) type Records = Vec<ClientRecord>;
