//! Goal: whatever a fuzzer once found stays fixed, and changes of real messages do no harm. Method: replay of `fuzz/corpus`, and of
//! each seed with every byte changed and at every length.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

use std::path::{Path, PathBuf};

use ropewalk_fabric_iwarp::ddp::{Header, Place};
use ropewalk_fabric_iwarp::fuzz;
use ropewalk_fabric_iwarp::mpa::{self, Wish};
use ropewalk_fabric_iwarp::rdmap::{Culprit, Opcode, ReadRequest, Term, Terminate};

type Target = (&'static str, fn(&[u8]), fn() -> Vec<u8>);

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

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(name)
}

#[test]
fn the_corpus_is_replayed() {
    for (name, run, _) in TARGETS {
        for file in std::fs::read_dir(folder(name)).unwrap() {
            run(&std::fs::read(file.unwrap().path()).unwrap());
        }
    }
}

#[test]
fn changes_of_real_messages_do_no_harm() {
    for (_, run, sample) in TARGETS {
        let sample = sample();
        run(&sample);
        for at in 0..sample.len() {
            run(&sample[..at]);
            for value in [0, 1, 0x7f, 0x80, 0xff, sample[at].wrapping_add(1)] {
                let mut changed = sample.clone();
                changed[at] = value;
                run(&changed);
            }
        }
    }
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

/// After a change of a sample, `ROPEWALK_WRITE_SEEDS=1 cargo test` writes the seeds anew; any other run finds them as they are.
#[test]
fn seeds_are_our_own_messages() {
    for (name, _, sample) in TARGETS {
        let seed = folder(name).join("seed");
        if std::env::var_os("ROPEWALK_WRITE_SEEDS").is_some() {
            std::fs::create_dir_all(folder(name)).unwrap();
            std::fs::write(&seed, sample()).unwrap();
        }
        assert!(std::fs::read(&seed).unwrap() == sample(), "{name}");
    }
}
