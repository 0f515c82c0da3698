//! Goal: bytes of small files are kept with their inodes, counted, and never beside a place on data servers.

use crate::common::*;
use meta::{MemStore, MetaStore, Read};
use ropewalk_namespace::*;
use std::sync::Arc;

const ROOT: FileId = FileId::ROOT;
const MAX: u64 = 100;

fn call<T>(f: impl FnOnce(&mut Op<'_>) -> Result<T, NsError>) -> T {
    run(&Cred::root(), 7, f).expect("root may")
}

fn write(ns: &Namespace, file: FileId, at: u64, bytes: &[u8]) -> Result<Arc<Inode>, NsError> {
    run(&Cred::root(), 7, |op| {
        ns.write_inline(op, file, (at, bytes), MAX)
    })
}

/// All of a file, holes as zeros.
fn read(ns: &Namespace, file: FileId) -> Vec<u8> {
    let (inode, bytes) = call(|op| ns.read_inline(op, file));
    assert_eq!(inode.space_used, bytes.len() as u64);
    let mut all = bytes.to_vec();
    assert!(all.len() as u64 <= inode.size);
    all.resize(usize::try_from(inode.size).unwrap_or(0), 0);
    all
}

fn resize(ns: &Namespace, file: FileId, size: u64) {
    let attrs = SetAttr {
        size: Some(size),
        ..SetAttr::default()
    };
    call(|op| ns.setattr(op, file, &attrs, true));
}

fn totals(ns: &Namespace) -> (u64, u64) {
    let report = ns.check().expect("a store in memory");
    assert_eq!(report.problems, Vec::<String>::new());
    let inline = ns.statistics().inline;
    assert_eq!(report.inline, inline);
    (inline.files, inline.bytes)
}

#[test]
fn writes_holes_and_cuts_read_back_and_survive_a_restart() {
    let store = Arc::new(MemStore::new());
    let ns = open(store.clone());
    let f = create_inline(&ns, &Cred::root(), ROOT, "f");
    assert_eq!((read(&ns, f), totals(&ns)), (vec![], (1, 0)));
    let wrote = write(&ns, f, 2, b"abc").expect("room");
    assert_eq!((wrote.size, wrote.mtime, wrote.space_used), (5, at(7), 5));
    assert_eq!(read(&ns, f), b"\0\0abc");
    let again = write(&ns, f, 0, b"xy").expect("room");
    assert_eq!((again.size, again.change), (5, wrote.change + 1));
    // A longer file has a hole at its end, which takes no room.
    resize(&ns, f, 8);
    assert_eq!(
        (read(&ns, f), totals(&ns)),
        (b"xyabc\0\0\0".to_vec(), (1, 5))
    );
    // What is cut off does not come back.
    resize(&ns, f, 3);
    resize(&ns, f, 6);
    assert_eq!((read(&ns, f), totals(&ns)), (b"xya\0\0\0".to_vec(), (1, 3)));
    let ns = open(store);
    assert_eq!((read(&ns, f), totals(&ns)), (b"xya\0\0\0".to_vec(), (1, 3)));
    resize(&ns, f, 0);
    assert_eq!((read(&ns, f), totals(&ns)), (vec![], (1, 0)));
}

#[test]
fn a_hole_is_zeros_and_at_the_end_of_the_bytes_takes_no_room() {
    let ns = fresh();
    let f = create_inline(&ns, &Cred::root(), ROOT, "f");
    write(&ns, f, 0, b"abcdef").expect("room");
    call(|op| ns.punch_inline(op, f, 1..3));
    assert_eq!((read(&ns, f), totals(&ns)), (b"a\0\0def".to_vec(), (1, 6)));
    call(|op| ns.punch_inline(op, f, 4..u64::MAX));
    let cut = b"a\0\0d\0\0".to_vec();
    assert_eq!((read(&ns, f), totals(&ns)), (cut, (1, 4)));
    let change = call(|op| ns.getattr(op, f)).change;
    let nothing = call(|op| ns.punch_inline(op, f, 5..6));
    assert_eq!((nothing.size, nothing.change), (6, change + 1));
}

#[test]
fn a_file_that_outgrows_its_limit_needs_a_place() {
    let ns = fresh();
    let f = create_inline(&ns, &Cred::root(), ROOT, "f");
    for (at, len) in [(0, 101), (100, 1), (u64::MAX, 1), (1 << 62, 1)] {
        let bytes = vec![1; len];
        assert_eq!(write(&ns, f, at, &bytes), Err(NsError::NeedsPlace), "{at}");
    }
    assert_eq!((read(&ns, f), totals(&ns)), (vec![], (1, 0)));
    write(&ns, f, 99, b"z").expect("just fits");
    let whole = call(|op| ns.getattr(op, f));
    assert_eq!(whole.size, 100);
    // The limit may be lowered, and no setting allows more than the store does.
    let lower = run(&Cred::root(), 7, |op| ns.write_inline(op, f, (0, b"a"), 99));
    assert_eq!(lower, Err(NsError::NeedsPlace));
    let at = u64::from(INLINE_BYTES_MAX);
    let most = run(&Cred::root(), 7, |op| {
        ns.write_inline(op, f, (at, b"a"), u64::MAX)
    });
    assert_eq!(most, Err(NsError::NeedsPlace));
}

#[test]
fn a_file_gets_a_place_once_and_its_bytes_go_with_the_intent() {
    let store = Arc::new(MemStore::new());
    let ns = open(store.clone());
    let f = create_inline(&ns, &Cred::root(), ROOT, "f");
    let wrote = write(&ns, f, 0, b"abc").expect("room");
    let early = run(&Cred::root(), 7, |op| ns.place(op, f, PLACEMENT));
    assert_eq!(early, Err(NsError::Busy), "without an intent");
    let first = call(|op| ns.begin_placing(op, f, PLACEMENT));
    assert_eq!((first.placement, first.is_again), (PLACEMENT, false));
    let elsewhere = Placement {
        group: 9,
        ..PLACEMENT
    };
    let ns = open(store.clone());
    let again = call(|op| ns.begin_placing(op, f, elsewhere));
    assert_eq!((again.placement, again.is_again), (PLACEMENT, true));
    let wrong = run(&Cred::root(), 7, |op| ns.place(op, f, elsewhere));
    assert_eq!(wrong, Err(NsError::Busy), "not where the bytes are");
    assert_eq!((read(&ns, f), totals(&ns)), (b"abc".to_vec(), (1, 3)));
    let placed = call(|op| ns.place(op, f, PLACEMENT));
    assert_eq!((placed.placement, placed.size), (Some(PLACEMENT), 3));
    assert_eq!((placed.change, placed.mtime), (wrote.change, wrote.mtime));
    assert_eq!(placed.space_used, 4096);
    assert_eq!(
        (call(|op| ns.read_inline(op, f)).1.len(), totals(&ns)),
        (0, (0, 0))
    );
    assert_eq!(write(&ns, f, 0, b"x"), Err(NsError::Busy));
    let kept = call(|op| ns.place(op, f, elsewhere));
    assert_eq!(kept.placement, Some(PLACEMENT), "once");
    let begun = run(&Cred::root(), 7, |op| ns.begin_placing(op, f, elsewhere));
    assert_eq!(begun, Err(NsError::Busy));
    let pairs = |tag: &[u8]| store.scan(tag, &meta::prefix_end(tag), 9);
    assert!(pairs(b"b").is_ok_and(|p| p.is_empty()) && pairs(b"p").is_ok_and(|p| p.is_empty()));
}

#[test]
fn a_file_without_bytes_gets_its_place_at_once() {
    let ns = fresh();
    let f = create_inline(&ns, &Cred::root(), ROOT, "f");
    resize(&ns, f, 50);
    let unbegun = run(&Cred::root(), 7, |op| ns.place(op, f, PLACEMENT));
    assert_eq!(unbegun, Err(NsError::Busy));
    let placed = call(|op| ns.place_unheard(op, f, PLACEMENT));
    assert_eq!((placed.size, placed.space_used), (50, 0));
    assert_eq!(totals(&ns), (0, 0));
}

/// Seed 25206 of the simulator: an attempt had left bytes, the file was cut to nothing, and the next place was the same.
#[test]
fn a_file_of_which_a_data_server_has_heard_is_never_placed_at_once() {
    let ns = fresh();
    let f = create_inline(&ns, &Cred::root(), ROOT, "f");
    write(&ns, f, 0, b"abc").expect("room");
    call(|op| ns.begin_placing(op, f, PLACEMENT));
    resize(&ns, f, 0);
    let elsewhere = Placement {
        group: 9,
        ..PLACEMENT
    };
    for placement in [PLACEMENT, elsewhere] {
        let at_once = run(&Cred::root(), 7, |op| ns.place_unheard(op, f, placement));
        assert_eq!(at_once, Err(NsError::Busy));
    }
    assert!(call(|op| ns.begin_placing(op, f, elsewhere)).is_again);
    let placed = call(|op| ns.place(op, f, PLACEMENT));
    assert_eq!(placed.placement, Some(PLACEMENT));
    assert_eq!(totals(&ns), (0, 0));
}

#[test]
fn a_removal_asks_data_servers_only_where_bytes_may_lie() {
    let ns = fresh();
    let remove = |name: &[u8], open| {
        call(|op| ns.remove(op, ROOT, name, What::Any, &|_| open));
        call(|op| ns.removal_batch(op, 0, 9))
    };
    let f = create_inline(&ns, &Cred::root(), ROOT, "f");
    write(&ns, f, 0, b"abc").expect("room");
    assert_eq!(remove(b"f", false), []);
    // Open: it lives on until the last close.
    let g = create_inline(&ns, &Cred::root(), ROOT, "g");
    write(&ns, g, 0, b"abc").expect("room");
    assert_eq!(remove(b"g", true), []);
    write(&ns, g, 3, b"d").expect("still a file");
    assert_eq!((read(&ns, g), totals(&ns)), (b"abcd".to_vec(), (1, 4)));
    assert!(call(|op| ns.orphan_closed(op, g)));
    assert_eq!(
        (call(|op| ns.removal_batch(op, 0, 9)), totals(&ns)),
        (vec![], (0, 0))
    );
    // An attempt to place it was left behind.
    let h = create_inline(&ns, &Cred::root(), ROOT, "h");
    write(&ns, h, 0, b"abc").expect("room");
    call(|op| ns.begin_placing(op, h, PLACEMENT));
    let queue = remove(b"h", false);
    assert_eq!((queue[0].file, queue[0].placement), (h, PLACEMENT));
    assert_eq!(totals(&ns), (0, 0));
}

#[test]
fn a_record_that_is_missing_or_of_another_length_is_never_read_as_zeros() {
    let store = Arc::new(MemStore::new());
    let ns = open(store.clone());
    let f = create_inline(&ns, &Cred::root(), ROOT, "f");
    write(&ns, f, 0, b"abc").expect("room");
    let key = [&b"b"[..], &f.0.to_be_bytes()].concat();
    for damage in [None, Some(&b"ab"[..])] {
        let damaged = store.transact(&mut |tx| {
            match damage {
                Some(bytes) => tx.put(&key, bytes),
                None => tx.delete(&key),
            }
            Ok(meta::TxOutcome::Commit)
        });
        damaged.expect("a store in memory");
        let found = run(&Cred::root(), 7, |op| ns.read_inline(op, f));
        assert!(matches!(found, Err(NsError::Store(_))));
        let report = ns.check().expect("a store in memory");
        assert_eq!(report.problems.len(), 1, "{:?}", report.problems);
    }
}

/// A reader beside writers sees one of the states that the file had, whole.
#[test]
fn bytes_and_inode_are_of_one_moment() {
    let ns = Arc::new(fresh());
    let f = create_inline(&ns, &Cred::root(), ROOT, "f");
    std::thread::scope(|threads| {
        let writer = threads.spawn(|| {
            for round in 0..2_000_u32 {
                let len = 1 + usize::try_from(round % 50).unwrap_or(0);
                resize(&ns, f, 0);
                let bytes = vec![u8::try_from(len).unwrap_or(0); len];
                write(&ns, f, 0, &bytes).expect("room");
            }
        });
        while !writer.is_finished() {
            let (inode, bytes) = call(|op| ns.read_inline(op, f));
            assert_eq!(inode.size, bytes.len() as u64);
            assert!(bytes.iter().all(|b| usize::from(*b) == bytes.len()));
        }
    });
}
