//! A metadata server in memory without data servers, so that files are inline, and calls that are written by hand.

#![allow(dead_code, unreachable_pub, reason = "each test uses a part of it")]
#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "a test fails by it"
)]

use bytes::Bytes;
use cluster::KeyTimes;
use fs::{Creation, DataConfig};
use mds::identities::IdentityConfig;
use mds::{Mds, MdsConfig};
use meta::{MemStore, MetaStore};
use namespace::{NamespaceLimits, Time};
use nfs3::mount::{self, MntArgs, MntRes};
use nfs3::procs::*;
use nfs3::{DirOpArgs, Nfs3Status, ProcArgs, Sattr3};
use ropewalk_mds3::{Mount, Nfs3, Nlm, Nsm};
use rpc::{AuthSys, CallRefusal, CallStart, OpaqueAuth, ReplyHeader, ReplyVerdict};
use rpc_service::{DynProgram, Program, serve};
use server::Nfsd;
use server::exports::{Exports, Squash};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use transport::memory::MemoryNetwork;
use transport::workers::Shutdown;
use transport::{Address, ConnHandle, Connector, Context, NoService, Preference, TransportLimits};
use xdr::{Decode, Decoder, Encode, Encoder, Opaque};

pub const INLINE_BYTES: u64 = 32 << 10;

pub struct Rig {
    pub network: MemoryNetwork,
    pub nfs: Nfs3,
    pub mount: Mount,
    pub nfsd: Arc<Nfsd<Mds>>,
    pub nlm: Arc<Nlm>,
    pub nsm: Arc<Nsm>,
    pub conn: ConnHandle,
    /// The handle of the root.
    pub root: Vec<u8>,
    pub xid: AtomicU64,
    _shutdown: Shutdown,
}

pub async fn connect(network: &MemoryNetwork) -> ConnHandle {
    connect_as(network, "client").await
}

/// A connection of this host.
pub async fn connect_as(network: &MemoryNetwork, host: &str) -> ConnHandle {
    let context = Context::new(TransportLimits::default());
    let address = Address::Memory("mds".into());
    let connector = network.connector(host, context);
    let conn = connector.connect(&address, NoService::shared()).await;
    conn.expect("it listens")
}

impl Rig {
    pub async fn new() -> Self {
        Self::over(Arc::new(MemStore::new())).await
    }

    /// Over a store that an earlier server may have used.
    pub async fn over(store: Arc<dyn MetaStore>) -> Self {
        let mut rig = Self::unmounted(store, Exports::loopback(Squash::None)).await;
        rig.root = rig.mnt(b"/").await.expect("the root");
        rig
    }

    /// With an export list, before the root is mounted. Callers over memory count as this machine's.
    pub async fn unmounted(store: Arc<dyn MetaStore>, exports: Exports) -> Self {
        let network = MemoryNetwork::default();
        let context = || Context::new(TransportLimits::default());
        let numbers = AtomicU64::new(1);
        let config = MdsConfig {
            delegations: None,
            delegates_times: false,
            serves_minor_0: false,
            store,
            exports,
            identities: IdentityConfig::default(),
            lease_ms: 30_000,
            clock: Arc::new(|| Time {
                secs: 1_000_000,
                nanos: 7,
            }),
            random: Arc::new(move || numbers.fetch_add(0x9e37_79b9_7f4a_7c15, Relaxed)),
            limits: NamespaceLimits::default(),
            data: DataConfig {
                stripe_unit_bytes: 4096,
                copies_min: 1,
                copies: 1,
                replace_after: Duration::from_secs(600),
                mds_threshold_bytes: 0,
                inline_max_bytes: INLINE_BYTES,
                copy_async_above_bytes: fs::COPY_ASYNC_ABOVE_BYTES,
                creation: Creation::Lazy,
                foreign_pool: 4,
                ds_lease_ms: 3_000,
                connector: Arc::new(network.connector("mds-proxy", context())),
                proxy_transport: Preference::Auto,
                data_transport: Preference::Auto,
                keys: KeyTimes {
                    rotation_ms: 3_600_000,
                    overlap_ms: 600_000,
                },
            },
        };
        let nfsd = Mds::open(config).await.expect("an empty store");
        let shutdown = Shutdown::new();
        let listener = network.listen("mds").expect("a free name");
        let connector = Arc::new(network.connector("mds", context()));
        let nlm = Arc::new(Nlm::new(nfsd.clone(), connector.clone()));
        let nsm = Arc::new(Nsm::new(nfsd.clone(), connector));
        let programs: Vec<Arc<dyn DynProgram>> = vec![nlm.clone(), nsm.clone()];
        let served = Arc::new(nfsd.clone().with_programs(programs));
        tokio::spawn(listener.serve(served, context(), shutdown.signal()));
        Self {
            conn: connect(&network).await,
            network,
            nfs: Nfs3::new(nfsd.clone()),
            mount: Mount::new(nfsd.clone()),
            nfsd,
            nlm,
            nsm,
            root: Vec::new(),
            xid: AtomicU64::new(1),
            _shutdown: shutdown,
        }
    }

    /// A record of a call by root.
    pub fn record(
        &self,
        (program, version, procedure): (u32, u32, u32),
        args: &impl Encode,
    ) -> Bytes {
        let user = AuthSys {
            stamp: 0,
            machine: b"m".to_vec(),
            uid: 0,
            gid: 0,
            gids: vec![],
        };
        let mut e = Encoder::new();
        CallStart {
            xid: u32::try_from(self.xid.fetch_add(1, Relaxed)).unwrap(),
            program,
            version,
            procedure,
            credential: OpaqueAuth {
                flavor: rpc::flavor::AUTH_SYS,
                body: &user.to_body(),
            },
            verifier: OpaqueAuth::NONE,
        }
        .encode(&mut e);
        args.encode(&mut e);
        e.into_bytes().into()
    }

    pub fn record_of<A: ProcArgs>(&self, args: &A) -> Bytes {
        self.record((nfs3::PROGRAM, nfs3::VERSION, A::PROC as u32), args)
    }

    /// The result of a call.
    pub async fn call<A: ProcArgs>(&self, args: &A) -> Vec<u8> {
        send(&self.nfs, &self.conn, &self.record_of(args))
            .await
            .unwrap()
    }

    pub async fn mnt(&self, path: &[u8]) -> Result<Vec<u8>, mount::MountStatus> {
        let args = MntArgs {
            dirpath: Opaque(path),
        };
        let id = (mount::PROGRAM, mount::VERSION, mount::Proc::Mnt as u32);
        let body = send(&self.mount, &self.conn, &self.record(id, &args)).await;
        match xdr::decode_all::<MntRes<'_>>(&body.unwrap()).unwrap() {
            MntRes::Ok(ok) => Ok(ok.fhandle.0.to_vec()),
            MntRes::Fail(status) => Err(status),
        }
    }

    pub fn at<'a>(&'a self, name: &'a str) -> DirOpArgs<'a> {
        DirOpArgs {
            dir: Opaque(&self.root),
            name: Opaque(name.as_bytes()),
        }
    }

    /// Makes a file; returns its handle.
    pub async fn create(&self, name: &str) -> Vec<u8> {
        let args = CreateArgs {
            place: self.at(name),
            how: CreateHow::Guarded(Sattr3::default()),
        };
        let body = self.call(&args).await;
        let made = CreateArgs::decode_res(&body)
            .unwrap()
            .into_result()
            .unwrap();
        assert!(made.dir_wcc.before.is_some() && made.dir_wcc.after.is_some());
        made.obj.expect("a handle").0.to_vec()
    }

    pub async fn lookup(&self, name: &str) -> Nfs3Status {
        let args = LookupArgs {
            what: self.at(name),
        };
        let body = self.call(&args).await;
        LookupArgs::decode_res(&body).unwrap().status()
    }
}

/// The body of a reply, or why there is none.
pub async fn send<P: Program>(
    program: &P,
    conn: &ConnHandle,
    record: &Bytes,
) -> Result<Vec<u8>, CallRefusal> {
    let reply = serve(program, &[], conn, record).await.expect("an answer");
    let reply = reply.flatten().unwrap();
    let mut d = Decoder::new(&reply);
    match ReplyHeader::decode(&mut d).unwrap().verdict {
        ReplyVerdict::Success { .. } => Ok(d.rest().to_vec()),
        ReplyVerdict::Error(refusal) => Err(refusal),
    }
}
