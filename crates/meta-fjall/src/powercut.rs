//! Goal: after a power cut everything acknowledged is there, and what else is there is a whole number of
//! transactions in their order. Method: a seeded workload; the image of the directory at the last acknowledged
//! sync, with a journal whose unsynced end is cut, zeroed by pages or filled with noise, is opened and must
//! equal the model after some number of transactions; work then goes on in it, for several cuts in a row.

use super::*;
use meta::contract::block_on;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use tempfile::TempDir;

type State = BTreeMap<Vec<u8>, Vec<u8>>;

const SEEDS: u64 = 24;
const CUTS: usize = 4;
/// What a disk writes as a whole.
const SECTOR: usize = 512;

struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    fn below(&mut self, sides: usize) -> usize {
        usize::try_from(self.roll(sides.max(1) as u64)).unwrap()
    }
}

fn options() -> Options {
    Options {
        reserve_bytes: 0,
        ..Options::default()
    }
}

fn copy_tree(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_tree(&entry.path(), &target);
        } else if entry.path().extension().is_none_or(|e| e != "jnl") {
            std::fs::copy(entry.path(), target).unwrap();
        } else {
            write_journal(&target, &journal_bytes(&entry.path()), true);
        }
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
        Ok(Outcome::Commit)
    });
    for (key, value) in writes {
        match value {
            Some(value) => next.insert(key, value),
            None => next.remove(&key),
        };
    }
    model.push(next);
    done.unwrap()
}

fn state(store: &FjallStore) -> State {
    let pairs = store.scan(&[0], &[255; 9], usize::MAX).unwrap();
    pairs
        .into_iter()
        .map(|(k, v)| (k.to_vec(), v.to_vec()))
        .collect()
}

/// What the disk holds of `whole`, of which the first `synced` bytes are safe.
fn torn(whole: &[u8], synced: usize, dice: &mut Dice) -> Vec<u8> {
    let mut left = whole.to_vec();
    let tail = whole.len() - synced;
    match dice.roll(4) {
        0 => left.truncate(synced + dice.below(tail + 1)),
        1 => left[synced + dice.below(tail + 1)..].fill(0),
        2 => {
            // Sectors reach the disk in any order.
            for start in (0..whole.len()).step_by(SECTOR) {
                let end = (start + SECTOR).min(whole.len());
                if end > synced && dice.roll(3) == 0 {
                    left[start.max(synced)..end].fill(0);
                }
            }
        }
        _ => {
            for _ in 0..=dice.roll(20) {
                if tail > 0 {
                    left[synced + dice.below(tail)] = dice.roll(256).to_le_bytes()[0];
                }
            }
        }
    }
    left
}

/// Works in `dir` until the power is cut, and leaves the disk in `image`. Returns what was acknowledged.
fn cut_power(dir: &Path, image: &Path, model: &mut Vec<State>, dice: &mut Dice) -> u64 {
    let base = model.len() as u64 - 1;
    let store = FjallStore::open(dir, options()).unwrap();
    let old_watermark = std::fs::read(dir.join("watermark")).unwrap();
    let mut acked = Seq(0);
    for _ in 0..dice.roll(30) {
        let seq = work(&store, model, dice);
        if dice.roll(4) == 0 {
            acked = seq;
            block_on(store.durable(seq)).unwrap();
        }
    }
    block_on(store.durable(acked)).unwrap();
    // A sync may have covered more than was asked for; then that is safe, if not acknowledged.
    let covered = store.durable_through();
    copy_tree(dir, image);
    let synced = journal_bytes(&newest_journal(dir)).len();
    for _ in 0..dice.roll(12) {
        work(&store, model, dice);
    }
    store.engine.database.persist(PersistMode::Buffer).unwrap();
    let journal = newest_journal(dir);
    let whole = journal_bytes(&journal);
    let safe = if covered == store.applied() {
        whole.len()
    } else {
        synced.min(whole.len())
    };
    let left = torn(&whole, safe, dice);
    write_journal(
        &image.join("engine").join(journal.file_name().unwrap()),
        &left,
        dice.roll(2) == 0,
    );
    match dice.roll(3) {
        0 => std::fs::write(image.join("watermark"), &old_watermark).unwrap(),
        1 => std::fs::write(
            image.join("watermark"),
            &old_watermark[..dice.below(old_watermark.len())],
        )
        .unwrap(),
        _ => {}
    }
    base + acked.0
}

#[test]
fn a_power_cut_takes_nothing_that_was_acknowledged_and_leaves_nothing_half() {
    let (mut torn_seen, mut tail_kept) = (0, 0);
    for seed in 0..SEEDS {
        let dice = &mut Dice(seed);
        let root = TempDir::new().unwrap();
        let mut model = vec![State::new()];
        for cut in 0..CUTS {
            let (dir, image) = (
                root.path().join(cut.to_string()),
                root.path().join((cut + 1).to_string()),
            );
            let acked = cut_power(&dir, &image, &mut model, dice);
            let store = FjallStore::open(&image, options())
                .unwrap_or_else(|e| panic!("seed {seed} cut {cut}: {e}"));
            let survived = store.engine.commit_number(store.applied());
            assert!(
                survived >= acked,
                "seed {seed} cut {cut}: {survived} of {acked}"
            );
            torn_seen += u32::from(store.torn_bytes() > 0);
            tail_kept += u32::from(survived > acked);
            model.truncate(usize::try_from(survived).unwrap() + 1);
            assert!(
                state(&store) == model[model.len() - 1],
                "seed {seed} cut {cut}: half"
            );
            drop(store);
            std::fs::remove_dir_all(&dir).unwrap();
        }
    }
    // The test has met what it is about.
    assert!(torn_seen > 10 && tail_kept > 10, "{torn_seen} {tail_kept}");
}

/// A store with `n` acknowledged transactions, closed.
fn synced_store(dir: &Path, n: usize) {
    let store = FjallStore::open(dir, options()).unwrap();
    let mut model = vec![State::new()];
    for _ in 0..n {
        let seq = work(&store, &mut model, &mut Dice(n as u64));
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
        let expected = "ends at transaction 0, but 20 had been synced";
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
        work(&store, &mut vec![State::new()], &mut Dice(7));
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
    assert!(gap.to_string().contains("from transaction 5 to 7"), "{gap}");
    // Journals that are not neighbours say nothing of each other: the tables hold what was between.
    std::fs::remove_file(other.path().join("5.jnl")).unwrap();
    split(5, 6, "9.jnl").unwrap();
    // Within one journal.
    let without: Vec<u8> = [&whole[..ends[3]], &whole[ends[4]..]].concat();
    write_journal(&journal, &without, true);
    let error = FjallStore::open(root.path(), options()).unwrap_err();
    assert!(
        error.to_string().contains("from transaction 3 to 5"),
        "{error}"
    );
}
