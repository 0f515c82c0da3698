//! Goal: the store does what LMDB does, an engine of another make. Method: a store over LMDB passes the contract too.
//! Then seeded transactions, with reads inside of them, aborts, failures and limits, go to both stores. Both must say
//! the same, also after they were opened again.

#![allow(clippy::unwrap_used, reason = "tests unwrap")]

mod engine;
mod store;

use bytes::Bytes;
use meta::contract::Subject;
use meta::{MetaError, MetaStore, Pair, Purpose, Read, Seq, Tx, TxOutcome, VALUE_BYTES_MAX};
use powercut::{Dice, scratch};
use ropewalk_meta_fjall::{FjallStore, Options};
use std::path::Path;
use std::sync::Arc;
use store::LmdbStore;
use tempfile::TempDir;

const SEEDS: u64 = 12;
const TRANSACTIONS: u64 = 150;
/// Most steps of one transaction.
const STEPS_MAX: u64 = 12;
const KEYS: u64 = 300;

#[derive(Default)]
struct OnDisk {
    dirs: Vec<TempDir>,
}

impl Subject for OnDisk {
    fn fresh(&mut self) -> Arc<dyn MetaStore> {
        self.dirs.push(scratch());
        Arc::new(LmdbStore::open(self.dirs.last().unwrap().path()))
    }

    fn reopen(&mut self, store: Arc<dyn MetaStore>) -> Option<Arc<dyn MetaStore>> {
        drop(store);
        Some(Arc::new(LmdbStore::open(self.dirs.last().unwrap().path())))
    }
}

meta::contract_tests!(OnDisk::default());

/// Small memtables, so that tables are written and merged meanwhile.
fn fjall(dir: &Path) -> FjallStore {
    let options = Options {
        reserve_bytes: 0,
        memtable_bytes: 64 * 1024,
        ..Options::default()
    };
    FjallStore::open(dir, options).unwrap()
}

#[derive(Debug, PartialEq)]
enum Answer {
    Value(Option<Bytes>),
    Pairs(Vec<Pair>),
}

/// Few of many lengths, so that they meet and are prefixes of each other.
fn key(dice: &mut Dice) -> Vec<u8> {
    let number = dice.roll(KEYS);
    let mut key = number.to_be_bytes()[6..].to_vec();
    key.resize(1 + dice.below(4), number.to_le_bytes()[0]);
    if dice.one_in(40) {
        key.resize(meta::KEY_BYTES_MAX, 255);
    }
    key
}

fn value(dice: &mut Dice) -> Vec<u8> {
    let len = [0, 1, 90, 2000, 5000][dice.below(5)] + dice.below(50);
    vec![dice.roll(256).to_le_bytes()[0]; len]
}

fn scan(read: &(impl Read + ?Sized), dice: &mut Dice) -> Answer {
    let limit = [0, 1, 7, usize::MAX][dice.below(4)];
    Answer::Pairs(read.scan(&key(dice), &key(dice), limit).unwrap())
}

/// One transaction by the dice; what it read is in `answers`.
fn body(
    tx: &mut dyn Tx,
    dice: &mut Dice,
    answers: &mut Vec<Answer>,
) -> Result<TxOutcome, MetaError> {
    for _ in 0..dice.roll(STEPS_MAX) {
        match dice.roll(200) {
            0 => tx.put(b"", b"no key"),
            1 => tx.put(b"k", &vec![0; VALUE_BYTES_MAX + 1]),
            2 => tx.purpose(Purpose::Upkeep),
            3..=99 => tx.put(&key(dice), &value(dice)),
            100..=139 => tx.delete(&key(dice)),
            140..=169 => answers.push(Answer::Value(tx.get(&key(dice))?)),
            _ => answers.push(scan(&*tx, dice)),
        }
    }
    match dice.roll(12) {
        0 => Err(MetaError::Corrupt("as the body says".to_owned())),
        1 => Ok(TxOutcome::Abort),
        _ => Ok(TxOutcome::Commit),
    }
}

fn transact(store: &dyn MetaStore, dice: &Dice) -> (Result<Seq, String>, Vec<Answer>) {
    let mut answers = Vec::new();
    let done = store.transact(&mut |tx| {
        answers.clear();
        body(tx, &mut dice.clone(), &mut answers)
    });
    (done.map_err(|e| e.to_string()), answers)
}

fn all(store: &dyn MetaStore) -> Vec<Pair> {
    store
        .scan(&[0], &[255; meta::KEY_BYTES_MAX + 1], usize::MAX)
        .unwrap()
}

#[test]
fn both_stores_say_the_same() {
    let (mut applied, mut refused, mut pairs) = (0, 0, 0);
    for seed in 0..SEEDS {
        let (ours, theirs) = (scratch(), scratch());
        let (mut a, mut b) = (fjall(ours.path()), LmdbStore::open(theirs.path()));
        let dice = &mut Dice::new(seed);
        for n in 0..TRANSACTIONS {
            let at = format!("seed {seed} transaction {n}");
            let own = Dice::new(dice.roll(u64::MAX));
            let (left, right) = (transact(&a, &own), transact(&b, &own));
            assert_eq!(left, right, "{at}");
            refused += u64::from(left.0.is_err());
            assert_eq!(a.applied(), b.applied(), "{at}");
            let (left, right) = (scan(&a, &mut dice.clone()), scan(&b, dice));
            assert_eq!(left, right, "{at}");
            if dice.one_in(20) {
                applied += a.applied().0;
                drop(a);
                drop(b);
                (a, b) = (fjall(ours.path()), LmdbStore::open(theirs.path()));
                assert!(all(&a) == all(&b), "{at}: opened again");
            }
        }
        assert!(all(&a) == all(&b), "seed {seed}: at the end");
        pairs += all(&a).len();
    }
    // The test has met what it is about.
    assert!(
        applied > 500 && refused > 50 && pairs > 500,
        "{applied} {refused} {pairs}"
    );
}
