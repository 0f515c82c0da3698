//! Goal: each rule of a data server, from the wire. Method: a data server over stores in memory, a false MDS that
//! speaks the control program, and clients with real sessions. All are in one process under paused time. Handles are
//! signed by the test.

mod control_calls;
mod copies;
mod handles;
mod io;
mod joins;
mod lease;
mod power;
mod ranges;
mod rdma;
mod real;
mod registrations;
mod restart;
mod rows;
mod stable_writes;
mod stores;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use control::{
    Answer, HeartbeatOk, HelloArgs, HelloOk, ItemStatuses, KeySet, Refusal, Request, SizeOk,
    Status, ToMds, WroteItem,
};
use layout::{ClientTag, DsHandle, Epoch, Floor, KeyBytes, KeyRing, Rights, SigningKey};
use meta::{MemStore, MetaStore};
use nfs4::ops::{
    CommitArgs, CommitRes, PutFhArgs, PutFhRes, ReadArgs, ReadRes, WriteArgsPayload, WriteRes,
};
use nfs4::{NfsStatus, NfsTime, OpError, StableHow, Stateid, Verifier};
use objects::{MemObjects, MemOptions, ObjectStore};
use redo::{MemRedo, RedoLog};
use rpc::{AuthSys, CallHeader, OpaqueAuth};
use server::Nfsd;
use session_client::{Caller, Session, SessionConfig};
use tracing_mutex::parkinglot::Mutex;
use transport::memory::MemoryNetwork;
use transport::workers::Shutdown;
use transport::{Address, ConnHandle, Context, Message, Payload, Service, TransportLimits};
use xdr::{Decoder, Encode, Encoder, Opaque};

use crate::link::{self, LinkConfig, LinkEnd};
use crate::{Ds, DsConfig, LeaseState, LinkError, Membership};

pub(super) const CLUSTER: u64 = 0x0123_4567_89ab_cdef;
pub(super) const FILE: u64 = 77;
const BOOT: u32 = 5;
const LEASE_MS: u32 = 3_000;

thread_local! {
    /// The data server's wall clock.
    pub(super) static CLOCK_S: std::cell::Cell<i64> = const { std::cell::Cell::new(1_700_000_000) };
    /// How long its machine was suspended so far.
    pub(super) static SUSPENDED: std::cell::Cell<Duration> = const { std::cell::Cell::new(Duration::ZERO) };
}

pub(super) fn key(id: u32) -> SigningKey {
    SigningKey::new(id, KeyBytes::from_random([u8::try_from(id).unwrap(); 32]))
}

pub(super) fn ring(ids: std::ops::RangeInclusive<u32>) -> KeyRing {
    let mut ring = KeyRing::new();
    ids.for_each(|id| ring.insert_active(key(id)).unwrap());
    ring
}

pub(super) struct MdsState {
    pub(super) keys: KeyRing,
    pub(super) cluster_floor: Epoch,
    pub(super) floors_pending: bool,
    pub(super) answers_heartbeats: bool,
    pub(super) takes_changes: bool,
    /// Of the answers.
    pub(super) lease_ms: u32,
    pub(super) refuse_hello: Option<Status>,
    pub(super) refuse_wrote: Option<Status>,
    pub(super) sizes: HashMap<u64, u64>,
    pub(super) size_cache_ms: u32,
    pub(super) asked_sizes: u32,
    pub(super) wrote: Vec<WroteItem>,
    pub(super) wrote_messages: u32,
    pub(super) hellos: Vec<HelloArgs>,
    pub(super) heartbeats: Vec<control::HeartbeatArgs>,
    pub(super) conn: Option<ConnHandle>,
}

/// The false MDS.
pub(super) struct Mds {
    pub(super) state: Mutex<MdsState>,
    /// While it has no permit, WROTE is not answered.
    pub(super) wrote_gate: tokio::sync::Semaphore,
    /// While it has no permit, SIZE is answered with the size of when it came, but not yet.
    pub(super) size_gate: tokio::sync::Semaphore,
}

impl Mds {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(MdsState {
                keys: ring(1..=2),
                cluster_floor: Epoch::boot_floor(BOOT),
                floors_pending: false,
                answers_heartbeats: true,
                takes_changes: true,
                lease_ms: LEASE_MS,
                refuse_hello: None,
                refuse_wrote: None,
                sizes: HashMap::new(),
                size_cache_ms: 0,
                asked_sizes: 0,
                wrote: Vec::new(),
                wrote_messages: 0,
                hellos: Vec::new(),
                heartbeats: Vec::new(),
                conn: None,
            }),
            wrote_gate: tokio::sync::Semaphore::new(1),
            size_gate: tokio::sync::Semaphore::new(1),
        })
    }

    pub(super) fn conn(&self) -> ConnHandle {
        self.state.lock().conn.clone().expect("HELLO was said")
    }

    pub(super) async fn call<R: Request>(&self, args: &R) -> Result<R::Ok, Status> {
        match link::call(&self.conn(), args, Duration::from_secs(60)).await {
            Ok(ok) => Ok(ok),
            Err(LinkError::Refused(refusal)) => Err(refusal.status),
            Err(e) => panic!("control call: {e}"),
        }
    }

    pub(super) async fn fence(&self, floor: Floor) {
        let floors = vec![floor].into();
        self.call(&control::FenceArgs { floors }).await.unwrap();
    }

    async fn answer(&self, conn: &ConnHandle, call: ToMds, e: &mut Encoder) {
        if let ToMds::Wrote(args) = &call {
            drop(self.wrote_gate.acquire().await.unwrap());
            let mut state = self.state.lock();
            let refusal = state.refuse_wrote.map(|s| Refusal::new(s, "no"));
            state.wrote.extend(&args.items.0);
            state.wrote_messages += 1;
            let statuses: ItemStatuses = vec![Status::Ok; args.items.0.len()].into();
            return Answer::from(refusal.map_or(Ok(statuses), Err)).encode(e);
        }
        if let ToMds::Size(args) = &call {
            let (size, cache_ms) = {
                let mut state = self.state.lock();
                state.asked_sizes += 1;
                (state.sizes.get(&args.file_id).copied(), state.size_cache_ms)
            };
            drop(self.size_gate.acquire().await.unwrap());
            let answer = size.map(|size_bytes| SizeOk {
                size_bytes,
                cache_ms,
            });
            let none = || Refusal::new(Status::NotFound, "no such file");
            return Answer::from(answer.ok_or_else(none)).encode(e);
        }
        let silent = {
            let state = self.state.lock();
            matches!(call, ToMds::Heartbeat(_)) && !state.answers_heartbeats
        };
        if silent {
            std::future::pending::<()>().await;
        }
        let mut state = self.state.lock();
        match call {
            ToMds::Hello(args) => {
                state.hellos.push(args);
                state.conn = Some(conn.clone());
                if let Some(status) = state.refuse_hello {
                    return Answer::<()>::Refused(Refusal::new(status, "no")).encode(e);
                }
                Answer::Ok(HelloOk {
                    version: control::VERSION_MAX,
                    cluster_floor: state.cluster_floor,
                    lease_ms: state.lease_ms,
                    heartbeat_ms: state.lease_ms / 3,
                    keys: KeySet::of(&state.keys),
                    proxy_client: ClientTag::of(CLUSTER, b"mds"),
                    floors_pending: state.floors_pending,
                })
                .encode(e);
            }
            ToMds::Heartbeat(args) => {
                let changes = if state.takes_changes { args.changes } else { 0 };
                state.heartbeats.push(args);
                Answer::Ok(HeartbeatOk {
                    lease_ms: state.lease_ms,
                    cluster_floor: state.cluster_floor,
                    changes,
                    scrub_order: 0,
                    fill_bytes_per_s: 0,
                })
                .encode(e);
            }
            _ => panic!("not expected"),
        }
    }
}

impl Service for Mds {
    async fn call(&self, conn: &ConnHandle, record: Bytes) -> Option<Message> {
        let mut d = Decoder::new(&record);
        let header = CallHeader::decode(&mut d).unwrap();
        control::admit(header.program, header.version).unwrap();
        let call = ToMds::decode(header.procedure, d.rest()).unwrap();
        let mut e = Encoder::new();
        rpc::begin_success(&mut e, header.xid, OpaqueAuth::NONE);
        self.answer(conn, call, &mut e).await;
        Some(e.into())
    }
}

/// Room of a redo log.
const REDO_BYTES: u64 = 1 << 20;

/// Stores that outlive a data server.
#[derive(Clone)]
pub(super) struct Stores {
    pub(super) index: Arc<MemStore>,
    pub(super) objects: Arc<MemObjects>,
    pub(super) redo: Option<Arc<MemRedo>>,
}

impl Stores {
    pub(super) fn new() -> Self {
        Self {
            index: Arc::new(MemStore::new()),
            objects: Arc::new(MemObjects::new(MemOptions::default())),
            redo: None,
        }
    }

    /// Stores that remember what was synced.
    pub(super) fn manual() -> Self {
        Self {
            index: Arc::new(MemStore::manual()),
            objects: Arc::new(MemObjects::new(MemOptions {
                manual: true,
                ..MemOptions::default()
            })),
            redo: None,
        }
    }

    pub(super) fn disks(&self) -> Disks {
        let redo = self.redo.clone().map(|log| log as Arc<dyn RedoLog>);
        (self.index.clone(), self.objects.clone(), redo)
    }

    /// As [`Stores::manual`], with a redo log.
    pub(super) fn logged() -> Self {
        Self {
            redo: Some(Arc::new(MemRedo::manual(REDO_BYTES))),
            ..Self::manual()
        }
    }

    pub(super) fn after_crash(&self, seed: u64) -> Self {
        Self {
            index: Arc::new(self.index.after_crash()),
            objects: Arc::new(self.objects.after_crash(seed)),
            redo: self.redo.as_ref().map(|log| Arc::new(log.after_crash(0))),
        }
    }
}

pub(super) struct World {
    pub(super) network: MemoryNetwork,
    pub(super) context: Context,
    pub(super) mds: Arc<Mds>,
    pub(super) nfsd: Arc<Nfsd<Ds>>,
    link: Mutex<Option<tokio::task::JoinHandle<LinkEnd>>>,
    _shutdown: Shutdown,
}

impl Drop for World {
    /// As a crash of the data server.
    fn drop(&mut self) {
        if let Some(link) = self.link.lock().take() {
            link.abort();
        }
    }
}

pub(super) async fn open(
    index: Arc<dyn MetaStore>,
    objects: Arc<dyn ObjectStore>,
) -> Result<Arc<Nfsd<Ds>>, crate::OpenError> {
    open_with((index, objects, None), false).await
}

type Disks = (
    Arc<dyn MetaStore>,
    Arc<dyn ObjectStore>,
    Option<Arc<dyn RedoLog>>,
);

async fn open_with(
    (index, objects, redo): Disks,
    offload: bool,
) -> Result<Arc<Nfsd<Ds>>, crate::OpenError> {
    let seed = std::sync::atomic::AtomicU64::new(std::process::id().into());
    let random = move || {
        use std::hash::{BuildHasher, RandomState};
        RandomState::new().hash_one(seed.fetch_add(1, std::sync::atomic::Ordering::SeqCst))
    };
    Ds::open(DsConfig {
        index,
        objects,
        redo,
        random: Arc::new(random),
        clock: Arc::new(|| NfsTime {
            seconds: CLOCK_S.get(),
            nanoseconds: 5,
        }),
        lease_clock: {
            let awake = crate::virtual_lease_clock();
            Arc::new(move || awake() + SUSPENDED.get())
        },
        offload,
        peers: None,
        clients: state::ClientLimits::default(),
        sums: crate::sums::SumsConfig::default(),
    })
    .await
}

impl World {
    pub(super) async fn new() -> Self {
        Self::over(&Stores::new()).await
    }

    /// SET_SIZE with a floor of this run, which must be done.
    pub(super) async fn cut(&self, object: control::ObjectRef, size_bytes: u64, epoch: u32) {
        let items = vec![control::SetSizeItem {
            object,
            size_bytes,
            floor: Epoch::new(BOOT, epoch),
            through_key: 2,
        }];
        let items = items.into();
        let cut = self.mds.call(&control::SetSizeArgs { items }).await;
        assert_eq!(cut.unwrap().0, [Status::Ok]);
    }

    pub(super) async fn over(stores: &Stores) -> Self {
        Self::opened(stores.disks(), false).await
    }

    pub(super) async fn opened(disks: Disks, offload: bool) -> Self {
        let nfsd = open_with(disks, offload).await.unwrap();
        let world = Self::around(nfsd, Mds::new());
        world.until_serving().await;
        world
    }

    pub(super) async fn with(
        index: Arc<dyn MetaStore>,
        objects: Arc<dyn ObjectStore>,
        mds: Arc<Mds>,
    ) -> Self {
        let world = Self::unready(index, objects, mds).await;
        world.until_serving().await;
        world
    }

    /// Does not wait until the data server serves.
    pub(super) async fn unready(
        index: Arc<dyn MetaStore>,
        objects: Arc<dyn ObjectStore>,
        mds: Arc<Mds>,
    ) -> Self {
        Self::around(open(index, objects).await.unwrap(), mds)
    }

    /// With blocking calls on other threads.
    pub(super) async fn offloaded(
        index: Arc<dyn MetaStore>,
        objects: Arc<dyn ObjectStore>,
    ) -> Self {
        Self::opened((index, objects, None), true).await
    }

    fn around(nfsd: Arc<Nfsd<Ds>>, mds: Arc<Mds>) -> Self {
        let network = MemoryNetwork::default();
        let context = Context::new(TransportLimits::default());
        let shutdown = Shutdown::new();
        let listener = network.listen("mds").unwrap();
        tokio::spawn(listener.serve(mds.clone(), context.clone(), shutdown.signal()));
        let listener = network.listen("ds").unwrap();
        tokio::spawn(listener.serve(nfsd.clone(), context.clone(), shutdown.signal()));
        let config = LinkConfig {
            location: control::Text::default(),
            membership: Membership {
                cluster_id: CLUSTER,
                ds_id: 3,
            },
            connector: Arc::new(network.connector("ds", context.clone())),
            mds: vec![Address::Memory("mds".into())],
            advertise: Vec::new(),
        };
        let link = tokio::spawn(link::run(nfsd.clone(), config));
        Self {
            network,
            context,
            mds,
            nfsd,
            link: Mutex::new(Some(link)),
            _shutdown: shutdown,
        }
    }

    pub(super) fn ds(&self) -> &Ds {
        self.nfsd.role()
    }

    /// Waits for the end of the control link.
    pub(super) async fn ended(&self) -> LinkEnd {
        let link = self.link.lock().take().expect("the link ends once");
        link.await.unwrap()
    }

    pub(super) async fn until_serving(&self) {
        for _ in 0..10_000 {
            if matches!(self.ds().status().lease, LeaseState::Serving { .. }) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        panic!("never served: {:?}", self.ds().status().lease);
    }

    pub(super) async fn client(&self, owner: &[u8]) -> Client {
        let caller = Caller::auth_sys(&AuthSys {
            stamp: 0,
            machine: b"test".to_vec(),
            uid: 1000,
            gid: 1000,
            gids: Vec::new(),
        });
        let connector = self.network.connector("client", self.context.clone());
        let session = Session::new(
            Arc::new(connector),
            SessionConfig {
                owner: owner.to_vec(),
                verifier: Verifier { bytes: [9; 8] },
                addresses: vec![Address::Memory("ds".into())],
                role_flag: nfs4::ops::EXCHGID_USE_PNFS_DS,
                minor_version: 1,
                caller: caller.clone(),
                slots: 16,
                connections: 1,
                callbacks: None,
                try_timeout: Duration::from_secs(120),
                give_up: Duration::from_secs(120),
            },
        );
        session.establish().await.unwrap();
        Client { session, caller }
    }
}

pub(super) struct Client {
    pub(super) session: Arc<Session>,
    pub(super) caller: Caller,
}

/// As an MDS would give it out.
#[derive(Clone, Copy)]
pub(super) struct Grant {
    pub(super) handle: DsHandle,
    pub(super) key_id: u32,
}

impl Grant {
    pub(super) fn to(owner: &[u8]) -> Self {
        Self {
            handle: DsHandle {
                cluster_id: CLUSTER,
                file_id: FILE,
                generation: 1,
                place: None,
                rights: Rights::ReadWrite,
                epoch: Epoch::new(BOOT, 1),
                client: ClientTag::of(CLUSTER, owner),
            },
            key_id: 2,
        }
    }

    pub(super) fn epoch(mut self, counter: u32) -> Self {
        self.handle.epoch = Epoch::new(BOOT, counter);
        self
    }

    pub(super) fn file(mut self, file_id: u64) -> Self {
        self.handle.file_id = file_id;
        self
    }

    pub(super) fn fh(&self) -> Vec<u8> {
        self.handle.sign(&key(self.key_id)).as_bytes().to_vec()
    }
}

/// An open stateid of some MDS.
pub(super) const OPEN: Stateid = Stateid {
    seqid: 1,
    other: [0, 0, 0, 5, 1, 0, 0, 0, 0, 0, 0, 1],
};

fn status(e: OpError) -> NfsStatus {
    e.status().unwrap_or_else(|| panic!("reply: {e}"))
}

impl Client {
    pub(super) async fn read_as(
        &self,
        fh: &[u8],
        stateid: Stateid,
        offset: u64,
        count: u32,
    ) -> Result<(bool, Vec<u8>), NfsStatus> {
        let args = ReadArgs {
            stateid,
            offset,
            count,
        };
        let build = |b: &mut nfs4::CompoundBuilder| {
            b.push(&PutFhArgs { object: Opaque(fh) }).push(&args);
            Vec::new()
        };
        let outcome = self.session.compound(&self.caller, &build).await.unwrap();
        let mut reply = outcome.results().unwrap();
        reply.take::<PutFhRes>().map_err(status)?;
        let res = reply.take::<ReadRes<'_>>().map_err(status)?;
        Ok((res.eof, res.data.0.to_vec()))
    }

    pub(super) async fn read(
        &self,
        fh: &[u8],
        offset: u64,
        count: u32,
    ) -> Result<(bool, Vec<u8>), NfsStatus> {
        self.read_as(fh, OPEN, offset, count).await
    }

    pub(super) async fn write(
        &self,
        fh: &[u8],
        offset: u64,
        data: &[u8],
        stable: StableHow,
    ) -> Result<WriteRes, NfsStatus> {
        let args = WriteArgsPayload {
            stateid: OPEN,
            offset,
            stable,
            len: u32::try_from(data.len()).unwrap(),
        };
        let data = Bytes::copy_from_slice(data);
        let build = |b: &mut nfs4::CompoundBuilder| {
            b.push(&PutFhArgs { object: Opaque(fh) }).push(&args);
            vec![Payload::Bytes(data.clone())]
        };
        let outcome = self.session.compound(&self.caller, &build).await.unwrap();
        let mut reply = outcome.results().unwrap();
        reply.take::<PutFhRes>().map_err(status)?;
        reply.take::<WriteRes>().map_err(status)
    }

    pub(super) async fn commit(&self, fh: &[u8]) -> Result<Verifier, NfsStatus> {
        let args = CommitArgs {
            offset: 0,
            count: 0,
        };
        let build = |b: &mut nfs4::CompoundBuilder| {
            b.push(&PutFhArgs { object: Opaque(fh) }).push(&args);
            Vec::new()
        };
        let outcome = self.session.compound(&self.caller, &build).await.unwrap();
        let mut reply = outcome.results().unwrap();
        reply.take::<PutFhRes>().map_err(status)?;
        let res = reply.take::<CommitRes>().map_err(status)?;
        Ok(res.write_verifier)
    }
}
