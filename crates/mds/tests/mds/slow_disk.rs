//! Goal: a data server whose syncs take seconds loses its primaries and then its places, others go on, and nothing flaps (rule P25).
//! Method: a metadata server and real data servers over stores in memory, time paused; the index of one is durable late.
#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]

use crate::placement::set_policy;
use crate::replicas::until_level;
use crate::rig::cluster::Port;
use crate::rig::file::{File, patiently};
use crate::rig::real::{Real, bytes_of, fill, try_commit, write};
use crate::rig::{Client, Rig};
use bytes::Bytes;
use cluster::{ClusterStatus, PairLag, WhySlow};
use meta::{BoxFuture, MemStore, MetaError, MetaStore, Pair, Read, Seq, TxBody};
use nfs4::StableHow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

/// The data server with the slow disk.
const SLOW: u32 = 2;
/// Files, so that each place has some.
const FILES: usize = 3;
const FILE_BYTES: usize = 40_000;
/// Between two rounds of writes.
const PAUSE: Duration = Duration::from_secs(1);

/// An index on a disk whose syncs take as long as is said.
struct LateStore {
    inner: MemStore,
    wanted: Notify,
    sync_ms: AtomicU64,
}

impl LateStore {
    fn start() -> Arc<Self> {
        let store = Arc::new(Self {
            inner: MemStore::manual(),
            wanted: Notify::new(),
            sync_ms: AtomicU64::new(5),
        });
        let syncs = Arc::clone(&store);
        tokio::spawn(async move {
            loop {
                syncs.wanted.notified().await;
                let ms = syncs.sync_ms.load(Ordering::Relaxed);
                sleep(Duration::from_millis(ms)).await;
                syncs.inner.sync();
            }
        });
        store
    }
}

impl Read for LateStore {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, MetaError> {
        self.inner.get(key)
    }
    fn scan(&self, start: &[u8], end: &[u8], limit: usize) -> Result<Vec<Pair>, MetaError> {
        self.inner.scan(start, end, limit)
    }
}

impl MetaStore for LateStore {
    fn transact(&self, body: &mut TxBody<'_>) -> Result<Seq, MetaError> {
        self.inner.transact(body)
    }
    fn applied(&self) -> Seq {
        self.inner.applied()
    }
    fn durable_through(&self) -> Seq {
        self.inner.durable_through()
    }
    fn durable(&self, seq: Seq) -> BoxFuture<'_, Result<(), MetaError>> {
        if self.inner.durable_through() < seq {
            self.wanted.notify_one();
        }
        self.inner.durable(seq)
    }
    fn disk_bytes(&self) -> u64 {
        self.inner.disk_bytes()
    }
}

/// Three data servers, the second one on this disk.
async fn three_servers() -> (Rig, Port, Vec<Real>, Arc<LateStore>) {
    let rig = Rig::new().await;
    let port = Port::open(&rig);
    let disk = LateStore::start();
    let mut servers = Vec::new();
    for number in 1..=3 {
        let mut server = Real::new(number);
        if u32::from(number) == SLOW {
            server.index = disk.clone();
        }
        server.start(&rig, &port, u64::from(number)).await;
        servers.push(server);
    }
    sleep(Duration::from_secs(3)).await;
    (rig, port, servers, disk)
}

fn status(rig: &Rig) -> ClusterStatus {
    rig.nfsd.role().fs().cluster().status()
}

/// The version of the group with copies: it rises with each change of a row.
fn version(rig: &Rig) -> u32 {
    let place = status(rig).places.into_iter().find(|p| p.copies > 1);
    let group = rig.nfsd.role().fs().cluster().group(place.unwrap().group);
    group.unwrap().version
}

fn is_primary(rig: &Rig, ds: u32) -> bool {
    status(rig).places.iter().any(|place| place.primary == ds)
}

/// Files with two copies, written all the time.
struct Load<'c> {
    files: Vec<File<'c>>,
    models: Vec<Vec<u8>>,
    turn: usize,
}

impl<'c> Load<'c> {
    async fn new(rig: &Rig, alice: &'c Client) -> Self {
        let root = alice.lookup(&[]).await.unwrap();
        let set = set_policy(alice, &root, "copies=2 inline_max=0");
        set.await.unwrap();
        let mut files = Vec::new();
        for number in 0..FILES {
            let file = File::create(alice, &format!("file{number}")).await;
            fill(&file, 0, &vec![0; FILE_BYTES]).await;
            patiently(|| try_commit(&file)).await.unwrap();
            files.push(file);
        }
        until_level(rig).await;
        let models = vec![vec![0; FILE_BYTES]; FILES];
        Self {
            files,
            models,
            turn: 0,
        }
    }

    /// Writes durably to each file once. Returns how long the slowest took.
    async fn round(&mut self) -> Duration {
        let mut slowest = Duration::ZERO;
        self.turn += 1;
        let text = format!("turn {}", self.turn);
        let at = self.turn * 37 % (FILE_BYTES - text.len());
        for (file, model) in self.files.iter().zip(&mut self.models) {
            let begun = Instant::now();
            write(file, at as u64, StableHow::FileSync, text.as_bytes()).await;
            slowest = slowest.max(begun.elapsed());
            model[at..at + text.len()].copy_from_slice(text.as_bytes());
        }
        sleep(PAUSE).await;
        slowest
    }

    async fn is_there(&self, what: &str) {
        for (file, model) in self.files.iter().zip(&self.models) {
            assert!(bytes_of(file, 0, usize::MAX).await == *model, "{what}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_disk_whose_syncs_take_3_s_loses_its_primaries_and_others_go_on() {
    let (rig, port, mut servers, disk) = three_servers().await;
    let alice = rig.session("alice").await;
    let mut load = Load::new(&rig, &alice).await;
    assert!(is_primary(&rig, SLOW));
    assert!(load.round().await < Duration::from_millis(100));

    disk.sync_ms.store(3_000, Ordering::Relaxed);
    let ill = Instant::now();
    let mut is_told = false;
    while ill.elapsed() < Duration::from_secs(30) {
        load.round().await;
        let waits = |p: &PairLag| p.lag.ds_id == SLOW && p.lag.sync_us > 1_000_000;
        is_told |= status(&rig).lags.iter().any(waits);
    }
    assert!(is_told, "its primaries tell how long its syncs take");
    let now = status(&rig);
    let slow = now.servers[1].slow.unwrap();
    assert!(matches!(slow.why, WhySlow::Disk { .. }), "{slow:?}");
    assert!(slow.is_out, "another copy in sync is left");
    assert!(now.places.iter().all(|p| p.is_served && p.primary != SLOW));

    let version_then = version(&rig);

    // It is tried now and then, and found slow again. Only then somebody waits for it.
    let (mut rounds, mut waited, mut times_out, mut was_out) = (0, 0, 0, true);
    while ill.elapsed() < Duration::from_secs(400) {
        rounds += 1;
        waited += u32::from(load.round().await > Duration::from_millis(500));
        let slow = status(&rig).servers[1].slow.expect("it stays slow");
        times_out += u32::from(slow.is_out && !was_out);
        was_out = slow.is_out;
        assert!(!is_primary(&rig, SLOW));
    }
    assert!((1..=2).contains(&times_out), "left out {times_out} times");
    assert!(waited * 10 < rounds, "{waited} of {rounds} rounds waited");

    // At each try both of its places are filled, count, and do without it again.
    let changes = version(&rig) - version_then;
    assert!(changes <= 6 * (times_out + 1), "{changes} changes of rows");

    disk.sync_ms.store(5, Ordering::Relaxed);
    let well = Instant::now();
    while status(&rig).servers[1].slow.is_some() || !is_primary(&rig, SLOW) {
        assert!(load.round().await < Duration::from_millis(500));
        assert!(well.elapsed() < Duration::from_secs(500), "it is well");
    }
    for (turn, server) in servers.iter_mut().enumerate() {
        until_level(&rig).await;
        server.stop().await;
        load.is_there(&format!("without {turn}")).await;
        server.start(&rig, &port, 50 + turn as u64).await;
    }
}

#[tokio::test(start_paused = true)]
async fn places_that_are_long_without_a_slow_data_server_get_another_copy() {
    let (rig, _port, mut servers, disk) = three_servers().await;
    let alice = rig.session("alice").await;
    let mut load = Load::new(&rig, &alice).await;
    disk.sync_ms.store(3_000, Ordering::Relaxed);
    let ill = Instant::now();
    // Longer than `replace_after`.
    while ill.elapsed() < Duration::from_secs(800) {
        load.round().await;
        sleep(Duration::from_secs(3)).await;
    }
    until_level(&rig).await;
    for place in status(&rig).places {
        let mut members = [&place.sync, &place.stale, &place.filling]
            .into_iter()
            .flatten();
        let has_it = place.primary == SLOW || members.any(|ds| *ds == SLOW);
        assert!(place.copies == 1 || !has_it, "{place:?}");
    }
    servers[1].stop().await;
    load.is_there("without the slow one").await;
}
