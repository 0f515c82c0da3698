//! Goal: a power cut at any call of the store, the engine's threads included, takes nothing that was acknowledged. It
//! leaves a whole number of transactions in their order, also when the cut hits what recovers from an earlier one.
//! Method: `powercut` records this test as its own workload; each image is opened and compared with a model; work goes
//! on in some of them.

#![allow(clippy::unwrap_used, reason = "tests unwrap")]

use meta::contract::block_on;
use meta::{MetaStore, Read, TxOutcome};
use powercut::{Dice, ack, record, scratch, workload};
use ropewalk_meta_fjall::{FjallStore, Options};
use std::collections::BTreeMap;

/// Points in the short form.
const POINTS: usize = 240;
/// Points of one recording.
const POINTS_PER_RECORDING: usize = 60;
/// Recordings in one line, each in what a cut of the one before left.
const LINE: u64 = 3;
const TRANSACTIONS: u64 = 120;
/// Cuts at each call that makes a store.
const CREATION_ROUNDS: u64 = 6;
/// Transactions in the newest state, in a key of the store.
const COUNT: &[u8] = b"count";

type State = BTreeMap<Vec<u8>, Vec<u8>>;

/// Small memtables, so that tables are written, merged and removed, and journals begun and removed. A small log, so that
/// there are checkpoints.
fn options() -> Options {
    Options {
        reserve_bytes: 0,
        memtable_bytes: 64 * 1024,
        log_bytes: 1024 * 1024,
        ..Options::default()
    }
}

/// What transaction `n` of a seed writes.
fn writes(seed: u64, n: u64) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    let dice = &mut Dice::new(seed << 32 | n);
    let mut writes: Vec<_> = (0..=dice.roll(5))
        .map(|_| {
            let key = dice.roll(60).to_be_bytes().to_vec();
            let size = [10, 100, 3000, 9000][dice.below(4)];
            let fill = dice.roll(256).to_le_bytes()[0];
            (key, (!dice.one_in(4)).then(|| vec![fill; size]))
        })
        .collect();
    // Sometimes a value that looks like the end of a batch in the journal, to be cut within.
    if dice.one_in(8) {
        let value = [&[3; 9][..], b"FJL\x03", &[1; 40]].concat();
        writes.push((b"marker".to_vec(), Some(value)));
    }
    writes.push((COUNT.to_vec(), Some(n.to_be_bytes().to_vec())));
    writes
}

/// A pair that goes along with transaction `n` of a seed, below its own writes.
fn later(seed: u64, n: u64) -> Option<(Vec<u8>, Vec<u8>)> {
    let dice = &mut Dice::new(!(seed << 32 | n));
    let pair = || {
        (
            dice.roll(60).to_be_bytes().to_vec(),
            n.to_be_bytes().to_vec(),
        )
    };
    n.is_multiple_of(3).then(pair)
}

fn count(store: &FjallStore) -> u64 {
    let found = store.get(COUNT).unwrap();
    found.map_or(0, |bytes| u64::from_be_bytes((*bytes).try_into().unwrap()))
}

fn work(root: &std::path::Path, seed: u64) {
    let dice = &mut Dice::new(seed);
    let mut store = FjallStore::open(root, options()).unwrap();
    let first = count(&store) + 1;
    for n in first..first + TRANSACTIONS {
        if let Some((key, value)) = later(seed, n) {
            store.put_later(&key, &value).unwrap();
        }
        let done = store.transact(&mut |tx| {
            for (key, value) in writes(seed, n) {
                match value {
                    Some(value) => tx.put(&key, &value),
                    None => tx.delete(&key),
                }
            }
            Ok(TxOutcome::Commit)
        });
        let seq = done.unwrap();
        if dice.one_in(3) {
            block_on(store.durable(seq)).unwrap();
            ack(&n.to_string());
        }
        if dice.one_in(60) {
            drop(store);
            store = FjallStore::open(root, options()).unwrap();
        }
    }
}

fn state(store: &FjallStore) -> State {
    let pairs = store.scan(&[0], &[255; 9], usize::MAX).unwrap();
    pairs
        .into_iter()
        .map(|(k, v)| (k.to_vec(), v.to_vec()))
        .collect()
}

/// `state` with the transactions of a seed through `last`.
fn advanced(state: &State, seed: u64, last: u64) -> State {
    let mut state = state.clone();
    let first = state
        .get(COUNT)
        .map_or(0, |b| u64::from_be_bytes(b[..].try_into().unwrap()))
        + 1;
    for n in first..=last {
        state.extend(later(seed, n));
        for (key, value) in writes(seed, n) {
            match value {
                Some(value) => state.insert(key, value),
                None => state.remove(&key),
            };
        }
    }
    state
}

#[test]
fn a_cut_at_any_call_takes_nothing_that_was_acknowledged_and_leaves_nothing_half() {
    if let Some(workload) = workload() {
        return work(&workload.root, workload.seed);
    }
    let name = "a_cut_at_any_call_takes_nothing_that_was_acknowledged_and_leaves_nothing_half";
    let recordings = powercut::points(POINTS).div_ceil(POINTS_PER_RECORDING) as u64;
    let scratch = scratch();
    let mut root = scratch.path().join("root");
    let mut before = State::new();
    let (mut lost, mut tables) = (0, 0);
    for seed in 0..recordings {
        if seed % LINE == 0 {
            root = scratch.path().join(format!("root-{seed}"));
            before = State::new();
        }
        let recording = record(name, &root, seed).unwrap();
        tables +=
            std::fs::read_dir(root.join("engine/keyspaces/1/tables")).map_or(0, Iterator::count);
        let dice = &mut Dice::new(seed);
        let mut last = None;
        for cut in 0..POINTS_PER_RECORDING {
            let points = recording.points();
            let point = points.start + dice.below(points.len());
            let image = scratch.path().join(format!("image-{seed}-{cut}"));
            recording.leave(point, dice, &image).unwrap();
            let acked = recording.acknowledged(point).next_back();
            let acked = acked.map_or(0, |n| n.parse().unwrap());
            let at = format!("seed {seed} point {point} of {points:?}");
            let store = FjallStore::open(&image, options()).unwrap_or_else(|e| panic!("{at}: {e}"));
            let survived = count(&store);
            assert!(survived >= acked, "{at}: {survived} of {acked}");
            let model = advanced(&before, seed, survived);
            assert!(state(&store) == model, "{at}: half");
            lost += u64::from(survived == acked);
            drop(store);
            if let Some((image, _)) = last.replace((image, model)) {
                std::fs::remove_dir_all(image).unwrap();
            }
        }
        std::fs::remove_dir_all(&root).unwrap();
        (root, before) = last.unwrap();
    }
    // The test has met what it is about.
    assert!(lost > 0 && tables > 0, "{lost} {tables}");
}

/// Few calls and each of its own kind, so each is cut at, with several dice.
#[test]
fn a_cut_while_a_store_is_made_leaves_one_that_opens() {
    if let Some(workload) = workload() {
        let store = FjallStore::open(&workload.root, options()).unwrap();
        let done = store.transact(&mut |tx| {
            tx.put(COUNT, &1_u64.to_be_bytes());
            Ok(TxOutcome::Commit)
        });
        block_on(store.durable(done.unwrap())).unwrap();
        return ack("1");
    }
    let scratch = scratch();
    let name = "a_cut_while_a_store_is_made_leaves_one_that_opens";
    let recording = record(name, &scratch.path().join("root"), 0).unwrap();
    for point in recording.points() {
        for seed in 0..CREATION_ROUNDS {
            let image = scratch.path().join("image");
            let dice = &mut Dice::new(seed * 1000 + point as u64);
            recording.leave(point, dice, &image).unwrap();
            let at = format!("seed {seed} point {point}");
            let store = FjallStore::open(&image, options()).unwrap_or_else(|e| panic!("{at}: {e}"));
            let acked = recording.acknowledged(point).count() as u64;
            assert!(count(&store) >= acked, "{at}");
            drop(store);
            std::fs::remove_dir_all(&image).unwrap();
        }
    }
}
