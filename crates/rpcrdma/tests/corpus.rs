//! Goal: whatever a fuzzer once found stays fixed, and changes of real messages do no harm. Method: replay of `fuzz/corpus`, and of
//! each seed with every byte changed and at every length, and with several changes at once.

#[path = "../../../fuzz/replay.rs"]
mod replay;

use replay::Target;
use ropewalk_rpcrdma as rpcrdma;
use rpcrdma::{
    Body, ChunkLists, Header, INLINE_BYTES_MAX, PrivateData, RdmaError, ReadSegment, RefuseReason,
    Segment, fuzz,
};

const TARGETS: &[Target] = &[
    ("rpcrdma_header", fuzz::header, call),
    ("rpcrdma_header/long_call", fuzz::header, long_call),
    ("rpcrdma_header/long_reply", fuzz::header, long_reply),
    ("rpcrdma_header/inline", fuzz::header, inline),
    ("rpcrdma_header/err_vers", fuzz::header, err_vers),
    ("rpcrdma_header/err_chunk", fuzz::header, err_chunk),
    ("rpcrdma_header/done", fuzz::header, || obsolete(3)),
    ("rpcrdma_header/msgp", fuzz::header, || obsolete(2)),
    ("rpcrdma_private_data", fuzz::private_data, private_data),
    (
        "rpcrdma_private_data/behind_others",
        fuzz::private_data,
        private_data_behind_others,
    ),
    (
        "rpcrdma_private_data/cut",
        fuzz::private_data,
        private_data_that_is_cut,
    ),
    (
        "rpcrdma_private_data/version_2",
        fuzz::private_data,
        private_data_of_a_later_version,
    ),
    ("rpcrdma_engine", fuzz::engine, conversation),
    ("rpcrdma_engine/invalidated", fuzz::engine, invalidated),
    ("rpcrdma_engine/flood", fuzz::engine, flood),
    ("rpcrdma_engine/errors", fuzz::engine, errors),
    (
        "rpcrdma_engine/long_both_ways",
        fuzz::engine,
        long_both_ways,
    ),
];

fn segment(handle: u32, length: u32) -> Segment {
    Segment {
        handle,
        length,
        offset: 0x1_0000,
    }
}

/// A call with chunks of every kind.
fn call() -> Vec<u8> {
    let read = |position, handle, length| ReadSegment {
        position,
        target: segment(handle, length),
    };
    let lists = ChunkLists {
        reads: vec![read(40, 3, 500), read(40, 4, 13), read(560, 5, 8)],
        writes: vec![vec![segment(6, 2000), segment(7, 2000)], vec![]],
        reply: Some(vec![segment(8, 4000)]),
    };
    message(9, Body::Msg(lists), &[9, 0, 2, 0, 0, 0, 0, 0, 0, 0, 513, 8])
}

fn message(xid: u32, body: Body, stream: &[u32]) -> Vec<u8> {
    let credits = 8;
    let mut out = xdr::encode_to_vec(&Header { xid, credits, body });
    stream.iter().for_each(|w| out.extend(w.to_be_bytes()));
    out
}

/// An RDMA_NOMSG call: its stream in a chunk at position zero, of several segments, and a chunk that belongs into it (RFC 8166 §3.5.5).
fn long_call() -> Vec<u8> {
    let read = |position, handle, length| ReadSegment {
        position,
        target: segment(handle, length),
    };
    let lists = ChunkLists {
        reads: vec![read(0, 1, 300), read(0, 2, 212), read(512, 3, 8192)],
        writes: Vec::new(),
        reply: Some(vec![segment(8, 4000), segment(9, 4000)]),
    };
    message(12, Body::NoMsg(lists), &[])
}

/// An RDMA_NOMSG reply: its stream in the reply chunk, one result in a write chunk, none in another (RFC 8166 §3.5.6).
fn long_reply() -> Vec<u8> {
    let lists = ChunkLists {
        reads: Vec::new(),
        writes: vec![vec![segment(6, 2000), segment(7, 0)], vec![]],
        reply: Some(vec![segment(8, 3000), segment(9, 96)]),
    };
    message(1, Body::NoMsg(lists), &[])
}

/// A call without a chunk.
fn inline() -> Vec<u8> {
    let lists = ChunkLists::default();
    message(13, Body::Msg(lists), &[13, 0, 2, 100_003, 4, 1, 0, 0, 0, 0])
}

fn err_vers() -> Vec<u8> {
    let error = RdmaError::Version { low: 1, high: 1 };
    message(1, Body::Error(error), &[])
}

fn err_chunk() -> Vec<u8> {
    message(2, Body::Error(RdmaError::Chunk), &[])
}

/// RDMA_MSGP or RDMA_DONE, which nobody sends any more (RFC 8166 §4.6).
fn obsolete(procedure: u8) -> Vec<u8> {
    let mut message = inline();
    message[15] = procedure;
    message
}

/// As Linux says it: 4 KiB both ways, and replies may invalidate.
fn private_data() -> Vec<u8> {
    let said = PrivateData {
        remote_invalidation: true,
        send_bytes: 4096,
        receive_bytes: 4096,
    };
    said.encode().to_vec()
}

/// Behind data of another layer, with its beginning twice (RFC 8797 §5.2), and before the zeros that a fabric adds.
fn private_data_behind_others() -> Vec<u8> {
    let said = PrivateData {
        remote_invalidation: false,
        send_bytes: INLINE_BYTES_MAX,
        receive_bytes: 1024,
    };
    let mut bytes = b"other\xf6\xab\x0e".to_vec();
    bytes.extend(said.encode());
    bytes.resize(56, 0);
    bytes
}

fn private_data_that_is_cut() -> Vec<u8> {
    private_data()[..6].to_vec()
}

fn private_data_of_a_later_version() -> Vec<u8> {
    let mut bytes = private_data();
    bytes[4] = 2;
    bytes
}

/// Messages of a peer as [`fuzz::engine`] takes them: each with what happens besides.
fn said(messages: impl IntoIterator<Item = (u8, Vec<u8>)>) -> Vec<u8> {
    let mut out = Vec::new();
    for (how, message) in messages {
        out.push(how);
        out.push(u8::try_from(message.len() / 4).expect("a short message"));
        out.extend(message);
    }
    out
}

/// Replies that take back memory of ours: what their call exposed, and at last what nobody has exposed.
fn invalidated() -> Vec<u8> {
    let reply = |xid: u32| {
        let back = ChunkLists {
            writes: vec![vec![Segment {
                handle: 1,
                length: 100,
                offset: 0,
            }]],
            ..ChunkLists::default()
        };
        message(xid, Body::Msg(back), &[xid, 1, 0, 0, 0, 100])
    };
    // A call of ours has left once something has arrived behind it.
    said([
        (0x0c, inline()),
        (0x1e, reply(1)),
        (0x0d, inline()),
        (0x1f, reply(2)),
        (0x0c, inline()),
        (0xfe, reply(1)),
        (0x0c, inline()),
    ])
}

/// More calls than were ever granted, none of which is answered, then answers.
fn flood() -> Vec<u8> {
    let call = |xid: u32| {
        let lists = ChunkLists::default();
        message(
            xid,
            Body::Msg(lists),
            &[xid, 0, 2, 100_003, 4, 1, 0, 0, 0, 0],
        )
    };
    let silent = (100..116).map(|xid| (0, call(xid)));
    said(silent.chain([(0x0c, call(116))]))
}

/// Errors to our calls, to nobody's, and to an error; a reply that grants nothing.
fn errors() -> Vec<u8> {
    let mut nothing = message(1, Body::Msg(ChunkLists::default()), &[1, 1, 0, 0, 0, 0]);
    nothing[11] = 0;
    let foreign = message(77, Body::Error(RdmaError::Chunk), &[]);
    said([
        (0x0c, inline()),
        (0x0c, err_vers()),
        (0x0d, inline()),
        (0x0d, err_chunk()),
        (0x0c, foreign),
        (0x0c, obsolete(3)),
        (0x0c, obsolete(2)),
        (0x0c, nothing),
        (0x0c, err_vers()),
    ])
}

/// Calls that are fetched whole while others arrive, and a reply that was placed whole.
fn long_both_ways() -> Vec<u8> {
    let mut second = long_call();
    second[3] = 14;
    said([
        (0x00, long_call()),
        (0x00, second),
        (0x00, call()),
        (0x0c, long_reply()),
        (0x08, inline()),
        (0x0c, inline()),
    ])
}

/// The seeds get where they are meant to: whoever changes the engine changes them along.
#[test]
fn seeds_are_understood() {
    for sample in [long_call, long_reply, inline, err_vers, err_chunk, call] {
        assert!(Header::decode(&sample()).is_ok());
    }
    let counted = fuzz::engine_outcome(&invalidated());
    assert_eq!((counted.invalidations_received, counted.calls_in), (2, 3));
    let counted = fuzz::engine_outcome(&flood());
    assert!(
        counted.calls_in > 4 && counted.replies_out == 0,
        "{counted:?}"
    );
    let counted = fuzz::engine_outcome(&errors());
    assert_eq!(
        (counted.replies_in, counted.zero_grants),
        (3, 1),
        "{counted:?}"
    );
    let refused = [RefuseReason::Padded, RefuseReason::Version].map(|r| counted.refused_for(r));
    assert_eq!(refused, [1, 0]);
    let counted = fuzz::engine_outcome(&long_both_ways());
    assert_eq!((counted.calls_in, counted.read_chunks_in), (4, 6));
    assert!(counted.write_chunks_out > 0 && counted.reply_chunks_out > 0);
}

/// A call with chunks, a long call, a reply with a write chunk, an error, and a header of another version.
fn conversation() -> Vec<u8> {
    let read = ReadSegment {
        position: 0,
        target: segment(3, 400),
    };
    let long = ChunkLists {
        reads: vec![read],
        ..ChunkLists::default()
    };
    let back = ChunkLists {
        writes: vec![vec![Segment {
            handle: 1,
            length: 200,
            offset: 0,
        }]],
        reply: Some(vec![Segment {
            handle: 2,
            ..Segment::default()
        }]),
        ..ChunkLists::default()
    };
    let reply = message(1, Body::Msg(back), &[1, 1, 0, 0, 0, 200]);
    let error = message(2, Body::Error(rpcrdma::RdmaError::Chunk), &[]);
    let mut version = message(11, Body::Msg(ChunkLists::default()), &[]);
    version[7] = 2;
    said([
        (0b0000_1100, call()),
        (0b0000_1100, message(10, Body::NoMsg(long), &[])),
        (0b0001_1110, reply),
        (0b0000_1101, error),
        (0b0000_1100, version),
        (
            0b0000_1101,
            message(2, Body::Msg(ChunkLists::default()), &[2, 1]),
        ),
    ])
}
