//! Goal: the stream does what the RFCs say, whatever pieces TCP makes of it. Method: two machines, or one and
//! hand-made frames, with bytes moved between them in pieces of seeded sizes; no sockets, no clock.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod rig;

use bytes::Bytes;
use fabric::{
    Completion, Done, Ended, EndpointConfig, Fault, Memory, Part, Remote, Work, WorkStatus,
};
use rig::{Party, Roll, agreed, deliver, pair, pair_with, start, wire};
use ropewalk_fabric_iwarp::machine::Machine;
use ropewalk_fabric_iwarp::mpa::Rtr;
use std::collections::HashMap;

/// Random work of both sides, with frames and pieces of all sizes. Bytes arrive where and as they should, all completes
/// in order, and nothing is lost.
#[test]
fn random_work_arrives_whatever_the_pieces() {
    for seed in 0..60 {
        let mut roll = Roll::new(seed);
        let mulpdu = [128, 1448, 5000, 65_535][roll.below(4)];
        let depth = u16::try_from(1 + roll.below(4)).unwrap();
        let crc = seed % 5 != 0;
        let config = EndpointConfig {
            exposed_is_scratch: seed % 2 == 0,
            ..EndpointConfig::default()
        };
        let (mut a, mut b) = pair_with(config, mulpdu, agreed(depth, crc, Rtr::Write));
        let target = b.expose_buffer(30_000);
        let source = b.expose_bytes(30_000, 9);
        let mut expected = Expected {
            target: vec![0; 30_000],
            written: vec![!config.exposed_is_scratch; 30_000],
            sends: Vec::new(),
            reads: HashMap::new(),
        };
        for id in 0..40 {
            let memory = (target, source);
            post_something((&mut a, &mut b), memory, id, &mut roll, &mut expected);
        }
        let mut done = Vec::new();
        let mut arrived = Vec::new();
        for _ in 0..1_000_000 {
            wire(&mut a, &mut b, &mut roll);
            a.take(&mut done);
            b.take(&mut arrived);
            if done.len() == 40 && arrived.len() == expected.sends.len() {
                break;
            }
        }
        let ids: Vec<u64> = done.iter().map(|c| c.id).collect();
        assert_eq!(ids, (0..40).collect::<Vec<_>>(), "seed {seed}");
        for completion in done {
            assert_eq!(completion.status, WorkStatus::Ok);
            if let Done::Read { sink } = completion.done {
                let (at, len) = expected.reads[&completion.id];
                assert!(sink[5..5 + len] == rig::pattern(30_000, 9)[at..at + len]);
            }
        }
        for (completion, (id, data)) in arrived.into_iter().zip(expected.sends) {
            let Done::Receive { buffer, .. } = completion.done else {
                panic!("no message");
            };
            assert_eq!(completion.id, u64::from(id));
            assert!(*buffer == *data, "seed {seed}");
        }
        b.post(99, Work::Invalidate { key: target.key });
        wire(&mut b, &mut a, &mut roll);
        let back = b.completed(99);
        let Done::Invalidate {
            memory: Some(Memory::Buffer(buffer)),
        } = back.done
        else {
            panic!("no memory came back");
        };
        for (at, written) in expected.written.into_iter().enumerate() {
            assert!(!written || buffer[at] == expected.target[at], "seed {seed}");
        }
    }
}

/// What random work does.
struct Expected {
    target: Vec<u8>,
    /// What of it counts.
    written: Vec<bool>,
    sends: Vec<(u32, Vec<u8>)>,
    /// First byte and length in the source, by id.
    reads: HashMap<u64, (usize, usize)>,
}

/// Posts work of any kind at the first end, and notes what it does.
fn post_something(
    (a, b): (&mut Party, &mut Party),
    (target, source): (Remote, Remote),
    id: u32,
    roll: &mut Roll,
    expected: &mut Expected,
) {
    let (at, len) = (roll.below(20_000), roll.below(10_000));
    let part = |whole: Remote| {
        let [at, len] = [at, len].map(|n| u32::try_from(n).unwrap());
        whole.part(at, len).unwrap()
    };
    let data = rig::pattern(len, id);
    match roll.below(3) {
        0 => {
            expected.target[at..][..len].copy_from_slice(&data);
            expected.written[at..][..len].fill(true);
            let remote = part(target);
            let data = roll.pieces(&data);
            a.post(id, Work::Write { data, remote });
        }
        1 => {
            expected.reads.insert(id.into(), (at, len));
            let remote = part(source);
            let (sink, at) = (a.pool.take().unwrap(), 5);
            a.post(
                id,
                Work::Read {
                    sink,
                    parts: vec![Part { at, remote }],
                },
            );
        }
        _ => {
            b.post_receive(id);
            let invalidate = None;
            let pieces = roll.pieces(&data);
            let work = Work::Send {
                data: pieces,
                invalidate,
            };
            a.post(id, work);
            expected.sends.push((id, data));
        }
    }
}

/// A stream that is cut at any byte ends, hands everything back, and delivers only what was whole.
#[test]
fn a_stream_cut_anywhere_ends_cleanly() {
    let say = |a: &mut Party, b: &mut Party| {
        let target = b.expose_buffer(500);
        let source = b.expose_bytes(500, 1);
        b.post_receive(7);
        let data = vec![Bytes::from(rig::pattern(300, 2))];
        let remote = target;
        a.post(0, Work::Write { data, remote });
        let (sink, at) = (a.pool.take().unwrap(), 0);
        let remote = source;
        a.post(
            1,
            Work::Read {
                sink,
                parts: vec![Part { at, remote }],
            },
        );
        let data = vec![Bytes::from_static(b"message")];
        let invalidate = Some(target.key);
        a.post(2, Work::Send { data, invalidate });
        a.said()
    };
    let (mut a, mut b) = pair(200, agreed(4, true, Rtr::None));
    let whole = say(&mut a, &mut b).len();
    for cut in 0..=whole {
        let (mut a, mut b) = pair(200, agreed(4, true, Rtr::None));
        let said = say(&mut a, &mut b);
        assert_eq!(said.len(), whole);
        deliver(&mut b.machine, &said[..cut]);
        b.machine.end_of_stream();
        let mut done = Vec::new();
        b.take(&mut done);
        let message = |c: &&Completion| c.status == WorkStatus::Ok;
        assert_eq!(
            done.iter().filter(message).count(),
            usize::from(cut == whole)
        );
        let flushed = |c: &&Completion| c.status == WorkStatus::Flushed;
        assert_eq!(
            done.iter().filter(flushed).count(),
            if cut == whole { 1 } else { 3 }
        );
        assert!(matches!(
            b.machine.ended(),
            Some(Ended::PeerClosed | Ended::Lost(std::io::ErrorKind::UnexpectedEof))
        ));
        drop((done, a));
        assert_eq!(b.pool.taken(), 0);
    }
}

/// One changed bit anywhere is noticed: by the CRC, or by a check that comes before.
#[test]
fn every_changed_bit_ends_the_stream() {
    let (mut a, _) = pair(200, agreed(4, true, Rtr::None));
    let data = vec![Bytes::from_static(b"a message of some length")];
    let invalidate = None;
    a.post(0, Work::Send { data, invalidate });
    let said = a.said();
    for bit in 0..said.len() * 8 {
        let mut changed = said.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        let (_, mut b) = pair(200, agreed(4, true, Rtr::None));
        b.post_receive(1);
        deliver(&mut b.machine, &changed);
        // A length that grew waits for more.
        b.machine.end_of_stream();
        let mut done = Vec::new();
        b.take(&mut done);
        assert!(done.iter().all(|c| c.status != WorkStatus::Ok), "bit {bit}");
    }
}

/// The responder is silent until the initiator has said something (RFC 5044 §7.1.2 rule 4), and then it is not.
#[test]
fn the_responder_waits_for_the_first_frame() {
    for (rtr, speaks) in [(Rtr::None, false), (Rtr::Write, true), (Rtr::Read, true)] {
        let (mut a, mut b) = pair(1448, agreed(1, true, rtr));
        let data = vec![Bytes::from_static(b"first")];
        let invalidate = None;
        b.post(0, Work::Send { data, invalidate });
        assert_eq!(b.said(), b"");
        let said = a.said();
        assert_eq!(!said.is_empty(), speaks);
        deliver(&mut b.machine, &said);
        let answer = b.said();
        assert_eq!(!answer.is_empty(), speaks);
        a.post_receive(0);
        deliver(&mut a.machine, &answer);
        let mut done = Vec::new();
        a.take(&mut done);
        assert_eq!(done.len(), usize::from(speaks));
        assert_eq!(a.machine.ended(), None);
    }
}

/// A response is the next message even when much work is queued, and work is next after it.
#[test]
fn responses_and_work_take_turns() {
    let (mut a, mut b) = pair(1448, agreed(8, true, Rtr::Write));
    let source = a.expose_bytes(4000, 1);
    let target = b.expose_buffer(4000);
    for _ in 0..4 {
        let (sink, at) = (b.pool.take().unwrap(), 0);
        b.post(
            0,
            Work::Read {
                sink,
                parts: vec![Part { at, remote: source }],
            },
        );
    }
    let said = a.said();
    deliver(&mut b.machine, &said);
    let requests = b.said();
    deliver(&mut a.machine, &requests);
    for id in 0..6 {
        let data = vec![Bytes::from(vec![0; 4000])];
        a.post(
            id,
            Work::Write {
                data,
                remote: target,
            },
        );
    }
    let opcodes = rig::opcodes_of_messages(&a.said());
    assert_eq!(opcodes, [2, 0, 2, 0, 2, 0, 2, 0, 0, 0]);
}

/// Reads above the depth wait, and what is posted after them with them.
#[test]
fn reads_wait_at_the_outbound_depth() {
    let (mut a, _) = pair(1448, agreed(2, true, Rtr::None));
    let remote = Remote {
        key: 1,
        offset: 0,
        len: 10,
    };
    for id in 0..5 {
        let (sink, at) = (a.pool.take().unwrap(), 0);
        a.post(
            id,
            Work::Read {
                sink,
                parts: vec![Part { at, remote }],
            },
        );
    }
    let invalidate = None;
    let data = Vec::new();
    a.post(5, Work::Send { data, invalidate });
    assert_eq!(rig::opcodes_of_messages(&a.said()), [1, 1]);
}

/// Memory is not handed back while a segment into it is under way.
#[test]
fn an_invalidation_waits_for_the_segment_in_its_memory() {
    let (mut a, mut b) = pair(65_535, agreed(2, true, Rtr::None));
    let target = b.expose_buffer(60_000);
    let data = vec![Bytes::from(rig::pattern(60_000, 1))];
    a.post(
        0,
        Work::Write {
            data,
            remote: target,
        },
    );
    let said = a.said();
    deliver(&mut b.machine, &said[..30_000]);
    b.post(1, Work::Invalidate { key: target.key });
    b.said();
    let mut done = Vec::new();
    b.take(&mut done);
    assert!(done.is_empty());
    deliver(&mut b.machine, &said[30_000..]);
    b.said();
    let Done::Invalidate {
        memory: Some(Memory::Buffer(buffer)),
    } = b.completed(1).done
    else {
        panic!("no memory came back");
    };
    assert!(*buffer == *rig::pattern(60_000, 1));
}

/// Taking memory back says nothing to the peer, so it needs no first frame.
#[test]
fn an_invalidation_waits_for_no_frame() {
    let (_, mut b) = pair(1448, agreed(2, true, Rtr::None));
    let target = b.expose_buffer(10);
    b.post(1, Work::Invalidate { key: target.key });
    assert_eq!(b.said(), b"");
    assert_eq!(b.completed(1).status, WorkStatus::Ok);
}

/// When a stream ends in the middle of a frame, the frame is finished before the Terminate, so that it is understood.
#[test]
fn a_terminate_follows_the_frame_under_way() {
    let (mut a, mut b) = pair(1448, agreed(2, true, Rtr::Write));
    let target = b.expose_buffer(10_000);
    let data = vec![Bytes::from(vec![1; 10_000])];
    a.post(
        0,
        Work::Write {
            data,
            remote: target,
        },
    );
    let mut said = rig::written(&mut a.machine, 700);
    deliver(&mut a.machine, &rig::frame(&[0xff; 40]));
    assert_eq!(a.machine.ended(), Some(Ended::Faulted(Fault::Protocol)));
    said.extend(a.machine.last_words());
    deliver(&mut b.machine, &said);
    assert_eq!(b.machine.ended(), Some(Ended::Accused(Fault::Protocol)));
}

/// So it is when that frame comes out of a file; what keeps the file is let go with it.
#[test]
fn a_terminate_follows_the_frame_of_a_file_under_way() {
    use std::io::Write;
    let (mut a, mut b) = pair(1448, agreed(2, false, Rtr::Write));
    let target = b.expose_buffer(10_000);
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&rig::pattern(10_000, 1)).unwrap();
    let hold = std::sync::Arc::new(());
    let range = fabric::FileRange {
        file: file.into(),
        offset: 0,
        len: 10_000,
        hold: hold.clone(),
    };
    let remote = target;
    a.post(0, Work::WriteFile { range, remote });
    let mut said = rig::written(&mut a.machine, 700);
    deliver(&mut a.machine, &rig::frame(&[0xff; 40]));
    assert_eq!(a.machine.ended(), Some(Ended::Faulted(Fault::Protocol)));
    assert_eq!(a.completed(0).status, WorkStatus::Flushed);
    said.extend(a.machine.last_words());
    assert_eq!(std::sync::Arc::strong_count(&hold), 1);
    deliver(&mut b.machine, &said);
    assert_eq!(b.machine.ended(), Some(Ended::Accused(Fault::Protocol)));
    let mut done = Vec::new();
    b.take(&mut done);
    let placed = done.iter().find_map(|c| match &c.done {
        fabric::Done::Exposed {
            memory: fabric::Memory::Buffer(buffer),
        } => Some(buffer),
        _ => None,
    });
    // The frame of which a part had left came whole.
    let frame_bytes = 1448 - 14;
    let placed = placed.expect("the buffer came back");
    assert!(placed[..frame_bytes] == rig::pattern(10_000, 1)[..frame_bytes]);
}

/// A refused read is the one that fails; work before it was flushed or done, work after it is flushed.
#[test]
fn the_read_that_the_peer_names_is_the_one_that_failed() {
    let (mut a, mut b) = pair(1448, agreed(4, true, Rtr::None));
    let good = b.expose_bytes(100, 1);
    let bad = Remote {
        key: good.key ^ 0x100,
        ..good
    };
    for (id, remote) in [(0, good), (1, bad), (2, good)] {
        let (sink, at) = (a.pool.take().unwrap(), 0);
        a.post(
            id,
            Work::Read {
                sink,
                parts: vec![Part { at, remote }],
            },
        );
    }
    let said = a.said();
    // The answers to the first read are lost in the fault; the peer blames the second.
    deliver(&mut b.machine, &said);
    assert_eq!(b.machine.ended(), Some(Ended::Faulted(Fault::BadKey)));
    deliver(&mut a.machine, &b.machine.last_words());
    let mut done = Vec::new();
    a.take(&mut done);
    let statuses: Vec<WorkStatus> = done.iter().map(|c| c.status).collect();
    assert_eq!(statuses, [WorkStatus::Flushed; 3]);

    let (mut a, mut b) = pair(1448, agreed(4, true, Rtr::None));
    let (sink, at) = (a.pool.take().unwrap(), 0);
    let remote = bad;
    a.post(
        0,
        Work::Read {
            sink,
            parts: vec![Part { at, remote }],
        },
    );
    deliver(&mut b.machine, &a.said());
    deliver(&mut a.machine, &b.machine.last_words());
    let failed = a.completed(0);
    assert_eq!(failed.status, WorkStatus::Failed(Fault::BadKey));
}

/// An initiator ends with what RFC 6581 §8 wants said, as the first frame.
#[test]
fn set_up_that_fails_late_is_told_by_a_terminate() {
    use ropewalk_fabric_iwarp::rdmap::Term;
    for term in [Term::INSUFFICIENT_IRD, Term::NO_MATCHING_RTR] {
        let config = EndpointConfig::default();
        let mut machine = Machine::new(start(config, agreed(0, true, Rtr::None), true, 1448));
        machine.terminate(term);
        let (_, told) = rig::terminate_in(&machine.last_words());
        assert_eq!((told.term, told.culprit), (term, None));
    }
}
