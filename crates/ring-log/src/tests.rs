//! Goal: what was durable comes back, what was not does no harm, and damage is told from a torn end. Method: the contract,
//! and files that are changed by hand.

#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]

use super::*;
use redo::RedoLog;
use redo::contract::{self, numbers, record};
use tempfile::TempDir;

const CAPACITY_BYTES: u64 = 1 << 20;

fn open(dir: &TempDir) -> Result<FileRedo, redo::RedoError> {
    FileRedo::open(&dir.path().join("redo.log"), CAPACITY_BYTES)
}

fn wait(log: &FileRedo, number: u64) {
    let runtime = std::task::Waker::noop();
    let mut cx = std::task::Context::from_waker(runtime);
    let mut durable = log.durable(number);
    while durable.as_mut().poll(&mut cx).is_pending() {
        std::thread::yield_now();
    }
}

fn write(log: &FileRedo, data: &[u8]) -> u64 {
    let number = log.append(&record(1, data)).unwrap();
    wait(log, number);
    number
}

/// Changes a byte of the ring.
fn damage(dir: &TempDir, place: u64) {
    let path = dir.path().join("redo.log");
    let file = OpenOptions::new().read(true).write(true).open(path);
    let file = file.unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, RING_AT + place).unwrap();
    file.write_all_at(&[byte[0] ^ 0x40], RING_AT + place)
        .unwrap();
}

#[test]
fn it_passes_the_contract() {
    let mut dirs = Vec::new();
    contract::run(&mut |capacity_bytes| {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("redo.log");
        dirs.push(dir);
        let log = Arc::new(FileRedo::open(&path, capacity_bytes).unwrap());
        let reopen =
            move || Arc::new(FileRedo::open(&path, capacity_bytes).unwrap()) as Arc<dyn RedoLog>;
        (log, Box::new(reopen))
    });
}

#[test]
fn a_second_log_over_one_file_is_refused_by_name() {
    let dir = TempDir::new().unwrap();
    let _log = open(&dir).unwrap();
    let refused = open(&dir).unwrap_err().to_string();
    assert!(
        refused.ends_with("redo.log is in use by another process"),
        "{refused}"
    );
}

#[test]
fn it_is_tied_to_one_index_and_a_new_one_is_not_taken_for_it() {
    let dir = TempDir::new().unwrap();
    let log = open(&dir).unwrap();
    let refused = log.tie(7, true).unwrap_err().to_string();
    assert!(refused.contains("redo.log is new"), "{refused}");
    log.tie(7, false).unwrap();
    drop(log);
    let log = open(&dir).unwrap();
    log.tie(7, true).unwrap();
    let refused = log.tie(8, true).unwrap_err().to_string();
    assert!(refused.contains("another store"), "{refused}");
}

#[test]
fn a_torn_last_record_is_cut_and_its_number_is_used_again() {
    let dir = TempDir::new().unwrap();
    let log = open(&dir).unwrap();
    write(&log, b"one");
    write(&log, b"two");
    drop(log);
    damage(&dir, 128 + 60);
    let log = open(&dir).unwrap();
    assert_eq!(numbers(&log), [1]);
    assert_eq!(write(&log, b"2nd"), 2);
    drop(log);
    assert_eq!(numbers(&open(&dir).unwrap()), [1, 2]);
}

#[test]
fn a_damaged_record_before_one_that_knew_it_as_durable_is_refused_and_left_alone() {
    let dir = TempDir::new().unwrap();
    let log = open(&dir).unwrap();
    for _ in 0..3 {
        write(&log, b"data");
    }
    drop(log);
    damage(&dir, 128 + 60);
    let before = std::fs::read(dir.path().join("redo.log")).unwrap();
    let refused = open(&dir).unwrap_err().to_string();
    assert!(
        refused.contains("redo.log: record 2 at byte 8320 is damaged"),
        "{refused}"
    );
    let after = std::fs::read(dir.path().join("redo.log")).unwrap();
    assert!(before == after);
}

/// Two records of one sync: the first is torn, the second whole. The next opening writes another first one. The second must
/// not follow it.
#[test]
fn what_followed_a_torn_record_does_not_come_back_after_its_successor() {
    let dir = TempDir::new().unwrap();
    let log = open(&dir).unwrap();
    write(&log, b"durable");
    log.append(&record(2, b"torn")).unwrap();
    log.append(&record(3, b"whole")).unwrap();
    wait(&log, 3);
    drop(log);
    damage(&dir, 128 + 60);
    let log = open(&dir).unwrap();
    assert_eq!(numbers(&log), [1]);
    assert_eq!(write(&log, b"next"), 2);
    drop(log);
    let log = open(&dir).unwrap();
    assert_eq!(numbers(&log), [1, 2]);
    let mut last = Vec::new();
    let replayed = log.replay(&mut |_, record| {
        last = record.data.to_vec();
        true
    });
    replayed.unwrap();
    assert_eq!(last, b"next");
}

#[test]
fn one_slot_that_is_torn_does_no_harm_and_two_are_refused() {
    let dir = TempDir::new().unwrap();
    let log = open(&dir).unwrap();
    write(&log, b"one");
    log.retire(1).unwrap();
    write(&log, b"two");
    drop(log);
    let path = dir.path().join("redo.log");
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    let (_, slot) = take(&path).unwrap();
    file.write_all_at(&[0; 64], slot.offset()).unwrap();
    // What had been retired is there once more.
    let log = open(&dir).unwrap();
    assert_eq!(numbers(&log), [1, 2]);
    drop(log);
    file.write_all_at(&[0; 8192], 0).unwrap();
    let refused = open(&dir).unwrap_err().to_string();
    assert!(refused.contains("no slot"), "{refused}");
}

#[test]
fn an_empty_log_takes_another_size_and_keeps_its_numbers() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("redo.log");
    let log = open(&dir).unwrap();
    write(&log, b"one");
    drop(log);
    let larger = || FileRedo::open(&path, 2 * CAPACITY_BYTES).unwrap();
    let log = larger();
    assert_eq!(
        log.fill().capacity_bytes,
        CAPACITY_BYTES,
        "it holds a record"
    );
    log.retire(1).unwrap();
    drop(log);
    let log = larger();
    assert_eq!(log.fill().capacity_bytes, 2 * CAPACITY_BYTES);
    assert_eq!(write(&log, b"two"), 2);
}

#[test]
fn it_grows_to_its_size_while_it_is_used() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("redo.log");
    let capacity_bytes = 3 * GROWTH_BYTES;
    let log = FileRedo::open(&path, capacity_bytes).unwrap();
    let len = || std::fs::metadata(&path).unwrap().len();
    assert_eq!(len(), RING_AT + GROWTH_BYTES);
    let data = vec![5; 60_000];
    let mut refused = 0;
    while len() < RING_AT + capacity_bytes {
        match log.append(&record(1, &data)) {
            Some(number) => {
                wait(&log, number);
                log.retire(number).unwrap();
            }
            None => refused += 1,
        }
        assert!(refused < 1_000_000, "it does not grow");
    }
}
