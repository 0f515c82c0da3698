//! A client against a scripted server over the memory transport: lost records, lost connections, busy answers, bounds.
//! The server keeps replies by transaction id and writes down what it executed.

use crate::*;
use bytes::Bytes;
use nfs3::procs::{
    CommitOk, CommitRes, ReadOkPayload, ReadResPayload, RemoveArgs, RemoveRes, WriteArgs, WriteOk,
    WriteRes,
};
use nfs3::{Nfs3Status, Proc, StableHow, WccData};
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;
use transport::memory::{Fate, Faults, MemoryNetwork, Passage};
use transport::workers::Shutdown;
use transport::{Address, ConnHandle, Context, Message, Payload, Service, TransportLimits};
use xdr::{Decode, Decoder, Encode, Encoder, OpaqueBuf};

#[derive(Default)]
struct State {
    /// What was executed, and under which id.
    executed: Vec<(u32, Vec<u8>)>,
    /// Kept replies by id.
    kept: HashMap<u32, Vec<u8>>,
    /// Calls that are to be answered by `NFS3ERR_JUKEBOX`.
    busy: u32,
    running: HashSet<u32>,
    running_max: usize,
    credentials: Vec<u32>,
    /// What READ answers beyond what was asked for.
    surplus: u32,
}

/// Knows REMOVE, READ, WRITE, COMMIT, MNT, EXPORT and GETPORT.
#[derive(Default)]
struct FakeServer(Mutex<State>);

impl FakeServer {
    fn execute(&self, xid: u32, procedure: u32, args: &[u8], e: &mut Encoder) -> Option<Bytes> {
        let mut state = self.0.lock();
        let number = procedure.to_be_bytes();
        match Proc::decode(&mut Decoder::new(&number)).unwrap() {
            Proc::Remove => {
                let args: RemoveArgs<'_> = xdr::decode_all(args).unwrap();
                if state.busy > 0 {
                    state.busy -= 1;
                    RemoveRes::Fail(Nfs3Status::Jukebox, WccData::default()).encode(e);
                    return None;
                }
                let is_new = !state.executed.iter().any(|(_, n)| n == args.object.name.0);
                state.executed.push((xid, args.object.name.0.to_vec()));
                match is_new {
                    true => RemoveRes::Ok(WccData::default()).encode(e),
                    false => RemoveRes::Fail(Nfs3Status::NoEnt, WccData::default()).encode(e),
                }
            }
            Proc::Read => {
                let args: nfs3::procs::ReadArgs<'_> = xdr::decode_all(args).unwrap();
                let len = args.count + state.surplus;
                ReadResPayload::Ok(ReadOkPayload {
                    file_attributes: None,
                    eof: false,
                    len,
                })
                .encode(e);
                return Some(Bytes::from(vec![b'r'; len as usize]));
            }
            Proc::Write => {
                let args: WriteArgs<'_> = xdr::decode_all(args).unwrap();
                state.executed.push((xid, args.data.0.to_vec()));
                WriteRes::Ok(WriteOk {
                    file_wcc: WccData::default(),
                    count: args.count,
                    committed: args.stable,
                    verf: *b"verifier",
                })
                .encode(e);
            }
            Proc::Commit => CommitRes::Ok(CommitOk {
                file_wcc: WccData::default(),
                verf: *b"verifier",
            })
            .encode(e),
            other => panic!("{other} is not in this server"),
        }
        None
    }

    fn mount(procedure: u32, e: &mut Encoder) {
        use nfs3::mount::{ExportEntry, ExportRes, MntOk, MntRes};
        use xdr::Opaque;
        match procedure {
            1 => MntRes::Ok(MntOk {
                fhandle: Opaque(b"root"),
                auth_flavors: vec![1].into(),
            })
            .encode(e),
            5 => ExportRes::from(vec![ExportEntry {
                dir: Opaque(b"/data"),
                groups: vec![Opaque(b"everybody")].into(),
            }])
            .encode(e),
            _ => {}
        }
    }
}

impl Service for FakeServer {
    async fn call(&self, _conn: &ConnHandle, record: Bytes) -> Option<Message> {
        let mut d = Decoder::new(&record);
        let header = rpc::CallHeader::decode(&mut d).unwrap();
        let mut e = Encoder::new();
        rpc::begin_success(&mut e, header.xid, rpc::OpaqueAuth::NONE);
        {
            let mut state = self.0.lock();
            if let Some(kept) = state.kept.get(&header.xid) {
                return Some(Message::from_bytes(kept.clone()));
            }
            if !state.running.insert(header.xid) {
                return None;
            }
            state.running_max = state.running_max.max(state.running.len());
            state.credentials.push(header.credential.flavor);
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
        self.0.lock().running.remove(&header.xid);
        let payload = match header.program {
            nfs3::PROGRAM => self.execute(header.xid, header.procedure, d.rest(), &mut e),
            nfs3::mount::PROGRAM => {
                Self::mount(header.procedure, &mut e);
                None
            }
            _ => {
                let program = Decoder::new(d.rest()).u32().unwrap();
                let port: u32 = if program == nfs3::PROGRAM { 2049 } else { 0 };
                port.encode(&mut e);
                None
            }
        };
        if payload.is_none() {
            let mut state = self.0.lock();
            state.kept.insert(header.xid, e.as_bytes().to_vec());
        }
        let payloads = payload.map(Payload::Bytes);
        Some(Message::new(e, payloads.into_iter().collect()))
    }
}

type Fates = Box<dyn FnMut(&Passage<'_>) -> Fate + Send>;

struct Script {
    fates: Mutex<Fates>,
    /// The addresses that were connected to.
    tried: Mutex<Vec<String>>,
}

impl Faults for Script {
    fn fate(&self, passage: &Passage<'_>) -> Fate {
        (self.fates.lock())(passage)
    }

    fn may_connect(&self, _from: &str, to: &str) -> bool {
        self.tried.lock().push(to.to_owned());
        true
    }
}

struct World {
    server: Arc<FakeServer>,
    remote: Arc<RpcPeer>,
    nfs: Nfs3Client,
    script: Arc<Script>,
    _shutdown: Shutdown,
}

impl World {
    fn new() -> Self {
        let script = Arc::new(Script {
            fates: Mutex::new(Box::new(|_| Fate::Deliver)),
            tried: Mutex::default(),
        });
        let network = MemoryNetwork::new(Arc::clone(&script) as Arc<dyn Faults>);
        let server = Arc::new(FakeServer::default());
        let (shutdown, context) = (Shutdown::new(), Context::new(TransportLimits::default()));
        let listener = network.listen("server").unwrap();
        tokio::spawn(listener.serve(server.clone(), context.clone(), shutdown.signal()));
        let config = RpcPeerConfig {
            addresses: vec![
                Address::Memory("nobody".to_owned()),
                Address::Memory("server".to_owned()),
            ],
            connections: 2,
            calls_max: 4,
            try_timeout: Duration::from_secs(5),
            give_up: Duration::from_secs(60),
            first_xid: u32::MAX - 1,
        };
        let remote = RpcPeer::new(Arc::new(network.connector("client", context)), config);
        Self {
            server,
            nfs: Nfs3Client::new(Arc::clone(&remote)),
            remote,
            script,
            _shutdown: shutdown,
        }
    }

    /// From now on, the n-th record (from 0) of a direction meets this fate, all others are delivered.
    fn fault(&self, to_server: bool, number: u64, fate: Fate) {
        let count = AtomicU64::new(0);
        *self.script.fates.lock() = Box::new(move |p| {
            if p.to_listener == to_server && count.fetch_add(1, SeqCst) == number {
                fate
            } else {
                Fate::Deliver
            }
        });
    }

    async fn remove(&self, name: &str) -> Result<WccData, Nfs3Error> {
        self.nfs.remove(&caller(), &fh(), name.as_bytes()).await
    }

    fn executed(&self) -> Vec<String> {
        let state = self.server.0.lock();
        let text = |(_, n): &(u32, Vec<u8>)| String::from_utf8(n.clone()).unwrap();
        state.executed.iter().map(text).collect()
    }
}

fn fh() -> Fh {
    OpaqueBuf(b"handle".to_vec())
}

fn caller() -> CallerAuth {
    CallerAuth::auth_sys(&rpc::AuthSys {
        stamp: 0,
        machine: b"test".to_vec(),
        uid: 7,
        gid: 8,
        gids: Vec::new(),
    })
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_reply_is_lost_or_cut_is_sent_again_with_its_id_and_executed_once() {
    for fate in [Fate::Lose, Fate::Cut, Fate::Double] {
        for to_server in [true, false] {
            let world = World::new();
            world.fault(to_server, 0, fate);
            world.remove("a").await.unwrap();
            world.remove("b").await.unwrap();
            assert_eq!(world.executed(), ["a", "b"], "{fate:?} {to_server}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn many_calls_over_a_network_that_loses_one_record_in_seven_are_executed_once_each() {
    let world = Arc::new(World::new());
    let count = AtomicU64::new(0);
    *world.script.fates.lock() = Box::new(move |_| match count.fetch_add(1, SeqCst) % 7 {
        3 => Fate::Lose,
        5 => Fate::Delay(Duration::from_secs(1)),
        6 if count.load(SeqCst).is_multiple_of(2) => Fate::Cut,
        _ => Fate::Deliver,
    });
    let names: Vec<String> = (0..40).map(|i| format!("n{i:02}")).collect();
    let tasks: Vec<_> = (names.iter().cloned())
        .map(|name| {
            let world = Arc::clone(&world);
            tokio::spawn(async move { world.remove(&name).await.map(drop) })
        })
        .collect();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    let mut executed = world.executed();
    executed.sort();
    assert_eq!(executed, names);
}

#[tokio::test(start_paused = true)]
async fn an_address_that_failed_comes_after_the_others_for_a_while() {
    let world = World::new();
    world.remove("a").await.unwrap();
    world.remove("b").await.unwrap();
    world.remove("c").await.unwrap();
    let tried = || std::mem::take(&mut *world.script.tried.lock());
    assert_eq!(tried(), ["nobody", "server", "server"]);
    tokio::time::sleep(Duration::from_secs(31)).await;
    world.fault(true, 0, Fate::Cut);
    world.remove("d").await.unwrap();
    assert_eq!(tried(), ["nobody", "server"]);
}

#[tokio::test(start_paused = true)]
async fn calls_in_flight_have_their_bound() {
    let world = Arc::new(World::new());
    let tasks: Vec<_> = (0..20)
        .map(|i| {
            let world = Arc::clone(&world);
            tokio::spawn(async move { world.remove(&i.to_string()).await.map(drop) })
        })
        .collect();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    assert_eq!(world.server.0.lock().running_max, 4);
}

#[tokio::test(start_paused = true)]
async fn jukebox_is_asked_again_as_a_new_call_and_in_the_end_it_is_the_answer() {
    let world = World::new();
    world.server.0.lock().busy = 3;
    world.remove("a").await.unwrap();
    // Three busy calls came before it, each with an id of its own.
    assert_eq!(world.server.0.lock().executed[0].0, 1);
    world.server.0.lock().busy = u32::MAX;
    let start = tokio::time::Instant::now();
    let busy = world.remove("b").await.unwrap_err();
    assert_eq!(busy.status(), Some(Nfs3Status::Jukebox));
    let waited = start.elapsed();
    assert!((60..=66).contains(&waited.as_secs()), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_fails_the_call_in_time_and_the_next_one_works() {
    let world = World::new();
    *world.script.fates.lock() = Box::new(|p| match p.to_listener {
        true => Fate::Lose,
        false => Fate::Deliver,
    });
    let start = tokio::time::Instant::now();
    let silent = world.remove("a").await;
    assert!(
        matches!(silent, Err(Nfs3Error::Rpc(RpcError::TimedOut))),
        "{silent:?}"
    );
    assert!(start.elapsed() < Duration::from_secs(75));
    *world.script.fates.lock() = Box::new(|_| Fate::Deliver);
    world.remove("b").await.unwrap();
    assert_eq!(world.executed(), ["b"]);
}

#[tokio::test(start_paused = true)]
async fn data_go_both_ways_and_the_write_verifier_is_told() {
    let world = World::new();
    let data = Bytes::from_static(b"some data");
    let written = world
        .nfs
        .write(&caller(), &fh(), 0, StableHow::Unstable, &data)
        .await
        .unwrap();
    assert_eq!((written.count, written.verf), (9, *b"verifier"));
    let committed = world.nfs.commit(&caller(), &fh(), 0, 0).await.unwrap();
    assert_eq!(committed.verf, written.verf);
    assert_eq!(world.executed(), ["some data"]);
    let read = world.nfs.read(&caller(), &fh(), 0, 5).await.unwrap();
    assert_eq!(&read.data[..], b"rrrrr");
    world.server.0.lock().surplus = 1;
    let surplus = world.nfs.read(&caller(), &fh(), 0, 5).await;
    assert!(
        matches!(surplus, Err(Nfs3Error::Rpc(RpcError::Malformed(_)))),
        "{surplus:?}"
    );
    assert!(world.server.0.lock().credentials.iter().all(|f| *f == 1));
}

#[tokio::test(start_paused = true)]
async fn a_failure_of_the_server_is_its_status() {
    let world = World::new();
    world.remove("a").await.unwrap();
    let gone = world.remove("a").await.unwrap_err();
    assert_eq!(gone.status(), Some(Nfs3Status::NoEnt));
    let long = world.remove(&"x".repeat(1025)).await.unwrap_err();
    assert_eq!(long.status(), Some(Nfs3Status::NameTooLong));
}

#[tokio::test(start_paused = true)]
async fn mount_tells_the_root_and_the_exports_and_the_port_mapper_the_ports() {
    let world = World::new();
    let mount = MountClient::new(Arc::clone(&world.remote));
    let root = mount.mnt(&caller(), b"/data").await.unwrap();
    assert_eq!((root.fh.0, root.auth_flavors), (b"root".to_vec(), vec![1]));
    let exports = mount.exports(&caller()).await.unwrap();
    assert_eq!(exports[0].dir, b"/data");
    assert_eq!(exports[0].groups, [b"everybody"]);
    mount.umnt(&caller(), b"/data").await.unwrap();
    let nfs = get_port(&world.remote, nfs3::PROGRAM, 3).await.unwrap();
    assert_eq!(nfs, Some(2049));
    assert_eq!(get_port(&world.remote, 100_021, 4).await.unwrap(), None);
}
