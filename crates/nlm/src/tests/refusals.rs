//! What is refused, and why.

use super::samples;
use crate::nsm::{NsmCall, NsmProc, NsmReply};
use crate::{Nlm4Stats, Nlm4TestReply, NlmCall, NlmProc, NlmReply};
use xdr::{DecodeErrorKind, Encoder, encode_to_vec};

/// Words before the length of an item (empty opaques and others), its limit in bytes, and what decodes it.
struct Bound {
    before: &'static [u32],
    max: u32,
    decode: fn(&[u8]) -> Option<DecodeErrorKind>,
}

macro_rules! kind {
    ($decode:path, $proc:expr) => {
        |bytes| $decode($proc, bytes).err().map(|e| e.kind)
    };
}

/// Each item with a length, by the words before it. Limits are the numbers of the protocols, not our constants.
const BOUNDS: &[Bound] = &[
    // cookie of UNLOCK, then name, handle and owner of its lock.
    Bound {
        before: &[],
        max: 1024,
        decode: kind!(NlmCall::decode, NlmProc::Unlock),
    },
    Bound {
        before: &[0],
        max: 1024,
        decode: kind!(NlmCall::decode, NlmProc::Unlock),
    },
    Bound {
        before: &[0, 0],
        max: 1024,
        decode: kind!(NlmCall::decode, NlmProc::Unlock),
    },
    Bound {
        before: &[0, 0, 0],
        max: 1024,
        decode: kind!(NlmCall::decode, NlmProc::Unlock),
    },
    // Name, handle and owner of a share.
    Bound {
        before: &[0],
        max: 1024,
        decode: kind!(NlmCall::decode, NlmProc::Share),
    },
    Bound {
        before: &[0, 0],
        max: 1024,
        decode: kind!(NlmCall::decode, NlmProc::Share),
    },
    Bound {
        before: &[0, 0, 0],
        max: 1024,
        decode: kind!(NlmCall::decode, NlmProc::Share),
    },
    // Owner of a holder, after the status, the kind and the process.
    Bound {
        before: &[0, 1, 0, 0],
        max: 1024,
        decode: kind!(NlmReply::decode, NlmProc::Test),
    },
    Bound {
        before: &[],
        max: 1025,
        decode: kind!(NlmCall::decode, NlmProc::FreeAll),
    },
    Bound {
        before: &[],
        max: 1024,
        decode: kind!(NsmCall::decode, NsmProc::Notify),
    },
    Bound {
        before: &[],
        max: 1024,
        decode: kind!(NsmCall::decode, NsmProc::Mon),
    },
    Bound {
        before: &[0],
        max: 1024,
        decode: kind!(NsmCall::decode, NsmProc::Mon),
    },
    Bound {
        before: &[],
        max: 1024,
        decode: kind!(NsmCall::decode, NsmProc::UnmonAll),
    },
];

#[test]
fn what_is_longer_than_its_limit_is_refused_before_its_bytes_are_there() {
    for (row, bound) in BOUNDS.iter().enumerate() {
        let with = |len: u32| {
            let mut e = Encoder::new();
            bound.before.iter().for_each(|word| e.u32(*word));
            e.u32(len);
            (bound.decode)(e.as_bytes())
        };
        assert_eq!(
            with(bound.max),
            Some(DecodeErrorKind::Truncated),
            "row {row}"
        );
        for len in [bound.max + 1, u32::MAX] {
            let limit = bound.max;
            let refused = DecodeErrorKind::TooLong { len, limit };
            assert_eq!(with(len), Some(refused), "row {row}");
        }
    }
}

#[test]
fn what_is_as_long_as_its_limit_is_taken() {
    let name = [b'n'; 1024];
    let mut args = samples::LOCK_ARGS;
    args.alock.caller_name.0 = &name;
    let call = NlmCall::Lock(args);
    let bytes = encode_to_vec(&call);
    assert_eq!(NlmCall::decode(NlmProc::Lock, &bytes), Ok(call.clone()));
}

#[test]
fn values_that_the_protocol_does_not_define_are_refused() {
    // Words of a message, what decodes them, and why they are refused.
    type Case = (
        &'static [u32],
        fn(&[u8]) -> Option<DecodeErrorKind>,
        DecodeErrorKind,
    );
    const LOCK: fn(&[u8]) -> Option<DecodeErrorKind> = kind!(NlmCall::decode, NlmProc::Lock);
    const SHARE: fn(&[u8]) -> Option<DecodeErrorKind> = kind!(NlmCall::decode, NlmProc::Share);
    let cases: &[Case] = &[
        // block, exclusive, reclaim
        (&[0, 2], LOCK, DecodeErrorKind::BadBool(2)),
        (&[0, 1, u32::MAX], LOCK, DecodeErrorKind::BadBool(u32::MAX)),
        (
            &[0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 3],
            LOCK,
            DecodeErrorKind::BadBool(3),
        ),
        // mode, access
        (&[0, 0, 0, 0, 4], SHARE, DecodeErrorKind::BadDiscriminant(4)),
        (
            &[0, 0, 0, 0, 3, 4],
            SHARE,
            DecodeErrorKind::BadDiscriminant(4),
        ),
        // status
        (
            &[0, 10],
            kind!(NlmReply::decode, NlmProc::Lock),
            DecodeErrorKind::BadDiscriminant(10),
        ),
        (
            &[0, 10],
            kind!(NlmReply::decode, NlmProc::Test),
            DecodeErrorKind::BadDiscriminant(10),
        ),
        (
            &[0, 10],
            kind!(NlmReply::decode, NlmProc::Share),
            DecodeErrorKind::BadDiscriminant(10),
        ),
        (
            &[2, 0],
            kind!(NsmReply::decode, NsmProc::Stat),
            DecodeErrorKind::BadDiscriminant(2),
        ),
    ];
    for (row, (words, decode, refused)) in cases.iter().enumerate() {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        assert_eq!(decode(&bytes), Some(*refused), "row {row}");
    }
}

#[test]
fn trailing_bytes_are_refused() {
    let trailing = Some(DecodeErrorKind::Trailing);
    for call in samples::nlm_calls() {
        let bytes = [encode_to_vec(&call), vec![0; 4]].concat();
        let kind = NlmCall::decode(call.proc(), &bytes).err().map(|e| e.kind);
        assert_eq!(kind, trailing, "{call:?}");
    }
    for reply in samples::nlm_replies() {
        let bytes = [encode_to_vec(&reply), vec![0; 4]].concat();
        let kind = NlmReply::decode(reply.proc(), &bytes).err().map(|e| e.kind);
        assert_eq!(kind, trailing, "{reply:?}");
    }
    for call in samples::nsm_calls() {
        let bytes = [encode_to_vec(&call), vec![0; 4]].concat();
        let kind = NsmCall::decode(call.proc(), &bytes).err().map(|e| e.kind);
        assert_eq!(kind, trailing, "{call:?}");
    }
    for reply in samples::nsm_replies() {
        let bytes = [encode_to_vec(&reply), vec![0; 4]].concat();
        let kind = NsmReply::decode(reply.proc(), &bytes).err().map(|e| e.kind);
        assert_eq!(kind, trailing, "{reply:?}");
    }
}

#[test]
fn numbers_without_a_procedure_are_none() {
    for number in [16, 17, 18, 19, 24, u32::MAX] {
        assert_eq!(NlmProc::from_u32(number), None);
    }
    assert_eq!(NsmProc::from_u32(7), None);
}

#[test]
#[should_panic(expected = "DENIED has a holder")]
fn denied_is_not_encoded_without_a_holder() {
    let _ = encode_to_vec(&Nlm4TestReply::Other(Nlm4Stats::Denied));
}
