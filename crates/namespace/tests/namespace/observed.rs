//! Goal: what a call reports as observed covers all that its answer shows (R7). That holds also when it failed, and
//! while transactions commit on other threads. It covers no more than that where it matters.

use crate::common::*;
use meta::{BoxFuture, MemStore, MetaError, MetaStore, Pair, Read, Seq, TxBody};
use ropewalk_namespace::*;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const ROOT: FileId = FileId::ROOT;

/// The newest transaction that a call observed.
fn observed<T>(call: impl FnOnce(&mut Op<'_>) -> Result<T, NsError>) -> Seq {
    let cred = Cred::root();
    let mut op = Op::new(&cred, at(1));
    let _ = call(&mut op);
    op.observed()
}

#[test]
fn errors_and_reads_observe_what_they_depend_on() {
    let store = Arc::new(MemStore::manual());
    let ns = open(store.clone());
    let old = touch(&ns, &Cred::root(), ROOT, "old", 0o644);
    let before = store.applied();
    touch(&ns, &Cred::root(), ROOT, "new", 0o644);
    let made = store.applied();
    let new = NewNode::mode(0o644);
    let exist = observed(|op| ns.create(op, ROOT, b"new", &new, How::Guarded, None));
    assert_eq!(exist, made);
    assert_eq!(observed(|op| ns.getattr(op, ROOT)), made);
    // An old name in a busy directory need not wait for its neighbours.
    assert_eq!(observed(|op| ns.lookup(op, ROOT, b"old")), before);
    assert_eq!(observed(|op| ns.access(op, ROOT)), Seq(0));
    assert_eq!(observed(|op| ns.getattr(op, old)), before);

    observed(|op| ns.remove(op, ROOT, b"old", What::Any, &|_| false));
    let removed = store.applied();
    assert_eq!(observed(|op| ns.lookup(op, ROOT, b"old")), removed);
    assert_eq!(observed(|op| ns.getattr(op, old)), removed);
    let gone = observed(|op| ns.remove(op, ROOT, b"old", What::Any, &|_| false));
    assert_eq!(gone, removed);
    let chmod = SetAttr {
        mode: Some(0o777),
        ..SetAttr::default()
    };
    observed(|op| ns.setattr(op, ROOT, &chmod, false));
    assert_eq!(observed(|op| ns.lookup(op, ROOT, b"new")), store.applied());
    assert_eq!(observed(|op| ns.access(op, ROOT)), store.applied());
}

/// A store that dawdles between applying a transaction and saying so.
struct Slow(MemStore);

impl Read for Slow {
    fn get(&self, key: &[u8]) -> Result<Option<bytes::Bytes>, MetaError> {
        self.0.get(key)
    }
    fn scan(&self, start: &[u8], end: &[u8], limit: usize) -> Result<Vec<Pair>, MetaError> {
        self.0.scan(start, end, limit)
    }
}

impl MetaStore for Slow {
    fn transact(&self, body: &mut TxBody<'_>) -> Result<Seq, MetaError> {
        let seq = self.0.transact(body);
        for _ in 0..20 {
            std::thread::yield_now();
        }
        seq
    }
    fn applied(&self) -> Seq {
        self.0.applied()
    }
    fn durable_through(&self) -> Seq {
        self.0.durable_through()
    }
    fn durable(&self, seq: Seq) -> BoxFuture<'_, Result<(), MetaError>> {
        self.0.durable(seq)
    }
    fn disk_bytes(&self) -> u64 {
        0
    }
}

#[test]
fn readers_beside_a_writer_never_see_time_run_backwards_nor_too_early_a_number() {
    let limits = NamespaceLimits {
        inode_cache_entries_max: 1,
        entry_cache_entries_max: 1,
        ..NamespaceLimits::default()
    };
    let store = Arc::new(Slow(MemStore::manual()));
    let ns = Namespace::open(store, FORMAT, at(0), limits).unwrap().0;
    let files: Vec<FileId> = (0..300)
        .map(|n| touch(&ns, &Cred::root(), ROOT, &format!("f{n}"), 0o644))
        .collect();
    let done = AtomicBool::new(false);
    let (mut made, mut seen) = (HashMap::new(), Vec::new());
    std::thread::scope(|scope| {
        let reader = || {
            let (mut newest, mut seen) = (HashMap::new(), Vec::new());
            while !done.load(Ordering::Relaxed) {
                for file in &files {
                    let cred = Cred::root();
                    let mut op = Op::new(&cred, at(1));
                    let inode = ns.getattr(&mut op, *file).unwrap();
                    let last = newest.insert(*file, inode.change).unwrap_or(0);
                    assert!(inode.change >= last, "older than before");
                    if inode.change > last {
                        seen.push(((*file, inode.change), op.observed()));
                    }
                }
            }
            seen
        };
        let readers = [scope.spawn(reader), scope.spawn(reader)];
        for round in 0..20 {
            for file in files.iter().skip(round % 3).step_by(3) {
                let cred = Cred::root();
                let mut op = Op::new(&cred, at(2));
                let inode = ns
                    .commit_size(&mut op, *file, SizeCommit::default())
                    .unwrap();
                made.insert((*file, inode.change), op.observed());
            }
        }
        done.store(true, Ordering::Relaxed);
        for reader in readers {
            seen.extend(reader.join().unwrap());
        }
    });
    let checked = seen.iter().filter(|(what, seq)| {
        made.get(what).is_some_and(|needed| {
            assert!(
                seq >= needed,
                "{what:?} observed {seq:?}, made by {needed:?}"
            );
            true
        })
    });
    assert!(
        checked.count() > 100,
        "the readers saw too little to prove anything"
    );
}
