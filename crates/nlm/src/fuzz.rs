//! Entry point of the fuzzer: a selector and any bytes, as arguments or results of one procedure.

use crate::nsm::{NsmCall, NsmProc, NsmReply, SmStatus};
use crate::{NlmCall, NlmProc, NlmReply};

/// Bytes before the message. The first selects; the others keep the words of the message aligned.
const HEAD_BYTES: usize = 4;
/// In a selector: results, not arguments.
const RESULTS: u8 = 0x80;
/// In a selector: a procedure of NSM, not of NLM.
const NSM: u8 = 0x40;
/// In a selector without procedures: the status that a monitor sends.
const STATUS: u8 = 0x3f;

/// Decodes by a function that takes the bytes last. A macro, because the value borrows from each of two buffers.
macro_rules! stable {
    ($bytes:expr, $decode:path $(, $proc:expr)?) => {
        if let Ok(value) = $decode($($proc,)? $bytes) {
            let encoded = xdr::encode_to_vec(&value);
            assert_eq!(encoded.len(), $bytes.len(), "{value:?} has another length");
            let again = $decode($($proc,)? &encoded).expect("what we encode decodes");
            assert_eq!(again, value);
        }
    };
}

/// Decodes what the first byte selects. What decodes must encode to as many bytes, which decode to the same value.
///
/// # Panics
/// When it does not: a bug of the codec.
pub fn message(bytes: &[u8]) {
    let Some((head, body)) = bytes.split_at_checked(HEAD_BYTES) else {
        return;
    };
    let results = head[0] & RESULTS != 0;
    let number = u32::from(head[0] & !(RESULTS | NSM));
    if head[0] & STATUS == STATUS {
        stable!(body, xdr::decode_all::<SmStatus<'_>>);
    } else if head[0] & NSM == 0 {
        match NlmProc::from_u32(number) {
            Some(proc) if results => stable!(body, NlmReply::decode, proc),
            Some(proc) => stable!(body, NlmCall::decode, proc),
            None => {}
        }
    } else {
        match NsmProc::from_u32(number) {
            Some(proc) if results => stable!(body, NsmReply::decode, proc),
            Some(proc) => stable!(body, NsmCall::decode, proc),
            None => {}
        }
    }
}

/// The head that selects a call of NLM.
#[must_use]
pub fn nlm_call(proc: NlmProc) -> [u8; HEAD_BYTES] {
    head(proc as u32, 0)
}

/// The head that selects a reply of NLM.
#[must_use]
pub fn nlm_reply(proc: NlmProc) -> [u8; HEAD_BYTES] {
    head(proc as u32, RESULTS)
}

/// The head that selects a call of NSM.
#[must_use]
pub fn nsm_call(proc: NsmProc) -> [u8; HEAD_BYTES] {
    head(proc as u32, NSM)
}

/// The head that selects a reply of NSM.
#[must_use]
pub fn nsm_reply(proc: NsmProc) -> [u8; HEAD_BYTES] {
    head(proc as u32, NSM | RESULTS)
}

/// The head that selects the status that a monitor sends.
#[must_use]
pub fn nsm_status() -> [u8; HEAD_BYTES] {
    head(0, STATUS)
}

fn head(number: u32, flags: u8) -> [u8; HEAD_BYTES] {
    let number = u8::try_from(number).expect("procedures are below 64");
    [number | flags, 0, 0, 0]
}
