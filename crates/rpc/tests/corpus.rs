//! Goal: whatever a fuzzer once found stays fixed, and changes of real messages do no harm. Method: replay of `fuzz/corpus`, and of
//! each seed with every byte changed and at every length.

use std::path::{Path, PathBuf};

use ropewalk_rpc as rpc;
use rpc::{AuthSys, CallStart, OpaqueAuth, flavor, fragment_header, fuzz};

type Target = (&'static str, fn(&[u8]), fn() -> Vec<u8>);

const TARGETS: &[Target] = &[
    ("rpc_call", fuzz::call, call),
    ("record_reader", fuzz::record_reader, stream),
];

fn call() -> Vec<u8> {
    let identity = AuthSys {
        stamp: 1,
        machine: b"host".to_vec(),
        uid: 2,
        gid: 3,
        gids: vec![4, 5],
    };
    xdr::encode_to_vec(&CallStart {
        xid: 6,
        program: 100_003,
        version: 4,
        procedure: 1,
        credential: OpaqueAuth {
            flavor: flavor::AUTH_SYS,
            body: &identity.to_body(),
        },
        verifier: OpaqueAuth::NONE,
    })
}

/// Pieces of three bytes: a record in one fragment, one in two with an empty one between, the start of a third.
fn stream() -> Vec<u8> {
    let mut out = vec![3];
    for (bytes, last) in [
        (&b"whole"[..], true),
        (b"fi", false),
        (b"", false),
        (b"rst", true),
    ] {
        out.extend(fragment_header(
            u32::try_from(bytes.len()).expect("a few bytes"),
            last,
        ));
        out.extend(bytes);
    }
    out.extend(fragment_header(60_000, true));
    out.extend(b"begun");
    out
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(name)
}

#[test]
fn the_corpus_is_replayed() {
    for (name, run, sample) in TARGETS {
        for file in std::fs::read_dir(folder(name)).unwrap() {
            run(&std::fs::read(file.unwrap().path()).unwrap());
        }
        let seed = std::fs::read(folder(name).join("seed")).unwrap();
        assert_eq!(seed, sample(), "the seed of {name} is our own message");
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
