//! The engine as the one who is called.

use super::*;

/// Takes a call with these chunk lists and says what the reply to it is.
fn serve(config: EngineConfig, lists: &[u32], reply: &Message) -> Engine {
    let mut engine = Engine::new(config);
    let header = [&[XID, 1, 9, 0], lists].concat();
    engine.received(&wire(&header, &rpc(XID, CALL, 0)), None);
    assert_eq!(delivered(&mut engine), XID);
    engine.reply(reply).unwrap();
    engine
}

fn written(engine: &mut Engine) -> (usize, Segment) {
    match engine.next_work() {
        Some(SendWork::Write { data, segment }) => (data.concat().len(), segment),
        other => panic!("no Write: {other:?}"),
    }
}

#[test]
fn an_inline_call_is_delivered_as_it_lies_and_its_reply_grants_credits() {
    let mut engine = Engine::new(config());
    let bytes = inline(XID, CALL, 9);
    engine.received(&bytes, None);
    let record = Record::Inline(bytes.slice(HEADER_BYTES_MIN..));
    assert_eq!(engine.next_event(), Some(Event::Call { xid: XID, record }));
    engine.reply(&message(XID, REPLY, &[], 0)).unwrap();
    let expected = [&[XID, 1, 4, 0, 0, 0, 0][..], &rpc(XID, REPLY, 0)].concat();
    assert_eq!(sent(&mut engine), (expected, None));
    assert_eq!(engine.receives(), 4);
}

#[test]
fn a_grant_is_at_most_what_was_asked_for_and_never_0() {
    for (asked, set, granted) in [(9, 4, 4), (3, 4, 3), (0, 4, 1), (9, 0, 1), (9, 9, 9)] {
        let mut engine = Engine::new(config());
        engine.received(&inline(XID, CALL, asked), None);
        engine.set_grant(set);
        engine.reply(&message(XID, REPLY, &[], 0)).unwrap();
        assert_eq!(sent(&mut engine).0[2], granted, "{asked} asked, {set} set");
    }
}

#[test]
fn an_unknown_version_is_told_the_range() {
    for version in [0, 2, 77] {
        let mut engine = Engine::new(config());
        engine.received(&wire(&[XID, version, 9, 0, 0, 0, 0], &[]), None);
        let error = vec![XID, version, 1, 4, 1, 1, 1];
        assert_eq!(sent(&mut engine), (error, None));
        assert_eq!(engine.counters().refused_for(RefuseReason::Version), 1);
        assert_eq!(engine.next_event(), None);
    }
}

#[test]
fn a_call_that_cannot_be_used_gets_err_chunk() {
    use RefuseReason::{Chunks, Header, Padded, XidDiffers};
    let call = rpc(XID, CALL, 0);
    let read = |position: u32, len: u32| [1, position, 7, len, 0, 0];
    let overlapping = [&read(40, 5)[..], &read(44, 4), &[0, 0, 0]].concat();
    let too_many = [vec![0, 1, CHUNK_SEGMENTS_MAX + 1], vec![0; 300]].concat();
    let cases: &[(RefuseReason, u32, &[u32], &[u32])] = &[
        (Padded, 2, &[0, 0, 0], &call),
        (Header, 5, &[0, 0, 0], &call),
        (Header, 0, &[0, 0, 2], &call),
        (Header, 0, &too_many, &call),
        (Header, 1, &[0, 0, 0], &[]),
        (Header, 1, &[&read(0, 40)[..], &[0, 0, 0]].concat(), &call),
        (XidDiffers, 0, &[0, 0, 0], &rpc(XID + 1, CALL, 0)),
        (XidDiffers, 0, &[0, 0, 0], &[XID, 2]),
        (XidDiffers, 0, &[0, 0, 0], &[XID]),
        (Chunks, 0, &overlapping, &call),
        (Chunks, 0, &[&read(42, 4)[..], &[0, 0, 0]].concat(), &call),
        (Chunks, 0, &[&read(44, 4)[..], &[0, 0, 0]].concat(), &call),
        (Chunks, 0, &[&read(0, 40)[..], &[0, 0, 0]].concat(), &call),
        (Chunks, 1, &[&read(44, 4)[..], &[0, 0, 0]].concat(), &[]),
        (Chunks, 1, &[&read(0, 39)[..], &[0, 0, 0]].concat(), &[]),
        (Chunks, 1, &[0, 0, 1, 1, 7, 99, 0, 0], &[]),
        (
            Chunks,
            1,
            &[&read(0, u32::MAX)[..], &[0, 0, 0]].concat(),
            &[],
        ),
    ];
    for (reason, procedure, lists, message) in cases {
        let mut engine = Engine::new(config());
        let header = [&[XID, 1, 9, *procedure], *lists].concat();
        engine.received(&wire(&header, message), None);
        let (error, invalidate) = sent(&mut engine);
        assert_eq!((&error[..2], &error[3..]), (&[XID, 1][..], &[4, 2][..]));
        assert_eq!(invalidate, None);
        assert_eq!(engine.counters().refused_for(*reason), 1, "{lists:?}");
        assert_eq!((engine.next_event(), engine.next_work()), (None, None));
        // The error ended the transaction: the same XID may come again.
        engine.received(&inline(XID, CALL, 9), None);
        assert_eq!(delivered(&mut engine), XID);
    }
}

#[test]
fn what_belongs_to_nothing_is_discarded_until_it_is_too_much() {
    use DiscardReason::{Done, ReplyHeader, Short, UnknownXid};
    let cases = [
        (Short, Bytes::from_static(&[0; 27])),
        (Short, wire(&[XID, 1, 9, 4], &[])),
        (Done, wire(&[XID, 1, 9, 3, 0, 0, 0], &[])),
        (UnknownXid, wire(&[XID, 1, 9, 4, 2], &[])),
        (UnknownXid, wire(&[XID, 1, 9, 4, 1, 1, 1], &[])),
        (UnknownXid, inline(XID, REPLY, 9)),
        (ReplyHeader, wire(&[XID, 1, 9, 4, 3], &[])),
        (ReplyHeader, wire(&[XID, 9, 9, 4, 1, 1, 1], &[])),
    ];
    for (reason, bytes) in cases {
        let mut engine = Engine::new(config());
        for n in 1..=STRAY_MESSAGES_MAX {
            engine.received(&bytes, None);
            assert_eq!(engine.counters().discarded_for(reason), u64::from(n));
            assert_eq!((engine.next_event(), engine.next_work()), (None, None));
        }
        engine.received(&bytes, None);
        assert_eq!(failed(&mut engine), Some(FailReason::StrayMessages));
        engine.received(&inline(XID, CALL, 9), None);
        assert_eq!(engine.next_event(), None);
    }
}

#[test]
fn calls_beyond_the_grant_cut_the_peer_off() {
    for overrun in [0, 3] {
        let mut engine = Engine::new(EngineConfig {
            overrun,
            ..config()
        });
        // One call until the first reply (RFC 8166 §3.3.3).
        assert_eq!(engine.receives(), 1 + overrun);
        for xid in 0..=overrun {
            engine.received(&inline(xid, CALL, 9), None);
            assert_eq!(delivered(&mut engine), xid);
        }
        assert_eq!(engine.receives(), 0);
        engine.received(&inline(99, CALL, 9), None);
        assert_eq!(failed(&mut engine), Some(FailReason::CreditFlood));
        let refused = engine.reply(&message(0, REPLY, &[], 0));
        assert_eq!(refused, Err(ReplyRefused::Ended));
    }
}

#[test]
fn faulty_headers_need_credits_too() {
    let mut engine = Engine::new(config());
    let faulty = wire(&[XID, 1, 9, 7, 0, 0, 0], &[]);
    engine.received(&faulty, None);
    // The answer is not taken yet, so it has granted nothing.
    engine.received(&faulty, None);
    assert_eq!(failed(&mut engine), Some(FailReason::CreditFlood));
    assert!(!engine.has_work());
}

#[test]
fn a_lower_grant_counts_once_the_calls_of_the_old_one_have_drained() {
    let mut engine = Engine::new(config());
    let answer = |engine: &mut Engine, xid: u32| {
        engine.reply(&message(xid, REPLY, &[], 0)).unwrap();
        let granted = sent(engine).0[2];
        (granted, engine.receives())
    };
    engine.received(&inline(1, CALL, 9), None);
    assert_eq!(answer(&mut engine, 1), (4, 4));
    for xid in 2..=5 {
        engine.received(&inline(xid, CALL, 9), None);
    }
    assert_eq!(engine.receives(), 0);
    engine.set_grant(2);
    // Each reply frees a place until only two are left.
    assert_eq!(answer(&mut engine, 2), (2, 0));
    assert_eq!(answer(&mut engine, 3), (2, 0));
    assert_eq!(answer(&mut engine, 4), (2, 1));
    assert_eq!(answer(&mut engine, 5), (2, 2));
    engine.set_grant(1);
    engine.received(&inline(6, CALL, 9), None);
    // The peer may have sent another before it sees the lower grant.
    assert_eq!(answer(&mut engine, 6), (1, 1));
}

#[test]
fn a_second_call_with_an_xid_in_progress_cuts_the_peer_off() {
    let mut engine = Engine::new(EngineConfig {
        overrun: 1,
        ..config()
    });
    engine.received(&inline(XID, CALL, 9), None);
    delivered(&mut engine);
    engine.received(&inline(XID, CALL, 9), None);
    assert_eq!(failed(&mut engine), Some(FailReason::DuplicateXid));
}

#[test]
fn a_call_must_not_invalidate() {
    for bytes in [
        inline(XID, CALL, 9),
        inline(XID, REPLY, 9),
        wire(&[XID, 7, 9, 0, 0, 0, 0], &[]),
    ] {
        let mut engine = Engine::new(config());
        engine.received(&bytes, Some(5));
        assert_eq!(failed(&mut engine), Some(FailReason::ForeignInvalidation));
    }
}

#[test]
fn results_fill_write_chunks_in_order_and_the_unused_come_back_empty() {
    // Chunks of 100 + 300, none, 8 and 50 bytes; results of 150, 6 and 8 bytes.
    let lists = [
        0, 1, 2, 21, 100, 0, 64, 22, 300, 1, 0, 1, 0, 1, 1, 23, 8, 0, 9, 1, 1, 24, 50, 0, 0, 0, 0,
    ];
    let reply = message(XID, REPLY, &[150, 6, 8], 1);
    let mut engine = serve(config(), &lists, &reply);
    assert_eq!(written(&mut engine), (100, segment(21, 100, 64)));
    assert_eq!(written(&mut engine), (50, segment(22, 50, 1 << 32)));
    assert_eq!(written(&mut engine), (8, segment(23, 8, 9)));
    let (reply, invalidate) = sent(&mut engine);
    let header = [
        XID, 1, 4, 0, 0, 1, 2, 21, 100, 0, 64, 22, 50, 1, 0, 1, 0, 1, 1, 23, 8, 0, 9, 1, 1, 24, 0,
        0, 0, 0, 0,
    ];
    assert_eq!(reply[..header.len()], header);
    let mut stream = rpc(XID, REPLY, 0);
    stream.extend([150, 6, 0xdddd_dddd, 0xdddd_0000, 8, 0x1111]);
    assert_eq!(reply[header.len()..], stream);
    assert_eq!(invalidate, Some(21));
    let c = engine.counters();
    assert_eq!((c.write_chunks_out, c.write_chunk_bytes_out), (2, 158));
    assert_eq!((c.payload_inline_bytes_out, c.writes), (6, 3));
}

#[test]
fn an_empty_result_leaves_its_chunk_unused() {
    let lists = [0, 1, 1, 21, 100, 0, 64, 0, 0];
    let mut engine = serve(config(), &lists, &message(XID, REPLY, &[0], 0));
    let (reply, _) = sent(&mut engine);
    assert_eq!(reply[4..12], [0, 1, 1, 21, 0, 0, 64, 0]);
    assert_eq!(engine.counters().writes, 0);
}

#[test]
fn a_payload_that_is_not_ddp_eligible_stays_in_the_stream() {
    let lists = [0, 1, 1, 21, 100, 0, 64, 0, 0];
    let reply = message(XID, REPLY, &[4, 8], 0).without_ddp(0);
    let mut engine = serve(config(), &lists, &reply);
    assert_eq!(written(&mut engine), (8, segment(21, 8, 64)));
    assert_eq!(sent(&mut engine).0[23..], [4, 0xdddd_dddd, 8]);
}

#[test]
fn a_write_chunk_shorter_than_its_result_gets_err_chunk_and_nothing_is_written() {
    let lists = [0, 1, 1, 21, 100, 0, 64, 1, 1, 22, 100, 0, 0, 0, 0];
    let mut engine = serve(config(), &lists, &message(XID, REPLY, &[60, 101], 0));
    assert_eq!(sent(&mut engine), (vec![XID, 1, 4, 4, 2], None));
    let counters = engine.counters();
    assert_eq!(counters.refused_for(RefuseReason::WriteChunkShort), 1);
    assert_eq!(engine.next_work(), None);
}

#[test]
fn a_reply_goes_inline_up_to_the_threshold_then_into_the_reply_chunk() {
    // Header of 28 bytes and reply chunk of 20, message of 40: 936 bytes are left of 1024.
    let lists = [0, 0, 1, 1, 21, 2000, 0, 64];
    let mut engine = serve(config(), &lists, &message(XID, REPLY, &[], 234));
    let (reply, _) = sent(&mut engine);
    assert_eq!((reply.len(), reply[3]), (256, 0));
    assert_eq!(reply[4..12], [0, 0, 1, 1, 21, 0, 0, 64]);

    let mut engine = serve(config(), &lists, &message(XID, REPLY, &[], 235));
    assert_eq!(written(&mut engine), (980, segment(21, 980, 64)));
    let (reply, invalidate) = sent(&mut engine);
    assert_eq!(reply, [XID, 1, 4, 1, 0, 0, 1, 1, 21, 980, 0, 64]);
    assert_eq!(invalidate, Some(21));

    // Two segments are enough together.
    let lists = [0, 0, 1, 2, 21, 979, 0, 64, 22, 1, 0, 0];
    let mut engine = serve(config(), &lists, &message(XID, REPLY, &[], 235));
    assert_eq!(written(&mut engine), (979, segment(21, 979, 64)));
    assert_eq!(written(&mut engine), (1, segment(22, 1, 0)));
}

#[test]
fn a_reply_without_room_gets_err_chunk() {
    // Without chunks a message of 996 bytes fits, with a chunk one of 976.
    let short = [0, 0, 1, 1, 21, 979, 0, 64];
    for (lists, more, fits) in [
        (&[0, 0, 0][..], 239, true),
        (&[0, 0, 0], 240, false),
        (&short, 234, true),
        (&short, 235, false),
    ] {
        let mut engine = serve(config(), lists, &message(XID, REPLY, &[], more));
        let (reply, _) = sent(&mut engine);
        assert_eq!(reply[3..] == [4, 2], !fits, "{more} words, {lists:?}");
        let refused = engine.counters().refused_for(RefuseReason::ReplyTooLong);
        assert_eq!(refused, u64::from(!fits));
        assert_eq!(engine.next_work(), None);
    }
}

#[test]
fn a_long_reply_with_payload_is_one_stream_over_all_segments() {
    let lists = [0, 0, 1, 2, 21, 41, 0, 64, 22, 2000, 0, 0];
    let mut engine = serve(config(), &lists, &message(XID, REPLY, &[1001], 0));
    assert_eq!(written(&mut engine), (41, segment(21, 41, 64)));
    assert_eq!(written(&mut engine), (1007, segment(22, 1007, 0)));
    let counters = engine.counters();
    assert_eq!(counters.reply_chunk_bytes_out, 1048);
}

#[test]
fn a_key_is_invalidated_only_if_both_sides_said_so() {
    let read = [1, 40, 31, 4, 0, 0, 0];
    let write = [1, 1, 32, 4, 0, 0, 0];
    let reply = [1, 1, 33, 4, 0, 0];
    let none = [0];
    let reads_only = [&read[..], &none, &none].concat();
    let with_reply = [&read[..], &none, &reply].concat();
    let with_write = [&read[..], &write, &reply].concat();
    for (lists, key) in [(reads_only, 31), (with_reply, 33), (with_write, 32)] {
        for (own, peer) in [(true, true), (true, false), (false, true)] {
            let mut config = config();
            config.own.remote_invalidation = own;
            config.peer.remote_invalidation = peer;
            let mut engine = Engine::new(config);
            let header = [&[XID, 1, 9, 0], lists.as_slice()].concat();
            engine.received(&wire(&header, &rpc(XID, CALL, 0)), None);
            let (xid, bytes) = (XID, 40 + 4);
            assert_eq!(engine.next_event(), Some(Event::Allocate { xid, bytes }));
            assert_eq!(engine.next_work(), None);
            engine.allocated(XID);
            assert!(matches!(engine.next_work(), Some(SendWork::Pull { .. })));
            engine.pulled(XID);
            let record = Record::Pulled;
            assert_eq!(engine.next_event(), Some(Event::Call { xid, record }));
            engine.reply(&message(XID, REPLY, &[], 0)).unwrap();
            let expected = (own && peer).then_some(key);
            assert_eq!(sent(&mut engine).1, expected);
        }
    }
}

#[test]
fn reads_in_progress_are_bounded_and_the_others_wait_in_order() {
    let mut engine = Engine::new(EngineConfig {
        overrun: 9,
        read_bytes_max: 100,
        ..config()
    });
    let call = |xid: u32, len: u32| {
        let header = [xid, 1, 9, 0, 1, 40, 31, len, 0, 0, 0, 0, 0];
        wire(&header, &rpc(xid, CALL, 0))
    };
    for (xid, len) in [(1, 60), (2, 60), (3, 8), (4, 500)] {
        engine.received(&call(xid, len), None);
    }
    let pulled = |engine: &mut Engine| match engine.next_event() {
        Some(Event::Allocate { xid, .. }) => {
            engine.allocated(xid);
            let Some(SendWork::Pull { xid: pulled, .. }) = engine.next_work() else {
                panic!("no Pull");
            };
            assert_eq!(pulled, xid);
            Some(xid)
        }
        None => None,
        other => panic!("{other:?}"),
    };
    assert_eq!((pulled(&mut engine), pulled(&mut engine)), (Some(1), None));
    assert_eq!(engine.next_event(), None);
    let refused = engine.reply(&message(1, REPLY, &[], 0));
    assert_eq!(refused, Err(ReplyRefused::UnknownXid), "not delivered yet");
    engine.pulled(1);
    assert_eq!(delivered(&mut engine), 1);
    assert_eq!(
        (pulled(&mut engine), pulled(&mut engine)),
        (Some(2), Some(3))
    );
    assert_eq!(pulled(&mut engine), None);
    engine.pulled(3);
    assert_eq!(delivered(&mut engine), 3);
    assert_eq!(pulled(&mut engine), None);
    engine.pulled(2);
    assert_eq!(delivered(&mut engine), 2);
    // More than the limit, but alone.
    assert_eq!(pulled(&mut engine), Some(4));
    let c = engine.counters();
    assert_eq!((c.read_stalls, c.reads, c.read_chunk_bytes_in), (3, 4, 628));
}

#[test]
fn calls_may_be_refused_or_forgotten_by_the_upper_layer() {
    let mut engine = Engine::new(EngineConfig {
        overrun: 1,
        ..config()
    });
    engine.received(&inline(1, CALL, 9), None);
    engine.received(&inline(2, CALL, 9), None);
    engine.refuse(1).unwrap();
    assert_eq!(sent(&mut engine).0, [1, 1, 4, 4, 2]);
    engine.forget(2).unwrap();
    assert_eq!(engine.next_work(), None);
    for xid in [1, 2, 3] {
        assert_eq!(engine.refuse(xid), Err(ReplyRefused::UnknownXid));
        assert_eq!(engine.forget(xid), Err(ReplyRefused::UnknownXid));
    }
    assert_eq!(engine.calls_in_progress(), 0);
}
