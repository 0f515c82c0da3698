//! Padding of payload streams.

use bytes::Bytes;
use xdr::padding;

/// XDR padding after `len` bytes.
pub(crate) fn pad(len: usize) -> Bytes {
    Bytes::from_static(&[0; 3][..padding(len)])
}
