//! What every test of the name space starts from.
#![allow(dead_code, reason = "each test file uses its own part")]
#![allow(clippy::unwrap_used, reason = "a failed helper is a failed test")]

use meta::{MemStore, MetaStore};
use ropewalk_namespace::{
    Cred, FileId, Format, How, Namespace, NamespaceLimits, NewNode, NsError, Op, Placement, Time,
};
use std::sync::Arc;

pub(crate) const FORMAT: Format = Format {
    cluster_id: 7,
    hash_key: *b"a directory hash",
};

pub(crate) const PLACEMENT: Placement = Placement {
    group: 1,
    stripe_unit: 1 << 20,
    first_index: 2,
};

pub(crate) fn at(secs: i64) -> Time {
    Time { secs, nanos: 5 }
}

pub(crate) fn open(store: Arc<dyn MetaStore>) -> Namespace {
    Namespace::open(store, FORMAT, at(0), NamespaceLimits::default())
        .unwrap()
        .0
}

pub(crate) fn fresh() -> Namespace {
    open(Arc::new(MemStore::new()))
}

pub(crate) fn user(uid: u32) -> Cred {
    Cred::user(uid, uid, vec![])
}

/// Runs `call` as `cred` at `secs`.
pub(crate) fn run<T>(
    cred: &Cred,
    secs: i64,
    call: impl FnOnce(&mut Op<'_>) -> Result<T, NsError>,
) -> Result<T, NsError> {
    call(&mut Op::new(cred, at(secs)))
}

pub(crate) fn mkdir(ns: &Namespace, dir: FileId, name: &str, mode: u32) -> FileId {
    let made = run(&Cred::root(), 1, |op| {
        ns.mkdir(op, dir, name.as_bytes(), &NewNode::mode(mode))
    });
    made.unwrap().inode.id
}

/// A file whose bytes lie in the metadata store.
pub(crate) fn create_inline(ns: &Namespace, cred: &Cred, dir: FileId, name: &str) -> FileId {
    let made = run(cred, 1, |op| {
        let new = NewNode::mode(0o644);
        ns.create(op, dir, name.as_bytes(), &new, How::Guarded, None)
    });
    made.unwrap().inode.id
}

pub(crate) fn touch(ns: &Namespace, cred: &Cred, dir: FileId, name: &str, mode: u32) -> FileId {
    let made = run(cred, 1, |op| {
        let new = NewNode::mode(mode);
        ns.create(
            op,
            dir,
            name.as_bytes(),
            &new,
            How::Guarded,
            Some(PLACEMENT),
        )
    });
    made.unwrap().inode.id
}
