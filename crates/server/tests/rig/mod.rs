//! A toy server behind the engine over the memory transport, and a client that writes COMPOUNDs by hand.
//!
//! The toy knows three operations. REMOVE counts (and, by its name, waits, panics or makes state). READLINK answers as
//! many bytes as the current handle says. READ answers a payload of the asked size.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "a module of several tests, each of which uses a part"
)]

use bytes::Bytes;
use client_table::ClientTable;
use nfs4::ops::*;
use nfs4::*;
use ropewalk_server as server;
use rpc::{AuthStat, AuthSys, CallStart, OpaqueAuth, ReplyHeader, ReplyVerdict};
use server::{Compound, Nfsd, Role, ServerIdentity, User, answer};
use state::{ClientLimits, Clients, Grace, RemovedClient, SlotOf};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use std::time::Duration;
use tokio::sync::Semaphore;
use tracing_mutex::parkinglot::Mutex;
use transport::memory::MemoryNetwork;
use transport::workers::Shutdown;
use transport::{
    Address, ConnHandle, Connector, Context, DynService, Message, NoService, Payload, Service,
    TransportLimits,
};
use xdr::{Decode, Decoder, Encode, Encoder, List, Opaque};

pub const REQUEST_MAX: u32 = 8192;
/// Bytes of replies that may be charged.
pub const SEND_MAX: u32 = 1024 * 1024;
pub const REPLY_MAX: u32 = 8192;
pub const CACHED_MAX: u32 = 1024;
pub const LEASE_MS: u64 = 30_000;

pub struct Toy {
    identity: ServerIdentity,
    /// REMOVEs executed.
    pub removes: AtomicU32,
    /// What "wait" waits for.
    pub gate: Semaphore,
    pub with_state: Mutex<BTreeSet<ClientId>>,
    pub removed: Mutex<Vec<RemovedClient>>,
    pub fail_settle: std::sync::atomic::AtomicBool,
    /// What outlives a server of persistent sessions.
    pub keeps: Option<Arc<Keeps>>,
}

/// A session id and a slot.
type SlotKey = ([u8; 16], u32);

/// Kept replies.
#[derive(Default)]
pub struct Keeps {
    pub slots: Mutex<BTreeMap<SlotKey, Vec<u8>>>,
    /// The server goes down before it keeps a whole reply.
    pub only_changes: std::sync::atomic::AtomicBool,
}

impl Toy {
    async fn remove(&self, client: ClientId, name: &[u8]) -> Result<RemoveRes, NfsStatus> {
        match name {
            b"panic" => panic!("asked for by the test"),
            b"wait" => self.gate.acquire().await.unwrap().forget(),
            _ => {}
        }
        if name == b"state" || name == b"wait" {
            self.with_state.lock().insert(client);
        }
        let before = u64::from(self.removes.fetch_add(1, SeqCst));
        Ok(RemoveRes {
            cinfo: ChangeInfo {
                atomic: true,
                before,
                after: before + 1,
            },
        })
    }
}

impl Role for Toy {
    type Actor = ();

    fn identity(&self) -> &ServerIdentity {
        &self.identity
    }

    fn admit(&self, _conn: &ConnHandle, user: &User) -> Result<(), AuthStat> {
        match user {
            User::Sys(sys) if sys.uid == 666 => Err(AuthStat::TooWeak),
            User::Sys(_) | User::Nobody => Ok(()),
        }
    }

    fn root(&self) -> Result<FileHandle, NfsStatus> {
        Ok(FileHandle::from(&b"root"[..]))
    }

    fn put_fh(&self, fh: &[u8]) -> Result<(), NfsStatus> {
        if fh.len() == 4 {
            Ok(())
        } else {
            Err(NfsStatus::BadHandle)
        }
    }

    async fn perform<'r>(
        &'r self,
        cx: &mut Compound<'r, Self::Actor>,
        op: OpNum,
        args: &mut OpReader<'r>,
        reply: &mut ReplyWriter<OpNum>,
    ) -> NfsStatus {
        match op {
            OpNum::Remove => match args.args::<RemoveArgs<'_>>() {
                Ok(a) => {
                    cx.args_read(args);
                    let client = cx.client().unwrap();
                    let res = self.remove(client, a.target.0).await;
                    if let Ok(res) = &res
                        && let Some((slot, bytes)) = cx.keeper().kept(res, None)
                    {
                        let keeps = self.keeps.as_ref().unwrap();
                        let key = (slot.session.bytes, slot.slot);
                        keeps.slots.lock().insert(key, bytes);
                    }
                    answer(reply, res)
                }
                Err(_) => answer::<RemoveRes>(reply, Err(NfsStatus::BadXdr)),
            },
            OpNum::ReadLink => {
                let size = u32::from_be_bytes(cx.fh().unwrap().try_into().unwrap());
                let link = vec![7; size as usize];
                answer(
                    reply,
                    Ok(ReadLinkRes {
                        link: Opaque(&link),
                    }),
                )
            }
            OpNum::Read => match args.args::<ReadArgs>() {
                Ok(a) => {
                    // As much as the offset says, so that a test can choose.
                    let bytes = u32::try_from(a.offset).unwrap();
                    if let Err(status) = cx.charge_reply(bytes).await {
                        reply.error(op, status);
                        return status;
                    }
                    let _ = reply.result(&ReadResPayload {
                        eof: true,
                        len: a.count,
                    });
                    cx.payloads
                        .push(Payload::Bytes(vec![9; a.count as usize].into()));
                    NfsStatus::Ok
                }
                Err(_) => {
                    reply.error(op, NfsStatus::BadXdr);
                    NfsStatus::BadXdr
                }
            },
            _ => {
                reply.error(op, NfsStatus::NotSupp);
                NfsStatus::NotSupp
            }
        }
    }

    async fn settle(&self, _actor: &()) -> Result<(), NfsStatus> {
        if self.fail_settle.load(SeqCst) {
            Err(NfsStatus::Io)
        } else {
            Ok(())
        }
    }

    fn persists(&self) -> bool {
        self.keeps.is_some()
    }

    fn keep(&self, slot: SlotOf, reply: &[u8]) -> Result<u64, NfsStatus> {
        let keeps = self.keeps.as_ref().unwrap();
        if keeps.only_changes.load(SeqCst) {
            return Err(NfsStatus::Io);
        }
        let key = (slot.session.bytes, slot.slot);
        keeps.slots.lock().insert(key, reply.to_vec());
        Ok(0)
    }

    fn kept(&self, slot: SlotOf) -> Result<Option<Bytes>, NfsStatus> {
        let keeps = self.keeps.as_ref().ok_or(NfsStatus::BadSession)?;
        let key = (slot.session.bytes, slot.slot);
        Ok(keeps.slots.lock().get(&key).cloned().map(Bytes::from))
    }

    fn has_state(&self, client: ClientId) -> bool {
        self.with_state.lock().contains(&client)
    }

    async fn client_removed(&self, removed: RemovedClient) {
        self.with_state.lock().remove(&removed.client);
        self.removed.lock().push(removed);
    }

    async fn reclaim_complete(&self, _client: ClientId) -> Result<(), NfsStatus> {
        Ok(())
    }
}

pub struct Rig {
    pub network: MemoryNetwork,
    pub nfsd: Arc<Nfsd<Toy>>,
    pub shutdown: Shutdown,
    context: Context,
}

impl Rig {
    pub fn new() -> Self {
        Self::keeping(None)
    }

    /// A server whose sessions may be persistent.
    pub fn keeping(keeps: Option<Arc<Keeps>>) -> Self {
        Self::with(keeps, |_| {})
    }

    /// A server with other limits.
    pub fn with(keeps: Option<Arc<Keeps>>, change: impl FnOnce(&mut ClientLimits)) -> Self {
        let mut limits = ClientLimits {
            lease_ms: LEASE_MS,
            courtesy_ms: 0,
            ..ClientLimits::default()
        };
        limits.channel.request_bytes_max = REQUEST_MAX;
        limits.channel.response_bytes_max = REPLY_MAX;
        limits.channel.response_cached_bytes_max = CACHED_MAX;
        change(&mut limits);
        let toy = Toy {
            identity: ServerIdentity {
                major_id: "toy-1".into(),
                role_flag: EXCHGID_USE_PNFS_MDS,
            },
            removes: AtomicU32::new(0),
            gate: Semaphore::new(0),
            with_state: Mutex::default(),
            removed: Mutex::default(),
            fail_settle: Default::default(),
            keeps,
        };
        let random = AtomicU64::new(1);
        let clients = Clients::new(limits, 7, Grace::begin(Vec::new(), 0, 0));
        let random = Box::new(move || random.fetch_add(0x9e37_79b9_7f4a_7c15, SeqCst));
        let nfsd = Nfsd::new(toy, ClientTable::new(clients, random));
        let network = MemoryNetwork::default();
        let listener = network.listen("server").unwrap();
        let context = Context::new(TransportLimits {
            drain: Duration::from_secs(1),
            send_budget_bytes: SEND_MAX,
            send_share_bytes: SEND_MAX,
            ..TransportLimits::default()
        });
        let shutdown = Shutdown::new();
        tokio::spawn(listener.serve(nfsd.clone(), context.clone(), shutdown.signal()));
        Self {
            network,
            nfsd,
            shutdown,
            context,
        }
    }

    pub async fn connect(&self) -> ConnHandle {
        self.connect_with(NoService::shared()).await
    }

    pub async fn connect_with(&self, reverse: Arc<dyn DynService>) -> ConnHandle {
        let connector = self
            .network
            .connector("client", Context::new(TransportLimits::default()));
        connector
            .connect(&Address::Memory("server".into()), reverse)
            .await
            .unwrap()
    }

    pub fn removes(&self) -> u32 {
        self.nfsd.role().removes.load(SeqCst)
    }

    pub fn malformed(&self) -> u64 {
        self.nfsd.counters().malformed.load(SeqCst)
    }

    /// A new client with one session.
    pub async fn mount(&self, owner: &str) -> Mounted {
        self.mount_on(self.connect().await, owner, CREATE_SESSION_CONN_BACK_CHAN)
            .await
    }

    pub async fn mount_on(&self, conn: ConnHandle, owner: &str, flags: u32) -> Mounted {
        let (client, sequence) = exchange(&conn, owner, 1).await;
        let created = create(&conn, client, sequence, flags).await.unwrap();
        Mounted {
            conn,
            client,
            session: created.session_id,
            created,
        }
    }

    /// Lets other tasks run until nothing moves (time is paused).
    pub async fn settle(&self) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }

    pub fn context(&self) -> &Context {
        &self.context
    }
}

pub struct Mounted {
    pub conn: ConnHandle,
    pub client: ClientId,
    pub session: SessionId,
    pub created: CreateSessionRes,
}

pub fn sys(uid: u32) -> Vec<u8> {
    AuthSys {
        stamp: 0,
        machine: b"m".to_vec(),
        uid,
        gid: 0,
        gids: vec![],
    }
    .to_body()
}

/// A whole RPC call by hand.
pub fn rpc_call(program: u32, version: u32, procedure: u32, flavor: u32, body: &[u8]) -> Encoder {
    let mut e = Encoder::new();
    CallStart {
        xid: 0,
        program,
        version,
        procedure,
        credential: OpaqueAuth { flavor, body },
        verifier: OpaqueAuth::NONE,
    }
    .encode(&mut e);
    e
}

pub fn compound_as(uid: u32, minor: u32, build: impl FnOnce(&mut CompoundBuilder)) -> Vec<u8> {
    let e = rpc_call(PROGRAM, VERSION, 1, rpc::flavor::AUTH_SYS, &sys(uid));
    let mut b = CompoundBuilder::new(e, b"tag", minor);
    build(&mut b);
    b.finish().into_bytes()
}

pub fn compound(build: impl FnOnce(&mut CompoundBuilder)) -> Vec<u8> {
    compound_as(0, 2, build)
}

/// Sends a record and returns the reply record.
pub async fn call(conn: &ConnHandle, record: Vec<u8>) -> Bytes {
    try_call(conn, record).await.expect("an answer")
}

pub async fn try_call(conn: &ConnHandle, record: Vec<u8>) -> Option<Bytes> {
    conn.call(Message::from_bytes(record), Duration::from_secs(60))
        .await
        .ok()
}

/// The bytes of a COMPOUND reply, without its RPC header.
pub fn body(record: &Bytes) -> &[u8] {
    let mut d = Decoder::new(record);
    let header = ReplyHeader::decode(&mut d).unwrap();
    assert!(
        matches!(header.verdict, ReplyVerdict::Success { .. }),
        "{:?}",
        header.verdict
    );
    d.rest()
}

pub fn verdict(record: &Bytes) -> rpc::CallRefusal {
    match ReplyHeader::decode(&mut Decoder::new(record))
        .unwrap()
        .verdict
    {
        ReplyVerdict::Error(verdict) => verdict,
        ReplyVerdict::Success { .. } => panic!("it succeeded"),
    }
}

pub fn reply(record: &Bytes) -> CompoundReply<'_> {
    CompoundReply::new(Decoder::new(body(record))).unwrap()
}

/// Number and status of the only result.
pub fn only(record: &Bytes) -> (u32, NfsStatus) {
    let mut reply = reply(record);
    assert_eq!(reply.left(), 1, "one result");
    let status = reply.status;
    let result = reply.next_result().unwrap().unwrap();
    assert_eq!(result.status, status);
    (result.op, status)
}

/// How the whole ended and how many results there are.
pub fn outcome(record: &Bytes) -> (NfsStatus, u32) {
    let reply = reply(record);
    (reply.status, reply.left())
}

pub fn sequence(session: SessionId, slot: u32, seqid: u32, cache: bool) -> SequenceArgs {
    SequenceArgs {
        session_id: session,
        sequence_id: seqid,
        slot_id: slot,
        highest_slot_id: slot,
        cache_this: cache,
    }
}

pub fn remove_op(name: &str) -> RemoveArgs<'_> {
    RemoveArgs {
        target: Opaque(name.as_bytes()),
    }
}

/// SEQUENCE, PUTROOTFH, REMOVE.
pub fn remove(session: SessionId, slot: u32, seqid: u32, name: &str) -> Vec<u8> {
    compound(|b| {
        b.push(&sequence(session, slot, seqid, true))
            .push(&PutRootFhArgs {})
            .push(&remove_op(name));
    })
}

pub fn exchange_args(owner: &[u8], boot: u8, flags: u32) -> ExchangeIdArgs<'_> {
    ExchangeIdArgs {
        client_owner: ClientOwner {
            verifier: Verifier { bytes: [boot; 8] },
            ownerid: Opaque(owner),
        },
        flags,
        state_protect: StateProtectArgs::None,
        client_impl_id: None,
    }
}

pub async fn exchange(conn: &ConnHandle, owner: &str, boot: u8) -> (ClientId, u32) {
    let record = call(
        conn,
        compound(|b| {
            b.push(&exchange_args(owner.as_bytes(), boot, 0));
        }),
    )
    .await;
    let res = reply(&record).take::<ExchangeIdRes<'_>>().unwrap();
    (res.clientid, res.sequence)
}

pub fn create_args(client: ClientId, sequence: u32, flags: u32) -> CreateSessionArgs<'static> {
    let attrs = ChannelAttrs {
        header_pad_bytes: 0,
        request_bytes_max: 1 << 20,
        response_bytes_max: 1 << 20,
        response_cached_bytes_max: 1 << 20,
        operations_max: 8,
        requests_max: 4,
        rdma_ird: None,
    };
    CreateSessionArgs {
        clientid: client,
        sequence,
        flags,
        fore_chan_attrs: attrs,
        back_chan_attrs: attrs,
        cb_program: 0x4000_0000,
        sec_parms: List(vec![CallbackSecParms::None]),
    }
}

pub async fn create(
    conn: &ConnHandle,
    client: ClientId,
    sequence: u32,
    flags: u32,
) -> Result<CreateSessionRes, OpError> {
    let record = call(
        conn,
        compound(|b| {
            b.push(&create_args(client, sequence, flags));
        }),
    )
    .await;
    reply(&record).take::<CreateSessionRes>()
}

/// What a client does with a callback: called with the record, returns the reply, or `None` for silence.
pub type OnCallback = dyn Fn(&Bytes) -> Option<Vec<u8>> + Send + Sync;

/// A reverse service that keeps what it got.
pub struct Reverse {
    pub seen: Mutex<Vec<Bytes>>,
    /// Program and version of each CB_NULL, which is answered here.
    pub probes: Mutex<Vec<(u32, u32)>>,
    pub on: Box<OnCallback>,
}

impl Reverse {
    pub fn new(on: impl Fn(&Bytes) -> Option<Vec<u8>> + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self {
            seen: Mutex::default(),
            probes: Mutex::default(),
            on: Box::new(on),
        })
    }

    pub fn count(&self) -> usize {
        self.seen.lock().len()
    }

    /// The n-th call without its transaction id, and its CB_SEQUENCE.
    pub fn nth(&self, n: usize) -> (Bytes, cb::CbSequenceArgs) {
        let record = self.seen.lock()[n].clone();
        (record.slice(4..), cb_sequence(&record))
    }
}

impl Service for Reverse {
    async fn call(&self, _conn: &ConnHandle, record: Bytes) -> Option<Message> {
        let header = rpc::CallHeader::decode(&mut Decoder::new(&record)).unwrap();
        if header.procedure == 0 {
            self.probes.lock().push((header.program, header.version));
            let mut e = Encoder::new();
            rpc::begin_success(&mut e, header.xid, OpaqueAuth::NONE);
            return Some(e.into());
        }
        self.seen.lock().push(record.clone());
        (self.on)(&record).map(Message::from_bytes)
    }
}

pub fn cb_sequence(record: &Bytes) -> cb::CbSequenceArgs {
    let mut d = Decoder::new(record);
    rpc::CallHeader::decode(&mut d).unwrap();
    let header = CbCompoundHeader::decode(&mut d).unwrap();
    let mut ops = OpReader::new(d, header.ops_count);
    assert_eq!(ops.next_op().unwrap().unwrap(), CbOpNum::Sequence as u32);
    ops.args().unwrap()
}

/// Answers CB_SEQUENCE and CB_RECALL with these statuses.
pub fn cb_answer(record: &Bytes, seq: NfsStatus, op: NfsStatus) -> Option<Vec<u8>> {
    let args = cb_sequence(record);
    let (xid, _) = rpc::peek(record).unwrap();
    let mut e = Encoder::new();
    rpc::begin_success(&mut e, xid, OpaqueAuth::NONE);
    let mut w = ReplyWriter::<CbOpNum>::new(e, b"");
    if seq != NfsStatus::Ok {
        w.error(CbOpNum::Sequence, seq);
        return Some(w.finish(seq).into_bytes());
    }
    let _ = w.result(&cb::CbSequenceRes {
        session_id: args.session_id,
        sequence_id: args.sequence_id,
        slot_id: args.slot_id,
        highest_slot_id: 3,
        target_highest_slot_id: 3,
    });
    w.error(CbOpNum::Recall, op);
    Some(w.finish(op).into_bytes())
}

pub fn recall(b: &mut CbCompoundBuilder) {
    b.push(&cb::CbRecallArgs {
        stateid: Stateid::default(),
        truncate: false,
        fh: Opaque(b"root"),
    });
}
