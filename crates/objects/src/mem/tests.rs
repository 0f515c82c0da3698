//! Goal: the contract, sharing without copies, exact accounting, and crashes that take only what was not synced.

use super::*;
use crate::contract::Subject;
use std::sync::Arc;

const PAGE: usize = 64 * 1024;

struct Memory;

impl Subject for Memory {
    fn fresh(&mut self) -> Arc<dyn ObjectStore> {
        Arc::new(MemObjects::new(MemOptions::default()))
    }
}

crate::contract_tests!(Memory);

const ID: ObjectId = ObjectId {
    file_id: 7,
    generation: 1,
    mirror: 0,
};

fn limited(capacity_bytes: u64) -> MemObjects {
    MemObjects::new(MemOptions {
        capacity_bytes,
        manual: true,
    })
}

fn bytes(store: &MemObjects, offset: u64, len: u32) -> Bytes {
    match store.read(ID, offset, len).unwrap() {
        Span::Bytes(bytes) => bytes,
        Span::File { .. } => panic!("a file in memory"),
    }
}

#[test]
fn a_read_within_a_page_shares_it_and_a_later_write_does_not_change_it() {
    let store = limited(u64::MAX);
    store.write(ID, 0, &[1; 2 * PAGE]).unwrap();
    let (first, again) = (bytes(&store, 100, 1000), bytes(&store, 100, 1000));
    assert_eq!(first.as_ptr(), again.as_ptr());
    store.write(ID, 0, &[2; 2 * PAGE]).unwrap();
    assert_eq!(first, [1; 1000][..]);
    assert_eq!(bytes(&store, 65_000, 1000), [2; 1000][..]);
}

#[test]
fn capacity_counts_each_byte_once() {
    let fixed = OBJECT_COST_BYTES + 2 * PAGE_COST_BYTES;
    let store = limited(100_000 + fixed);
    store.write(ID, 0, &[1; 60_000]).unwrap();
    store.write(ID, 0, &[2; 60_000]).unwrap();
    let free = || store.capacity().unwrap().free_bytes;
    assert_eq!(free(), 40_000 + PAGE_COST_BYTES);
    assert!(matches!(
        store.write(ID, 60_000, &[1; 40_001]),
        Err(ObjectError::NoSpace)
    ));
    assert_eq!(store.stat(ID).unwrap().size_bytes, 60_000);
    store.write(ID, 60_000, &[1; 40_000]).unwrap();
    assert_eq!(free(), 0);
    store.set_size(ID, 10_000).unwrap();
    assert_eq!(free(), 90_000 + PAGE_COST_BYTES);
    store.remove(ID).unwrap();
    assert_eq!(free(), 100_000 + fixed);
}

#[test]
fn empty_objects_are_bounded_by_the_capacity() {
    let store = limited(10 * OBJECT_COST_BYTES);
    let with = |file_id| store.write(ObjectId { file_id, ..ID }, 0, b"");
    assert!((0..10).all(|n| with(n).is_ok()));
    assert!(matches!(with(10), Err(ObjectError::NoSpace)));
}

#[test]
fn a_crash_keeps_what_was_synced_and_invents_nothing() {
    let (mut kept_old, mut kept_new, mut torn) = (0, 0, 0);
    for seed in 0..300 {
        let store = limited(u64::MAX);
        store.write(ID, 0, &[1; 3 * PAGE]).unwrap();
        store.sync(ID).unwrap();
        store.write(ID, PAGE_BYTES, &[2; PAGE]).unwrap();
        let crashed = store.after_crash(seed);
        assert_eq!(bytes(&crashed, 0, 65_536), [1; PAGE][..]);
        assert_eq!(bytes(&crashed, 2 * PAGE_BYTES, 65_536), [1; PAGE][..]);
        let page = bytes(&crashed, PAGE_BYTES, 65_536);
        assert_eq!(page.len(), PAGE);
        match page.iter().filter(|b| **b == 2).count() {
            0 => kept_old += 1,
            PAGE => kept_new += 1,
            _ => torn += 1,
        }
        assert!(page.iter().all(|b| [1, 2].contains(b)));
        // The same seed leaves the same disk, and a crash of a crashed store takes nothing more.
        assert_eq!(bytes(&store.after_crash(seed), PAGE_BYTES, 65_536), page);
        assert_eq!(
            bytes(&crashed.after_crash(seed + 1), PAGE_BYTES, 65_536),
            page
        );
    }
    assert!(kept_old > 30 && kept_new > 30 && torn > 30);
}

#[test]
fn a_crash_may_lose_an_object_never_synced_and_no_other() {
    let mut lost = 0;
    for seed in 0..100 {
        let store = limited(u64::MAX);
        store.write(ID, 0, &[1; 10]).unwrap();
        lost += u32::from(store.after_crash(seed).stat(ID).is_err());
        store.set_size(ID, 4).unwrap();
        // Its existence and size are durable now; its bytes were never synced.
        let crashed = store.after_crash(seed);
        assert_eq!(crashed.stat(ID).unwrap().size_bytes, 4);
        store.sync(ID).unwrap();
        assert_eq!(bytes(&store.after_crash(seed), 0, 9), [1; 4][..]);
        store.remove(ID).unwrap();
        assert!(store.after_crash(seed).stat(ID).is_err());
    }
    assert!((20..80).contains(&lost));
}
