//! Goal: whatever a fuzzer once found stays fixed, and changes of real messages do no harm. Method: replay of `fuzz/corpus`, and of
//! each seed with every byte changed and at every length.

#[path = "../../../fuzz/replay.rs"]
mod replay;

use replay::Target;
use ropewalk_rpcrdma as rpcrdma;
use rpcrdma::{Body, ChunkLists, Header, ReadSegment, Segment, fuzz};

const TARGETS: &[Target] = &[
    ("rpcrdma_header", fuzz::header, call),
    ("rpcrdma_engine", fuzz::engine, conversation),
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
    let mut out = Vec::new();
    for (how, message) in [
        (0b0000_1100, call()),
        (0b0000_1100, message(10, Body::NoMsg(long), &[])),
        (0b0001_1110, reply),
        (0b0000_1101, error),
        (0b0000_1100, version),
        (
            0b0000_1101,
            message(2, Body::Msg(ChunkLists::default()), &[2, 1]),
        ),
    ] {
        out.push(how);
        out.push(u8::try_from(message.len() / 4).expect("a short message"));
        out.extend(message);
    }
    out
}
