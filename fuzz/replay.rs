//! What the tests of every crate with decoders do with their fuzz targets: replay the corpus, change real messages, keep
//! the seeds. Included by `#[path]` into a test that has a table `TARGETS`.

use super::TARGETS;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Name of a fuzz target, what it runs, and a message of our own that is its seed. A target with several seeds has a row for
/// each, all but the first with their name after a slash: `target/name`.
pub(crate) type Target = (&'static str, fn(&[u8]), fn() -> Vec<u8>);

/// Inputs that are made of each target's seeds: a second or two of a build without optimisation.
const MUTANTS: u32 = 20_000;
/// Longest of them in bytes.
const MUTANT_BYTES_MAX: usize = 4096;

/// Where the seed of a row lies.
fn seed(name: &str) -> PathBuf {
    let (target, seed) = name.split_once('/').unwrap_or((name, "seed"));
    folder(target).join(seed)
}

fn folder(target: &str) -> PathBuf {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    corpus.join(target)
}

/// What a target runs, and all that its folder has, in the order of the names.
type Corpus = (fn(&[u8]), Vec<Vec<u8>>);

#[allow(clippy::unwrap_used, reason = "helpers of tests may panic")]
fn targets() -> BTreeMap<&'static str, Corpus> {
    let mut targets = BTreeMap::new();
    for (name, run, _) in TARGETS {
        let target = name.split('/').next().unwrap();
        let files = std::fs::read_dir(folder(target)).unwrap();
        let mut paths: Vec<_> = files.map(|file| file.unwrap().path()).collect();
        paths.sort();
        let inputs = paths.iter().map(|path| std::fs::read(path).unwrap());
        targets.insert(target, (*run, inputs.collect()));
    }
    targets
}

#[test]
fn the_corpus_is_replayed() {
    for (run, inputs) in targets().into_values() {
        assert!(!inputs.is_empty());
        inputs.iter().for_each(|input| run(input));
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

/// What a fuzzer does first, without one: several changes at once, of what the corpus has. Each run makes the same inputs.
#[test]
fn many_changes_at_once_do_no_harm() {
    for (target, (run, inputs)) in targets() {
        let mut mutator = Mutator::new(target);
        for number in 0..MUTANTS {
            let mutant = mutator.mutant(&inputs);
            let done = std::panic::catch_unwind(|| run(&mutant));
            if done.is_err() {
                let hex: String = mutant.iter().map(|byte| format!("{byte:02x}")).collect();
                panic!("input {number} of {target}, to be kept in its corpus: {hex}");
            }
        }
    }
}

/// Makes inputs of others, the same ones each time.
struct Mutator(u64);

impl Mutator {
    fn new(target: &str) -> Self {
        // FNV-1a, so that each target has its own.
        let step = |sum: u64, byte: u8| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        Self(target.bytes().fold(0xcbf2_9ce4_8422_2325, step))
    }

    /// Below `end`, which is not zero (xorshift64*).
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let high = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
        usize::try_from(high).expect("it has 32 bits") % end
    }

    fn mutant(&mut self, inputs: &[Vec<u8>]) -> Vec<u8> {
        let mut mutant = inputs[self.below(inputs.len())].clone();
        for _ in 0..=self.below(4) {
            self.change(&mut mutant, inputs);
            mutant.truncate(MUTANT_BYTES_MAX);
        }
        mutant
    }

    fn change(&mut self, mutant: &mut Vec<u8>, inputs: &[Vec<u8>]) {
        const WORDS: [u32; 10] = [
            0,
            1,
            2,
            4,
            0xff,
            0x1000,
            0x10_0000,
            0x7fff_ffff,
            0x8000_0000,
            u32::MAX,
        ];
        // What is made of words is aligned, frames are not.
        let unit = if self.below(4) == 0 { 1 } else { 4 };
        let from = self.below(mutant.len() + 1) / unit * unit;
        let to = (from + self.below(16) * unit).min(mutant.len());
        let byte = u8::try_from(self.below(256)).expect("it is below 256");
        match self.below(7) {
            0 if from < to => mutant[from] ^= 1 << (byte % 8),
            1 if from < to => mutant[from] = byte,
            2 | 3 => {
                if let Some(place) = mutant.get_mut(from..from + 4) {
                    let word = WORDS[self.below(WORDS.len())];
                    place.copy_from_slice(&word.to_be_bytes());
                }
            }
            4 => {
                mutant.drain(from..to);
            }
            5 => {
                let again = mutant[from..to].to_vec();
                mutant.splice(to..to, again);
            }
            _ => {
                let other = &inputs[self.below(inputs.len())];
                let at = self.below(other.len() + 1) / unit * unit;
                mutant.truncate(from);
                mutant.extend(&other[at..]);
            }
        }
    }
}

/// After a change of a sample, `ROPEWALK_WRITE_SEEDS=1 cargo test` writes the seeds anew; any other run finds them as they are.
#[test]
fn seeds_are_our_own_messages() {
    for (name, _, sample) in TARGETS {
        let seed = seed(name);
        if std::env::var_os("ROPEWALK_WRITE_SEEDS").is_some() {
            std::fs::create_dir_all(seed.parent().unwrap()).unwrap();
            std::fs::write(&seed, sample()).unwrap();
        }
        assert!(std::fs::read(&seed).unwrap() == sample(), "{name}");
    }
}
