//! Entry point of the fuzzer: any bytes, as every message of the program.

use crate::{GreetOk, PassArgs, PassOk, StreamOpenArgs};
use control::Answer;
use xdr::{Decode, Encode};

/// Decodes `bytes` as each message. What decodes must encode to bytes that decode to the same value.
///
/// # Panics
/// When it does not: a bug of the codec.
pub fn message(bytes: &[u8]) {
    let _ = xdr::decode_all::<PassArgs<'_>>(bytes);
    stable::<StreamOpenArgs>(bytes);
    stable::<Answer<GreetOk>>(bytes);
    stable::<Answer<PassOk>>(bytes);
}

fn stable<T: Encode + for<'a> Decode<'a>>(bytes: &[u8]) {
    if let Ok(value) = xdr::decode_all::<T>(bytes) {
        let first = xdr::encode_to_vec(&value);
        let again = xdr::decode_all::<T>(&first).expect("what we encode decodes");
        assert_eq!(first, xdr::encode_to_vec(&again), "encoding is not stable");
    }
}
