//! Goal: a further RPC program is one more entry beside NFSv4, on the same connection and with the same refusals. It keeps replies
//! for retries under keys of its own.
//! Method: programs of the test: one says what it is told, and one counts, which a retry must not do again.

mod rig;

use bytes::Bytes;
use nfs4::{PROGRAM, VERSION};
use rig::*;
use rpc::{AcceptError, flavor};
use rpc_service::{Call, Program, ReplyCache, RunningCall, Seal, replay, serve};
use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::Poll;
use tracing_mutex::parkinglot::Mutex;
use transport::{Address, ConnHandle, Connector, Context, Message, NoService, TransportLimits};
use xdr::Encoder;

/// Says its arguments again.
struct Echo;

const ECHO: u32 = 400_001;

impl Program for Echo {
    fn number(&self) -> u32 {
        ECHO
    }

    fn versions(&self) -> RangeInclusive<u32> {
        2..=3
    }

    async fn call<'r>(&'r self, call: Call<'r>) -> Option<Message> {
        if call.header.procedure > 1 {
            return call.refuse(AcceptError::ProcUnavail);
        }
        let mut e = Encoder::new();
        Seal::None.begin(&mut e, call.header.xid);
        e.raw(call.args.rest());
        Some(e.into())
    }
}

/// Adds up what it is told. A request is named by its connection and its transaction id, as for NFSv3.
#[derive(Default)]
struct Sum {
    sum: Mutex<u32>,
    seen: Mutex<HashMap<(u64, u32), Seen>>,
    /// Requests never end.
    hangs: AtomicBool,
}

#[derive(Clone)]
enum Seen {
    Running,
    Ended(Option<Arc<[u8]>>),
}

impl ReplyCache for &Sum {
    type Key = (u64, u32);

    fn complete(&self, key: Self::Key, reply: Option<Arc<[u8]>>) -> bool {
        self.seen.lock().insert(key, Seen::Ended(reply)).is_some()
    }
}

impl Program for Sum {
    fn number(&self) -> u32 {
        ECHO
    }

    fn versions(&self) -> RangeInclusive<u32> {
        1..=1
    }

    async fn call<'r>(&'r self, call: Call<'r>) -> Option<Message> {
        let (xid, key) = (call.header.xid, (call.conn.id(), call.header.xid));
        let seen = self.seen.lock().insert(key, Seen::Running);
        let running = match seen {
            None => RunningCall::new(self, key),
            Some(seen) => {
                self.seen.lock().insert(key, seen.clone());
                return match seen {
                    Seen::Running => None,
                    Seen::Ended(Some(body)) => Some(replay(Seal::None, xid, &body)),
                    Seen::Ended(None) => call.refuse(AcceptError::SystemErr),
                };
            }
        };
        if self.hangs.load(Relaxed) {
            std::future::pending::<()>().await;
        }
        let added = u32::from(call.args.rest()[0]);
        let body = {
            let mut sum = self.sum.lock();
            *sum += added;
            sum.to_be_bytes()
        };
        running.complete(Some(Arc::from(body)));
        Some(replay(Seal::None, xid, &body))
    }
}

#[tokio::test(start_paused = true)]
async fn a_program_without_sessions_keeps_replies_by_connection_and_transaction() {
    let rig = Rig::new();
    let context = Context::new(TransportLimits::default());
    let connector = rig.network.connector("client", context);
    let address = Address::Memory("server".into());
    let connect = async || connector.connect(&address, NoService::shared()).await;
    let (one, other) = (connect().await.unwrap(), connect().await.unwrap());
    let program = Sum::default();
    let ask = async |conn: &ConnHandle, xid: u32, added: u8| {
        let mut e = rpc_call(ECHO, 1, 1, flavor::AUTH_SYS, &sys(0));
        e.raw(&[added]);
        let mut record = e.into_bytes();
        record[..4].copy_from_slice(&xid.to_be_bytes());
        let reply = serve(&program, &[], conn, &record.into()).await;
        reply.map(|reply| Bytes::from(reply.flatten().unwrap()))
    };
    let first = ask(&one, 7, 5).await.unwrap();
    assert_eq!(body(&first), 5u32.to_be_bytes());
    assert_eq!(ask(&one, 7, 5).await.unwrap(), first, "a retry");
    let others = ask(&other, 7, 5).await.unwrap();
    assert_eq!(body(&others), 10u32.to_be_bytes(), "another connection");
    let next = ask(&one, 8, 5).await.unwrap();
    assert_eq!(body(&next), 15u32.to_be_bytes(), "another transaction");
    // Its caller gives up while it runs: a retry is neither executed nor answered with a made-up reply.
    program.hangs.store(true, Relaxed);
    {
        let waits = ask(&one, 9, 5);
        tokio::pin!(waits);
        assert!(poll_once(&mut waits).await.is_none(), "it hangs");
        assert!(ask(&one, 9, 5).await.is_none(), "it runs");
    }
    let verdict_after = verdict(&ask(&one, 9, 5).await.unwrap());
    assert_eq!(verdict_after, AcceptError::SystemErr.into());
    assert_eq!(*program.sum.lock(), 15);
}

/// Polls once.
async fn poll_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    std::future::poll_fn(|cx| {
        Poll::Ready(match std::pin::Pin::new(&mut *future).poll(cx) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        })
    })
    .await
}

/// Another version of NFS.
struct Older;

impl Program for Older {
    fn number(&self) -> u32 {
        PROGRAM
    }

    fn versions(&self) -> RangeInclusive<u32> {
        3..=3
    }

    async fn call<'r>(&'r self, call: Call<'r>) -> Option<Message> {
        let mut e = Encoder::new();
        Seal::None.begin(&mut e, call.header.xid);
        e.raw(b"older");
        Some(e.into())
    }
}

#[tokio::test(start_paused = true)]
async fn a_further_program_shares_the_connection_with_nfs() {
    let rig = Rig::new();
    let both = Arc::new(rig.nfsd.clone().with_programs(vec![Arc::new(Echo)]));
    let listener = rig.network.listen("both").unwrap();
    tokio::spawn(listener.serve(both, rig.context().clone(), rig.shutdown.signal()));
    let connector = rig
        .network
        .connector("client", Context::new(TransportLimits::default()));
    let address = Address::Memory("both".into());
    let conn = connector.connect(&address, NoService::shared()).await;
    let conn = conn.unwrap();
    let send = async |program, version, procedure, args: &[u8]| {
        let mut e = rpc_call(program, version, procedure, flavor::AUTH_SYS, &sys(0));
        e.raw(args);
        call(&conn, e.into_bytes()).await
    };
    assert_eq!(body(&send(ECHO, 2, 1, b"said").await), b"said");
    assert_eq!(body(&send(ECHO, 3, 0, b"").await), b"");
    let verdict_of =
        async |program, version, procedure| verdict(&send(program, version, procedure, b"").await);
    let mismatch = |low, high| AcceptError::ProgMismatch { low, high };
    assert_eq!(verdict_of(ECHO, 1, 0).await, mismatch(2, 3).into());
    assert_eq!(
        verdict_of(ECHO, 2, 9).await,
        AcceptError::ProcUnavail.into()
    );
    assert_eq!(verdict_of(PROGRAM, 3, 0).await, mismatch(4, 4).into());
    assert_eq!(verdict_of(1, 1, 1).await, AcceptError::ProgUnavail.into());
    // A version of NFS may be a program of its own.
    let nfs: Vec<Arc<dyn rpc_service::DynProgram>> = vec![Arc::new(Echo), Arc::new(Older)];
    let of_nfs = async |version| {
        let e = rpc_call(PROGRAM, version, 0, flavor::AUTH_SYS, &sys(0));
        let record = Bytes::from(e.into_bytes());
        let reply = serve(&*rig.nfsd, &nfs, &conn, &record).await.unwrap();
        Bytes::from(reply.flatten().unwrap())
    };
    assert_eq!(body(&of_nfs(3).await), b"older");
    assert_eq!(body(&of_nfs(4).await), b"");
    assert_eq!(verdict(&of_nfs(2).await), mismatch(3, 4).into());
    // NFS goes on as before, its sessions included.
    let mounted = rig.mount_on(conn.clone(), "client", 0).await;
    assert_eq!(rig.nfsd.clients().lock().sessions_count(), 1);
    assert_eq!(VERSION, 4);
    drop(mounted);
}
