//! What the tests of every crate with decoders do with their fuzz targets: replay the corpus, change real messages, keep
//! the seeds. Included by `#[path]` into a test that has a table `TARGETS`.

use super::TARGETS;
use std::path::{Path, PathBuf};

/// Name of a fuzz target, what it runs, and a message of our own that is its seed.
pub(crate) type Target = (&'static str, fn(&[u8]), fn() -> Vec<u8>);

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
