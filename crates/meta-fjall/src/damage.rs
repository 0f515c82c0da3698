//! Goal: what a crash may tear is cut, damage in what was synced is reported and nothing is changed. Method: journals that end
//! early, have noise or miss something, and the store over them; `tests/power.rs` has what a power cut leaves by itself.

use super::*;
use ::powercut::Dice;
use meta::contract::block_on;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use tempfile::TempDir;

type State = BTreeMap<Vec<u8>, Vec<u8>>;

const SEEDS: u64 = 24;
/// Transactions that were synced, and those that came later.
const SYNCED: usize = 10;
const MORE: usize = 8;

/// Without the store's own log: the engine's journal is all there is.
fn options() -> Options {
    Options {
        reserve_bytes: 0,
        log_bytes: 0,
        ..Options::default()
    }
}

/// With it.
fn logged() -> Options {
    Options {
        log_bytes: ring_log::CAPACITY_BYTES_MIN,
        ..options()
    }
}

fn newest_journal(dir: &Path) -> PathBuf {
    journal::journals(&dir.join("engine"))
        .unwrap()
        .pop()
        .unwrap()
        .1
}

/// The journal up to its last whole batch.
fn journal_bytes(path: &Path) -> Vec<u8> {
    let whole = journal::whole_bytes(path).unwrap();
    let mut bytes = vec![0; usize::try_from(whole).unwrap()];
    File::open(path)
        .unwrap()
        .read_exact_at(&mut bytes, 0)
        .unwrap();
    bytes
}

/// fjall allocates journals ahead, so the end of what was written is followed by zeros, or by nothing.
fn write_journal(path: &Path, bytes: &[u8], allocated: bool) {
    let file = File::create(path).unwrap();
    file.write_all_at(bytes, 0).unwrap();
    if allocated {
        file.set_len(bytes.len().max(64 * 1024 * 1024) as u64)
            .unwrap();
    }
}

/// One transaction of several keys; the model gets the same.
fn work(store: &FjallStore, model: &mut Vec<State>, dice: &mut Dice) -> Seq {
    let mut next = model.last().unwrap().clone();
    let mut writes = Vec::new();
    for _ in 0..=dice.roll(6) {
        let key = dice.roll(40).to_be_bytes().to_vec();
        let size = [10, 100, 3000, 20_000][dice.below(4)];
        let fill = dice.roll(256).to_le_bytes()[0];
        writes.push((key, (dice.roll(4) > 0).then(|| vec![fill; size])));
    }
    // Sometimes a value that looks like a journal's own end, to be cut within.
    if dice.roll(8) == 0 {
        writes.push((
            b"marker".to_vec(),
            Some([&[3; 9][..], b"FJL\x03", &[1; 40]].concat()),
        ));
    }
    // What waited goes along with the transaction, below its own writes.
    if dice.roll(3) == 0 {
        let (key, value) = (dice.roll(40).to_be_bytes(), dice.roll(256).to_be_bytes());
        store.put_later(&key, &value).unwrap();
        next.insert(key.to_vec(), value.to_vec());
    }
    let done = store.transact(&mut |tx| {
        for (key, value) in &writes {
            match value {
                Some(value) => tx.put(key, value),
                None => tx.delete(key),
            }
        }
        Ok(TxOutcome::Commit)
    });
    for (key, value) in writes {
        match value {
            Some(value) => next.insert(key, value),
            None => next.remove(&key),
        };
    }
    model.push(next);
    // A batch of its own, so that a torn tail may lie between any two.
    store.engine.write_out().unwrap();
    done.unwrap()
}

fn state(store: &FjallStore) -> State {
    let pairs = store.scan(&[0], &[255; 9], usize::MAX).unwrap();
    pairs
        .into_iter()
        .map(|(k, v)| (k.to_vec(), v.to_vec()))
        .collect()
}

#[test]
fn noise_behind_what_was_synced_takes_whole_transactions_and_no_others() {
    let (mut torn_seen, mut tail_kept) = (0, 0);
    for seed in 0..SEEDS {
        let dice = &mut Dice::new(seed);
        let root = TempDir::new().unwrap();
        let mut model = vec![State::new()];
        let work_on = |count: usize, model: &mut Vec<State>, dice: &mut Dice| {
            let store = FjallStore::open(root.path(), options()).unwrap();
            let last = (0..count).map(|_| work(&store, model, dice)).last();
            (store, last.unwrap())
        };
        let (store, last) = work_on(SYNCED, &mut model, dice);
        block_on(store.durable(last)).unwrap();
        drop(store);
        let synced = journal_bytes(&newest_journal(root.path())).len();
        let mut watermark = std::fs::read(root.path().join("watermark")).unwrap();
        let (store, _) = work_on(MORE, &mut model, dice);
        store.engine.database.persist(PersistMode::Buffer).unwrap();
        drop(store);

        let journal = newest_journal(root.path());
        let mut left = journal_bytes(&journal);
        let tail = left.len() - synced;
        for _ in 0..=dice.roll(10) {
            left[synced + dice.below(tail)] = dice.roll(256).to_le_bytes()[0];
        }
        write_journal(&journal, &left, dice.one_in(2));
        if dice.one_in(3) {
            watermark.truncate(dice.below(watermark.len()));
        }
        std::fs::write(root.path().join("watermark"), &watermark).unwrap();

        let store = FjallStore::open(root.path(), options());
        let store = store.unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        let survived = usize::try_from(store.engine.write_out().unwrap().commit).unwrap();
        assert!((SYNCED..=SYNCED + MORE).contains(&survived), "seed {seed}");
        assert!(state(&store) == model[survived], "seed {seed}: half");
        torn_seen += u32::from(store.torn_bytes() > 0);
        tail_kept += u32::from(survived > SYNCED);
    }
    // The test has met what it is about.
    assert!(torn_seen > 10 && tail_kept > 5, "{torn_seen} {tail_kept}");
}

/// A store with `n` acknowledged transactions, closed.
fn synced_store(dir: &Path, n: usize) {
    let store = FjallStore::open(dir, options()).unwrap();
    let mut model = vec![State::new()];
    for _ in 0..n {
        let seq = work(&store, &mut model, &mut Dice::new(n as u64));
        block_on(store.durable(seq)).unwrap();
    }
}

#[test]
fn damage_in_what_was_synced_is_reported_and_left_for_an_expert() {
    let root = TempDir::new().unwrap();
    synced_store(root.path(), 20);
    let journal = newest_journal(root.path());
    let before = journal_bytes(&journal);
    for at in [before.len() / 4, before.len() / 2, before.len() - 3] {
        let mut damaged = before.clone();
        damaged[at] ^= 0x40;
        write_journal(&journal, &damaged, true);
        let error = FjallStore::open(root.path(), options()).unwrap_err();
        assert!(
            matches!(&error, MetaError::Corrupt(why) if why.contains("is damaged at byte")),
            "{error}"
        );
        let mut after = vec![0; damaged.len()];
        File::open(&journal)
            .unwrap()
            .read_exact_at(&mut after, 0)
            .unwrap();
        assert!(after == damaged, "the evidence was changed");
    }
    write_journal(&journal, &before, true);
    FjallStore::open(root.path(), options()).unwrap();
}

#[test]
fn a_store_that_ends_before_what_it_acknowledged_does_not_open() {
    let root = TempDir::new().unwrap();
    synced_store(root.path(), 20);
    let journal = newest_journal(root.path());
    write_journal(&journal, &[], true);
    for _ in 0..2 {
        let error = FjallStore::open(root.path(), options()).unwrap_err();
        let expected = "ends at batch 0, but 20 had been synced";
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn a_transaction_missing_between_others_is_noticed() {
    let root = TempDir::new().unwrap();
    let store = FjallStore::open(root.path(), options()).unwrap();
    let journal = newest_journal(root.path());
    let mut ends = vec![0];
    for _ in 0..12 {
        work(&store, &mut vec![State::new()], &mut Dice::new(7));
        store.engine.database.persist(PersistMode::Buffer).unwrap();
        ends.push(journal_bytes(&journal).len());
    }
    drop(store);
    let whole = journal_bytes(&journal);
    let other = TempDir::new().unwrap();
    let split = |first: usize, second: usize, name: &str| {
        write_journal(&other.path().join("4.jnl"), &whole[..ends[first]], true);
        write_journal(&other.path().join(name), &whole[ends[second]..], true);
        journal::check(other.path(), 0)
    };
    assert_eq!(split(5, 5, "5.jnl").unwrap(), journal::Checked::default());
    let gap = split(5, 6, "5.jnl").unwrap_err();
    assert!(gap.to_string().contains("from batch 5 to 7"), "{gap}");
    // Journals that are not neighbours say nothing of each other: the tables hold what was between.
    std::fs::remove_file(other.path().join("5.jnl")).unwrap();
    split(5, 6, "9.jnl").unwrap();
    // Within one journal.
    let without: Vec<u8> = [&whole[..ends[3]], &whole[ends[4]..]].concat();
    write_journal(&journal, &without, true);
    let error = FjallStore::open(root.path(), options()).unwrap_err();
    assert!(error.to_string().contains("from batch 3 to 5"), "{error}");
}

/// What the engine lost of its unsynced journal comes back from the log, whatever is left of the journal.
#[test]
fn the_log_gives_back_what_the_engine_has_lost() {
    for lost in 0..=3 {
        let root = TempDir::new().unwrap();
        let store = FjallStore::open(root.path(), logged()).unwrap();
        store.engine.database.persist(PersistMode::Buffer).unwrap();
        let synced = journal_bytes(&newest_journal(root.path())).len();
        let mut model = vec![State::new()];
        for n in 0..20 {
            let seq = work(&store, &mut model, &mut Dice::new(n));
            block_on(store.durable(seq)).unwrap();
        }
        drop(store);
        let journal = newest_journal(root.path());
        let mut left = journal_bytes(&journal);
        let tail = left.len() - synced;
        left.truncate(synced + tail * lost / 3);
        if lost == 1 {
            left[synced + tail / 6] ^= 0x40;
        }
        write_journal(&journal, &left, true);
        for _ in 0..2 {
            let store = FjallStore::open(root.path(), logged()).unwrap();
            assert!(state(&store) == *model.last().unwrap(), "{lost}");
        }
    }
}

#[test]
fn a_log_that_is_gone_is_noticed_and_an_engine_without_one_gets_one() {
    let root = TempDir::new().unwrap();
    synced_store(root.path(), 3);
    let before = state(&FjallStore::open(root.path(), options()).unwrap());
    let store = FjallStore::open(root.path(), logged()).unwrap();
    assert!(state(&store) == before);
    drop(store);
    // A program of before would not see what the log has.
    let format = std::fs::read_to_string(root.path().join("format")).unwrap();
    assert_eq!(format, "ropewalk metadata store 2\n");
    std::fs::remove_file(root.path().join("log")).unwrap();
    for _ in 0..2 {
        let error = FjallStore::open(root.path(), logged()).unwrap_err();
        assert!(error.to_string().contains("is the file gone?"), "{error}");
    }
}
