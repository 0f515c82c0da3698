//! Pieces of memory: those of the peer that a chunk names, and bytes in several pieces.

use bytes::Bytes;
use fabric::Remote;
use rpcrdma::Segment;

/// The memory that a segment of a chunk names.
pub(super) fn remote(segment: &Segment) -> Remote {
    Remote {
        key: segment.handle,
        offset: segment.offset,
        len: segment.length,
    }
}

/// Bytes of several pieces in one.
pub(super) fn gather(mut pieces: Vec<Bytes>) -> (Bytes, usize) {
    if pieces.len() == 1 {
        return (pieces.remove(0), 0);
    }
    let bytes = pieces.concat();
    let copied = bytes.len();
    (bytes.into(), copied)
}
