//! Goal: over RDMA a reply that is longer than a message goes into the reply chunk, whichever operation's it is.
//! Credits that an idle client holds come back over CB_RECALL_SLOT to one that lacks them (rule R14). Method: the
//! metadata server on the provider within the process, sessions of our own client; time paused.
#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]

use crate::rig::cluster::{FakeDs, Port, cluster};
use crate::rig::file::{File, patiently};
use crate::rig::{Client, Rig, after_putfh};
use bytes::Bytes;
use fabric::mem::MemFabric;
use futures_util::future::join_all;
use nfs4::attr::{ACL, Attrs, FILEID, TYPE};
use nfs4::ops::{
    CreateArgs, CreateRes, CreateType, GetAttrArgs, GetAttrRes, ReadDirArgs, ReadDirRes,
};
use nfs4::{
    ACE_READ_DATA, ACE_TYPE_ALLOW, Ace, Bitmap, Fattr, FileHandle, IoMode, Stateid, Verifier,
};
use session_client::{CallbackHandler, NoCallbacks, Session, SessionConfig};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;
use transport::rdma::{self, Config, Rdma, RdmaConnector};
use transport::workers::Shutdown;
use transport::{
    Address, CloseReason, ConnHandle, Connector, Context, CountersSnapshot, DynService, Endpoint,
    Message, Service, TransportLimits,
};
use xdr::{List, Opaque};

/// Calls that a busy client makes at once, and so the credits that it needs.
const AT_ONCE: usize = 16;
/// The longest message: what is more goes into a reply chunk.
const INLINE_BYTES: u64 = 4096;
/// The largest result that a client takes where it says so: some pages, as Linux does.
const RESULT_BYTES: u32 = 65_536;
/// What each request takes.
const REQUEST: Duration = Duration::from_millis(1);
/// A client that keeps credits is asked so long, and then disconnected: five rounds of five seconds, and what stands around them.
const PATIENCE: Duration = Duration::from_secs(40);

/// The server over RDMA, where every request takes a while: how many calls of each connection were in progress at a time.
struct Slow {
    service: Arc<dyn DynService>,
    /// Now, and most.
    calls: Mutex<BTreeMap<u64, (usize, usize)>>,
}

impl Service for Slow {
    async fn call(&self, conn: &ConnHandle, record: Bytes) -> Option<Message> {
        {
            let mut calls = self.calls.lock().unwrap();
            let (now, most) = calls.entry(conn.id()).or_default();
            *now += 1;
            *most = (*most).max(*now);
        }
        tokio::time::sleep(REQUEST).await;
        let reply = self.service.call_boxed(conn, record).await;
        self.calls.lock().unwrap().get_mut(&conn.id()).unwrap().0 -= 1;
        reply
    }

    fn admits(&self, peer: &Endpoint) -> bool {
        self.service.admits_peer(peer)
    }

    fn connected(&self, conn: &ConnHandle) {
        self.service.on_connected(conn);
    }

    fn disconnected(&self, conn: &ConnHandle, reason: CloseReason) {
        self.service.on_disconnected(conn, reason);
    }

    fn credits_short(&self, conn: &ConnHandle) {
        self.service.on_credits_short(conn);
    }
}

/// A rig that listens for RDMA too.
struct OverRdma {
    rig: Rig,
    _port: Port,
    _data_servers: Vec<FakeDs>,
    slow: Arc<Slow>,
    server: Context,
    client: Context,
    rdma: Rdma,
    address: Address,
    connector: Arc<dyn Connector>,
    _shutdown: Shutdown,
}

impl OverRdma {
    /// With so many credits to be lent.
    async fn new(fabric: MemFabric, lent: u32) -> Self {
        Self::before(0, fabric, lent).await
    }

    /// The same with data servers.
    async fn before(data_servers: u8, fabric: MemFabric, lent: u32) -> Self {
        let (rig, port, data_servers) = cluster(data_servers).await;
        let config = Config::default();
        let config = Config {
            lent_bytes: lent * config.inline_bytes,
            ..config
        };
        let rdma = Rdma::new(Arc::new(fabric), config);
        let any = "127.0.0.1:0".parse().unwrap();
        let listener = rdma::listen(any, &rdma).await.unwrap();
        let address = Address::Rdma(listener.local());
        let (server, shutdown) = (Context::new(TransportLimits::default()), Shutdown::new());
        let slow = Arc::new(Slow {
            service: rig.nfsd.clone(),
            calls: Mutex::default(),
        });
        tokio::spawn(rdma::serve(
            vec![listener],
            rdma.clone(),
            slow.clone(),
            server.clone(),
            shutdown.signal(),
        ));
        let client = Context::new(TransportLimits::default());
        Self {
            rig,
            _port: port,
            _data_servers: data_servers,
            slow,
            server,
            address,
            connector: Arc::new(RdmaConnector::new(client.clone(), vec![rdma.clone()])),
            client,
            rdma,
            _shutdown: shutdown,
        }
    }

    async fn client(&self, owner: &str, callbacks: Option<Arc<dyn CallbackHandler>>) -> Client {
        let Client { session, caller } = self.rig.stranger(owner, *b"boot0001", callbacks);
        let config = SessionConfig {
            addresses: vec![self.address.clone()],
            ..session.config().clone()
        };
        let session = Session::new(Arc::clone(&self.connector), config);
        session.establish().await.unwrap();
        let client = Client { session, caller };
        client.reclaim_complete().await;
        client
    }

    fn counters(&self) -> CountersSnapshot {
        self.server.counters().snapshot()
    }

    /// Bytes that go into reply chunks meanwhile.
    async fn reply_chunk_bytes_of<T>(&self, work: impl Future<Output = T>) -> (T, u64) {
        let before = self.counters().rdma_reply_chunk_bytes_out;
        let done = work.await;
        let after = self.counters().rdma_reply_chunk_bytes_out;
        (done, after - before)
    }

    /// The most calls of a client that are in progress at a time when it makes [`AT_ONCE`], again and again for a while.
    async fn at_once(&self, client: &Client) -> usize {
        self.slow.calls.lock().unwrap().clear();
        for _ in 0..10 {
            let calls = (0..AT_ONCE).map(|_| client.session.renew());
            for done in join_all(calls).await {
                done.unwrap();
            }
        }
        let calls = self.slow.calls.lock().unwrap();
        calls.values().map(|(_, most)| *most).max().unwrap()
    }

    /// Has one client take all the credits, and then another want as many. Returns how many calls the other can make at
    /// once at first, and in the end.
    async fn wanted_by_another(&self, idle: &Client) -> (usize, usize) {
        let mut most = 0;
        for _ in 0..AT_ONCE {
            most = self.at_once(idle).await;
        }
        assert_eq!(most, AT_ONCE, "all are lent");
        let wanting = self.client("wanting", Some(Arc::new(NoCallbacks))).await;
        let first = self.at_once(&wanting).await;
        let start = Instant::now();
        let mut last = first;
        while last < AT_ONCE && start.elapsed() < PATIENCE {
            last = self.at_once(&wanting).await;
        }
        (first, last)
    }

    /// What an administrator sees after somebody lacked credits: in the sums, at the connection, and what is lent.
    fn shows_who_was_held_back(&self, stock: u32) {
        let sum = self.counters().rdma_credits_short;
        let traffic = self.server.rdma_traffic();
        let short: Vec<_> = traffic.iter().map(|t| t.carried.credits_short).collect();
        assert!(
            sum > 0 && short.iter().sum::<u64>() == sum,
            "{short:?} of {sum}"
        );
        // Calls of that client waited for them.
        let stalls = self.client.counters().snapshot().rdma_credit_stalls;
        let waited = self.client.rdma_traffic();
        let waited = waited.iter().map(|t| t.carried.credit_stalls);
        assert!(stalls > 0 && waited.sum::<u64>() == stalls, "{stalls}");
        let (lent, all) = self.rdma.credits_lent();
        assert!(lent > 0 && lent <= all && all == stock, "{lent} of {all}");
    }
}

#[tokio::test(start_paused = true)]
async fn credits_that_an_idle_client_holds_come_back_when_it_is_asked_for_slots() {
    credits_come_back(MemFabric::default()).await;
}

#[tokio::test(start_paused = true)]
async fn nobody_is_cut_off_for_credits_that_were_taken_back_where_nobody_can_be_held_back() {
    credits_come_back(MemFabric::cutting()).await;
}

async fn credits_come_back(fabric: MemFabric) {
    let lent = u32::try_from(AT_ONCE).unwrap() - 1;
    let served = OverRdma::new(fabric, lent).await;
    let idle = served.client("idle", Some(Arc::new(NoCallbacks))).await;
    assert_eq!(served.wanted_by_another(&idle).await, (1, AT_ONCE));
    served.shows_who_was_held_back(lent);
    // It was asked, and not cut off: its connection lives.
    let ended = served.counters().closes_for(CloseReason::RdmaCreditsKept);
    assert_eq!(ended, 0);
    assert_eq!(served.counters().rdma_connections, 2);
    idle.session.renew().await.unwrap();
    assert!(served.at_once(&idle).await > 0);
    assert_eq!(served.counters().rdma_connections, 2);
    let ended = served.counters().closes_for(CloseReason::RdmaNoReceive);
    assert_eq!(ended, 0);
}

#[tokio::test(start_paused = true)]
async fn an_idle_client_that_cannot_be_asked_is_disconnected_at_last() {
    let lent = u32::try_from(AT_ONCE).unwrap() - 1;
    let served = OverRdma::new(MemFabric::default(), lent).await;
    let idle = served.client("idle", None).await;
    assert_eq!(served.wanted_by_another(&idle).await, (1, AT_ONCE));
    let ended = served.counters().closes_for(CloseReason::RdmaCreditsKept);
    assert_eq!(ended, 1);
    // It goes on with its session.
    idle.session.renew().await.unwrap();
}

async fn mkdir(client: &Client, dir: &FileHandle, name: &str) {
    let done = client.on(dir, |b| {
        b.push(&CreateArgs {
            object_type: CreateType::Dir,
            name: Opaque(name.as_bytes()),
            attrs: Fattr::new(&Attrs::default()),
        });
    });
    after_putfh(&done.await).take::<CreateRes>().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_long_list_of_names_goes_into_the_reply_chunk() {
    const NAMES: usize = 100;
    let served = OverRdma::new(MemFabric::default(), 100).await;
    let client = served.client("alice", None).await;
    let root = client.lookup(&[]).await.unwrap();
    let making = async {
        for number in 0..NAMES {
            mkdir(&client, &root, &format!("a directory with number {number}")).await;
        }
    };
    assert_eq!(served.reply_chunk_bytes_of(making).await.1, 0);
    let listing = client.on(&root, |b| {
        b.push(&ReadDirArgs {
            cookie: 0,
            cookie_verifier: Verifier::default(),
            dircount: 32_768,
            maxcount: 32_768,
            attr_request: Bitmap::of(&[FILEID, TYPE]),
        });
    });
    let (done, bytes) = served.reply_chunk_bytes_of(listing).await;
    let listed = after_putfh(&done).take::<ReadDirRes<'_>>().unwrap().entries;
    assert_eq!(listed.len(), NAMES);
    assert!(bytes > INLINE_BYTES, "{bytes}");
}

#[tokio::test(start_paused = true)]
async fn a_long_access_control_list_goes_into_the_reply_chunk() {
    const ENTRIES: u32 = 200;
    let served = OverRdma::new(MemFabric::default(), 100).await;
    let client = served.client("alice", None).await;
    let root = client.lookup(&[]).await.unwrap();
    mkdir(&client, &root, "d").await;
    let dir = File {
        client: &client,
        name: "d".to_owned(),
        fh: client.lookup(&["d"]).await.unwrap(),
        open: Stateid::ANONYMOUS,
    };
    let entry = |number: u32| Ace {
        ace_type: ACE_TYPE_ALLOW,
        flag: 0,
        access_mask: ACE_READ_DATA,
        who: (1_000_000_000 + number).to_string().as_bytes().into(),
    };
    let list: Vec<_> = (0..ENTRIES).map(entry).collect();
    let wanted = Attrs {
        acl: Some(List(list.clone())),
        ..Attrs::default()
    };
    dir.try_set(&wanted).await.unwrap();
    let asking = client.on(&dir.fh, |b| {
        b.push(&GetAttrArgs {
            attr_request: Bitmap::of(&[ACL]),
        });
    });
    let (done, bytes) = served.reply_chunk_bytes_of(asking).await;
    let got = after_putfh(&done).take::<GetAttrRes<'_>>().unwrap();
    assert_eq!(got.attributes.attrs().unwrap().acl.unwrap().0, list);
    assert!(bytes > INLINE_BYTES, "{bytes}");
    // The client had made room for it at once.
    assert_eq!(served.counters().rdma_calls_refused, 0);
}

#[tokio::test(start_paused = true)]
async fn a_layout_over_many_data_servers_goes_into_the_reply_chunk() {
    /// As many as a file may lie on.
    const DATA_SERVERS: u8 = 58;
    let served = OverRdma::before(DATA_SERVERS, MemFabric::default(), 100).await;
    let client = served.client("alice", None).await;
    let file = File::create(&client, "f").await;
    let granting = patiently(|| file.try_layout_within(IoMode::Rw, RESULT_BYTES));
    let (granted, bytes) = served.reply_chunk_bytes_of(granting).await;
    let layout = granted.unwrap().body;
    assert_eq!(layout.file_handles.0.len(), usize::from(DATA_SERVERS));
    assert!(bytes > INLINE_BYTES, "{bytes}");
    assert_eq!(served.counters().rdma_calls_refused, 0);
}
