//! Goal: payload that is read into its place before its header was seen is where it belongs, whatever the headers say.
//! No byte of usual messages is copied. Method: a machine and frames of another one, or made by hand, handed over in
//! one piece and in many.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod rig;

use bytes::{Bytes, BytesMut};
use fabric::{Done, EndpointConfig, Fault, Memory, Part, Remote, Work};
use rig::{Party, Roll, agreed, deliver, frame, pair_with, pattern};
use ropewalk_fabric_iwarp::ddp::{Place, SegmentHeader};
use ropewalk_fabric_iwarp::mpa::Rtr;

const MULPDU: usize = 65_535;
/// RDMAP version 1 with the opcodes of a Write and of a Send (RFC 5040 §4.2).
const WRITE: u8 = 0x40;
const SEND: u8 = 0x43;

fn parties() -> (Party, Party) {
    let config = EndpointConfig {
        exposed_is_scratch: true,
        ..EndpointConfig::default()
    };
    pair_with(config, MULPDU, agreed(4, true, Rtr::None))
}

fn write(a: &mut Party, data: &[u8], remote: Remote) {
    let data = vec![Bytes::copy_from_slice(data)];
    a.post(0, Work::Write { data, remote });
}

fn send(a: &mut Party, data: &[u8]) {
    let data = vec![Bytes::copy_from_slice(data)];
    let invalidate = None;
    a.post(0, Work::Send { data, invalidate });
}

/// Takes exposed memory back.
fn taken_back(b: &mut Party, target: Remote) -> Vec<u8> {
    b.post(77, Work::Invalidate { key: target.key });
    b.said();
    match b.completed(77).done {
        Done::Invalidate {
            memory: Some(Memory::Buffer(buffer)),
        } => buffer.to_vec(),
        other => panic!("{other:?}"),
    }
}

fn message(b: &mut Party, id: u64) -> Vec<u8> {
    match b.completed(id).done {
        Done::Receive { buffer, .. } => buffer.to_vec(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_result_and_its_message_are_read_at_once_and_not_copied() {
    // The last is longer than what is read ahead.
    for len in [3000, 61_440, 65_536, 131_072, 700_001] {
        let (mut a, mut b) = parties();
        let pool = fabric::Pool::new(fabric::PoolConfig {
            buffer_bytes: 1 << 20,
            slab_bytes: 1 << 20,
            bytes_max: 1 << 20,
            free_bytes_max: usize::MAX,
        });
        let mut buffer = pool.take().unwrap();
        buffer.set_len(len);
        let target = b.machine.expose(Memory::Buffer(buffer)).unwrap();
        b.post_receive(1);
        let data = pattern(len, 3);
        write(&mut a, &data, target);
        send(&mut a, b"it is there");
        let said = a.said();
        let reads = deliver(&mut b.machine, &said);
        // A header, then all that a read can take.
        assert!(reads <= 2 + len / 500_000, "{reads} reads of {len} bytes");
        assert_eq!(message(&mut b, 1), b"it is there");
        assert!(taken_back(&mut b, target) == data);
        assert_eq!(b.machine.counters().copied_bytes, 0);
    }
}

#[test]
fn what_was_asked_for_is_not_copied_while_messages_come_between() {
    let (mut a, mut b) = parties();
    let source = a.expose_bytes(60_000, 5);
    for id in 0..4 {
        let sink = b.pool.take().unwrap();
        let remote = source;
        let parts = vec![Part { at: 100, remote }];
        b.post(id, Work::Read { sink, parts });
        b.post_receive(id + 10);
    }
    // The responder may speak only now (RFC 5044 §7.1.2).
    send(&mut a, b"first");
    deliver(&mut b.machine, &a.said());
    deliver(&mut a.machine, &b.said());
    (0..3).for_each(|_| send(&mut a, &[9; 900]));
    let said = a.said();
    deliver(&mut b.machine, &said);
    let mut done = Vec::new();
    b.take(&mut done);
    let mut whole = 0;
    for completion in done {
        if let Done::Read { sink } = completion.done {
            assert!(sink[100..60_100] == pattern(60_000, 5));
            whole += 1;
        }
    }
    assert_eq!(whole, 4);
    assert_eq!(b.machine.counters().copied_bytes, 0);
}

/// A segment of a Write made by hand.
fn segment(target: Remote, to: usize, payload: &[u8], last: bool) -> Vec<u8> {
    let header = SegmentHeader {
        last,
        control: WRITE,
        place: Place::Tagged {
            stag: target.key,
            to: target.offset + to as u64,
        },
    };
    framed(&header, payload)
}

fn framed(header: &SegmentHeader, payload: &[u8]) -> Vec<u8> {
    let mut ulpdu = BytesMut::new();
    header.encode(&mut ulpdu);
    ulpdu.extend_from_slice(payload);
    frame(&ulpdu)
}

fn small_send(msn: u32) -> Vec<u8> {
    let place = Place::Untagged {
        invalidate: 0,
        queue: 0,
        msn,
        mo: 0,
    };
    let header = SegmentHeader {
        last: true,
        control: SEND,
        place,
    };
    framed(&header, b"between")
}

/// Segments that grow, shrink, jump and stop early, another message between them, another Write after them. Nothing of
/// it is forbidden, and nothing of it was expected.
#[test]
fn segments_that_are_not_as_expected_are_placed_all_the_same() {
    let sizes = [2100, 5000, 3000, 4, 2500, 6001, 2048, 7];
    let mut moved = 0;
    for seed in 0..60 {
        let mut roll = Roll::new(seed);
        let (_, mut b) = parties();
        let target = b.expose_buffer(60_000);
        let (mut stream, mut sends) = (Vec::new(), 0);
        let mut expected = vec![None; 60_000];
        let mut at = roll.below(100);
        let data = pattern(60_000, 4);
        while at < 50_000 {
            let len = if roll.below(3) == 0 {
                sizes[roll.below(sizes.len())]
            } else {
                3000
            };
            let payload = &data[at..at + len];
            stream.extend(segment(target, at, payload, roll.below(5) == 0));
            for (n, byte) in payload.iter().enumerate() {
                expected[at + n] = Some(*byte);
            }
            if roll.below(5) == 0 {
                sends += 1;
                b.post_receive(sends);
                stream.extend(small_send(sends));
            }
            // Back over what was written, a hole, or on.
            at = match roll.below(8) {
                0 => at.saturating_sub(4000),
                1 => at + len + 1000,
                _ => at + len,
            };
        }
        let mut rest = &stream[..];
        while !rest.is_empty() {
            let len = match roll.below(3) {
                0 => 1 + roll.below(rest.len()),
                1 => rest.len().min(1 + roll.below(9000)),
                _ => rest.len(),
            };
            deliver(&mut b.machine, &rest[..len]);
            rest = &rest[len..];
        }
        assert_eq!(b.machine.ended(), None, "seed {seed}");
        let mut done = Vec::new();
        b.take(&mut done);
        assert_eq!(done.len(), sends as usize);
        for completion in done {
            let Done::Receive { buffer, .. } = completion.done else {
                panic!("{completion:?}");
            };
            assert_eq!(*buffer, *b"between");
        }
        moved += usize::from(b.machine.counters().copied_bytes > 0);
        let placed = taken_back(&mut b, target);
        for (at, byte) in expected.into_iter().enumerate() {
            assert!(
                byte.is_none_or(|byte| byte == placed[at]),
                "seed {seed}, {at}"
            );
        }
    }
    assert!(moved > 30);
}

#[test]
fn a_damaged_bit_anywhere_ends_the_stream() {
    let (mut a, mut b) = parties();
    let target = b.expose_buffer(64 * 1024);
    let data = pattern(64 * 1024, 3);
    write(&mut a, &data, target);
    let said = a.said();
    for at in [100, 61_440, 61_460, 61_475, said.len() - 2] {
        let (_, mut b) = parties();
        assert_eq!(b.expose_buffer(64 * 1024).key, target.key);
        let mut damaged = said.clone();
        damaged[at] ^= 4;
        deliver(&mut b.machine, &damaged);
        let ended = b.machine.ended();
        let known = [Fault::Damaged, Fault::BadKey, Fault::OutOfBounds];
        let is_fault = |fault: &Fault| ended == Some(fabric::Ended::Faulted(*fault));
        assert!(known.iter().any(is_fault), "{at}: {ended:?}");
    }
}
