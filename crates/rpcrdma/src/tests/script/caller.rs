//! The engine as the one who calls.

use super::*;

fn room(reply_bytes_max: u32, write_chunks: &[u32]) -> ReplyRoom {
    ReplyRoom {
        reply_bytes_max,
        write_chunks: write_chunks.to_vec(),
    }
}

fn region(index: u32) -> RegionId {
    RegionId { xid: XID, index }
}

/// Answers every wish to expose memory with a segment whose handle is 100 and the region's index.
fn expose_all(engine: &mut Engine) -> Vec<Exposure> {
    let mut out = Vec::new();
    while let Some(event) = engine.next_event() {
        let Event::Expose { region, memory } = event else {
            panic!("{event:?}")
        };
        let bytes = match &memory {
            Exposure::Source(pieces) => pieces.iter().map(Bytes::len).sum(),
            Exposure::Sink { bytes } => *bytes as usize,
        };
        let length = u32::try_from(bytes).unwrap();
        engine.exposed(region, vec![segment(100 + region.index, length, 5)]);
        out.push(memory);
    }
    out
}

fn outcome(engine: &mut Engine) -> Result<CallReply, CallError> {
    match engine.next_event() {
        Some(Event::Reply { xid: XID, outcome }) => outcome,
        other => panic!("no reply: {other:?}"),
    }
}

/// A READ of up to 2000 bytes that was sent: a write chunk with handle 100, and a reply chunk with 101 if
/// `long`.
fn reading(long: bool) -> Engine {
    let mut engine = Engine::new(config());
    let reply_bytes_max = if long { 3000 } else { 100 };
    let call = message(XID, CALL, &[], 0);
    engine.call(call, &room(reply_bytes_max, &[2000])).unwrap();
    assert_eq!(expose_all(&mut engine).len(), 1 + usize::from(long));
    sent(&mut engine);
    engine
}

#[test]
fn a_small_call_is_one_send_without_chunks() {
    let mut engine = Engine::new(config());
    let call = message(XID, CALL, &[5], 0);
    // 28 bytes of header, 496 of reply, 500 of result: exactly the threshold.
    engine.call(call, &room(496, &[498])).unwrap();
    assert_eq!(engine.next_event(), None);
    let mut expected = vec![XID, 1, 4, 0, 0, 0, 0];
    expected.extend(rpc(XID, CALL, 0));
    expected.extend([5, 0xdddd_dddd, 0xdd00_0000]);
    assert_eq!(sent(&mut engine), (expected, None));
    assert_eq!(engine.receives(), 1 + 1);
    let reply = inline(XID, REPLY, 7);
    engine.received(&reply, None);
    let expected = CallReply {
        record: ReplyRecord::Inline(reply.slice(HEADER_BYTES_MIN..)),
        chunks: vec![ReturnedChunk {
            region: None,
            bytes: 0,
        }],
    };
    assert_eq!(outcome(&mut engine), Ok(expected));
    assert_eq!(engine.credits(), (4, 0));
    assert_eq!(engine.receives(), 1);
}

#[test]
fn a_reply_that_may_not_fit_is_offered_chunks() {
    let lists = |reply_bytes_max: u32, write_chunks: &[u32]| {
        let mut engine = Engine::new(config());
        let call = message(XID, CALL, &[], 0);
        engine
            .call(call, &room(reply_bytes_max, write_chunks))
            .unwrap();
        expose_all(&mut engine);
        let words = sent(&mut engine).0;
        words[4..words.len() - 10].to_vec()
    };
    let write = [0, 1, 1, 100, 498, 0, 5];
    assert_eq!(lists(496, &[498]), [0, 0, 0]);
    assert_eq!(lists(497, &[498]), [&write[..], &[0, 0]].concat());
    assert_eq!(lists(996, &[]), [0, 0, 0]);
    assert_eq!(lists(997, &[]), [0, 0, 1, 1, 100, 997, 0, 5]);
    // A header of 52 bytes leaves 972.
    assert_eq!(lists(972, &[498]), [&write[..], &[0, 0]].concat());
    let both = [&write[..], &[0, 1, 1, 101, 973, 0, 5]].concat();
    assert_eq!(lists(973, &[498]), both);
    // An empty chunk asks for its result inline.
    let empty = [0, 1, 0, 1, 1, 100, 2000, 0, 5, 0, 0];
    assert_eq!(lists(100, &[0, 2000]), empty);
    assert_eq!(lists(997, &[0]), [0, 0, 1, 1, 100, 997, 0, 5]);
}

/// A peer believes no more of our sizes than the private data can say.
#[test]
fn sizes_count_in_whole_kibibytes() {
    let mut config = config();
    config.own.receive_bytes = 2047;
    config.peer.send_bytes = 4096;
    let mut engine = Engine::new(config);
    let call = message(XID, CALL, &[], 0);
    engine.call(call, &room(1000, &[])).unwrap();
    let memory = Exposure::Sink { bytes: 1000 };
    assert_eq!(expose_all(&mut engine), [memory]);
}

#[test]
fn payloads_leave_the_stream_only_when_it_does_not_fit() {
    let offered = |config: EngineConfig, payloads: &[u32], more: usize| {
        let mut engine = Engine::new(config);
        let call = message(XID, CALL, payloads, more);
        engine.call(call, &ReplyRoom::default()).unwrap();
        let memory = expose_all(&mut engine);
        let sources = memory.iter().map(|m| match m {
            Exposure::Source(pieces) => pieces.concat().len(),
            Exposure::Sink { .. } => panic!("no reply was expected"),
        });
        let sources: Vec<_> = sources.collect();
        let words = sent(&mut engine).0;
        let reads = words[4..].chunks(6).take_while(|read| read[0] == 1);
        let positions: Vec<_> = reads.map(|read| read[1]).collect();
        assert!(words.len() <= 256);
        (words[3], positions, sources)
    };
    let (msg, nomsg) = (0, 1);
    // 28 bytes of header, 40 of message, 4 of count: 952 are left.
    assert_eq!(offered(config(), &[952], 0), (msg, vec![], vec![]));
    assert_eq!(offered(config(), &[953], 0), (msg, vec![44], vec![953]));
    assert_eq!(
        offered(config(), &[1 << 20], 0),
        (msg, vec![44], vec![1 << 20])
    );
    // The largest goes first, and only as many as allowed.
    assert_eq!(
        offered(config(), &[3, 2000, 70], 0),
        (msg, vec![52], vec![2000])
    );
    let expected = (nomsg, vec![0, 1048], vec![40 + 4 + 1000 + 4, 2000]);
    assert_eq!(offered(config(), &[999, 2000], 0), expected);
    let two = EngineConfig {
        read_chunks_max: 2,
        ..config()
    };
    let expected = (msg, vec![44, 1048], vec![999, 2000]);
    assert_eq!(offered(two, &[999, 2000], 0), expected);
    // No payload to take out, or not enough.
    assert_eq!(offered(config(), &[], 239), (msg, vec![], vec![]));
    assert_eq!(offered(config(), &[], 240), (nomsg, vec![0], vec![1000]));
    let expected = (nomsg, vec![0, 44], vec![1044, 900]);
    assert_eq!(offered(config(), &[900], 250), expected);
}

#[test]
fn a_call_that_cannot_be_sent_changes_nothing() {
    let mut engine = Engine::new(EngineConfig {
        record_bytes_max: 5000,
        calls_waiting_max: 1,
        ..config()
    });
    let none = ReplyRoom::default();
    let call = |xid: u32| message(xid, CALL, &[], 0);
    let refused = |engine: &mut Engine, message: Message, room: &ReplyRoom| {
        engine.call(message, room).unwrap_err()
    };
    let long = message(1, CALL, &[4957], 0);
    assert_eq!(refused(&mut engine, long, &none), CallRefused::TooLong);
    let long = room(3000, &[2001]);
    assert_eq!(refused(&mut engine, call(1), &long), CallRefused::TooLong);
    let many = room(100, &[1; WRITE_CHUNKS_MAX as usize + 1]);
    let too_many = CallRefused::TooManyChunks;
    assert_eq!(refused(&mut engine, call(1), &many), too_many);
    engine.call(call(1), &none).unwrap();
    assert_eq!(
        refused(&mut engine, call(1), &none),
        CallRefused::DuplicateXid
    );
    engine.call(call(2), &none).unwrap();
    assert_eq!(
        refused(&mut engine, call(2), &none),
        CallRefused::DuplicateXid
    );
    assert_eq!(refused(&mut engine, call(3), &none), CallRefused::Full);
    assert_eq!(engine.calls_outstanding(), 2);

    let mut engine = Engine::new(EngineConfig {
        region_segments_max: 60,
        ..config()
    });
    assert_eq!(refused(&mut engine, call(1), &room(2000, &[])), too_many);
    let payload = message(1, CALL, &[2000], 0);
    assert_eq!(refused(&mut engine, payload, &none), too_many);
    assert_eq!(engine.calls_outstanding(), 0);
}

#[test]
fn calls_wait_for_credits_in_order_and_0_counts_as_1() {
    let mut engine = Engine::new(config());
    for xid in 1..=9 {
        let call = message(xid, CALL, &[], 0);
        engine.call(call, &ReplyRoom::default()).unwrap();
    }
    let expect = |engine: &mut Engine, xids: &[u32]| {
        for xid in xids {
            assert_eq!(sent(engine).0[0], *xid);
        }
        assert_eq!(engine.next_work(), None);
    };
    // A reply with this grant, and the limit that it makes.
    let reply = |engine: &mut Engine, xid: u32, granted: u32, limit: u32| {
        engine.received(&inline(xid, REPLY, granted), None);
        engine.next_event().expect("an outcome");
        assert_eq!(engine.credits().0, limit);
    };
    expect(&mut engine, &[1]);
    reply(&mut engine, 1, 3, 3);
    expect(&mut engine, &[2, 3, 4]);
    reply(&mut engine, 3, 0, 1);
    expect(&mut engine, &[]);
    reply(&mut engine, 2, 1, 1);
    expect(&mut engine, &[]);
    // Never more than we asked for.
    reply(&mut engine, 4, 1000, 4);
    expect(&mut engine, &[5, 6, 7, 8]);
    let c = engine.counters();
    assert_eq!((c.credit_stalls, c.zero_grants), (8, 1));
}

#[test]
fn a_reply_with_unknown_chunks_ends_its_call_only() {
    let reply = |lists: &[u32], procedure: u32| {
        let header = [&[XID, 1, 4, procedure], lists].concat();
        let stream = rpc(XID, REPLY, 0);
        wire(&header, if procedure == 0 { &stream } else { &[] })
    };
    let write = [0, 1, 1, 100, 2000, 0, 5, 0];
    let cases: &[(u32, bool, &[u32])] = &[
        (0, true, &[&write[..], &[0]].concat()),
        (0, true, &[0, 0, 0]),
        (0, true, &[0, 1, 1, 100, 0, 0, 5, 0, 1, 1, 101, 0, 0, 5]),
        (1, true, &[0, 0, 1, 1, 101, 3000, 0, 5]),
        (1, true, &[0, 1, 1, 100, 9, 0, 5, 0, 1, 1, 101, 8, 0, 5]),
        // Too long, too many segments, too many chunks, a chunk that was never offered.
        (0, false, &[0, 1, 1, 100, 2001, 0, 5, 0, 0]),
        (0, false, &[0, 1, 2, 100, 9, 0, 5, 100, 9, 0, 5, 0, 0]),
        (0, false, &[0, 1, 0, 0, 0]),
        (0, false, &[0, 1, 1, 100, 9, 0, 5, 1, 1, 100, 9, 0, 5, 0, 0]),
        // A stream and a long reply at once, a read list, and streams that are none.
        (0, false, &[0, 0, 1, 1, 101, 8, 0, 5]),
        (0, false, &[1, 40, 1, 4, 0, 0, 0, 0, 0]),
        (1, false, &[0, 0, 1, 1, 101, 7, 0, 5]),
        (1, false, &[0, 0, 1, 1, 101, 3001, 0, 5]),
        (1, false, &[&write[..], &[0]].concat()),
    ];
    for (procedure, is_good, lists) in cases {
        let mut engine = reading(true);
        engine.received(&reply(lists, *procedure), Some(100));
        assert_eq!(engine.next_event(), None, "memory is still exposed");
        let (region, handle) = (region(1), 101);
        let work = SendWork::Invalidate { region, handle };
        assert_eq!(engine.next_work(), Some(work));
        engine.invalidated(region);
        match outcome(&mut engine) {
            Ok(_) => assert!(is_good, "{lists:?}"),
            Err(e) => assert_eq!((e, *is_good), (CallError::BadChunks, false), "{lists:?}"),
        }
        assert_eq!(engine.calls_outstanding(), 0);
    }
}

#[test]
fn segments_come_back_filled_in_order() {
    for (first, second, bytes) in [
        (0, 0, Some(0)),
        (9, 0, Some(9)),
        (10, 0, Some(10)),
        (10, 3, Some(13)),
        (9, 1, None),
        (0, 1, None),
        (11, 0, None),
    ] {
        let mut engine = Engine::new(EngineConfig {
            region_segments_max: 2,
            ..config()
        });
        let call = message(XID, CALL, &[], 0);
        engine.call(call, &room(980, &[20])).unwrap();
        engine.next_event().expect("a wish to expose");
        let both = vec![segment(100, 10, 5), segment(100, 10, 95)];
        engine.exposed(region(0), both);
        if let Some(Event::Expose { region, .. }) = engine.next_event() {
            engine.exposed(region, vec![segment(101, 980, 0)]);
        }
        sent(&mut engine);
        let lists = [0, 1, 2, 100, first, 0, 5, 100, second, 0, 95, 0, 0];
        let header = [&[XID, 1, 4, 0], &lists[..]].concat();
        engine.received(&wire(&header, &rpc(XID, REPLY, 0)), Some(100));
        while let Some(SendWork::Invalidate { region, .. }) = engine.next_work() {
            engine.invalidated(region);
        }
        let found = outcome(&mut engine).map(|reply| reply.chunks[0].bytes).ok();
        assert_eq!(found, bytes, "{first} and {second}");
    }
}

#[test]
fn an_error_ends_the_call_for_good() {
    let version = RdmaError::Version { low: 1, high: 1 };
    for (words, error) in [
        (&[XID, 1, 4, 4, 2][..], RdmaError::Chunk),
        (&[XID, 1, 4, 4, 1, 1, 1], version),
    ] {
        let mut engine = reading(false);
        engine.received(&wire(words, &[]), None);
        assert!(matches!(
            engine.next_work(),
            Some(SendWork::Invalidate { .. })
        ));
        engine.invalidated(region(0));
        assert_eq!(outcome(&mut engine), Err(CallError::Refused(error)));
        assert_eq!(engine.credits(), (4, 0));
    }
}

#[test]
fn a_faulty_reply_is_discarded_and_its_call_goes_on() {
    let mut engine = reading(true);
    for faulty in [
        wire(&[XID, 1, 4, 7, 0, 0, 0], &[]),
        wire(&[XID, 2, 4, 0, 0, 0, 0], &[]),
        wire(&[XID, 1, 4, 2, 0, 0, 0], &[]),
        wire(&[XID, 1, 4, 0, 0, 0, 2], &rpc(XID, REPLY, 0)),
        wire(&[XID, 1, 4, 1, 0, 0, 0], &[]),
        wire(&[XID, 1, 4, 0, 0, 0, 0], &rpc(XID + 1, REPLY, 0)),
    ] {
        engine.received(&faulty, None);
        assert_eq!((engine.next_event(), engine.next_work()), (None, None));
    }
    let discarded = engine.counters().discarded_for(DiscardReason::ReplyHeader);
    assert_eq!(discarded, 6);
    assert_eq!(engine.calls_outstanding(), 1);
}

#[test]
fn only_memory_of_the_call_may_be_invalidated_and_only_if_we_said_so() {
    let reply = wire(&[XID, 1, 4, 0, 0, 0, 0], &rpc(XID, REPLY, 0));
    let mut engine = reading(false);
    engine.received(&reply, Some(101));
    assert_eq!(failed(&mut engine), Some(FailReason::ForeignInvalidation));
    engine.lost();
    assert_eq!(outcome(&mut engine), Err(CallError::Lost));

    let mut config = config();
    config.own.remote_invalidation = false;
    let mut engine = Engine::new(config);
    let call = message(XID, CALL, &[], 0);
    engine.call(call, &room(100, &[2000])).unwrap();
    expose_all(&mut engine);
    sent(&mut engine);
    engine.received(&reply, Some(100));
    assert_eq!(failed(&mut engine), Some(FailReason::ForeignInvalidation));
}

#[test]
fn a_call_whose_memory_cannot_be_exposed_is_not_sent() {
    let mut engine = Engine::new(config());
    let call = message(XID, CALL, &[], 0);
    engine.call(call, &room(3000, &[2000])).unwrap();
    engine.expose_failed(region(0));
    assert_eq!(engine.next_work(), None);
    engine.exposed(region(1), vec![segment(7, 3000, 0)]);
    assert!(matches!(engine.next_event(), Some(Event::Expose { .. })));
    assert!(matches!(engine.next_event(), Some(Event::Expose { .. })));
    let (region, handle) = (region(1), 7);
    let work = SendWork::Invalidate { region, handle };
    assert_eq!(
        (engine.next_work(), engine.next_event()),
        (Some(work), None)
    );
    engine.invalidated(region);
    assert_eq!(outcome(&mut engine), Err(CallError::NotExposed));
    assert_eq!(engine.credits(), (1, 0));
}

#[test]
fn a_cancelled_call_gives_its_memory_back_and_keeps_its_credit_while_it_runs() {
    // Sent: the credit is free when the reply comes, which nobody hears of.
    let mut engine = reading(false);
    engine.cancel(XID);
    assert!(matches!(
        engine.next_work(),
        Some(SendWork::Invalidate { .. })
    ));
    engine.invalidated(region(0));
    assert_eq!((engine.credits(), engine.receives()), ((1, 1), 2));
    engine.received(&inline(XID, REPLY, 4), None);
    assert_eq!((engine.next_event(), engine.next_work()), (None, None));
    assert_eq!((engine.credits(), engine.receives()), ((4, 0), 1));

    // Answered, its memory not back yet.
    let mut engine = reading(false);
    engine.received(&inline(XID, REPLY, 4), None);
    engine.cancel(XID);
    engine.invalidated(region(0));
    assert_eq!(engine.next_event(), None);
    assert_eq!(engine.calls_outstanding(), 0);

    // Not sent yet: while it waits, while it is being exposed, while it is queued.
    let mut engine = Engine::new(config());
    let call = message(XID, CALL, &[], 0);
    engine.call(call, &room(100, &[2000])).unwrap();
    let second = message(XID + 1, CALL, &[], 0);
    engine.call(second, &ReplyRoom::default()).unwrap();
    engine.cancel(XID + 1);
    assert_eq!(engine.calls_outstanding(), 1);
    engine.cancel(XID);
    expose_all(&mut engine);
    assert!(matches!(
        engine.next_work(),
        Some(SendWork::Invalidate { .. })
    ));
    engine.invalidated(region(0));
    let call = message(XID, CALL, &[], 0);
    engine.call(call, &ReplyRoom::default()).unwrap();
    engine.cancel(XID);
    assert_eq!((engine.next_event(), engine.next_work()), (None, None));
    assert_eq!((engine.calls_outstanding(), engine.credits()), (0, (1, 0)));
}

#[test]
fn a_call_cancelled_after_the_end_has_no_verdict() {
    let mut engine = reading(false);
    let second = message(XID + 1, CALL, &[], 0);
    engine.call(second, &ReplyRoom::default()).unwrap();
    engine.received(&inline(9, CALL, 1), Some(1));
    assert_eq!(failed(&mut engine), Some(FailReason::ForeignInvalidation));
    engine.cancel(XID);
    assert!(!engine.has_work());
    engine.lost();
    let (xid, outcome) = (XID + 1, Err(CallError::Lost));
    assert_eq!(engine.next_event(), Some(Event::Reply { xid, outcome }));
    assert_eq!(engine.next_event(), None);
}

#[test]
fn equal_xids_in_both_directions_are_two_transactions() {
    let mut engine = Engine::new(config());
    let call = message(XID, CALL, &[], 0);
    engine.call(call, &ReplyRoom::default()).unwrap();
    sent(&mut engine);
    engine.received(&inline(XID, CALL, 2), None);
    assert_eq!(delivered(&mut engine), XID);
    // What the peer asks for is no grant (RFC 8167 §4.1).
    assert_eq!(engine.credits(), (1, 1));
    assert_eq!(engine.receives(), 1);
    engine.reply(&message(XID, REPLY, &[], 0)).unwrap();
    assert_eq!(sent(&mut engine).0[2], 2);
    assert_eq!(engine.receives(), 3);
    engine.received(&inline(XID, REPLY, 3), None);
    assert!(outcome(&mut engine).is_ok());
    assert_eq!((engine.credits(), engine.receives()), ((3, 0), 2));
}
