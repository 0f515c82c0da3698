//! Goal: every form of the header has the bytes of RFC 8166 §4, and everything else is told apart as that
//! says. Method: tables of hand-written words, truncation at every byte, generated headers.

use proptest::prelude::*;
use xdr::{DecodeErrorKind, encode_to_vec};

use crate::*;

/// Bytes of 32-bit words.
pub(super) fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_be_bytes()).collect()
}

pub(super) fn segment(handle: u32, length: u32, offset: u64) -> Segment {
    Segment {
        handle,
        length,
        offset,
    }
}

fn header(body: Body) -> Header {
    Header {
        xid: 0x0102_0304,
        credits: 32,
        body,
    }
}

fn read(position: u32, handle: u32) -> ReadSegment {
    ReadSegment {
        position,
        target: segment(handle, 7, 1 << 32),
    }
}

/// Lists as in the examples of §4.7, with their words.
fn lists() -> [(ChunkLists, Vec<u32>); 4] {
    let reads = ChunkLists {
        reads: vec![read(0, 0xa), read(0, 0xb), read(44, 0xc)],
        ..ChunkLists::default()
    };
    let writes = ChunkLists {
        writes: vec![
            vec![segment(1, 2, 3), segment(4, 5, 6)],
            vec![],
            vec![segment(7, 8, 9)],
        ],
        reply: Some(vec![segment(0xd, 0xe, u64::MAX), segment(1, 0, 0)]),
        ..ChunkLists::default()
    };
    let all = ChunkLists {
        reads: vec![read(0, 0xa)],
        writes: vec![vec![segment(1, 2, 3)]],
        reply: Some(vec![]),
    };
    let max = u32::MAX;
    let reads_words = [
        [1, 0, 0xa, 7, 1, 0],
        [1, 0, 0xb, 7, 1, 0],
        [1, 44, 0xc, 7, 1, 0],
    ];
    [
        (ChunkLists::default(), vec![0, 0, 0]),
        (reads, [reads_words.as_flattened(), &[0, 0, 0]].concat()),
        (
            writes,
            vec![
                0, 1, 2, 1, 2, 0, 3, 4, 5, 0, 6, 1, 0, 1, 1, 7, 8, 0, 9, 0, 1, 2, 0xd, 0xe, max,
                max, 1, 0, 0, 0,
            ],
        ),
        (all, vec![1, 0, 0xa, 7, 1, 0, 0, 1, 1, 1, 2, 0, 3, 0, 1, 0]),
    ]
}

/// Every form of header, with its bytes.
fn forms() -> Vec<(Header, Vec<u8>)> {
    let form = |body: Body, procedure: u32, rest: &[u32]| {
        let fixed = [0x0102_0304, 1, 32, procedure];
        (header(body), words(&[&fixed, rest].concat()))
    };
    let version = RdmaError::Version { low: 1, high: 2 };
    let mut out = vec![
        form(Body::Error(version), 4, &[1, 1, 2]),
        form(Body::Error(RdmaError::Chunk), 4, &[2]),
    ];
    for (lists, words) in lists() {
        out.push(form(Body::Msg(lists.clone()), 0, &words));
        out.push(form(Body::NoMsg(lists), 1, &words));
    }
    out
}

#[test]
fn every_form_has_the_bytes_of_the_rfc() {
    for (header, bytes) in forms() {
        assert_eq!(encode_to_vec(&header), bytes, "{header:?}");
        assert_eq!(Header::decode(&bytes), Ok((header.clone(), bytes.len())));
        if let Body::Msg(lists) | Body::NoMsg(lists) = &header.body {
            assert_eq!(lists.header_bytes(), bytes.len());
        }
        let followed = [bytes.as_slice(), b"payload stream"].concat();
        assert_eq!(Header::decode(&followed), Ok((header, bytes.len())));
    }
}

#[test]
fn every_truncation_is_refused() {
    for (header, bytes) in forms() {
        for cut in 0..bytes.len() {
            let fault = Header::decode(&bytes[..cut]).unwrap_err();
            let short = cut < HEADER_BYTES_MIN && !matches!(header.body, Body::Error(_));
            match fault {
                HeaderFault::Short => assert!(cut < 28),
                HeaderFault::Malformed(fixed, e) => {
                    assert!(!short, "{cut} bytes have no XID to trust");
                    assert_eq!(fixed.xid, header.xid);
                    assert_eq!(e.kind, DecodeErrorKind::Truncated);
                }
                other => panic!("cut at {cut}: {other:?}"),
            }
        }
    }
}

#[test]
fn what_cannot_be_used_is_told_apart() {
    let fixed = |version, procedure| FixedFields {
        xid: 9,
        version,
        credits: 3,
        procedure,
    };
    let decode = |all: &[u32]| Header::decode(&words(all)).unwrap_err();
    assert_eq!(decode(&[]), HeaderFault::Short);
    assert_eq!(decode(&[9, 1, 3, 0, 0, 0]), HeaderFault::Short);
    assert_eq!(decode(&[9, 2, 3, 0, 0, 0]), HeaderFault::Short);
    assert_eq!(decode(&[9, 1, 3, 4]), HeaderFault::Short);
    assert_eq!(
        decode(&[9, 2, 3, 0, 0, 0, 0]),
        HeaderFault::Version(fixed(2, 0))
    );
    assert_eq!(
        decode(&[9, 0, 3, 4, 1, 1, 1]),
        HeaderFault::Version(fixed(0, 4))
    );
    assert_eq!(
        decode(&[9, 1, 3, 2, 0, 0, 0]),
        HeaderFault::Padded(fixed(1, 2))
    );
    assert_eq!(
        decode(&[9, 1, 3, 3, 0, 0, 0]),
        HeaderFault::Done(fixed(1, 3))
    );
    let malformed = |all: &[u32]| match decode(all) {
        HeaderFault::Malformed(fixed, e) => {
            assert_eq!(fixed.xid, 9);
            (e.kind, e.offset)
        }
        other => panic!("{other:?}"),
    };
    use DecodeErrorKind::{BadBool, BadDiscriminant, TooLong};
    assert_eq!(malformed(&[9, 1, 3, 5, 0, 0, 0]), (BadDiscriminant(5), 12));
    assert_eq!(malformed(&[9, 1, 3, 4, 3, 0, 0]), (BadDiscriminant(3), 16));
    assert_eq!(malformed(&[9, 1, 3, 0, 2, 0, 0]), (BadBool(2), 16));
    assert_eq!(malformed(&[9, 1, 3, 0, 0, 7, 0]), (BadBool(7), 20));
    assert_eq!(malformed(&[9, 1, 3, 1, 0, 0, 8]), (BadBool(8), 24));
    let (len, limit) = (CHUNK_SEGMENTS_MAX + 1, CHUNK_SEGMENTS_MAX);
    let many = TooLong { len, limit };
    assert_eq!(malformed(&[9, 1, 3, 0, 0, 1, len]), (many, 24));
    assert_eq!(malformed(&[9, 1, 3, 0, 0, 0, 1, len]), (many, 28));
}

#[test]
fn lists_are_bounded() {
    let decode = |lists: ChunkLists| {
        let bytes = encode_to_vec(&header(Body::Msg(lists)));
        Header::decode(&bytes).map(|(header, _)| header.body)
    };
    let lists = |reads: u32, writes: u32, segments: u32| ChunkLists {
        reads: vec![
            ReadSegment {
                position: 0,
                target: Segment::default()
            };
            reads as usize
        ],
        writes: vec![vec![]; writes as usize],
        reply: Some(vec![Segment::default(); segments as usize]),
    };
    let limits = (READ_SEGMENTS_MAX, WRITE_CHUNKS_MAX, CHUNK_SEGMENTS_MAX);
    let full = lists(limits.0, limits.1, limits.2);
    assert_eq!(decode(full.clone()), Ok(Body::Msg(full)));
    for (a, b, c) in [(1, 0, 0), (0, 1, 0), (0, 0, 1)] {
        let fault = decode(lists(limits.0 + a, limits.1 + b, limits.2 + c)).unwrap_err();
        let HeaderFault::Malformed(_, e) = fault else {
            panic!("{fault:?}")
        };
        assert!(matches!(e.kind, DecodeErrorKind::TooLong { .. }), "{e}");
    }
}

#[test]
fn an_error_repeats_the_version_that_it_answers() {
    let to = FixedFields {
        xid: 5,
        version: 77,
        credits: 1,
        procedure: 0,
    };
    let error = RdmaError::Version { low: 1, high: 1 };
    let bytes = encode_error_reply(to, 8, error);
    assert_eq!(bytes, words(&[5, 77, 8, 4, 1, 1, 1]));
    let bytes = encode_error_reply(to, 8, RdmaError::Chunk);
    assert_eq!(bytes, words(&[5, 77, 8, 4, 2]));
}

fn any_segment() -> impl Strategy<Value = Segment> {
    (any::<u32>(), any::<u32>(), any::<u64>()).prop_map(|(h, l, o)| segment(h, l, o))
}

fn any_chunk() -> impl Strategy<Value = WriteChunk> {
    prop::collection::vec(any_segment(), 0..5)
}

pub(super) fn any_lists() -> impl Strategy<Value = ChunkLists> {
    let read = (any::<u32>(), any_segment());
    let read = read.prop_map(|(position, target)| ReadSegment { position, target });
    (
        prop::collection::vec(read, 0..6),
        prop::collection::vec(any_chunk(), 0..4),
        prop::option::of(any_chunk()),
    )
        .prop_map(|(reads, writes, reply)| ChunkLists {
            reads,
            writes,
            reply,
        })
}

proptest! {
    #[test]
    fn any_header_round_trips(xid: u32, credits: u32, lists in any_lists(), long: bool) {
        let body = if long { Body::NoMsg(lists) } else { Body::Msg(lists) };
        let header = Header { xid, credits, body };
        let bytes = encode_to_vec(&header);
        prop_assert_eq!(Header::decode(&bytes), Ok((header, bytes.len())));
    }
}
