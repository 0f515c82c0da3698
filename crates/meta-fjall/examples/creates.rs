//! Durable creates per second at 1, 8 and 64 waiting tasks: `cargo run --release -p ropewalk-meta-fjall
//! --example creates [DIR]`. One create sets a directory entry, an inode and the parent in one transaction and
//! waits until it is durable, as the metadata server does.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

use meta::contract::block_on;
use meta::{MetaStore, TxOutcome};
use ropewalk_meta_fjall::{FjallStore, Options};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const RUN: Duration = Duration::from_secs(2);

fn main() {
    let base = std::env::args_os()
        .nth(1)
        .map_or_else(std::env::temp_dir, Into::into);
    for tasks in [1, 8, 64, 1, 8, 64, 1, 8, 64] {
        let dir = base.join(format!("creates-{}", std::process::id()));
        let store = FjallStore::open(&dir, Options::default()).unwrap();
        let (ids, longest) = (AtomicU64::new(2), AtomicU64::new(0));
        let start = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..tasks {
                scope.spawn(|| {
                    while start.elapsed() < RUN {
                        let id = ids.fetch_add(1, Ordering::Relaxed);
                        let begun = Instant::now();
                        let seq = store.transact(&mut |tx| {
                            let hash = id.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                            let entry =
                                [&b"d"[..], &1_u64.to_be_bytes(), &hash.to_be_bytes()].concat();
                            tx.get(&entry)?;
                            tx.put(&entry, &[1; 40]);
                            tx.put(&[&b"i"[..], &id.to_be_bytes()].concat(), &[2; 160]);
                            tx.put(&[&b"i"[..], &1_u64.to_be_bytes()].concat(), &[3; 160]);
                            Ok(TxOutcome::Commit)
                        });
                        let micros = u64::try_from(begun.elapsed().as_micros()).unwrap();
                        longest.fetch_max(micros, Ordering::Relaxed);
                        block_on(store.durable(seq.unwrap())).unwrap();
                    }
                });
            }
        });
        let creates = ids.load(Ordering::Relaxed) - 2;
        let rate = creates as f64 / start.elapsed().as_secs_f64();
        let longest = longest.load(Ordering::Relaxed);
        println!("{tasks:>3} tasks: {rate:>8.0} durable creates/s, longest transact {longest} us");
        drop(store);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
