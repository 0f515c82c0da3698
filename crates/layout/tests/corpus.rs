//! Goal: whatever a fuzzer once found stays fixed, and changes of real messages do no harm. Method: replay of `fuzz/corpus`, and of
//! each seed with every byte changed and at every length.

use std::path::{Path, PathBuf};

use layout::{ClientTag, DsHandle, Epoch, MdsHandle, MdsHandleKind, Rights, fuzz};
use ropewalk_layout as layout;

type Target = (&'static str, fn(&[u8]), fn() -> Vec<u8>);

const TARGETS: &[Target] = &[
    ("ds_handle", fuzz::ds_handle, ds_handle),
    ("mds_handle", fuzz::mds_handle, mds_handle),
];

fn ds_handle() -> Vec<u8> {
    let handle = DsHandle {
        cluster_id: fuzz::CLUSTER,
        file_id: 77,
        generation: 1,
        mirror: 0,
        rights: Rights::ReadWrite,
        epoch: Epoch::from_u64(9 << 32 | 4),
        client: ClientTag::of(fuzz::CLUSTER, b"client"),
    };
    handle.sign(&fuzz::key()).to_vec()
}

fn mds_handle() -> Vec<u8> {
    let handle = MdsHandle {
        kind: MdsHandleKind::Inode,
        cluster_id: fuzz::CLUSTER,
        file_id: 77,
        generation: 1,
    };
    handle.to_bytes().to_vec()
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
