//! The bare store: the transaction of a create and nothing around it.
//!
//! A transaction reads the parent's inode and the bucket of the new name. It writes the bucket, the new inode, the parent, the
//! counters, and the answer that the task's slot keeps for a retry. Its task waits until that is durable. Keys and sizes are
//! those of docs/formats.md. All names go to one directory, the hardest case: every transaction changes the same parent.
//!
//! It runs in this process, over any [`MetaStore`]; its CPU time is that of the whole process.

use crate::load::{self, Load, TaskRequester};
use crate::pattern::mix;
use crate::process::cpu_of_this_process;
use crate::{BenchError, Sample, Subject};
use meta::{MetaError, MetaStore, Seq, TxOutcome};
use serde_json::{Value, json};
use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

/// Bytes of an encoded inode: the fields of key `i`, without a symlink's target.
const INODE_BYTES: usize = 136;
/// Bytes of a bucket with one entry: count, slot, name of 12 bytes, file id, type.
const BUCKET_BYTES: usize = 40;
/// Bytes of the counters: limits of numbers, files that exist.
const COUNTERS_BYTES: usize = 24;
/// Bytes of a kept answer: how far the COMPOUND has come, its handle, the results of SEQUENCE, PUTFH and OPEN.
const KEPT_BYTES: usize = 192;
/// Bytes that a create writes as values.
const CREATE_BYTES: usize = 2 * INODE_BYTES + BUCKET_BYTES + COUNTERS_BYTES + KEPT_BYTES;
/// The key of the counters.
const COUNTERS_KEY: &[u8] = b"scounters";
/// The directory that all creates go to.
const PARENT_ID: u64 = 1;

/// Opens a new, empty store for a run; the value lives as long as the run.
pub type StoreFactory = Box<dyn FnMut() -> Result<Box<dyn OpenStore>, BenchError>>;

/// A store and whatever must live as long as it, such as its folder.
pub trait OpenStore {
    /// The store.
    fn store(&self) -> Arc<dyn MetaStore>;
}

impl OpenStore for Arc<dyn MetaStore> {
    fn store(&self) -> Arc<dyn MetaStore> {
        Arc::clone(self)
    }
}

/// Creates in a store as a subject. The load's connections are tasks that wait.
pub struct StoreCreates {
    engine: &'static str,
    open: StoreFactory,
}

impl std::fmt::Debug for StoreCreates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreCreates")
            .field("engine", &self.engine)
            .finish_non_exhaustive()
    }
}

impl StoreCreates {
    /// Creates in the stores that `open` makes, one per run; `engine` names them in tables.
    #[must_use]
    pub fn new(engine: &'static str, open: StoreFactory) -> Self {
        Self { engine, open }
    }
}

impl Subject for StoreCreates {
    fn name(&self) -> String {
        format!("bare store {}", self.engine)
    }

    fn settings(&self) -> Value {
        json!({
            "inode_bytes": INODE_BYTES,
            "bucket_bytes": BUCKET_BYTES,
            "counters_bytes": COUNTERS_BYTES,
            "kept_bytes": KEPT_BYTES,
        })
    }

    fn run(&mut self, load: &Load) -> Result<Sample, BenchError> {
        let open = (self.open)()?;
        let store = open.store();
        let next_id = Rc::new(Cell::new(PARENT_ID + 1));
        format(store.as_ref())?;
        let make = |index: usize| {
            let creator = Creator {
                slot: u32::try_from(index).unwrap_or(u32::MAX),
                store: Arc::clone(&store),
                next_id: Rc::clone(&next_id),
            };
            Ok(Box::new(creator) as Box<dyn TaskRequester>)
        };
        let sample = load::drive_tasks(load, make, &cpu_of_this_process)?;
        check(store.as_ref(), next_id.get())?;
        Ok(sample)
    }
}

struct Creator {
    slot: u32,
    store: Arc<dyn MetaStore>,
    next_id: Rc<Cell<u64>>,
}

impl TaskRequester for Creator {
    fn request(&mut self) -> Pin<Box<dyn Future<Output = Result<u64, BenchError>> + '_>> {
        Box::pin(async {
            let id = self.next_id.replace(self.next_id.get() + 1);
            let seq = create(self.store.as_ref(), self.slot, id)?;
            self.store.durable(seq).await?;
            Ok(CREATE_BYTES as u64)
        })
    }
}

fn inode_key(id: u64) -> [u8; 9] {
    let mut key = [b'i'; 9];
    key[1..].copy_from_slice(&id.to_be_bytes());
    key
}

/// The bucket's key: directory, then 56 bits in place of the hash of the name.
fn bucket_key(id: u64) -> [u8; 16] {
    let mut key = [b'd'; 16];
    key[1..9].copy_from_slice(&PARENT_ID.to_be_bytes());
    key[9..].copy_from_slice(&mix(id).to_be_bytes()[1..]);
    key
}

/// The key of what a slot keeps: a session's id, then the slot.
fn kept_key(slot: u32) -> [u8; 21] {
    let mut key = [b'e'; 21];
    key[17..].copy_from_slice(&slot.to_be_bytes());
    key
}

/// An inode whose first field is `number`; the rest does not compress.
fn value<const N: usize>(number: u64) -> [u8; N] {
    let mut value = [0; N];
    crate::pattern::fill(number.wrapping_mul(4096), &mut value);
    value[..8].copy_from_slice(&number.to_be_bytes());
    value
}

fn number(value: &[u8]) -> Result<u64, MetaError> {
    let field = value.first_chunk().copied().map(u64::from_be_bytes);
    field.ok_or_else(|| MetaError::Corrupt("an inode without its first field".to_owned()))
}

fn format(store: &dyn MetaStore) -> Result<(), BenchError> {
    store.transact(&mut |tx| {
        tx.put(&inode_key(PARENT_ID), &value::<INODE_BYTES>(0));
        Ok(TxOutcome::Commit)
    })?;
    Ok(())
}

/// The transaction. The parent's first field counts the creates, as its change attribute would.
fn create(store: &dyn MetaStore, slot: u32, id: u64) -> Result<Seq, BenchError> {
    let seq = store.transact(&mut |tx| {
        let missing = || MetaError::Corrupt("the parent is missing".to_owned());
        let parent = tx.get(&inode_key(PARENT_ID))?.ok_or_else(missing)?;
        let change = number(&parent)? + 1;
        if tx.get(&bucket_key(id))?.is_some() {
            return Err(MetaError::Corrupt("a new name exists already".to_owned()));
        }
        tx.put(&bucket_key(id), &value::<BUCKET_BYTES>(id));
        tx.put(&inode_key(id), &value::<INODE_BYTES>(id));
        tx.put(&inode_key(PARENT_ID), &value::<INODE_BYTES>(change));
        tx.put(COUNTERS_KEY, &value::<COUNTERS_BYTES>(change));
        tx.put(&kept_key(slot), &value::<KEPT_BYTES>(id));
        Ok(TxOutcome::Commit)
    })?;
    Ok(seq)
}

/// After a run: the parent has counted every create, and the first and the last are there with their names.
fn check(store: &dyn MetaStore, next_id: u64) -> Result<(), BenchError> {
    let creates_count = next_id - PARENT_ID - 1;
    let wrong = || MetaError::Corrupt(format!("{creates_count} creates left something else"));
    let parent = store.get(&inode_key(PARENT_ID))?.ok_or_else(wrong)?;
    if number(&parent)? != creates_count {
        return Err(wrong().into());
    }
    let (first, last) = (PARENT_ID + 1, next_id - 1);
    for id in [first, last].into_iter().filter(|id| *id >= first) {
        let inode = store.get(&inode_key(id))?.ok_or_else(wrong)?;
        let bucket = store.get(&bucket_key(id))?.ok_or_else(wrong)?;
        if inode[..] != value::<INODE_BYTES>(id) || bucket[..] != value::<BUCKET_BYTES>(id) {
            return Err(wrong().into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    //! The transaction does what its name says, and the check after a run sees when it did not.
    use super::*;
    use meta::MemStore;
    use meta::Read as _;
    use std::time::Duration;

    #[test]
    fn creates_leave_names_inodes_and_a_counting_parent() {
        let store = MemStore::new();
        format(&store).unwrap();
        for id in 2..12 {
            create(&store, 0, id).unwrap();
        }
        check(&store, 12).unwrap();
        assert_eq!(store.scan(b"i", b"j", 100).unwrap().len(), 11);
        assert_eq!(store.scan(b"d", b"e", 100).unwrap().len(), 10);
        let kept = store.scan(b"e", b"f", 100).unwrap();
        assert_eq!(kept.len(), 1, "one slot keeps one answer");
        assert_eq!(kept[0].1[..], value::<KEPT_BYTES>(11));
        assert!(check(&store, 13).is_err());
        assert!(create(&store, 0, 5).is_err(), "the name exists");
        check(&store, 12).unwrap();
    }

    #[test]
    fn a_run_in_memory_is_counted() {
        let open = || {
            let store: Arc<dyn MetaStore> = Arc::new(MemStore::new());
            Ok(Box::new(store) as Box<dyn OpenStore>)
        };
        let mut subject = StoreCreates::new("memory", Box::new(open));
        let load = Load {
            connections_count: 8,
            warm_up: Duration::from_millis(10),
            measure: Duration::from_millis(100),
        };
        let sample = subject.run(&load).unwrap();
        assert!(sample.requests_count > 0);
        assert_eq!(sample.payload_bytes, sample.requests_count * 528);
    }

    #[test]
    fn a_create_waits_until_it_is_durable() {
        let store = Arc::new(MemStore::manual());
        format(store.as_ref()).unwrap();
        let mut creator = Creator {
            slot: 0,
            store: Arc::clone(&store) as Arc<dyn MetaStore>,
            next_id: Rc::new(Cell::new(2)),
        };
        let mut request = creator.request();
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(request.as_mut().poll(&mut context).is_pending());
        store.sync();
        assert!(request.as_mut().poll(&mut context).is_ready());
    }
}
