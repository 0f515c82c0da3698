//! A metadata server over the memory transport, and a client's session to it.
#![allow(unreachable_pub, reason = "a module that several tests share")]
#![allow(dead_code, reason = "each test uses a part")]
#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]

pub mod cluster;
pub mod delegated;
pub mod file;
pub mod gate;
pub mod old;
pub mod real;

use ropewalk_mds as mds;

use ::cluster::{KeyTimes, Random};
use fs::{Creation, DataConfig};
use mds::identities::IdentityConfig;
use mds::{Mds, MdsConfig};
use meta::{MemStore, MetaStore};
use namespace::{NamespaceLimits, Time};
use nfs4::attr::Attrs;
use nfs4::ops::{
    GetAttrArgs, GetAttrRes, GetFhArgs, GetFhRes, LookupArgs, LookupRes, PutFhArgs, PutFhRes,
    PutRootFhArgs, PutRootFhRes, ReclaimCompleteArgs, ReclaimCompleteRes, SetAttrArgs, SetAttrRes,
};
use nfs4::{Bitmap, CompoundBuilder, Fattr, FileHandle, NfsStatus, Stateid, Verifier};
use rpc::AuthSys;
use server::Nfsd;
use server::exports::{Exports, Squash};
use session_client::{CallbackHandler, Caller, Outcome, Session, SessionConfig};
use state::DelegationLimits;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;
use transport::memory::{Faults, MemoryConnector, MemoryNetwork};
use transport::workers::Shutdown;
use transport::{Address, Connector, Context, Preference, TransportLimits};

/// Milliseconds between keys, and until layouts under the older one are recalled.
pub const KEY_TIMES: KeyTimes = KeyTimes {
    rotation_ms: 3_600_000,
    overlap_ms: 600_000,
};
/// Wall time at the start, in seconds.
pub const START_S: i64 = 1_000_000;
/// Lease of data servers.
pub const DS_LEASE_MS: u32 = 3_000;
/// Size below which the metadata server wants to write files itself.
pub const MDS_THRESHOLD_BYTES: u64 = 10_000;

pub struct Rig {
    pub network: MemoryNetwork,
    pub store: Arc<dyn MetaStore>,
    pub nfsd: Arc<Nfsd<Mds>>,
    /// Wall time in seconds.
    pub clock_s: Arc<AtomicI64>,
    /// That of clients' ends: each of their connections has a number of its own.
    context: Context,
    shutdown: Shutdown,
}

/// Lazy, but in the test program that goes through the tests of others once more.
pub fn creation() -> Creation {
    match env!("CARGO_CRATE_NAME") {
        "eager" => Creation::Eager,
        _ => Creation::Lazy,
    }
}

/// None, but in the test program that goes through the tests of others once more.
pub fn inline_max_bytes() -> u64 {
    match env!("CARGO_CRATE_NAME") {
        "inline" => 20_000,
        _ => 0,
    }
}

/// Seeded, so that runs repeat.
fn random(seed: u64) -> Random {
    let state = AtomicU64::new(seed);
    Arc::new(move || {
        let x = state.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    })
}

/// A store with what another one has at this moment.
pub fn copy_of(store: &dyn MetaStore) -> MemStore {
    let copy = MemStore::new();
    let pairs = store.scan(&[], &[0xff], usize::MAX).unwrap();
    let put = &mut |tx: &mut dyn meta::Tx| {
        pairs.iter().for_each(|(key, value)| tx.put(key, value));
        Ok(meta::TxOutcome::Commit)
    };
    copy.transact(put).unwrap();
    copy
}

impl Rig {
    pub async fn new() -> Self {
        Self::over(Arc::new(MemStore::new())).await
    }

    pub async fn over(store: Arc<dyn MetaStore>) -> Self {
        Self::at(store, Arc::new(AtomicI64::new(START_S))).await
    }

    /// With the wall clock of an earlier run, or another.
    pub async fn at(store: Arc<dyn MetaStore>, clock_s: Arc<AtomicI64>) -> Self {
        Self::exporting(store, clock_s, Exports::loopback(Squash::None)).await
    }

    /// With an export list. Callers over the memory transport come from 127.0.0.1.
    pub async fn exporting(
        store: Arc<dyn MetaStore>,
        clock_s: Arc<AtomicI64>,
        exports: Exports,
    ) -> Self {
        Self::knowing(store, clock_s, exports, IdentityConfig::default()).await
    }

    /// With a directory of users and groups.
    pub async fn knowing(
        store: Arc<dyn MetaStore>,
        clock_s: Arc<AtomicI64>,
        exports: Exports,
        identities: IdentityConfig,
    ) -> Self {
        let all = DelegationLimits::default();
        let network = MemoryNetwork::default();
        Self::begin(network, store, clock_s, exports, identities, all).await
    }

    /// In a network that loses what `faults` says.
    pub async fn troubled(faults: Arc<dyn Faults>) -> Self {
        let clock_s = Arc::new(AtomicI64::new(START_S));
        Self::troubled_over(faults, Arc::new(MemStore::new()), clock_s).await
    }

    /// In such a network, over what an earlier run has stored.
    pub async fn troubled_over(
        faults: Arc<dyn Faults>,
        store: Arc<dyn MetaStore>,
        clock_s: Arc<AtomicI64>,
    ) -> Self {
        Self::begin(
            MemoryNetwork::new(faults),
            store,
            clock_s,
            Exports::loopback(Squash::None),
            IdentityConfig::default(),
            DelegationLimits::default(),
        )
        .await
    }

    /// With other limits of delegations.
    pub async fn delegating(delegations: DelegationLimits) -> Self {
        let clock_s = Arc::new(AtomicI64::new(START_S));
        let exports = Exports::loopback(Squash::None);
        let store = Arc::new(MemStore::new());
        Self::begin(
            MemoryNetwork::default(),
            store,
            clock_s,
            exports,
            IdentityConfig::default(),
            delegations,
        )
        .await
    }

    async fn begin(
        network: MemoryNetwork,
        store: Arc<dyn MetaStore>,
        clock_s: Arc<AtomicI64>,
        exports: Exports,
        identities: IdentityConfig,
        delegations: DelegationLimits,
    ) -> Self {
        let now_s = Arc::clone(&clock_s);
        let config = MdsConfig {
            delegations: Some(delegations),
            delegates_times: true,
            serves_minor_0: true,
            store: store.clone(),
            exports,
            identities,
            lease_ms: 30_000,
            clock: Arc::new(move || Time {
                secs: now_s.load(Ordering::Relaxed),
                nanos: 0,
            }),
            random: random(1),
            limits: NamespaceLimits::default(),
            data: DataConfig {
                stripe_unit_bytes: 4096,
                copies_min: 1,
                copies: 1,
                replace_after: Duration::from_secs(600),
                mds_threshold_bytes: MDS_THRESHOLD_BYTES,
                inline_max_bytes: inline_max_bytes(),
                copy_async_above_bytes: fs::COPY_ASYNC_ABOVE_BYTES,
                creation: creation(),
                foreign_pool: 4,
                ds_lease_ms: DS_LEASE_MS,
                connector: Arc::new(old::Dialer(
                    network.connector("mds-proxy", Context::new(TransportLimits::default())),
                )),
                proxy_transport: Preference::Auto,
                data_transport: Preference::Auto,
                keys: KEY_TIMES,
            },
        };
        let nfsd = Mds::open(config).await.unwrap();
        let listener = network.listen("mds").unwrap();
        let shutdown = Shutdown::new();
        let signal = shutdown.signal();
        let context = Context::new(TransportLimits::default());
        tokio::spawn(listener.serve(nfsd.clone(), context, signal));
        Self {
            network,
            store,
            nfsd,
            clock_s,
            context: Context::new(TransportLimits::default()),
            shutdown,
        }
    }

    /// A session of a new client, RECLAIM_COMPLETE already said.
    pub async fn session(&self, owner: &str) -> Client {
        self.session_of(owner, *b"boot0001", None).await
    }

    /// A client that has not said anything yet.
    pub fn stranger(
        &self,
        owner: &str,
        verifier: [u8; 8],
        callbacks: Option<Arc<dyn CallbackHandler>>,
    ) -> Client {
        let connector = self.connector(owner);
        Self::stranger_over(Arc::new(connector), owner, verifier, callbacks)
    }

    /// Makes connections that begin at `name`.
    pub fn connector(&self, name: &str) -> MemoryConnector {
        self.network.connector(name, self.context.clone())
    }

    /// As [`Rig::stranger`], over connections of another making.
    pub fn stranger_over(
        connector: Arc<dyn Connector>,
        owner: &str,
        verifier: [u8; 8],
        callbacks: Option<Arc<dyn CallbackHandler>>,
    ) -> Client {
        let caller = auth_sys(owner, 0);
        let config = SessionConfig {
            owner: owner.as_bytes().to_vec(),
            verifier: Verifier { bytes: verifier },
            addresses: vec![Address::Memory("mds".into())],
            role_flag: 0,
            minor_version: 2,
            caller: caller.clone(),
            slots: 16,
            connections: 1,
            callbacks,
            try_timeout: Duration::from_secs(5),
            give_up: Duration::from_secs(20),
        };
        let session = Session::new(connector, config);
        Client { session, caller }
    }

    /// A session of an incarnation of a client.
    pub async fn session_of(
        &self,
        owner: &str,
        verifier: [u8; 8],
        callbacks: Option<Arc<dyn CallbackHandler>>,
    ) -> Client {
        let client = self.stranger(owner, verifier, callbacks);
        client.session.establish().await.unwrap();
        client.reclaim_complete().await;
        client
    }
}

/// The credential of a user, whose group has the same number.
fn auth_sys(machine: &str, uid: u32) -> Caller {
    auth_sys_with(machine, uid, vec![])
}

/// The same with further groups.
fn auth_sys_with(machine: &str, uid: u32, gids: Vec<u32>) -> Caller {
    Caller::auth_sys(&AuthSys {
        stamp: 0,
        machine: machine.as_bytes().to_vec(),
        uid,
        gid: uid,
        gids,
    })
}

pub struct Client {
    pub session: Arc<Session>,
    pub caller: Caller,
}

impl Client {
    /// Another user of the same client, on the same session.
    pub fn user(&self, uid: u32) -> Self {
        Self {
            session: Arc::clone(&self.session),
            caller: auth_sys("client", uid),
        }
    }

    /// Another user who claims further groups.
    pub fn user_with(&self, uid: u32, gids: Vec<u32>) -> Self {
        Self {
            session: Arc::clone(&self.session),
            caller: auth_sys_with("client", uid, gids),
        }
    }

    pub async fn run(&self, build: impl Fn(&mut CompoundBuilder) + Send + Sync) -> Outcome {
        self.session
            .compound(&self.caller, &|b| {
                build(b);
                Vec::new()
            })
            .await
            .unwrap()
    }

    pub async fn reclaim_complete(&self) {
        let done = self
            .run(|b| {
                b.push(&ReclaimCompleteArgs { one_fs: false });
            })
            .await;
        let mut reply = done.results().unwrap();
        reply.take::<ReclaimCompleteRes>().unwrap();
    }

    /// The handle of a path from the root.
    pub async fn lookup(&self, path: &[&str]) -> Result<FileHandle, nfs4::OpError> {
        let done = self
            .run(|b| {
                b.push(&PutRootFhArgs {});
                for name in path {
                    b.push(&LookupArgs {
                        name: xdr::Opaque(name.as_bytes()),
                    });
                }
                b.push(&GetFhArgs {});
            })
            .await;
        let mut reply = done.results()?;
        reply.take::<PutRootFhRes>()?;
        for _ in path {
            reply.take::<LookupRes>()?;
        }
        Ok(FileHandle::from(reply.take::<GetFhRes<'_>>()?.object.0))
    }

    /// Runs operations on a file.
    pub async fn on(
        &self,
        fh: &FileHandle,
        build: impl Fn(&mut CompoundBuilder) + Send + Sync,
    ) -> Outcome {
        self.run(|b| {
            b.push(&PutFhArgs {
                object: xdr::Opaque(&fh.0),
            });
            build(b);
        })
        .await
    }

    /// GETATTR of these attributes.
    pub async fn attrs(&self, fh: &FileHandle, wanted: &[u32]) -> Result<Attrs, NfsStatus> {
        let attr_request = Bitmap::of(wanted);
        let done = self
            .on(fh, |b| {
                b.push(&GetAttrArgs { attr_request });
            })
            .await;
        let mut reply = after_putfh(&done);
        let got = reply.take::<GetAttrRes<'_>>();
        let got = got.map_err(|e| e.status().unwrap())?;
        Ok(got.attributes.attrs().unwrap())
    }

    /// SETATTR, and which attributes the server says that it has set.
    pub async fn set_attrs(
        &self,
        fh: &FileHandle,
        stateid: Stateid,
        attrs: &Attrs,
    ) -> Result<Bitmap, NfsStatus> {
        let fattr = Fattr::new(attrs);
        let done = self
            .on(fh, |b| {
                b.push(&SetAttrArgs {
                    stateid,
                    attrs: fattr.clone(),
                });
            })
            .await;
        match after_putfh(&done).take::<SetAttrRes>() {
            Ok(res) if res.status.is_ok() => Ok(res.attrsset),
            Ok(res) => Err(res.status),
            Err(e) => Err(e.status().unwrap()),
        }
    }
}

/// A reader after PUTFH.
pub fn after_putfh(done: &Outcome) -> nfs4::CompoundReply<'_> {
    let mut reply = done.results().unwrap();
    reply.take::<PutFhRes>().unwrap();
    reply
}
