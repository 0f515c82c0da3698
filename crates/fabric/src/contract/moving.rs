//! Messages, writes and reads of connections that are well.

use super::{BUFFER_BYTES, Pair, RECEIVE_BYTES, RECEIVES, WHY, pattern};
use crate::{
    Done, EndpointConfig, Fabric, Memory, Part, READ_PARTS_MAX, Remote, Work, WorkRefusal,
    WorkStatus,
};
use bytes::Bytes;
use std::net::SocketAddr;

/// Names nothing.
const NOWHERE: Remote = Remote {
    key: 0x0bad_cafe,
    offset: 0,
    len: 0,
};

/// Messages of all sizes around whatever boundary arrive whole and in order, gathered from pieces.
pub async fn messages_of_every_size_arrive(fabric: &dyn Fabric, address: SocketAddr) {
    let mut pair = Pair::with(fabric, address, EndpointConfig::default(), 0).await;
    let around = [
        1, 4, 100, 128, 256, 1448, 1460, 4096, 16_384, 65_483, 65_517, 65_536,
    ];
    let mut sizes: Vec<usize> = around.iter().flat_map(|n| n - 1..=n + 1).collect();
    sizes.push(BUFFER_BYTES);
    for (n, len) in sizes.into_iter().enumerate() {
        let id = n as u64;
        let buffer = pair.b.buffer();
        assert!(pair.b.endpoint.post_receive(id, buffer).is_ok());
        let whole = pair.a.filled(len, 7);
        let (head, tail) = (whole.slice(..len / 3), whole.slice(len / 3..));
        let data = vec![head, Bytes::new(), tail];
        let invalidate = None;
        pair.a.post(id, Work::Send { data, invalidate });
        pair.until(|a, b| b.messages() > 0 && !a.seen.is_empty())
            .await;
        let (received, buffer, invalidated) = pair.b.message();
        assert_eq!((received, buffer.len()), (id, len));
        assert!(*buffer == pattern(len, 7) && invalidated.is_none());
        assert!(matches!(pair.a.take(id).done, Done::Send));
    }
    pair.assert_all_back();
}

/// Bytes land where they are meant to and nowhere else.
pub async fn writes_and_reads_move_bytes(fabric: &dyn Fabric, address: SocketAddr) {
    let mut pair = Pair::new(fabric, address).await;
    let target = pair.b.expose_buffer(BUFFER_BYTES);
    let source = pair.b.filled(BUFFER_BYTES, 9);
    let source = pair.b.expose(Memory::Bytes(source));
    let data = pair.a.filled(70_001, 5);
    let place = target.part(1003, 100_000).expect("inside");
    pair.a
        .write(1, vec![data.slice(..5), data.slice(5..)], place);
    let remote = source.part(4001, 200_003).expect("inside");
    pair.a.read_parts(2, vec![Part { at: 77, remote }]);
    drop(data);
    pair.a.send(3, b"written");
    pair.until(|a, b| a.ids() == [1, 2, 3] && b.messages() == 1)
        .await;
    let sink = pair.a.take_sink(2);
    assert!(sink[77..77 + 200_003] == pattern(BUFFER_BYTES, 9)[4001..204_004]);
    drop(sink);
    pair.b.post(4, Work::Invalidate { key: target.key });
    pair.until(|_, b| b.ids() == [4]).await;
    match pair.b.take(4).done {
        Done::Invalidate {
            memory: Some(Memory::Buffer(buffer)),
        } => {
            assert!(buffer[1003..1003 + 70_001] == pattern(70_001, 5));
            assert!(buffer[..1003].iter().all(|byte| *byte == 0));
            assert!(buffer[71_004..].iter().all(|byte| *byte == 0));
        }
        other => panic!("{other:?}"),
    }
    let counters = (pair.a.endpoint.counters(), pair.b.endpoint.counters());
    assert_eq!(counters.0.sent_bytes, 70_001 + 7);
    assert_eq!(counters.0.received_bytes, 200_003);
    let placed = if fabric.limits().counts_peers_work {
        70_001
    } else {
        0
    };
    assert_eq!(counters.1.received_bytes, placed + 7);
    pair.assert_all_back();
}

/// Writes and reads of no bytes complete, whatever the key; an empty message takes a receive.
pub async fn nothing_moves_as_well(fabric: &dyn Fabric, address: SocketAddr) {
    let mut pair = Pair::new(fabric, address).await;
    pair.a.write(1, Vec::new(), NOWHERE);
    pair.a.read(2, NOWHERE);
    pair.a.send(3, b"");
    pair.until(|a, b| a.ids() == [1, 2, 3] && b.messages() == 1)
        .await;
    assert!(pair.a.seen.iter().all(|c| c.status == WorkStatus::Ok));
    assert_eq!(pair.b.message().1.len(), 0);
    pair.assert_works().await;
    pair.assert_all_back();
}

/// Each signalled request completes once and in its turn, and unsignalled ones only if they hand something back.
pub async fn completions_come_once_and_in_order(fabric: &dyn Fabric, address: SocketAddr) {
    let mut pair = Pair::new(fabric, address).await;
    let target = pair.b.expose_buffer(4096);
    let source = pair.b.expose(Memory::Bytes(Bytes::from(pattern(9000, 1))));
    let mut expected = Vec::new();
    for id in 0..48_u64 {
        let data = vec![Bytes::from(pattern(1000, 3))];
        let (work, completes) = match id % 4 {
            0 => (
                Work::Send {
                    data,
                    invalidate: None,
                },
                id % 8 == 0,
            ),
            1 | 3 => (
                Work::Write {
                    data,
                    remote: target,
                },
                id % 8 == 1,
            ),
            _ => {
                let sink = pair.a.buffer();
                let (at, remote) = (0, source);
                let parts = vec![Part { at, remote }];
                (Work::Read { sink, parts }, true)
            }
        };
        let signalled = completes && id % 4 != 2;
        assert!(pair.a.endpoint.post(id, work, signalled).is_ok());
        if completes {
            expected.push(id);
        }
    }
    pair.a.endpoint.ring();
    pair.until(|a, b| a.ids().len() >= expected.len() && b.messages() == 12)
        .await;
    pair.assert_works().await;
    assert_eq!(pair.a.ids()[..expected.len()], expected);
    let receives: Vec<u64> = (0..13).map(|_| pair.b.message().0).collect();
    assert_eq!(receives, (0..13).collect::<Vec<_>>());
    pair.assert_all_back();
}

/// More reads than either side serves at a time all succeed, one after the other.
pub async fn reads_beyond_the_depth_wait_their_turn(fabric: &dyn Fabric, address: SocketAddr) {
    let config = EndpointConfig {
        ird: 3,
        ord: 2,
        ..EndpointConfig::default()
    };
    let mut pair = Pair::with(fabric, address, config, RECEIVES).await;
    assert!(pair.a.endpoint.negotiated().ord <= 2);
    let source = pair
        .b
        .expose(Memory::Bytes(Bytes::from(pattern(64_000, 4))));
    let back = pair
        .a
        .expose(Memory::Bytes(Bytes::from(pattern(64_000, 6))));
    for id in 0..40_u32 {
        let start = id * 1000;
        pair.a
            .read(id.into(), source.part(start, 20_000).expect("inside"));
        pair.b
            .read(id.into(), back.part(start, 20_000).expect("inside"));
    }
    pair.until(|a, b| a.ids().len() == 40 && b.ids().len() == 40)
        .await;
    for (side, seed) in [(&mut pair.a, 4), (&mut pair.b, 6)] {
        for id in 0..40_usize {
            let sink = side.take_sink(id as u64);
            assert!(sink[..20_000] == pattern(64_000, seed)[id * 1000..id * 1000 + 20_000]);
        }
    }
    pair.assert_all_back();
}

/// Parts of several pieces of memory land in one buffer, more of them than may be outstanding, and complete as
/// one request in its turn. What lies between them stays.
pub async fn a_read_of_many_parts_completes_once(fabric: &dyn Fabric, address: SocketAddr) {
    const PART: u32 = 1001;
    const STRIDE: usize = 1004;
    let config = EndpointConfig {
        ird: 3,
        ord: 3,
        ..EndpointConfig::default()
    };
    let mut pair = Pair::with(fabric, address, config, RECEIVES).await;
    let (len, seeds) = (READ_PARTS_MAX * 1000 + 1, [4, 6]);
    let sources = seeds.map(|seed| {
        pair.b
            .expose(Memory::Bytes(Bytes::from(pattern(len, seed))))
    });
    let part = |n: u32| Part {
        at: n as usize * STRIDE,
        remote: sources[n as usize % 2]
            .part(n * 1000, PART)
            .expect("inside"),
    };
    let count = u32::try_from(READ_PARTS_MAX).expect("few");
    let mut sink = pair.a.buffer();
    sink.fill(0xee);
    let parts = (0..count).map(part).collect();
    pair.a.post(1, Work::Read { sink, parts });
    pair.a.read(2, sources[0].part(5, 77).expect("inside"));
    pair.a.read_parts(3, Vec::new());
    pair.a.send(4, b"behind");
    pair.until(|a, b| a.ids() == [1, 2, 3, 4] && b.messages() == 1)
        .await;
    let sink = pair.a.take_sink(1);
    for n in 0..READ_PARTS_MAX {
        let (place, gap) = sink[n * STRIDE..][..STRIDE].split_at(PART as usize);
        assert!(place == &pattern(len, seeds[n % 2])[n * 1000..][..PART as usize]);
        assert!(gap.iter().all(|byte| *byte == 0xee));
    }
    assert!(pair.a.take_sink(2)[..77] == pattern(len, seeds[0])[5..82]);
    let received = pair.a.endpoint.counters().received_bytes;
    assert_eq!(received, u64::from(count * PART + 77));
    drop(sink);
    pair.assert_all_back();
}

/// A read that could never start is refused, and all else works.
pub async fn a_peer_without_read_depth_is_not_asked(fabric: &dyn Fabric, address: SocketAddr) {
    let config = EndpointConfig {
        ird: 0,
        ..EndpointConfig::default()
    };
    let mut pair = Pair::with(fabric, address, config, RECEIVES).await;
    let source = pair.b.expose(Memory::Bytes(Bytes::from_static(b"unread")));
    let sink = pair.a.buffer();
    let (at, remote) = (0, source);
    let parts = vec![Part { at, remote }];
    let refused = pair.a.endpoint.post(1, Work::Read { sink, parts }, true);
    assert_eq!(refused.err().map(|r| r.why), Some(WorkRefusal::NoReads));
    pair.assert_works().await;
    pair.assert_all_back();
}

/// No queue or table waits when it is full, and what came too much comes back whole.
pub async fn a_full_queue_is_a_value(fabric: &dyn Fabric, address: SocketAddr) {
    let config = EndpointConfig {
        send_depth: 4,
        receive_depth: 5,
        exposed_max: 3,
        ..EndpointConfig::default()
    };
    let mut pair = Pair::with(fabric, address, config, 5).await;
    let buffer = pair.b.small.take().expect(WHY);
    let refused = pair.b.endpoint.post_receive(9, buffer).expect_err("full");
    assert_eq!(
        (refused.why, refused.back.len()),
        (WorkRefusal::Full, RECEIVE_BYTES)
    );
    drop(refused);
    for _ in 0..3 {
        pair.a.expose_buffer(10);
    }
    let memory = Memory::Bytes(Bytes::from_static(b"four"));
    let refused = pair.a.endpoint.expose(memory).expect_err("full");
    assert_eq!((refused.why, refused.back.len()), (WorkRefusal::Full, 4));
    for round in 0..2 {
        assert_eq!(pair.a.endpoint.send_room(), 4);
        for id in 0..4 {
            pair.a.read(id, NOWHERE);
        }
        let work = Work::Send {
            data: vec![Bytes::from_static(b"back")],
            invalidate: Some(3),
        };
        match pair.a.endpoint.post(5, work, true) {
            Err(refused) => {
                assert_eq!(refused.why, WorkRefusal::Full);
                let Work::Send { data, invalidate } = refused.back else {
                    panic!("another work came back");
                };
                assert_eq!((&data[0][..], invalidate), (&b"back"[..], Some(3)));
            }
            Ok(()) => panic!("five in a queue of four"),
        }
        pair.until(|a, _| a.ids().len() == 4 * (round + 1)).await;
    }
    pair.assert_all_back();
}

/// What the provider or the target cannot hold is refused before anything is sent.
pub async fn what_does_not_fit_is_refused(fabric: &dyn Fabric, address: SocketAddr) {
    let mut pair = Pair::new(fabric, address).await;
    let small = Remote { len: 9, ..NOWHERE };
    let why = |refused: Result<(), crate::Refused<Work>>| refused.err().map(|r| r.why);
    let data = vec![Bytes::from_static(b"ten octets")];
    let work = Work::Write {
        data,
        remote: small,
    };
    assert_eq!(
        why(pair.a.endpoint.post(1, work, true)),
        Some(WorkRefusal::TooLong)
    );
    let part = |at| Part { at, remote: small };
    for parts in [
        vec![part(BUFFER_BYTES - 8)],
        vec![part(0), part(usize::MAX)],
        vec![part(0); READ_PARTS_MAX + 1],
    ] {
        let sink = pair.a.buffer();
        let work = Work::Read { sink, parts };
        assert_eq!(
            why(pair.a.endpoint.post(1, work, true)),
            Some(WorkRefusal::TooLong)
        );
    }
    let piece = Bytes::from(vec![0; 1 << 20]);
    let count = fabric.limits().send_bytes_max / (1 << 20) + 1;
    let work = Work::Send {
        data: (0..count).map(|_| piece.clone()).collect(),
        invalidate: None,
    };
    assert_eq!(
        why(pair.a.endpoint.post(1, work, true)),
        Some(WorkRefusal::TooLong)
    );
    let theirs = pair.b.expose_buffer(10);
    let ours = pair.a.expose_buffer(10);
    for key in [theirs.key, ours.key ^ 1] {
        let work = Work::Invalidate { key };
        assert_eq!(
            why(pair.a.endpoint.post(1, work, true)),
            Some(WorkRefusal::BadKey)
        );
    }
    pair.assert_works().await;
    pair.assert_all_back();
}

/// An answer to a read does not wait for all that this side has queued.
pub async fn reads_are_answered_beside_queued_writes(fabric: &dyn Fabric, address: SocketAddr) {
    let mut pair = Pair::new(fabric, address).await;
    let target = pair.b.expose_buffer(BUFFER_BYTES);
    let source = pair.a.expose(Memory::Bytes(Bytes::from(pattern(1000, 8))));
    // 32 MiB: more than sockets buffer.
    let piece = pair.a.filled(BUFFER_BYTES, 1);
    for id in 0..128 {
        pair.a.write(id, vec![piece.clone()], target);
    }
    drop(piece);
    pair.a.endpoint.ring();
    // A provider without a network has nothing queued by now.
    let all = 128 * BUFFER_BYTES as u64;
    let is_queued = pair.b.endpoint.counters().received_bytes < all;
    pair.b.read(1, source);
    pair.b.endpoint.ring();
    pair.until(|_, b| b.ids() == [1]).await;
    let written = pair.b.endpoint.counters().received_bytes;
    assert!(
        !is_queued || written < all / 2,
        "the answer waited for {written} of {all} bytes"
    );
    pair.until(|a, _| a.ids().len() == 128).await;
    pair.assert_all_back();
}

/// Both sides writing and reading as much as fits their queues come through.
pub async fn both_sides_may_be_full_of_work(fabric: &dyn Fabric, address: SocketAddr) {
    let mut pair = Pair::new(fabric, address).await;
    let at_b = pair.b.expose_buffer(BUFFER_BYTES);
    let at_a = pair.a.expose_buffer(BUFFER_BYTES);
    let (from_a, from_b) = (
        pair.a.filled(BUFFER_BYTES, 1),
        pair.b.filled(BUFFER_BYTES, 2),
    );
    let source_a = pair.a.expose(Memory::Bytes(from_a.clone()));
    let source_b = pair.b.expose(Memory::Bytes(from_b.clone()));
    for id in 0..64 {
        pair.a.write(2 * id, vec![from_a.clone()], at_b);
        pair.b.write(2 * id, vec![from_b.clone()], at_a);
        pair.a.read(2 * id + 1, source_b);
        pair.b.read(2 * id + 1, source_a);
    }
    drop((from_a, from_b));
    pair.until(|a, b| a.ids().len() == 128 && b.ids().len() == 128)
        .await;
    for side in [&pair.a, &pair.b] {
        assert_eq!(side.ids(), (0..128).collect::<Vec<_>>());
        assert_eq!(side.count(|c| c.status != WorkStatus::Ok), 0);
    }
    pair.assert_all_back();
}
