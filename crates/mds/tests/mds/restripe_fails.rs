//! Goal: a restriping that panics, or that the store refuses, leaves the file as it was and no objects, without a restart.
//! Method: a store that fails when a file is given its new objects, and real data servers over stores in memory; time paused.
#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]

use crate::restripe::{ended, set};
use crate::rig::Rig;
use crate::rig::cluster::Port;
use crate::rig::file::{File, patiently};
use crate::rig::real::{Real, bytes_of, fill, pattern, try_commit};
use bytes::Bytes;
use meta::{BoxFuture, MemStore, MetaError, MetaStore, Pair, Purpose, Read, Seq, Tx, TxBody};
use std::sync::Arc;
use std::time::Duration;
use tracing_mutex::parkinglot::Mutex;

/// The first byte of the key of the record that leads from objects to their file: only the switch puts it.
const DATA_NAME: u8 = b'a';
/// The first byte of the key of a nameless file: its end deletes it.
const ORPHAN: u8 = b'o';

#[derive(Clone, Copy, PartialEq, Eq)]
enum Trouble {
    None,
    /// The job panics at the switch.
    Panic,
    /// The store refuses the switch, and to end the nameless file.
    Refusal,
}

struct Troubled {
    inner: MemStore,
    trouble: Mutex<Trouble>,
}

/// What a transaction touches.
struct Watched<'a> {
    inner: &'a mut dyn Tx,
    trouble: Trouble,
    ends: bool,
}

impl Read for Watched<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, MetaError> {
        self.inner.get(key)
    }
    fn scan(&self, start: &[u8], end: &[u8], limit: usize) -> Result<Vec<Pair>, MetaError> {
        self.inner.scan(start, end, limit)
    }
}

impl Tx for Watched<'_> {
    fn purpose(&mut self, purpose: Purpose) {
        self.inner.purpose(purpose);
    }
    fn put(&mut self, key: &[u8], value: &[u8]) {
        let is_switch = key.first() == Some(&DATA_NAME);
        assert!(self.trouble != Trouble::Panic || !is_switch, "as told");
        self.inner.put(key, value);
    }
    fn delete(&mut self, key: &[u8]) {
        self.ends |= key.first() == Some(&ORPHAN);
        self.inner.delete(key);
    }
}

impl Read for Troubled {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, MetaError> {
        self.inner.get(key)
    }
    fn scan(&self, start: &[u8], end: &[u8], limit: usize) -> Result<Vec<Pair>, MetaError> {
        self.inner.scan(start, end, limit)
    }
}

impl MetaStore for Troubled {
    fn transact(&self, body: &mut TxBody<'_>) -> Result<Seq, MetaError> {
        let trouble = *self.trouble.lock();
        self.inner.transact(&mut |tx| {
            let mut watched = Watched {
                inner: tx,
                trouble,
                ends: false,
            };
            let outcome = body(&mut watched)?;
            match trouble {
                Trouble::Refusal if watched.ends => Err(MetaError::NoSpace),
                _ => Ok(outcome),
            }
        })
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

fn objects(servers: &[Real]) -> u64 {
    let count = |s: &Real| s.nfsd.as_ref().unwrap().role().status().objects_count;
    servers.iter().map(count).sum()
}

async fn leaves_nothing(trouble: Trouble) {
    let store = Arc::new(Troubled {
        inner: MemStore::new(),
        trouble: Mutex::new(Trouble::None),
    });
    let rig = Rig::over(store.clone()).await;
    let port = Port::open(&rig);
    let mut servers = [Real::new(1), Real::new(2)];
    for (server, seed) in servers.iter_mut().zip(1..) {
        server.start(&rig, &port, seed).await;
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    let alice = rig.session("alice").await;
    let file = File::create(&alice, "file").await;
    let model = pattern(100_000);
    fill(&file, 0, &model).await;
    patiently(|| try_commit(&file)).await.unwrap();
    assert_eq!(objects(&servers), 2);

    *store.trouble.lock() = trouble;
    patiently(|| set(&file, "copies=2")).await.unwrap();
    let text = ended(&file).await;
    assert!(text.contains("restripe_failed="), "{text}");
    assert_eq!(objects(&servers), 2 + 4, "what was copied is there");
    *store.trouble.lock() = Trouble::None;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(objects(&servers), 2);
    assert!(bytes_of(&file, 0, usize::MAX).await == model);

    patiently(|| set(&file, "copies=2")).await.unwrap();
    assert!(ended(&file).await.ends_with("copies=2"));
    assert!(bytes_of(&file, 0, usize::MAX).await == model);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(objects(&servers), 4);
}

#[tokio::test(start_paused = true)]
async fn a_job_that_panics_leaves_no_objects() {
    leaves_nothing(Trouble::Panic).await;
}

#[tokio::test(start_paused = true)]
async fn a_job_that_the_store_refuses_leaves_no_objects() {
    leaves_nothing(Trouble::Refusal).await;
}
