//! Goal: a crash of the metadata server at any moment of a restriping leaves the file whole, by its old layout or the new one,
//! and no objects that are nobody's (decision 17). Method: a store that fails at its n-th transaction, real data servers over
//! stores in memory, and another metadata server over what the store had; time paused.
#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]

use crate::restripe::{ended, layout, set};
use crate::rig::cluster::Port;
use crate::rig::file::{File, patiently};
use crate::rig::real::{Real, bytes_of, fill, pattern, try_commit};
use crate::rig::{Rig, copy_of};
use bytes::Bytes;
use meta::{BoxFuture, MemStore, MetaError, MetaStore, Pair, Read, Seq, TxBody};
use nfs4::ops::SHARE_ACCESS_BOTH;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

/// A store that takes so many transactions more. The last one may be applied and never be durable.
struct Crashing {
    inner: MemStore,
    left: AtomicU64,
    loses_last: bool,
}

impl Crashing {
    fn new(loses_last: bool) -> Arc<Self> {
        Arc::new(Self {
            inner: MemStore::manual(),
            left: AtomicU64::new(u64::MAX),
            loses_last,
        })
    }

    fn has_crashed(&self) -> bool {
        self.left.load(SeqCst) == 0
    }
}

impl Read for Crashing {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, MetaError> {
        self.inner.get(key)
    }
    fn scan(&self, start: &[u8], end: &[u8], limit: usize) -> Result<Vec<Pair>, MetaError> {
        self.inner.scan(start, end, limit)
    }
}

impl MetaStore for Crashing {
    fn transact(&self, body: &mut TxBody<'_>) -> Result<Seq, MetaError> {
        let before = self.inner.applied();
        let done = self.inner.transact(body)?;
        let is_last = done > before && self.left.fetch_sub(1, SeqCst) == 1;
        if !(is_last && self.loses_last) {
            self.inner.sync();
        }
        if is_last {
            self.inner.fail(MetaError::Poisoned);
        }
        Ok(done)
    }
    fn applied(&self) -> Seq {
        self.inner.applied()
    }
    fn durable_through(&self) -> Seq {
        self.inner.durable_through()
    }
    fn durable(&self, seq: Seq) -> BoxFuture<'_, Result<(), MetaError>> {
        self.inner.durable(seq)
    }
    fn disk_bytes(&self) -> u64 {
        0
    }
}

const SERVERS: u8 = 3;

async fn start_all(rig: &Rig, port: &Port, servers: &mut [Real], seed: u64) {
    for (turn, server) in servers.iter_mut().enumerate() {
        server.start(rig, port, seed + turn as u64).await;
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
}

fn objects(servers: &[Real]) -> u64 {
    let count = |s: &Real| s.nfsd.as_ref().unwrap().role().status().objects_count;
    servers.iter().map(count).sum()
}

/// Waits until data servers have as many objects.
async fn until_objects(servers: &[Real], count: u64, at: &str) {
    for _ in 0..120 {
        if objects(servers) == count {
            return;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    panic!("{at}: {} objects, not {count}", objects(servers));
}

/// Restripes a file, and crashes after so many transactions. Returns whether that was before all was done, and the copies
/// that the file had then.
async fn crashes_after(transactions: u64, loses_last: bool) -> (bool, u64) {
    let store = Crashing::new(loses_last);
    let rig = Rig::over(store.clone()).await;
    let port = Port::open(&rig);
    let mut servers: Vec<Real> = (1..=SERVERS).map(Real::new).collect();
    start_all(&rig, &port, &mut servers, 1).await;
    let model = pattern(100_000);
    {
        let alice = rig.session("alice").await;
        let file = File::create(&alice, "file").await;
        fill(&file, 0, &model).await;
        patiently(|| try_commit(&file)).await.unwrap();
        let _told = layout(&file).await;
        assert_eq!(objects(&servers), u64::from(SERVERS));
        store.left.store(transactions, SeqCst);
        let mut ordered = set(&file, "copies=2").await;
        while ordered == Err(nfs4::NfsStatus::Delay) && !store.has_crashed() {
            tokio::time::sleep(Duration::from_millis(200)).await;
            ordered = set(&file, "copies=2").await;
        }
        // Long enough for the old objects to be removed.
        for _ in 0..30_000 {
            if store.has_crashed() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    let has_crashed = store.has_crashed();
    for server in &mut servers {
        server.stop().await;
    }
    drop((rig, port));

    let at = format!("after {transactions} transactions");
    let rig = Rig::over(Arc::new(copy_of(&store.inner.after_crash()))).await;
    let port = Port::open(&rig);
    start_all(&rig, &port, &mut servers, 11).await;
    let alice = rig.session("alice").await;
    let file = File::open(&alice, "file", SHARE_ACCESS_BOTH).await.unwrap();
    assert!(bytes_of(&file, 0, usize::MAX).await == model, "{at}");
    let copies = match layout(&file).await {
        new if new.ends_with("copies=2") => 2,
        old if old.ends_with("stripe_count=3") => 1,
        other => panic!("{at}: {other}"),
    };
    until_objects(&servers, copies * u64::from(SERVERS), &at).await;
    // It can be ordered again.
    patiently(|| set(&file, "copies=2")).await.unwrap();
    assert!(ended(&file).await.ends_with("copies=2"), "{at}");
    assert!(bytes_of(&file, 0, usize::MAX).await == model, "{at}");
    until_objects(&servers, 2 * u64::from(SERVERS), &at).await;
    (has_crashed, copies)
}

/// Crashes at each point; there are some with the old layout and some with the new one.
async fn each_crash(loses_last: bool) {
    let mut seen = Vec::new();
    for transactions in 1.. {
        let (has_crashed, copies) = crashes_after(transactions, loses_last).await;
        seen.push(copies);
        if !has_crashed {
            break;
        }
    }
    let count = |copies| seen.iter().filter(|c| **c == copies).count();
    assert!(count(1) > 3 && count(2) > 3, "{seen:?}");
}

#[tokio::test(start_paused = true)]
async fn a_crash_after_each_transaction_leaves_the_file_whole_and_no_object_behind() {
    each_crash(false).await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_that_loses_the_last_transaction_leaves_the_file_whole_and_no_object_behind() {
    each_crash(true).await;
}
