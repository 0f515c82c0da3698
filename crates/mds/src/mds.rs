//! The metadata server as a role of the COMPOUND engine.
//!
//! # Ownership
//! [`Mds`] owns what is between the wire and the file service: exports and identities. The file service is shared by
//! `Arc` with the work that outlives its COMPOUND.
//!
//! # Ordering
//! A client's durable record (rule R18) precedes the reply that grants its first state; its deletion precedes what
//! others are granted in its place.
//!
//! # Failure
//! When the store fails, replies stop: [`server::Role::settle`] fails and the connection is closed.

use crate::cx::Cx;
use crate::identities::{Identities, IdentityConfig, Question};
use crate::ops;
use bytes::Bytes;
use client_table::ClientTable;
use cluster::Random;
use fs::{Actor, DataConfig, Fs, FsConfig, FsError, WallClock};
use meta::{MetaStore, Seq};
use namespace::{Cred, Format, Limits, Namespace};
use nfs4::ops::EXCHGID_USE_PNFS_MDS;
use nfs4::{ClientId, FileHandle, NfsStatus, OpNum, OpReader, ReplyWriter, SessionId};
use rpc::AuthStat;
use server::exports::{Atime, Exports};
use server::{Identity, Nfsd, Role, SessionContext, User};
use state::{ClientLimits, Clients, DelegationLimits, Grace, Removed, SlotOf};
use std::net::{IpAddr, Ipv4Addr};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use transport::ConnHandle;

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

/// The metadata server.
pub struct Mds {
    pub(crate) fs: Arc<Fs>,
    identity: Identity,
    exports: Exports,
    identities: Identities,
}

impl Mds {
    /// Opens (or formats) the store and makes the service. Its `boot` number is durable when this returns.
    ///
    /// # Errors
    /// [`FsError`].
    pub async fn open(config: MdsConfig) -> Result<Arc<Nfsd<Self>>, FsError> {
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
        let records = fs::load_client_records(&*store)?;
        let lease_ms = config.lease_ms;
        let limits = ClientLimits {
            lease_ms,
            ..ClientLimits::default()
        };
        let clients = Clients::new(limits, ns.boot(), Grace::begin(records, 0, lease_ms));
        let clients = ClientTable::new(clients, Box::new(move || random()));
        let identity = Identity {
            major_id: format!("ropewalk-mds-{:016x}", ns.cluster_id()),
            role_flag: EXCHGID_USE_PNFS_MDS,
        };
        let fs = Fs::open(FsConfig {
            ns,
            clients: Arc::clone(&clients),
            lease_ms,
            clock: config.clock,
            random: config.random,
            data: config.data,
            delegations: config.delegations,
        })
        .await?;
        // Where nobody held anything nobody is waited for.
        fs::poll_grace(&fs).await;
        let mds = Self {
            fs,
            identity,
            exports: config.exports,
            identities: Identities::new(config.identities),
        };
        Ok(Nfsd::new(mds, clients))
    }

    /// The file service.
    pub fn fs(&self) -> &Arc<Fs> {
        &self.fs
    }

    /// Users and groups.
    pub(crate) fn identities(&self) -> &Identities {
        &self.identities
    }

    /// One pass of everything that time brings: leases, grace, recalls, removals. To be called about every second.
    pub async fn tick(nfsd: &Nfsd<Self>) {
        nfsd.expire().await;
        fs::tick(&nfsd.role().fs).await;
    }
}

/// The actor of a COMPOUND: whom an export lets in.
#[derive(Debug)]
pub struct MdsActor(Actor);

impl Deref for MdsActor {
    type Target = Actor;

    fn deref(&self) -> &Actor {
        &self.0
    }
}

impl DerefMut for MdsActor {
    fn deref_mut(&mut self) -> &mut Actor {
        &mut self.0
    }
}

impl server::Actor for MdsActor {
    fn enter(&mut self, session: &SessionContext) {
        let owner = Arc::clone(&session.owner);
        self.0.enter(session.client, owner, session.origin());
    }

    fn observe(&mut self, seq: u64) {
        self.0.observe(Seq(seq));
    }
}

impl Role for Mds {
    type Actor = MdsActor;

    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn admits(&self, peer: IpAddr) -> bool {
        self.exports.contains(peer)
    }

    async fn prepare(&self, user: &User) {
        match user {
            User::Sys(sys) if self.identities.manages_groups() => {
                self.identities.learn([Question::Groups(sys.uid)]).await;
            }
            User::Sys(_) | User::Nobody => {}
        }
    }

    fn admit(&self, conn: &ConnHandle, user: &User) -> Result<MdsActor, AuthStat> {
        // A connection within the process (tests, the simulator) comes from this machine.
        let peer = conn
            .peer()
            .socket()
            .map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |a| a.ip());
        let looked_up;
        let identity = match user {
            User::Sys(sys) => {
                looked_up = self.identities.groups(sys.uid);
                let groups = looked_up.as_deref().unwrap_or(&sys.gids);
                Some((sys.uid, sys.gid, groups))
            }
            User::Nobody => None,
        };
        let admitted = self
            .exports
            .admit(peer, identity)
            .ok_or(AuthStat::TooWeak)?;
        let cred = Cred {
            is_root: admitted.uid == 0,
            uid: admitted.uid,
            gid: admitted.gid,
            groups: admitted.gids,
        };
        let moves_atime = admitted.atime == Atime::Relatime;
        Ok(MdsActor(Actor::new(cred, admitted.read_only, moves_atime)))
    }

    fn root(&self) -> Result<FileHandle, NfsStatus> {
        let root = Actor::root().ns(&self.fs, |ns, op| ns.getattr(op, namespace::FileId::ROOT));
        root.map(|root| self.fs.handle_of(&root))
    }

    fn put_fh(&self, fh: &[u8]) -> Result<(), NfsStatus> {
        self.fs.parse_handle(fh).map(drop)
    }

    async fn perform<'r>(
        &'r self,
        cx: &mut Cx<'r>,
        op: OpNum,
        args: &mut OpReader<'r>,
        reply: &mut ReplyWriter<OpNum>,
    ) -> NfsStatus {
        ops::perform(self, cx, op, args, reply).await
    }

    async fn settle(&self, actor: &MdsActor) -> Result<(), NfsStatus> {
        self.fs.durable(actor.observed).await
    }

    fn sequence_flags(&self, client: ClientId) -> u32 {
        if !self.fs.has_revoked() {
            return 0;
        }
        self.fs.state().revoked_flags(client)
    }

    fn persists(&self) -> bool {
        true
    }

    fn keep(&self, slot: SlotOf, reply: &[u8]) -> Result<u64, NfsStatus> {
        fs::keep(&self.fs, slot, reply)
    }

    fn kept(&self, slot: SlotOf) -> Result<Option<Bytes>, NfsStatus> {
        fs::kept(&self.fs, slot)
    }

    fn is_ended(&self, file: &FileHandle) -> Result<(), NfsStatus> {
        fs::is_ended(&self.fs, file)
    }

    fn session_destroyed(&self, session: SessionId) {
        fs::destroyed(&self.fs, session);
    }

    fn has_state(&self, client: ClientId) -> bool {
        self.fs.state().has_state(client)
    }

    async fn client_removed(&self, removed: Removed) {
        fs::removed(&self.fs, removed).await;
    }

    async fn reclaim_complete(&self, client: ClientId) -> Result<(), NfsStatus> {
        fs::reclaim_complete(&self.fs, client).await
    }
}
