//! Body of the fuzz target `rpcrdma_header`; an ordinary test replays its corpus.
//!
//! It takes bytes of a peer and must not panic. A panic is a finding.

use bytes::Bytes;
use xdr::encode_to_vec;

use crate::{Body, Header, Placement, PrivateData, place, read_chunks};

/// Most bytes of a record in these targets.
const RECORD_BYTES_MAX: u32 = 1 << 20;

/// A Send of a peer as header, chunks and private data. What is understood encodes to the same bytes, and
/// chunks that make a record cover each of its bytes once.
///
/// # Panics
/// When they do not.
pub fn header(data: &[u8]) {
    let private = PrivateData::decode(data);
    let again = PrivateData::decode(&private.encode());
    assert_eq!(again, private, "a round trip changed private data");
    let Ok((header, at)) = Header::decode(data) else {
        return;
    };
    let encoded = encode_to_vec(&header);
    assert_eq!(encoded, data[..at], "a round trip changed a header");
    let (lists, inline) = match header.body {
        Body::Msg(lists) => (lists, Some(Bytes::copy_from_slice(&data[at..]))),
        Body::NoMsg(lists) => (lists, None),
        Body::Error(_) => return,
    };
    assert_eq!(lists.header_bytes(), at, "the length of a header is known");
    if let Ok(placement) = place(
        inline.as_ref(),
        &read_chunks(&lists.reads),
        RECORD_BYTES_MAX,
    ) {
        covers(&placement);
    }
}

/// Each byte of the record comes from one piece or one pull.
fn covers(placement: &Placement) {
    let pieces = placement.pieces.iter();
    let pieces = pieces.map(|p| (u64::from(p.at), p.bytes.len() as u64));
    let pulls = placement.pulls.iter();
    let pulls = pulls.map(|p| (u64::from(p.at), u64::from(p.segment.length)));
    let mut ranges: Vec<_> = pieces.chain(pulls).collect();
    ranges.sort_unstable();
    let end = ranges.into_iter().fold(0, |end, (at, bytes)| {
        assert_eq!(at, end, "a gap or an overlap");
        at + bytes
    });
    assert_eq!(end, u64::from(placement.bytes));
}
