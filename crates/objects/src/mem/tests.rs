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
    place: 0,
};

fn limited(capacity_bytes: u64) -> MemObjects {
    MemObjects::new(MemOptions {
        capacity_bytes,
        manual: true,
    })
}

fn bytes(store: &MemObjects, offset: u64, len: u32) -> Bytes {
    let mut pieces = spans(store, offset, len);
    match pieces.len() {
        1 => pieces.remove(0),
        _ => pieces.concat().into(),
    }
}

fn spans(store: &MemObjects, offset: u64, len: u32) -> Vec<Bytes> {
    match store.read(ID, offset, len).unwrap() {
        Span::Pieces(pieces) => pieces,
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

/// A buffer of so many pages, with `around` bytes in front of them, and whether it is still in memory.
fn buffer(pages: usize, around: usize, fill: u8) -> (Bytes, std::sync::Weak<Vec<u8>>) {
    struct Owner(Arc<Vec<u8>>);
    impl AsRef<[u8]> for Owner {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }
    let bytes = Arc::new(vec![fill; around + pages * PAGE]);
    let watch = Arc::downgrade(&bytes);
    (Bytes::from_owner(Owner(bytes)).slice(around..), watch)
}

#[test]
fn whole_pages_that_are_handed_over_are_neither_copied_to_be_written_nor_to_be_read() {
    let store = limited(u64::MAX);
    let (data, _) = buffer(16, 300, 1);
    let taken = 300 + 16 * PAGE;
    store.write_shared(ID, PAGE_BYTES, &data, taken).unwrap();
    let read = spans(&store, PAGE_BYTES + 100, 15 * 65_536);
    assert_eq!(read.len(), 16);
    assert_eq!(read[0].as_ptr(), data[100..].as_ptr());
    assert_eq!(read[9].as_ptr(), data[9 * PAGE..].as_ptr());
    // A hole in front is no copy either.
    assert_eq!(spans(&store, 0, 100_000).concat()[..PAGE], [0; PAGE]);
    assert_eq!(store.copied_bytes(), 0);
    // Where pages are not filled, that is copied, and nothing else.
    store
        .write_shared(ID, 20 * PAGE_BYTES + 10, &data, taken)
        .unwrap();
    assert_eq!(store.copied_bytes(), PAGE_BYTES);
    // Small data, and a little data of a large buffer, are copied.
    store
        .write_shared(ID, 0, &data.slice(..4096), 4096)
        .unwrap();
    store
        .write_shared(ID, 0, &data.slice(..PAGE), taken)
        .unwrap();
    assert_eq!(store.copied_bytes(), 2 * PAGE_BYTES + 4096);
}

#[test]
fn a_buffer_is_given_back_before_most_of_it_is_of_no_use() {
    let store = limited(u64::MAX);
    let (data, watch) = buffer(4, 0, 1);
    store.write_shared(ID, 0, &data, 4 * PAGE).unwrap();
    drop(data);
    store.write(ID, PAGE_BYTES, &[2; PAGE]).unwrap();
    store.write(ID, 3 * PAGE_BYTES, &[3]).unwrap();
    assert!(watch.upgrade().is_some());
    store.punch(ID, 0, PAGE_BYTES).unwrap();
    assert!(watch.upgrade().is_none());
    let expected = [
        vec![0; PAGE],
        vec![2; PAGE],
        vec![1; PAGE],
        vec![3],
        vec![1; PAGE - 1],
    ];
    assert_eq!(bytes(&store, 0, u32::MAX), expected.concat());
    // The two others, once each, and what was written.
    assert_eq!(store.copied_bytes(), 3 * PAGE_BYTES + 1);
}

#[test]
fn a_buffer_that_is_overwritten_cut_off_or_removed_as_a_whole_is_given_back_without_a_copy() {
    let store = limited(u64::MAX);
    let mut old = Vec::new();
    for round in 0..4 {
        let (data, watch) = buffer(8, 0, round);
        store.write_shared(ID, 0, &data, 8 * PAGE).unwrap();
        old.push(watch);
        assert!(old.iter().rev().skip(1).all(|old| old.upgrade().is_none()));
    }
    store.set_size(ID, 0).unwrap();
    assert!(old[3].upgrade().is_none());
    let (data, watch) = buffer(8, 0, 9);
    store.write_shared(ID, 0, &data, 8 * PAGE).unwrap();
    drop(data);
    store.remove(ID).unwrap();
    assert!(watch.upgrade().is_none());
    assert_eq!(store.copied_bytes(), 0);
}

#[test]
fn buffers_never_hold_much_more_than_the_bytes_in_use() {
    let store = limited(u64::MAX);
    let mut dice = Dice(7);
    let mut most = 0;
    for _ in 0..2000 {
        let at = |dice: &mut Dice| dice.roll(40) * PAGE_BYTES + dice.roll(3) * 100;
        let pages = usize::try_from(dice.roll(16)).unwrap();
        let around = usize::try_from(dice.roll(100_000)).unwrap();
        let (data, _) = buffer(pages, around, 1);
        let offset = at(&mut dice);
        store
            .write_shared(ID, offset, &data, data.len() + around)
            .unwrap();
        match dice.roll(4) {
            0 => store.punch(ID, at(&mut dice), at(&mut dice)).unwrap(),
            1 => store.set_size(ID, at(&mut dice)).unwrap(),
            _ => store.write(ID, at(&mut dice), &data).unwrap(),
        }
        let (held, used) = store.inner.lock().live[&ID].kept.held_bytes();
        assert!(held <= used * KEPT_FACTOR_MAX, "{held} for {used}");
        most = most.max(used);
    }
    assert!(most > 16 * PAGE_BYTES);
}

#[test]
fn a_crash_holds_no_buffer() {
    let store = limited(u64::MAX);
    let (data, watch) = buffer(4, 0, 1);
    store.write_shared(ID, 0, &data, 4 * PAGE).unwrap();
    drop(data);
    let crashed = store.after_crash(3);
    drop(store);
    assert!(watch.upgrade().is_none());
    drop(crashed);
}

#[test]
fn what_a_failed_sync_did_not_write_is_read_until_a_crash() {
    let on_disk = |store: &MemObjects| store.read_from_disk(ID, 0, 2).unwrap();
    let store = limited(u64::MAX);
    store.write(ID, 0, b"old").unwrap();
    store.sync(ID).unwrap();
    store.write(ID, 0, b"new").unwrap();
    store.write(ID, PAGE as u64, b"more").unwrap();
    store.fail_sync(ID);
    assert_eq!(bytes(&store, 0, 3), b"new"[..]);
    assert_eq!(on_disk(&store), b"ol"[..]);
    store.sync(ID).unwrap();
    assert_eq!(on_disk(&store), b"ol"[..], "another sync does not write it");
    for seed in 0..20 {
        let left = store.after_crash(seed);
        assert_eq!(bytes(&left, 0, 3), b"old"[..]);
        assert_eq!(bytes(&left, PAGE as u64, 4), [0; 4][..]);
    }
    store.write(ID, 1, b"ext").unwrap();
    store.punch(ID, PAGE as u64, 1).unwrap();
    assert_eq!(on_disk(&store), b"ne"[..], "dirty pages are written before");
    store.sync(ID).unwrap();
    let left = store.after_crash(1);
    assert_eq!(bytes(&left, 0, 4), b"next"[..]);
    assert_eq!(bytes(&left, PAGE as u64, 4), b"\0ore"[..]);
    store.write(ID, 0, b"lost").unwrap();
    store.fail_sync(ID);
    store.drop_unwritten(ID).unwrap();
    assert_eq!(bytes(&store, 0, 4), b"next"[..], "as the disk has it");
}
