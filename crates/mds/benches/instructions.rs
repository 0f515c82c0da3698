//! Goal: what one operation costs in instructions, for `cargo xtask instructions`, which runs this under callgrind.
//! Method: a metadata server and a data server with stores in memory, in one thread, over the memory transport, time paused. Only
//! [`one_counted_poll`] is counted: from the bytes of a CALL to the bytes of its reply, without transport, client and timers.
//!
//! `instructions OPERATION` does the operation some hundred times and prints how many of them were counted. It builds on the
//! rig of the tests.
#![allow(clippy::unwrap_used, reason = "a failure here is a failed check")]
#![allow(
    clippy::print_stdout,
    reason = "the count is for the program that runs this"
)]

#[path = "../tests/mds/rig/mod.rs"]
mod rig;

use bytes::Bytes;
use nfs4::attr::{self, Attrs};
use nfs4::ops::{
    CreateArgs, CreateHow, CreateRes, CreateType, GetAttrArgs, GetAttrRes, GetFhArgs, GetFhRes,
    OpenArgs, OpenClaim, OpenHow, OpenRes, PutFhArgs, PutFhRes, ReadArgs, ReadRes,
    SHARE_ACCESS_BOTH, SHARE_WANT_NO_DELEG,
};
use nfs4::{
    Bitmap, ClientId, CompoundBuilder, CompoundReply, Fattr, FileHandle, IoMode, OpError,
    StableHow, StateOwner, Stateid,
};
use rig::file::File;
use rig::real::{self, direct_session, direct_write};
use rig::{Client, Rig};
use session_client::{Caller, Session, SessionConfig};
use std::future::poll_fn;
use std::hint::black_box;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context as TaskContext, Poll};
use transport::workers::Shutdown;
use transport::{
    Address, CloseReason, ConnHandle, Context, DynService, Endpoint, Message, Service,
    TransportLimits,
};
use xdr::Opaque;

/// Operations that are not counted, so that nothing is done for the first time.
const WARM_UP: u32 = 32;
/// Operations that are counted.
const COUNTED: u32 = 256;
/// Payload of READ and WRITE: enough to see a copy, little enough to see the rest.
const PAYLOAD_BYTES: u32 = 4096;
/// What a Linux client asks for when it looks at a file.
const LOOKED_AT: Bitmap = Bitmap::of(&[
    attr::TYPE,
    attr::CHANGE,
    attr::SIZE,
    attr::FSID,
    attr::FILEID,
    attr::MODE,
    attr::NUMLINKS,
    attr::OWNER,
    attr::OWNER_GROUP,
    attr::RAWDEV,
    attr::SPACE_USED,
    attr::TIME_ACCESS,
    attr::TIME_METADATA,
    attr::TIME_MODIFY,
    attr::MOUNTED_ON_FILEID,
]);

/// All that is counted happens below this function; the check names it to callgrind.
#[inline(never)]
fn one_counted_poll(
    call: Pin<&mut (dyn Future<Output = Option<Message>> + Send + '_)>,
    cx: &mut TaskContext<'_>,
) -> Poll<Option<Message>> {
    // Not in tail position, or the function would be left before the work begins.
    black_box(call.poll(cx))
}

/// A server whose calls can be counted.
struct Counted {
    server: Arc<dyn DynService>,
    counts: Arc<AtomicBool>,
}

impl Service for Counted {
    async fn call(&self, conn: &ConnHandle, record: Bytes) -> Option<Message> {
        let mut call = self.server.call_boxed(conn, record);
        if !self.counts.load(Ordering::Relaxed) {
            return call.await;
        }
        poll_fn(|cx| one_counted_poll(call.as_mut(), cx)).await
    }

    fn admits(&self, peer: &Endpoint) -> bool {
        self.server.admits_peer(peer)
    }

    fn connected(&self, conn: &ConnHandle) {
        self.server.on_connected(conn);
    }

    fn disconnected(&self, conn: &ConnHandle, reason: CloseReason) {
        self.server.on_disconnected(conn, reason);
    }
}

/// A cluster of one data server, a file with bytes on it, and sessions whose calls can be counted.
struct Bench {
    counts: Arc<AtomicBool>,
    caller: Caller,
    mds: Arc<Session>,
    ds: Arc<Session>,
    root: FileHandle,
    file: FileHandle,
    /// The file's handle for the data server.
    object: FileHandle,
    open: Stateid,
    bytes: Bytes,
    // Servers end when these are dropped.
    _rest: (Rig, rig::cluster::Port, Vec<real::Real>, Shutdown),
}

impl Bench {
    async fn new() -> Self {
        let (rig, port, servers) = real::cluster(1).await;
        let counts = Arc::new(AtomicBool::new(false));
        let shutdown = Shutdown::new();
        let listen = |name: &str, server: Arc<dyn DynService>| {
            let service = Counted {
                server,
                counts: Arc::clone(&counts),
            };
            let listener = rig.network.listen(name).unwrap();
            let context = Context::new(TransportLimits::default());
            tokio::spawn(listener.serve(Arc::new(service), context, shutdown.signal()));
        };
        listen("counted-mds", rig.nfsd.clone());
        listen("counted-ds", servers[0].nfsd.clone().unwrap());
        let alice = rig.session("alice").await;
        let file = File::create(&alice, "file").await;
        let granted = file.layout(IoMode::Rw).await;
        let (handle, open) = (file.fh.clone(), file.open);
        let bench = Self {
            mds: session(&rig, &alice, "counted-mds").await,
            ds: direct_session(&rig, &alice, "alice", "counted-ds").await,
            root: alice.lookup(&[]).await.unwrap(),
            file: handle,
            object: granted.body.file_handles.0[0].clone(),
            open,
            bytes: vec![7; PAYLOAD_BYTES as usize].into(),
            caller: alice.caller.clone(),
            counts,
            _rest: (rig, port, servers, shutdown),
        };
        bench.write().await;
        bench
    }

    async fn getattr(&self) {
        let done = self
            .mds
            .compound(&self.caller, &|b| {
                on(b, &self.file).push(&GetAttrArgs {
                    attr_request: LOOKED_AT,
                });
                Vec::new()
            })
            .await
            .unwrap();
        let mut reply = after_putfh(done.results());
        let res = reply.take::<GetAttrRes<'_>>().unwrap();
        assert!(res.attributes.attrs().unwrap().change.is_some());
    }

    async fn read(&self) {
        let stateid = Stateid {
            other: self.open.other,
            seqid: 0,
        };
        let done = self
            .ds
            .compound(&self.caller, &|b| {
                on(b, &self.object).push(&ReadArgs {
                    stateid,
                    offset: 0,
                    count: PAYLOAD_BYTES,
                });
                Vec::new()
            })
            .await
            .unwrap();
        let mut reply = after_putfh(done.results());
        assert_eq!(reply.take::<ReadRes<'_>>().unwrap().data.0, self.bytes);
    }

    async fn write(&self) {
        let (open, stable) = (self.open, StableHow::Unstable);
        let written = direct_write(
            &self.ds,
            &self.caller,
            &self.object,
            open,
            stable,
            &self.bytes,
        );
        assert_eq!(written.await.unwrap().count, PAYLOAD_BYTES);
    }

    /// A regular file: OPEN that creates it.
    async fn create(&self, number: u32) {
        let name = format!("new{number}");
        let args = OpenArgs {
            seqid: 0,
            share_access: SHARE_ACCESS_BOTH | SHARE_WANT_NO_DELEG,
            share_deny: 0,
            owner: StateOwner {
                clientid: ClientId::default(),
                owner: Opaque(b"opener"),
            },
            how: OpenHow::Create(CreateHow::Guarded(mode(0o644))),
            claim: OpenClaim::Null(Opaque(name.as_bytes())),
        };
        let done = self
            .mds
            .compound_once(&self.caller, &|b| {
                on(b, &self.root).push(&args).push(&GetFhArgs {});
                Vec::new()
            })
            .await
            .unwrap();
        let mut reply = after_putfh(done.results());
        reply.take::<OpenRes>().unwrap();
        reply.take::<GetFhRes<'_>>().unwrap();
    }

    /// A directory: the operation CREATE.
    async fn mkdir(&self, number: u32) {
        let name = format!("dir{number}");
        let args = CreateArgs {
            object_type: CreateType::Dir,
            name: Opaque(name.as_bytes()),
            attrs: mode(0o755),
        };
        let done = self
            .mds
            .compound_once(&self.caller, &|b| {
                on(b, &self.root).push(&args).push(&GetFhArgs {});
                Vec::new()
            })
            .await
            .unwrap();
        let mut reply = after_putfh(done.results());
        reply.take::<CreateRes>().unwrap();
        reply.take::<GetFhRes<'_>>().unwrap();
    }

    async fn once(&self, operation: Operation, number: u32) {
        match operation {
            Operation::GetAttr => self.getattr().await,
            Operation::Read => self.read().await,
            Operation::Write => self.write().await,
            Operation::Create => self.create(number).await,
            Operation::MkDir => self.mkdir(number).await,
        }
    }
}

fn mode(mode: u32) -> Fattr<'static> {
    Fattr::new(&Attrs {
        mode: Some(mode),
        ..Attrs::default()
    })
}

/// A session of the same client to the server behind `name`.
async fn session(rig: &Rig, client: &Client, name: &str) -> Arc<Session> {
    let config = SessionConfig {
        addresses: vec![Address::Memory(name.into())],
        ..client.session.config().clone()
    };
    let context = Context::new(TransportLimits::default());
    let connector = rig.network.connector("alice", context);
    let session = Session::new(Arc::new(connector), config);
    session.establish().await.unwrap();
    session
}

fn on<'b>(b: &'b mut CompoundBuilder, handle: &FileHandle) -> &'b mut CompoundBuilder {
    b.push(&PutFhArgs {
        object: Opaque(&handle.0),
    })
}

fn after_putfh(reply: Result<CompoundReply<'_>, OpError>) -> CompoundReply<'_> {
    let mut reply = reply.unwrap();
    reply.take::<PutFhRes>().unwrap();
    reply
}

#[derive(Debug, Clone, Copy)]
enum Operation {
    GetAttr,
    Read,
    Write,
    Create,
    MkDir,
}

fn main() {
    let name = std::env::args().nth(1).unwrap_or_default();
    let operation = match name.as_str() {
        "getattr" => Operation::GetAttr,
        "read" => Operation::Read,
        "write" => Operation::Write,
        "create" => Operation::Create,
        "mkdir" => Operation::MkDir,
        _ => return eprintln!("usage: instructions getattr|read|write|create|mkdir"),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let bench = Bench::new().await;
        for number in 0..WARM_UP + COUNTED {
            bench.counts.store(number >= WARM_UP, Ordering::Relaxed);
            bench.once(operation, number).await;
        }
    });
    println!("{COUNTED}");
}
