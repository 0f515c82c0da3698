//! What the metadata server is made of.
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

use crate::identities::{Identities, IdentityConfig};
use client_table::ClientTable;
use cluster::Random;
use fs::{DataConfig, Fs, FsConfig, FsError, WallClock};
use meta::MetaStore;
use namespace::{Format, Namespace, NamespaceLimits};
use nfs4::ops::EXCHGID_USE_PNFS_MDS;
use server::exports::Exports;
use server::{Nfsd, ServerIdentity};
use state::{ClientLimits, Clients, DelegationLimits, Grace};
use std::sync::Arc;
use tracing_mutex::parkinglot::RwLock;

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
    pub limits: NamespaceLimits,
    /// Data servers and layouts.
    pub data: DataConfig,
    /// How many delegations clients are granted; `None` for none at all.
    pub delegations: Option<DelegationLimits>,
    /// Whether clients that ask keep the times of files that they make and hold (RFC 9754 §5).
    pub delegates_times: bool,
    /// Whether NFSv4.0 is served.
    pub serves_minor_0: bool,
}

/// The metadata server.
pub struct Mds {
    pub(crate) fs: Arc<Fs>,
    pub(crate) identity: ServerIdentity,
    pub(crate) exports: RwLock<Exports>,
    pub(crate) identities: Identities,
    pub(crate) serves_minor_0: bool,
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
        clients.dials_by(Arc::clone(&config.data.connector));
        let identity = ServerIdentity {
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
            delegates_times: config.delegates_times,
        })
        .await?;
        // Where nobody held anything nobody is waited for.
        fs::poll_grace(&fs).await;
        let mds = Self {
            fs,
            identity,
            exports: RwLock::new(config.exports),
            identities: Identities::new(config.identities),
            serves_minor_0: config.serves_minor_0,
        };
        Ok(Nfsd::new(mds, clients))
    }

    /// The file service.
    pub fn fs(&self) -> &Arc<Fs> {
        &self.fs
    }

    /// Who may come in from now on. Connections stay; each request is judged by the exports of its time.
    pub fn set_exports(&self, exports: Exports) {
        *self.exports.write() = exports;
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
