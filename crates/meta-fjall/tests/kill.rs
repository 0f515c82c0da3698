//! Goal: kill -9 at any moment loses nothing acknowledged and leaves nothing half. Method: this test runs itself as a
//! child that writes from eight threads and prints each acknowledged transaction to a pipe. The child is killed, and
//! the store is opened and compared with what the pipe said. This is done several times in one directory.

// Helpers of a test are test code too; the child speaks through its standard output.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use meta::contract::block_on;
use meta::{MetaStore, Read, TxOutcome};
use ropewalk_meta_fjall::{FjallStore, Options};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

const CHILD: &str = "ROPEWALK_TEST_KILL_CHILD";
const THREADS: u64 = 8;
const ROUNDS: usize = 6;

fn options() -> Options {
    Options {
        reserve_bytes: 0,
        ..Options::default()
    }
}

/// Each transaction sets the thread's number and, a half that must follow, its copy; and adds one entry.
fn child(dir: &Path) {
    let store = FjallStore::open(dir, options()).unwrap();
    println!();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let store = &store;
            scope.spawn(move || {
                loop {
                    let mut n: u64 = 0;
                    let seq = store.transact(&mut |tx| {
                        let old = tx.get(&[b'n', thread.to_le_bytes()[0]])?;
                        n = old.map_or(0, |v| u64::from_be_bytes((*v).try_into().unwrap())) + 1;
                        tx.put(&[b'n', thread.to_le_bytes()[0]], &n.to_be_bytes());
                        tx.put(
                            &[b"e", &thread.to_be_bytes()[..], &n.to_be_bytes()].concat(),
                            &[7; 200],
                        );
                        tx.put(&[b'z', thread.to_le_bytes()[0]], &n.to_be_bytes());
                        Ok(TxOutcome::Commit)
                    });
                    block_on(store.durable(seq.unwrap())).unwrap();
                    let mut out = std::io::stdout().lock();
                    writeln!(out, "ack {thread} {n}").unwrap();
                    out.flush().unwrap();
                }
            });
        }
    });
}

#[test]
fn kill_loses_nothing_acknowledged_and_leaves_nothing_half() {
    if let Some(dir) = std::env::var_os(CHILD) {
        return child(Path::new(&dir));
    }
    let dir = tempfile::tempdir().unwrap();
    let mut acked: BTreeMap<u64, u64> = BTreeMap::new();
    for round in 0..ROUNDS {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "kill_loses_nothing_acknowledged_and_leaves_nothing_half",
                "--nocapture",
            ])
            .env(CHILD, dir.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut seen = 0;
        // Killed after another number of acknowledgements each time; what the pipe still holds counts too.
        while let Some(Ok(line)) = lines.next() {
            let mut words = line.split(' ');
            if words.next() != Some("ack") {
                continue;
            }
            let mut number = || words.next().and_then(|w| w.parse::<u64>().ok());
            let (Some(thread), Some(n)) = (number(), number()) else {
                continue;
            };
            acked.insert(thread, n);
            seen += 1;
            if seen == 1 + round * 331 {
                process.kill().unwrap();
            }
        }
        process.wait().unwrap();
        assert!(seen > round * 331, "the child died by itself");
        let store = FjallStore::open(dir.path(), options()).unwrap();
        for thread in 0..THREADS {
            let number = |tag: u8| {
                let value = store.get(&[tag, thread.to_le_bytes()[0]]).unwrap();
                value.map_or(0, |v| u64::from_be_bytes((*v).try_into().unwrap()))
            };
            let n = number(b'n');
            assert!(
                n >= acked.get(&thread).copied().unwrap_or(0),
                "round {round}"
            );
            assert_eq!(n, number(b'z'), "half a transaction");
            let prefix = [b"e", &thread.to_be_bytes()[..]].concat();
            let entries = store
                .scan(&prefix, &meta::prefix_end(&prefix), usize::MAX)
                .unwrap();
            assert_eq!(entries.len() as u64, n);
        }
    }
}
