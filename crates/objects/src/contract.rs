//! What every object store must do, as tests that each adapter runs.
//!
//! An adapter implements [`Subject`] and calls [`contract_tests!`](crate::contract_tests) with an expression
//! that makes one; every function here becomes a test of its own. The functions panic where the store
//! breaks its promise.

use crate::{Content, OBJECT_BYTES_MAX, ObjectError, ObjectId, ObjectStore, Span};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

const WHY: &str = "the contract's stores are healthy";

/// Makes the stores under test.
pub trait Subject {
    /// A store without objects, with room for at least 64 MiB.
    fn fresh(&mut self) -> Arc<dyn ObjectStore>;

    /// Closes the newest store of [`Subject::fresh`], whose other handles are gone, and opens it again.
    /// `None` when it does not outlive its process.
    fn reopen(&mut self, store: Arc<dyn ObjectStore>) -> Option<Arc<dyn ObjectStore>> {
        drop(store);
        None
    }
}

/// One `#[test]` for each promise of the contract.
#[macro_export]
macro_rules! contract_tests {
    ($subject:expr) => {
        $crate::contract_tests!(@each $subject;
            absent_objects_are_not_found writes_are_read_back holes_are_zeros
            reads_end_at_the_size reads_from_the_disk_are_the_same spans_keep_their_bytes cutting_and_extending_leaves_zeros
            seeking_finds_data_and_holes a_punched_range_is_a_hole reserved_storage_is_there_to_write
            cloned_ranges_match_a_plain_model holes_that_are_made_match_a_plain_model
            removal_is_final_and_repeatable objects_do_not_mix sizes_beyond_the_limit_are_refused
            listing_finds_each_object_once stat_and_capacity_are_plausible
            random_work_matches_a_plain_model shared_writes_match_a_plain_model threads_on_one_object_do_not_tear_it
            reopening_keeps_what_was_synced);
    };
    (@each $subject:expr; $($name:ident)+) => {
        $(#[test] fn $name() { $crate::contract::$name(&mut $subject); })+
    };
}

/// An object's name from its file id.
#[must_use]
pub fn object(file_id: u64) -> ObjectId {
    ObjectId {
        file_id,
        generation: 1,
        place: 0,
    }
}

/// The bytes of a span, wherever they lie.
#[must_use]
pub fn bytes(span: &Span) -> Vec<u8> {
    match span {
        Span::Pieces(pieces) => {
            assert!(pieces.iter().all(|piece| !piece.is_empty()));
            pieces.concat()
        }
        Span::File {
            file, offset, len, ..
        } => {
            let mut out = vec![0; *len as usize];
            file.read_exact_at(&mut out, *offset)
                .expect("a span's bytes are there");
            out
        }
    }
}

fn read(store: &dyn ObjectStore, id: ObjectId, offset: u64, len: u32) -> Vec<u8> {
    bytes(&store.read(id, offset, len).expect(WHY))
}

fn size(store: &dyn ObjectStore, id: ObjectId) -> u64 {
    store.stat(id).expect(WHY).size_bytes
}

/// Whatever needs an object says when there is none; a question about the cache is no error.
pub fn absent_objects_are_not_found(subject: &mut dyn Subject) {
    let store = subject.fresh();
    let id = object(1);
    assert!(matches!(store.read(id, 0, 1), Err(ObjectError::NotFound)));
    assert!(matches!(store.sync(id), Err(ObjectError::NotFound)));
    assert!(matches!(store.stat(id), Err(ObjectError::NotFound)));
    assert!(matches!(store.set_size(id, 0), Err(ObjectError::NotFound)));
    store.remove(id).expect(WHY);
    assert!(matches!(
        store.drop_unwritten(id),
        Err(ObjectError::NotFound)
    ));
    let _ = store.is_cached(id, 0, 1);
    assert!(matches!(store.stat(id), Err(ObjectError::NotFound)));
}

/// Bytes come back, overwritten ones as written last; an empty write makes an empty object.
pub fn writes_are_read_back(subject: &mut dyn Subject) {
    let store = subject.fresh();
    let id = object(2);
    store.write(id, 50, b"").expect(WHY);
    assert_eq!(size(&*store, id), 0);
    store.write(id, 0, b"hello world").expect(WHY);
    store.write(id, 6, b"ROPEWALK").expect(WHY);
    assert_eq!(read(&*store, id, 0, 100), b"hello ROPEWALK");
    assert_eq!(read(&*store, id, 6, 4), b"ROPE");
    assert_eq!(size(&*store, id), 14);
    let big: Vec<u8> = (0..300_000_u32)
        .map(|i| i.to_le_bytes()[0] ^ i.to_le_bytes()[1])
        .collect();
    store.write(id, 65_000, &big).expect(WHY);
    assert_eq!(read(&*store, id, 65_000, 300_000), big);
    assert_eq!(read(&*store, id, 130_000, 70_000), big[65_000..135_000]);
}

/// What was never written reads as zeros, and costs no space to speak of.
pub fn holes_are_zeros(subject: &mut dyn Subject) {
    let store = subject.fresh();
    let id = object(3);
    let far = 1 << 40;
    store.write(id, far, b"end").expect(WHY);
    assert_eq!(size(&*store, id), far + 3);
    assert_eq!(read(&*store, id, 0, 4096), [0; 4096]);
    assert_eq!(read(&*store, id, far - 5, 100), b"\0\0\0\0\0end");
    assert!(store.stat(id).expect(WHY).allocated_bytes < 1 << 20);
}

/// A read at or past the end gives nothing, one across it gives what there is.
pub fn reads_end_at_the_size(subject: &mut dyn Subject) {
    let store = subject.fresh();
    let id = object(4);
    store.write(id, 0, &[9; 1000]).expect(WHY);
    assert_eq!(read(&*store, id, 990, 100), [9; 10]);
    for offset in [1000, 1001, 1 << 50, u64::MAX] {
        assert!(store.read(id, offset, u32::MAX).expect(WHY).is_empty());
    }
    assert_eq!(read(&*store, id, 0, u32::MAX).len(), 1000);
    assert!(read(&*store, id, 0, 0).is_empty());
}

/// What lies on the disk is what was synced, at any offset.
///
/// # Panics
/// Where it is not.
pub fn reads_from_the_disk_are_the_same(subject: &mut dyn Subject) {
    let (store, id) = (subject.fresh(), object(3));
    let absent = store.read_from_disk(id, 0, 4096);
    assert!(matches!(absent, Err(ObjectError::NotFound)));
    let data: Vec<u8> = (0..150_001_u32)
        .map(|n| n.to_le_bytes()[0] ^ 0x31)
        .collect();
    store.write(id, 0, &data).expect(WHY);
    store.sync(id).expect(WHY);
    for (offset, len) in [
        (0, 65_536),
        (65_536, 65_536),
        (131_072, 65_536),
        (4095, 3),
        (150_001, 4096),
    ] {
        let read = store.read_from_disk(id, offset as u64, len).expect(WHY);
        let end = data.len().min(offset + len as usize);
        assert!(read[..] == data[offset.min(end)..end], "at {offset}");
    }
}

/// A span's bytes can be fetched after the object is gone: a reply that was promised can be sent (R16).
pub fn spans_keep_their_bytes(subject: &mut dyn Subject) {
    let store = subject.fresh();
    let id = object(5);
    store.write(id, 0, &[5; 100_000]).expect(WHY);
    let span = store.read(id, 10, 80_000).expect(WHY);
    store.remove(id).expect(WHY);
    assert_eq!(bytes(&span), [5; 80_000]);
}

/// After a cut, what lay after it never shows again.
pub fn cutting_and_extending_leaves_zeros(subject: &mut dyn Subject) {
    let store = subject.fresh();
    let id = object(6);
    store.write(id, 0, &[6; 200_000]).expect(WHY);
    for cut in [150_000, 131_072, 70_001, 0] {
        store.set_size(id, cut).expect(WHY);
        assert_eq!(size(&*store, id), cut);
        store.set_size(id, 200_000).expect(WHY);
        let back = read(&*store, id, 0, 200_000);
        assert_eq!(back.len(), 200_000);
        assert!(
            back.iter()
                .enumerate()
                .all(|(i, b)| *b == if (i as u64) < cut { 6 } else { 0 })
        );
    }
    store.write(id, 10, b"x").expect(WHY);
    assert_eq!(size(&*store, id), 200_000);
}

const MIB: u64 = 1 << 20;

/// What was written is found as data, megabytes that never were as holes, and nothing at or after the end.
pub fn seeking_finds_data_and_holes(subject: &mut dyn Subject) {
    let store = subject.fresh();
    let id = object(13);
    let seek = |offset, what| store.seek(id, offset, what).expect(WHY);
    store.write(id, 0, b"").expect(WHY);
    assert_eq!(
        (seek(0, Content::Data), seek(0, Content::Hole)),
        (None, None)
    );
    store.write(id, 2 * MIB, &[1; 1 << 20]).expect(WHY);
    store.set_size(id, 5 * MIB).expect(WHY);
    store.write(id, 5 * MIB, b"end").expect(WHY);
    for at in [0, 1, MIB, 2 * MIB] {
        assert_eq!(seek(at, Content::Data), Some(2 * MIB), "{at}");
    }
    assert_eq!(seek(0, Content::Hole), Some(0));
    assert_eq!(seek(2 * MIB + 5, Content::Data), Some(2 * MIB + 5));
    assert_eq!(seek(2 * MIB + 5, Content::Hole), Some(3 * MIB));
    assert_eq!(seek(3 * MIB, Content::Data), Some(5 * MIB));
    assert_eq!(seek(5 * MIB, Content::Hole), None);
    for at in [5 * MIB + 3, 1 << 60, u64::MAX] {
        assert_eq!(seek(at, Content::Data), None, "{at}");
        assert_eq!(seek(at, Content::Hole), None, "{at}");
    }
}

/// A punched range reads as zeros and gives storage back, durable after a sync; the size and all other bytes stay.
pub fn a_punched_range_is_a_hole(subject: &mut dyn Subject) {
    let store = subject.fresh();
    let (id, len) = (object(14), 4 << 20);
    store.write(id, 0, &vec![7; len]).expect(WHY);
    store.sync(id).expect(WHY);
    let full = store.stat(id).expect(WHY).allocated_bytes;
    store.punch(id, MIB - 5, MIB + 10).expect(WHY);
    store.punch(id, 3 * MIB, u64::MAX).expect(WHY);
    store.punch(id, 1 << 60, 5).expect(WHY);
    store.punch(id, 0, 0).expect(WHY);
    store.sync(id).expect(WHY);
    let check = |store: &dyn ObjectStore| {
        let back = read(store, id, 0, u32::MAX);
        assert_eq!(back.len(), len);
        let is_hole = |i: u64| (MIB - 5..2 * MIB + 5).contains(&i) || i >= 3 * MIB;
        assert!(
            (0..)
                .zip(&back)
                .all(|(i, b)| *b == if is_hole(i) { 0 } else { 7 })
        );
        assert!(store.stat(id).expect(WHY).allocated_bytes <= full - 3 * MIB / 2);
        let data = store.seek(id, 2 * MIB - MIB / 2, Content::Data).expect(WHY);
        assert!(data.is_some_and(|at| at <= 2 * MIB + 5));
        assert_eq!(store.seek(id, 3 * MIB, Content::Data).expect(WHY), None);
    };
    check(&*store);
    if let Some(store) = subject.reopen(store) {
        check(&*store);
    }
    let store = subject.fresh();
    let absent = store.punch(object(15), 0, 5);
    assert!(matches!(absent, Err(ObjectError::NotFound)));
}

/// Reserving makes the object, keeps size and bytes, also beyond the end; a cut gives back what lies after it.
pub fn reserved_storage_is_there_to_write(subject: &mut dyn Subject) {
    let store = subject.fresh();
    let id = object(16);
    match store.reserve(id, 0, 8 * MIB) {
        // Not every file system can.
        Err(ObjectError::Unsupported) => return,
        other => other.expect(WHY),
    }
    let free = |store: &dyn ObjectStore| store.capacity().expect(WHY).free_bytes;
    let free_before = free(&*store);
    let allocated = || store.stat(id).expect(WHY).allocated_bytes;
    assert_eq!((size(&*store, id), allocated() >= 8 * MIB), (0, true));
    store.write(id, MIB, &[3; 1000]).expect(WHY);
    store.reserve(id, 0, 8 * MIB).expect(WHY);
    assert_eq!(size(&*store, id), MIB + 1000);
    assert_eq!(read(&*store, id, MIB, 9999), [3; 1000]);
    assert!(allocated() < 9 * MIB && free(&*store) + MIB > free_before);
    store.set_size(id, MIB + 1000).expect(WHY);
    assert!(allocated() <= 2 * MIB, "{}", allocated());
    store.reserve(id, 0, 0).expect(WHY);
    assert_eq!(read(&*store, id, MIB, 9999), [3; 1000]);
    for (offset, len) in [(OBJECT_BYTES_MAX, 1), (u64::MAX, 1), (1, u64::MAX)] {
        let refused = store.reserve(id, offset, len);
        assert!(matches!(refused, Err(ObjectError::TooLarge)));
    }
    assert!(matches!(
        store.reserve(id, 0, OBJECT_BYTES_MAX),
        Err(ObjectError::NoSpace | ObjectError::TooLarge)
    ));
    assert_eq!(read(&*store, id, MIB, 9999), [3; 1000]);
}

/// A cloned range reads as its source did, also when that changes later, and nothing else changes. It may lie in the
/// middle of blocks, past the end of either object, in an object that is not there, or within one object.
pub fn cloned_ranges_match_a_plain_model(subject: &mut dyn Subject) {
    let store = subject.fresh();
    let ids = [object(18), object(19), object(20)];
    match store.clone_range((ids[0], 0), (ids[1], 0), 0) {
        // Not every file system can.
        Err(ObjectError::Unsupported) => return,
        other => other.expect(WHY),
    }
    let too_far = store.clone_range((ids[0], OBJECT_BYTES_MAX), (ids[1], 0), 1);
    assert!(matches!(too_far, Err(ObjectError::TooLarge)));
    assert!(matches!(store.stat(ids[1]), Err(ObjectError::NotFound)));
    let mut models: [Vec<u8>; 3] = Default::default();
    store.write(ids[0], 0, b"").expect(WHY);
    store.write(ids[1], 0, b"").expect(WHY);
    let mut state = 0xc10e_u64;
    let mut roll = |sides: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        usize::try_from((state >> 33) % sides).expect("small")
    };
    for round in 0..300_u64 {
        let (src, dst) = (roll(3), roll(2));
        // Whole blocks mostly, as only those can be shared.
        let unit = if roll(4) == 0 { 1 } else { 4096 };
        let mut pick = |sides: u64| roll(sides) / unit * unit;
        let (from, at, len) = (pick(400_000), pick(400_000), pick(200_000));
        if src == 2 || round % 3 > 0 {
            if src == dst && from < at + len && at < from + len {
                continue;
            }
            let (src_id, dst_id) = (ids[src], ids[dst]);
            let spot = |at: usize| at as u64;
            store
                .clone_range((src_id, spot(from)), (dst_id, spot(at)), spot(len))
                .expect(WHY);
            let end = models[src].len().min(from + len);
            let bytes = models[src][from.min(end)..end].to_vec();
            let model = &mut models[dst];
            if model.len() < at + bytes.len() && !bytes.is_empty() {
                model.resize(at + bytes.len(), 0);
            }
            let stop = model.len().min(at + len);
            model[at.min(stop)..stop].fill(0);
            model[at.min(stop)..][..bytes.len()].copy_from_slice(&bytes);
        } else {
            let data = vec![u8::try_from(round % 250 + 1).expect("small"); len];
            store.write(ids[dst], at as u64, &data).expect(WHY);
            if len > 0 && models[dst].len() < at + len {
                models[dst].resize(at + len, 0);
            }
            models[dst][at.min(at + len)..][..len].copy_from_slice(&data);
        }
        for (id, model) in ids.iter().zip(&models).take(2) {
            assert!(
                read(&*store, *id, 0, u32::MAX) == *model,
                "round {round}, {id:?}"
            );
        }
    }
}

/// Seeded writes, holes, reservations and cuts do what they do to a vector of bytes. Only zero bytes of it lie in a hole.
pub fn holes_that_are_made_match_a_plain_model(subject: &mut dyn Subject) {
    let store = subject.fresh();
    let id = object(17);
    let mut model: Vec<u8> = Vec::new();
    store.write(id, 0, b"").expect(WHY);
    let mut state = 0x40_1e5_u64;
    let mut roll = |sides: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        usize::try_from((state >> 33) % sides).expect("small")
    };
    for round in 0..400_u64 {
        let (offset, len) = (roll(600_000), roll(200_000));
        let (offset64, len64) = (offset as u64, len as u64);
        match roll(8) {
            0 => {
                store.set_size(id, offset64).expect(WHY);
                model.resize(offset, 0);
            }
            1 | 2 => {
                let data = vec![u8::try_from(round % 250 + 1).expect("small"); len];
                store.write(id, offset64, &data).expect(WHY);
                if len > 0 && model.len() < offset + len {
                    model.resize(offset + len, 0);
                }
                model[offset.min(offset + len)..][..len].copy_from_slice(&data);
            }
            3 => match store.reserve(id, offset64, len64) {
                Ok(()) | Err(ObjectError::Unsupported) => {}
                Err(e) => panic!("{e}"),
            },
            _ => {
                store.punch(id, offset64, len64).expect(WHY);
                let end = model.len().min(offset + len);
                model[offset.min(end)..end].fill(0);
            }
        }
        assert!(read(&*store, id, 0, u32::MAX) == model, "round {round}");
        let mut at = 0;
        while let Some(hole) = store.seek(id, at, Content::Hole).expect(WHY) {
            let data = store.seek(id, hole, Content::Data).expect(WHY);
            let end = data.unwrap_or(model.len() as u64);
            assert!(at <= hole && hole < end, "round {round}");
            let range = usize::try_from(hole).expect("small")..usize::try_from(end).expect("small");
            assert!(model[range].iter().all(|b| *b == 0), "round {round}");
            at = end;
        }
    }
}

/// A removed object is gone; a later write makes a new one without a trace of it.
pub fn removal_is_final_and_repeatable(subject: &mut dyn Subject) {
    let store = subject.fresh();
    let id = object(7);
    store.write(id, 0, &[7; 5000]).expect(WHY);
    store.sync(id).expect(WHY);
    store.remove(id).expect(WHY);
    store.remove(id).expect(WHY);
    assert!(matches!(store.read(id, 0, 1), Err(ObjectError::NotFound)));
    store.write(id, 100, b"new").expect(WHY);
    assert_eq!(read(&*store, id, 0, 5000), [&[0; 100][..], b"new"].concat());
}

/// File id, generation and place each make another object.
pub fn objects_do_not_mix(subject: &mut dyn Subject) {
    let store = subject.fresh();
    let ids: Vec<ObjectId> = [
        (1, 1, 0),
        (1, 1, 1),
        (1, 2, 0),
        (257, 1, 0),
        (u64::MAX, u32::MAX, 255),
    ]
    .map(|(file_id, generation, place)| ObjectId {
        file_id,
        generation,
        place,
    })
    .to_vec();
    for (id, n) in ids.iter().zip(0_u8..) {
        store.write(*id, 0, &[n; 10]).expect(WHY);
    }
    store.remove(ids[0]).expect(WHY);
    for (id, n) in ids.iter().zip(0_u8..).skip(1) {
        assert_eq!(read(&*store, *id, 0, 99), [n; 10]);
    }
}

/// Offsets that no file can have are an error of their own and change nothing.
pub fn sizes_beyond_the_limit_are_refused(subject: &mut dyn Subject) {
    let store = subject.fresh();
    let id = object(8);
    store.write(id, 0, b"small").expect(WHY);
    for offset in [OBJECT_BYTES_MAX, OBJECT_BYTES_MAX + 1, u64::MAX] {
        assert!(matches!(
            store.write(id, offset, b"x"),
            Err(ObjectError::TooLarge)
        ));
    }
    let too_large = store.set_size(id, OBJECT_BYTES_MAX + 1);
    assert!(matches!(too_large, Err(ObjectError::TooLarge)));
    assert_eq!(read(&*store, id, 0, 99), b"small");
}

/// A listing names each object once with its size, and stops when told.
pub fn listing_finds_each_object_once(subject: &mut dyn Subject) {
    let store = subject.fresh();
    let mut expected = BTreeMap::new();
    for n in 0..600_u64 {
        let id = ObjectId {
            file_id: n * 131,
            generation: 1,
            place: u8::try_from(n % 3).expect("small"),
        };
        store.write(id, n, b"x").expect(WHY);
        expected.insert(id, n + 1);
    }
    let mut found = BTreeMap::new();
    let listed = store.list(&mut |id, stat| {
        assert_eq!(found.insert(id, stat.size_bytes), None);
        true
    });
    listed.expect(WHY);
    assert_eq!(found, expected);
    let mut visits = 0;
    let stopped = store.list(&mut |_, _| {
        visits += 1;
        visits < 10
    });
    stopped.expect(WHY);
    assert_eq!(visits, 10);
}

/// Space that is written shows as allocated, and free space is part of the total.
pub fn stat_and_capacity_are_plausible(subject: &mut dyn Subject) {
    let store = subject.fresh();
    let id = object(9);
    store.write(id, 0, &[9; 1 << 20]).expect(WHY);
    store.sync(id).expect(WHY);
    assert!(store.stat(id).expect(WHY).allocated_bytes >= 1 << 20);
    let capacity = store.capacity().expect(WHY);
    assert!(capacity.free_bytes <= capacity.unused_bytes);
    assert!(capacity.unused_bytes <= capacity.total_bytes && capacity.total_bytes > 0);
}

/// Seeded writes, cuts and reads do what they do to a vector of bytes.
pub fn random_work_matches_a_plain_model(subject: &mut dyn Subject) {
    let store = subject.fresh();
    let id = object(10);
    let mut model: Vec<u8> = Vec::new();
    store.write(id, 0, b"").expect(WHY);
    let mut state = 0x5eed_u64;
    let mut roll = |sides: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) % sides
    };
    for round in 0..600 {
        let offset = usize::try_from(roll(300_000)).expect("small");
        let len = usize::try_from(roll(90_000)).expect("small");
        match roll(10) {
            0 => {
                store.set_size(id, offset as u64).expect(WHY);
                model.resize(offset, 0);
            }
            1..=4 => {
                let data = vec![u8::try_from(round % 251).expect("small"); len];
                store.write(id, offset as u64, &data).expect(WHY);
                if len > 0 && model.len() < offset + len {
                    model.resize(offset + len, 0);
                }
                model[offset.min(offset + len)..][..len].copy_from_slice(&data);
            }
            _ => {
                let len32 = u32::try_from(len).expect("small");
                let start = offset.min(model.len());
                let expected = &model[start..model.len().min(start + len)];
                let expected = if offset > model.len() {
                    &[][..]
                } else {
                    expected
                };
                assert!(
                    read(&*store, id, offset as u64, len32) == expected,
                    "round {round}"
                );
            }
        }
        assert_eq!(size(&*store, id), model.len() as u64);
    }
}

/// Buffers that are handed over are written as any bytes are. Later changes of the object change no span that was read earlier.
/// Nothing of the object shows what lies around the bytes in their buffer.
pub fn shared_writes_match_a_plain_model(subject: &mut dyn Subject) {
    let store = subject.fresh();
    let id = object(21);
    let mut model: Vec<u8> = Vec::new();
    store.write(id, 0, b"").expect(WHY);
    let mut state = 0x5a4e_u64;
    let mut roll = |sides: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        usize::try_from((state >> 33) % sides).expect("small")
    };
    let mut spans = Vec::new();
    for round in 0..150_u64 {
        // Where pages, blocks and none of them begin and end.
        let unit = [1, 4096, 65_536][roll(3)];
        let offset = roll(700_000) / unit * unit;
        let len = roll(500_000) / unit * unit;
        let (at, end) = (offset as u64, offset + len);
        let fill = u8::try_from(round % 250 + 1).expect("small");
        match roll(8) {
            0 => {
                store.set_size(id, at).expect(WHY);
                model.resize(offset, 0);
            }
            1 => {
                store.punch(id, at, len as u64).expect(WHY);
                let stop = model.len().min(end);
                model[offset.min(stop)..stop].fill(0);
            }
            shape => {
                let mut buffer = vec![255; 300 + len + roll(100)];
                buffer[300..][..len].fill(fill);
                let buffer_bytes = buffer.len();
                let data = Bytes::from(buffer).slice(300..300 + len);
                if shape < 4 {
                    store.write(id, at, &data).expect(WHY);
                } else {
                    store.write_shared(id, at, &data, buffer_bytes).expect(WHY);
                }
                if len > 0 {
                    model.resize(model.len().max(end), 0);
                    model[offset..end].copy_from_slice(&data);
                }
            }
        }
        let span = store.read(id, 0, u32::MAX).expect(WHY);
        assert!(bytes(&span) == model, "round {round}");
        // Files show what was written later; memory does not.
        if matches!(span, Span::Pieces(_)) {
            spans.push((span, model.clone()));
        }
        if spans.len() > 3 {
            let (span, then) = spans.swap_remove(roll(4));
            assert!(bytes(&span) == then, "round {round}");
        }
    }
    let absent = store.write_shared(object(22), OBJECT_BYTES_MAX, &Bytes::from_static(b"x"), 1);
    assert!(matches!(absent, Err(ObjectError::TooLarge)));
}

/// Writers in their own ranges, removers and cutters of other objects: no byte goes astray.
pub fn threads_on_one_object_do_not_tear_it(subject: &mut dyn Subject) {
    const RANGE: usize = 100_000;
    let store = subject.fresh();
    let (id, passing) = (object(11), object(12));
    std::thread::scope(|scope| {
        for n in 0..4_u8 {
            let store = &store;
            scope.spawn(move || {
                let offset = (usize::from(n) * RANGE) as u64;
                for round in 0..20_u8 {
                    store
                        .write(id, offset, &[n * 50 + round; RANGE])
                        .expect(WHY);
                    store.write(passing, offset, &[1; 1000]).expect(WHY);
                    match (n, store.set_size(passing, 500), store.remove(passing)) {
                        (_, Ok(()) | Err(ObjectError::NotFound | ObjectError::Busy), Ok(())) => {}
                        other => panic!("{other:?}"),
                    }
                    match store.sync(passing) {
                        Ok(()) | Err(ObjectError::NotFound) => {}
                        Err(e) => panic!("{e}"),
                    }
                }
                store.sync(id).expect(WHY);
            });
        }
    });
    for n in 0..4_u8 {
        let offset = (usize::from(n) * RANGE) as u64;
        let back = read(&*store, id, offset, 100_000);
        assert!(back.len() == RANGE && back.iter().all(|b| *b == n * 50 + 19));
    }
}

/// A clean restart keeps what was synced.
pub fn reopening_keeps_what_was_synced(subject: &mut dyn Subject) {
    let store = subject.fresh();
    let persistent = store.is_persistent();
    for n in 0..50 {
        store.write(object(n), n * 1000, &[1; 5000]).expect(WHY);
        store.sync(object(n)).expect(WHY);
    }
    store.remove(object(0)).expect(WHY);
    store.set_size(object(1), 77).expect(WHY);
    let Some(store) = subject.reopen(store) else {
        assert!(!persistent);
        return;
    };
    assert!(persistent);
    assert!(matches!(store.stat(object(0)), Err(ObjectError::NotFound)));
    assert_eq!(size(&*store, object(1)), 77);
    for n in 2..50 {
        assert_eq!(read(&*store, object(n), n * 1000, 9000), [1; 5000]);
    }
}
