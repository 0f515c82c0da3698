//! One session against a scripted server over the memory transport: what happens when records are lost, connections
//! break, and the server forgets. The server keeps one reply for each slot and writes down what it executed.

mod rails;

use crate::*;
use bytes::Bytes;
use nfs4::cb::{CbLayoutRecallArgs, CbRecallSlotArgs, CbSequenceArgs, CbSequenceRes, LayoutRecall};
use nfs4::ops::*;
use nfs4::*;
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;
use transport::memory::{Fate, Faults, MemoryNetwork, Passage};
use transport::rdma::{Rdma, RdmaConnector};
use transport::{
    Address, ConnHandle, Context, Message, Service, TransportLimits, workers::Shutdown,
};
use xdr::{Decode, Decoder, Encode, Encoder, List, Opaque};

#[derive(Default)]
struct State {
    boot: u64,
    sessions: HashSet<SessionId>,
    /// Sessions of before a restart, whose kept replies are all that is left of them.
    dead: HashSet<SessionId>,
    /// Sequence id, kept reply, and the request that it belongs to.
    slots: HashMap<u32, (u32, Vec<u8>, Vec<u8>)>,
    executed: Vec<Vec<u8>>,
    /// `sa_highest_slotid` of the requests in sessions.
    highest: Vec<u32>,
    connections: Vec<ConnHandle>,
    delays: u32,
    binds: u32,
    /// Requests in sessions, by the address that they came to.
    came_to: HashMap<String, u32>,
    /// Keep only the replies that the client asked to keep, as little as the RFC allows.
    frugal: bool,
    /// Bytes of the tag of each reply: a way to make it longer than anybody would guess.
    tag_bytes: usize,
}

#[derive(Default)]
struct FakeServer {
    state: Mutex<State>,
}

impl FakeServer {
    /// Forgets everything, as a restart would.
    fn restart(&self) {
        let mut s = self.state.lock();
        s.boot += 1;
        s.sessions.clear();
        s.slots.clear();
    }

    /// Forgets everything but the replies that persistent sessions keep.
    fn restart_persistent(&self) {
        let mut s = self.state.lock();
        s.boot += 1;
        s.dead = std::mem::take(&mut s.sessions);
        for conn in s.connections.drain(..) {
            conn.close(transport::CloseReason::Asked);
        }
    }

    fn executed(&self) -> Vec<String> {
        let s = self.state.lock();
        let text = |n: &Vec<u8>| String::from_utf8(n.clone()).unwrap();
        s.executed.iter().map(text).collect()
    }

    fn compound(&self, e: Encoder, mut d: Decoder<'_>) -> Encoder {
        let request = d.rest().to_vec();
        let header = CompoundHeader::decode(&mut d).unwrap();
        let mut ops = OpReader::new(d, header.ops_count);
        let mut s = self.state.lock();
        let mut reply: ReplyWriter<OpNum> = ReplyWriter::new(e, &vec![b't'; s.tag_bytes]);
        let first = OpNum::from_u32(ops.next_op().unwrap().unwrap()).unwrap();
        match first {
            OpNum::ExchangeId => {
                let args: ExchangeIdArgs<'_> = ops.args().unwrap();
                let _ = reply.result(&ExchangeIdRes {
                    clientid: ClientId { value: s.boot + 1 },
                    sequence: 1,
                    flags: args.flags,
                    state_protect: StateProtectRes::None,
                    server_owner: ServerOwner {
                        minor_id: 0,
                        major_id: Opaque(b"fake"),
                    },
                    server_scope: Opaque(b"fake"),
                    server_impl_id: None,
                });
            }
            OpNum::CreateSession => {
                let args: CreateSessionArgs<'_> = ops.args().unwrap();
                let mut id = SessionId::default();
                id.bytes[..8].copy_from_slice(&s.boot.to_be_bytes());
                id.bytes[14] = 1;
                id.bytes[15] = u8::try_from(s.sessions.len()).unwrap();
                s.sessions.insert(id);
                if s.dead.is_empty() {
                    s.slots.clear();
                }
                let _ = reply.result(&CreateSessionRes {
                    session_id: id,
                    sequence: args.sequence,
                    flags: args.flags,
                    fore_chan_attrs: ChannelAttrs {
                        requests_max: args.fore_chan_attrs.requests_max.min(4),
                        ..args.fore_chan_attrs
                    },
                    back_chan_attrs: args.back_chan_attrs,
                });
            }
            OpNum::BindConnToSession => {
                let args: BindConnToSessionArgs = ops.args().unwrap();
                if !s.sessions.contains(&args.session_id) {
                    reply.error(first, NfsStatus::BadSession);
                    return reply.finish(NfsStatus::BadSession);
                }
                s.binds += 1;
                let _ = reply.result(&BindConnToSessionRes {
                    session_id: args.session_id,
                    dir: ChannelDirFromServer::Both,
                    use_conn_in_rdma_mode: false,
                });
            }
            OpNum::Sequence => return Self::in_session(&mut s, reply, ops, request),
            op => reply.error(op, NfsStatus::Ok),
        }
        reply.finish(NfsStatus::Ok)
    }

    fn in_session(
        s: &mut State,
        mut reply: ReplyWriter<OpNum>,
        mut ops: OpReader<'_>,
        request: Vec<u8>,
    ) -> Encoder {
        let args: SequenceArgs = ops.args().unwrap();
        let refuse = |mut reply: ReplyWriter<OpNum>, status| {
            reply.error(OpNum::Sequence, status);
            reply.finish(status)
        };
        if s.dead.contains(&args.session_id) {
            let kept = s.slots.get(&args.slot_id);
            let is_retry = kept.is_some_and(|(_, _, first)| *first == request);
            if !is_retry {
                return refuse(reply, NfsStatus::DeadSession);
            }
        } else if !s.sessions.contains(&args.session_id) {
            return refuse(reply, NfsStatus::BadSession);
        }
        s.highest.push(args.highest_slot_id);
        if s.delays > 0 {
            s.delays -= 1;
            return refuse(reply, NfsStatus::Delay);
        }
        match s.slots.get(&args.slot_id) {
            Some((seqid, _, first)) if *seqid == args.sequence_id && *first != request => {
                return refuse(reply, NfsStatus::SeqFalseRetry);
            }
            Some((seqid, cached, _)) if *seqid == args.sequence_id => {
                if cached.is_empty() {
                    return refuse(reply, NfsStatus::RetryUncachedRep);
                }
                let header = reply.encoder().as_bytes()[..RPC_HEADER_BYTES].to_vec();
                let mut e = Encoder::with_buffer(header);
                e.raw(cached);
                return e;
            }
            Some((seqid, ..)) if seqid.wrapping_add(1) != args.sequence_id => {
                return refuse(reply, NfsStatus::SeqMisordered);
            }
            None if args.sequence_id != 1 => return refuse(reply, NfsStatus::SeqMisordered),
            _ => {}
        }
        let _ = reply.result(&SequenceRes {
            session_id: args.session_id,
            sequence_id: args.sequence_id,
            slot_id: args.slot_id,
            highest_slot_id: 3,
            target_highest_slot_id: 3,
            status_flags: 0,
        });
        while let Some(op) = ops.next_op() {
            assert_eq!(op.unwrap(), OpNum::Remove as u32);
            let remove: RemoveArgs<'_> = ops.args().unwrap();
            s.executed.push(remove.target.0.to_vec());
            let _ = reply.result(&RemoveRes {
                cinfo: ChangeInfo::default(),
            });
        }
        let e = reply.finish(NfsStatus::Ok);
        let kept = if s.frugal && !args.cache_this {
            Vec::new()
        } else {
            e.as_bytes()[RPC_HEADER_BYTES..].to_vec()
        };
        s.slots
            .insert(args.slot_id, (args.sequence_id, kept, request));
        e
    }
}

/// A successful reply's header: xid, direction, accepted, verifier, success.
const RPC_HEADER_BYTES: usize = 24;

impl Service for FakeServer {
    async fn call(&self, conn: &ConnHandle, record: Bytes) -> Option<Message> {
        let mut d = Decoder::new(&record);
        let header = rpc::CallHeader::decode(&mut d).unwrap();
        let mut e = Encoder::new();
        rpc::begin_success(&mut e, header.xid, rpc::OpaqueAuth::NONE);
        assert_eq!(e.len(), RPC_HEADER_BYTES);
        let mut state = self.state.lock();
        *state.came_to.entry(conn.local().to_string()).or_default() += 1;
        drop(state);
        Some(self.compound(e, d).into())
    }

    fn connected(&self, conn: &ConnHandle) {
        self.state.lock().connections.push(conn.clone());
    }
}

type Judge = Box<dyn Fn(&Passage<'_>) -> Fate + Send + Sync>;

struct Script(Mutex<Judge>);

impl Faults for Script {
    fn fate(&self, passage: &Passage<'_>) -> Fate {
        (self.0.lock())(passage)
    }
}

struct World {
    server: Arc<FakeServer>,
    session: Arc<Session>,
    script: Arc<Script>,
    network: MemoryNetwork,
    _shutdown: Shutdown,
}

impl World {
    fn new(callbacks: Option<Arc<dyn CallbackHandler>>) -> Self {
        let script = Arc::new(Script(Mutex::new(Box::new(|_| Fate::Deliver))));
        let network = MemoryNetwork::new(Arc::clone(&script) as Arc<dyn Faults>);
        let server = Arc::new(FakeServer::default());
        let (shutdown, context) = (Shutdown::new(), Context::new(TransportLimits::default()));
        let listener = network.listen("server").unwrap();
        tokio::spawn(listener.serve(server.clone(), context.clone(), shutdown.signal()));
        let config = SessionConfig {
            owner: b"test".to_vec(),
            verifier: Verifier::default(),
            addresses: vec![Address::Memory("server".to_owned())],
            role_flag: 0,
            minor_version: 1,
            caller: caller(),
            slots: 8,
            connections: 1,
            callbacks,
            try_timeout: Duration::from_secs(5),
            give_up: Duration::from_secs(60),
        };
        let session = Session::new(Arc::new(network.connector("client", context)), config);
        Self {
            server,
            session,
            script,
            network,
            _shutdown: shutdown,
        }
    }

    async fn established(callbacks: Option<Arc<dyn CallbackHandler>>) -> Self {
        let world = Self::new(callbacks);
        world.session.establish().await.unwrap();
        world
    }

    /// From now on, the n-th record (from 0) of a direction meets this fate, all others are delivered.
    fn fault(&self, to_server: bool, number: u64, fate: Fate) {
        let count = AtomicU64::new(0);
        *self.script.0.lock() = Box::new(move |p| {
            if p.to_listener == to_server && count.fetch_add(1, SeqCst) == number {
                fate
            } else {
                Fate::Deliver
            }
        });
    }

    async fn remove(&self, name: &str) -> Result<Outcome, SessionError> {
        let build: &Build<'_> = &|b| {
            b.push(&RemoveArgs {
                target: Opaque(name.as_bytes()),
            });
            Vec::new()
        };
        self.session.compound_once(&caller(), build).await
    }
}

fn caller() -> Caller {
    Caller::auth_sys(&rpc::AuthSys {
        stamp: 0,
        machine: b"test".to_vec(),
        uid: 0,
        gid: 0,
        gids: Vec::new(),
    })
}

#[tokio::test(start_paused = true)]
async fn a_request_whose_reply_is_lost_or_cut_is_executed_once() {
    for fate in [Fate::Lose, Fate::Cut] {
        for to_server in [true, false] {
            let world = World::established(None).await;
            world.fault(to_server, 0, fate);
            let outcome = world.remove("a").await.unwrap();
            let mut results = outcome.results().unwrap();
            assert!(results.take::<RemoveRes>().is_ok(), "{fate:?} {to_server}");
            world.remove("b").await.unwrap();
            assert_eq!(world.server.executed(), ["a", "b"], "{fate:?} {to_server}");
        }
    }
}

/// A server with persistent sessions goes down after two changes whose replies nobody has seen. Binding a connection fails and
/// one request learns that the session is lost. Each still gets the answer of what was done, and what was not sent is told.
#[tokio::test(start_paused = true)]
async fn a_change_of_a_session_that_died_is_answered_and_not_made_again() {
    let world = World::established(Some(Arc::new(Recalls::default()))).await;
    *world.script.0.lock() = Box::new(|p| match p.to_listener {
        true => Fate::Deliver,
        false => Fate::Lose,
    });
    let (a, b, ()) = tokio::join!(world.remove("a"), world.remove("b"), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        *world.script.0.lock() = Box::new(|_| Fate::Deliver);
        world.server.restart_persistent();
        // Not changes: one that was not answered may be asked of a new session.
        assert!(matches!(
            world.session.renew().await,
            Err(SessionError::Lost)
        ));
        world.session.establish().await.unwrap();
    });
    for outcome in [a, b] {
        let outcome = outcome.unwrap();
        assert!(outcome.results().unwrap().take::<RemoveRes>().is_ok());
    }
    let mut executed = world.server.executed();
    executed.sort_unstable();
    assert_eq!(executed, ["a", "b"]);
    world.server.state.lock().dead.clear();
    world.server.state.lock().slots.clear();
    world.remove("c").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn another_transport_than_rdma_is_taken_only_behind_it_and_is_counted() {
    let world = World::new(None);
    let rdma = Address::Rdma(([127, 0, 0, 1], 1).into());
    let memory = Address::Memory("server".to_owned());
    for (addresses, fallbacks) in [
        (vec![memory.clone(), rdma.clone()], 0),
        (vec![rdma.clone(), memory.clone()], 1),
    ] {
        let context = Context::new(TransportLimits::default());
        let connector = Arc::new(world.network.connector("other", context.clone()));
        let config = SessionConfig {
            addresses,
            ..world.session.config().clone()
        };
        Session::new(connector, config).establish().await.unwrap();
        assert_eq!(context.counters().snapshot().rdma_fallbacks, fallbacks);
    }
    let connector = Arc::new(
        world
            .network
            .connector("other", Context::new(TransportLimits::default())),
    );
    let config = SessionConfig {
        addresses: vec![rdma],
        ..world.session.config().clone()
    };
    let alone = Session::new(connector, config).establish().await;
    assert!(
        matches!(alone, Err(SessionError::Unreachable(_))),
        "{alone:?}"
    );
}

/// The server over RDMA, with messages of 1 KiB.
struct OverRdma {
    session: Arc<Session>,
    served: Context,
    _shutdown: Shutdown,
}

impl OverRdma {
    async fn new(world: &World) -> Self {
        let config = transport::rdma::Config {
            inline_bytes: 1024,
            ..transport::rdma::Config::default()
        };
        let rdma = Rdma::new(Arc::new(fabric::mem::MemFabric::default()), config);
        let address = ([127, 0, 0, 1], 20049).into();
        let listener = transport::rdma::listen(address, &rdma).await.unwrap();
        let (shutdown, served) = (Shutdown::new(), Context::new(TransportLimits::default()));
        let (service, signal) = (world.server.clone(), shutdown.signal());
        tokio::spawn(transport::rdma::serve(
            vec![listener],
            rdma.clone(),
            service,
            served.clone(),
            signal,
        ));
        let config = SessionConfig {
            addresses: vec![Address::Rdma(address)],
            ..world.session.config().clone()
        };
        let connector = RdmaConnector::new(Context::new(TransportLimits::default()), vec![rdma]);
        let session = Session::new(Arc::new(connector), config);
        session.establish().await.unwrap();
        Self {
            session,
            served,
            _shutdown: shutdown,
        }
    }

    async fn remove(&self, name: &[u8], is_kept: bool) {
        let caller = caller();
        let build: &Build<'_> = &|b| {
            b.push(&RemoveArgs {
                target: Opaque(name),
            });
            Vec::new()
        };
        let asked = match is_kept {
            true => self.session.compound_once(&caller, build).await,
            false => self.session.compound(&caller, build).await,
        };
        let outcome = asked.unwrap();
        assert!(outcome.results().unwrap().take::<RemoveRes>().is_ok());
    }
}

#[tokio::test(start_paused = true)]
async fn a_reply_without_room_is_asked_for_again_with_more_and_executed_once() {
    let world = World::new(None);
    let over = OverRdma::new(&world).await;
    over.remove(b"short", true).await;
    assert_eq!(over.served.counters().snapshot().rdma_calls_refused, 0);
    world.server.state.lock().tag_bytes = 1024;
    over.remove(b"long", true).await;
    assert_eq!(world.server.executed(), ["short", "long"]);
    let counted = over.served.counters().snapshot();
    assert_eq!(counted.rdma_calls_refused, 1);
    assert!(counted.rdma_reply_chunk_bytes_out > 1024);
}

/// The request is new then, and its reply is as long as before: an estimate that began anew would go round for ever.
#[tokio::test(start_paused = true)]
async fn a_reply_without_room_that_was_not_kept_is_asked_for_with_all_the_room_there_is() {
    let world = World::new(None);
    let over = OverRdma::new(&world).await;
    {
        let mut state = world.server.state.lock();
        (state.tag_bytes, state.frugal) = (1024, true);
    }
    let for_ever = async {
        while world.server.executed().len() < 10 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        () = over.remove(b"long", false) => {}
        () = for_ever => panic!("asked for again and again"),
    }
    assert_eq!(world.server.executed(), ["long", "long"]);
    assert_eq!(over.served.counters().snapshot().rdma_calls_refused, 1);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_arrives_twice_is_executed_once() {
    let world = World::established(None).await;
    world.fault(true, 0, Fate::Double);
    world.remove("a").await.unwrap();
    world.remove("b").await.unwrap();
    assert_eq!(world.server.executed(), ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn many_requests_over_a_network_that_loses_one_record_in_seven_are_executed_once_each() {
    let world = World::established(None).await;
    let count = AtomicU64::new(0);
    *world.script.0.lock() = Box::new(move |_| match count.fetch_add(1, SeqCst) % 7 {
        3 => Fate::Lose,
        5 => Fate::Delay(Duration::from_secs(1)),
        6 if count.load(SeqCst).is_multiple_of(2) => Fate::Cut,
        _ => Fate::Deliver,
    });
    let names: Vec<String> = (0..40).map(|i| format!("n{i:02}")).collect();
    let world = Arc::new(world);
    let tasks: Vec<_> = names
        .iter()
        .cloned()
        .map(|name| {
            let world = Arc::clone(&world);
            tokio::spawn(async move { world.remove(&name).await.map(drop) })
        })
        .collect();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    let mut executed = world.server.executed();
    executed.sort();
    assert_eq!(executed, names);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_request_leaves_a_slot_that_still_works_and_never_runs_twice() {
    for lost in [true, false] {
        let world = World::established(None).await;
        let reply_is_lost = Fate::Delay(Duration::from_secs(600));
        world.fault(!lost, 0, if lost { Fate::Lose } else { reply_is_lost });
        let dropped = tokio::time::timeout(Duration::from_secs(1), world.remove("a")).await;
        assert!(dropped.is_err());
        for _ in 0..8 {
            world.remove("b").await.unwrap();
        }
        let executed = world.server.executed();
        assert!(executed.iter().filter(|n| *n == "a").count() <= 1);
        assert_eq!(executed.iter().filter(|n| *n == "b").count(), 8);
    }
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_was_not_kept_is_asked_for_again_only_when_that_does_no_harm() {
    let world = World::established(None).await;
    world.server.state.lock().frugal = true;
    world.fault(false, 0, Fate::Lose);
    world.session.renew().await.unwrap();
    world.fault(false, 0, Fate::Lose);
    world.remove("a").await.unwrap();
    assert_eq!(world.server.executed(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn delay_of_sequence_repeats_the_same_request() {
    let world = World::established(None).await;
    world.server.state.lock().delays = 3;
    world.remove("a").await.unwrap();
    world.remove("b").await.unwrap();
    assert_eq!(world.server.executed(), ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_forgot_the_session_loses_it_for_everybody_until_it_is_made_anew() {
    let world = Arc::new(World::established(None).await);
    let before = world.session.established().unwrap();
    world.server.restart();
    // More requests than slots: those who wait for one must learn of the loss too.
    let tasks: Vec<_> = (0..20)
        .map(|_| {
            let world = Arc::clone(&world);
            tokio::spawn(async move { world.remove("a").await.map(drop) })
        })
        .collect();
    for task in tasks {
        assert!(matches!(task.await.unwrap(), Err(SessionError::Lost)));
    }
    assert!(world.session.established().is_none());
    let after = world.session.establish().await.unwrap();
    assert_ne!(before.client, after.client);
    world.remove("b").await.unwrap();
    assert_eq!(world.server.executed(), ["b"]);
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_fails_the_request_in_time_and_the_session_survives() {
    let world = World::established(None).await;
    *world.script.0.lock() = Box::new(|p| match p.to_listener {
        true => Fate::Lose,
        false => Fate::Deliver,
    });
    let start = tokio::time::Instant::now();
    assert!(matches!(
        world.remove("a").await,
        Err(SessionError::TimedOut)
    ));
    assert!(start.elapsed() < Duration::from_secs(75));
    *world.script.0.lock() = Box::new(|_| Fate::Deliver);
    world.remove("b").await.unwrap();
    assert_eq!(world.server.executed(), ["b"]);
}

#[derive(Default)]
struct Recalls(Mutex<Vec<bool>>);

impl CallbackHandler for Recalls {
    fn callback<'a>(
        &'a self,
        op: CbOpNum,
        args: &'a mut OpReader<'_>,
    ) -> std::pin::Pin<Box<dyn Future<Output = NfsStatus> + Send + 'a>> {
        assert_eq!(op, CbOpNum::LayoutRecall);
        let recall: CbLayoutRecallArgs<'_> = args.args().unwrap();
        self.0.lock().push(recall.changed);
        Box::pin(std::future::ready(NfsStatus::Ok))
    }
}

fn recall(session: SessionId, slot_id: u32, sequence_id: u32) -> Message {
    callback(session, slot_id, sequence_id, |b| {
        b.push(&CbLayoutRecallArgs {
            layout_type: 1,
            iomode: IoMode::Any,
            changed: sequence_id.is_multiple_of(2),
            what: LayoutRecall::All,
        });
    })
}

fn callback(
    session: SessionId,
    slot_id: u32,
    sequence_id: u32,
    push: impl FnOnce(&mut CbCompoundBuilder),
) -> Message {
    let mut e = Encoder::new();
    rpc::CallStart {
        xid: 0,
        program: crate::callback::CB_PROGRAM,
        version: 1,
        procedure: 1,
        credential: rpc::OpaqueAuth::NONE,
        verifier: rpc::OpaqueAuth::NONE,
    }
    .encode(&mut e);
    let mut b = CbCompoundBuilder::new(e, b"", 1);
    b.push(&CbSequenceArgs {
        session_id: session,
        sequence_id,
        slot_id,
        highest_slot_id: 0,
        cache_this: false,
        referring_call_lists: List(Vec::new()),
    });
    push(&mut b);
    b.finish().into()
}

async fn called_back(conn: &ConnHandle, message: Message) -> (NfsStatus, Bytes) {
    let record = conn.call(message, Duration::from_secs(5)).await.unwrap();
    let mut d = Decoder::new(&record);
    rpc::ReplyHeader::decode(&mut d).unwrap();
    let body = record.slice(d.position()..);
    let mut reply = CbCompoundReply::new(d).unwrap();
    if reply.status.is_ok() {
        reply.take::<CbSequenceRes>().unwrap();
    }
    (reply.status, body)
}

#[tokio::test(start_paused = true)]
async fn callbacks_are_executed_once_and_their_retry_gets_the_same_reply() {
    let recalls = Arc::new(Recalls::default());
    let world = World::established(Some(recalls.clone())).await;
    let id = world.session.established().unwrap().session;
    let conn = world.server.state.lock().connections[0].clone();
    let (status, first) = called_back(&conn, recall(id, 0, 1)).await;
    assert_eq!(status, NfsStatus::Ok);
    // The retry comes over another connection, which is bound to the session when it is made.
    conn.close(transport::CloseReason::Asked);
    conn.closed().await;
    tokio::time::sleep(Duration::from_millis(10)).await;
    world.remove("a").await.unwrap();
    assert_eq!(world.server.state.lock().binds, 1);
    let conn = world.server.state.lock().connections[1].clone();
    let (_, again) = called_back(&conn, recall(id, 0, 1)).await;
    assert_eq!(first, again);
    assert_eq!(called_back(&conn, recall(id, 0, 2)).await.0, NfsStatus::Ok);
    assert_eq!(*recalls.0.lock(), [false, true]);
    let wrong = [
        (recall(id, 0, 9), NfsStatus::SeqMisordered),
        (recall(id, 1, 0), NfsStatus::SeqMisordered),
        (recall(id, 99, 1), NfsStatus::BadSlot),
        (recall(SessionId::default(), 0, 3), NfsStatus::BadSession),
    ];
    for (message, status) in wrong {
        assert_eq!(called_back(&conn, message).await.0, status);
    }
    assert_eq!(recalls.0.lock().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn slots_that_are_recalled_are_given_back_by_a_sequence_alone() {
    let world = World::established(Some(Arc::new(NoCallbacks))).await;
    let id = world.session.established().unwrap().session;
    let conn = world.server.state.lock().connections[0].clone();
    world.remove("a").await.unwrap();
    let fewer = callback(id, 0, 1, |b| {
        b.push(&CbRecallSlotArgs {
            target_highest_slot_id: 0,
        });
    });
    assert_eq!(called_back(&conn, fewer).await.0, NfsStatus::Ok);
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!(world.server.state.lock().highest, [0, 0]);
    assert_eq!(world.server.executed(), ["a"]);
}
