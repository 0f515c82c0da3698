//! Goal: whatever a fuzzer once found stays fixed, and changes of real messages do no harm. Method: replay of `fuzz/corpus`, and of
//! each seed with every byte changed and at every length.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

#[path = "../../../fuzz/replay.rs"]
mod replay;

use replay::Target;
use ropewalk_fabric_iwarp::ddp::{Header, Place};
use ropewalk_fabric_iwarp::fuzz;
use ropewalk_fabric_iwarp::mpa::{self, Wish};
use ropewalk_fabric_iwarp::rdmap::{Culprit, Opcode, ReadRequest, Term, Terminate};

const TARGETS: &[Target] = &[
    ("iwarp_setup", fuzz::setup, setup),
    ("iwarp_terminate", fuzz::terminate, terminate),
    ("iwarp_stream", fuzz::stream, fuzz::stream_sample),
];

fn setup() -> Vec<u8> {
    let wish = Wish {
        ird: 5,
        ord: 6,
        crc: true,
    };
    mpa::request(wish, b"private data").encode().unwrap()
}

fn terminate() -> Vec<u8> {
    let culprit = Culprit {
        segment_bytes: 46,
        header: Header {
            last: true,
            control: Opcode::ReadRequest.control(),
            place: Place::Untagged {
                invalidate: 0,
                queue: 1,
                msn: 2,
                mo: 0,
            },
        },
        read: Some(ReadRequest {
            sink_stag: 1,
            sink_to: 2,
            len: 3,
            source_stag: 4,
            source_to: 5,
        }),
    };
    let mut out = Vec::new();
    Terminate {
        term: Term::READ_BOUNDS,
        culprit: Some(culprit),
    }
    .encode(&mut out);
    out
}

/// Included headers survive, and a Terminate cut anywhere still has its code or none.
#[test]
fn terminate_messages_keep_their_headers() {
    let whole = terminate();
    let decoded = Terminate::decode(&whole).unwrap();
    let culprit = decoded.culprit.unwrap();
    assert_eq!(
        (decoded.term, culprit.segment_bytes),
        (Term::READ_BOUNDS, 46)
    );
    assert_eq!(culprit.read.map(|read| read.source_to), Some(5));
    for cut in 0..whole.len() {
        match Terminate::decode(&whole[..cut]) {
            Ok(decoded) => assert_eq!(decoded.term, Term::READ_BOUNDS),
            Err(term) => assert!(cut < 4 && term == Term::UNSPECIFIED),
        }
    }
}
