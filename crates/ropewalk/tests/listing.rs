//! Goal: a directory is listed whole, each name once, whatever its size, and neither the metadata server nor the client
//! keeps what it has listed. Method: the real server on its embedded store. Our own client makes the entries. Once the
//! server was started anew, it lists them by pages while the peak of its resident memory is watched. Neither the peak
//! of making them nor that of an earlier listing hides what a listing takes. `cargo xtask listing` does it with a
//! million entries.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests unwrap; the long form says what it saw"
)]

mod rig;

use client::Client;
use rig::{Up, connect, pid_of, status};
use std::path::Path;

/// Entries in the short form; `cargo xtask listing` sets another number.
const ENTRIES: usize = 5000;
const ENTRIES_VARIABLE: &str = "ROPEWALK_ENTRIES";
/// Tasks that make entries.
const MAKERS: usize = 64;
/// What a listing may add to the server's memory: far less than a million entries take.
const GROWTH_BYTES_MAX: u64 = 32 << 20;
/// Inodes that the server caches, and what each takes with its entry and with the store's cached blocks, roughly.
const CACHED_MAX: u64 = 1 << 18;
const CACHED_BYTES: u64 = 2048;
/// Listings of the whole directory; the first also fills caches.
const LISTINGS: usize = 3;

/// A line of a process's status, from proc(5), in bytes.
fn memory_bytes(pid: u32, name: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find(|l| l.starts_with(name)).unwrap();
    let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib * 1024
}

/// Lists, and returns how far the server's memory rose above what it had before.
async fn growth_bytes(client: &Client, pid: u32, count: usize) -> u64 {
    // The peak becomes what is resident now.
    std::fs::write(format!("/proc/{pid}/clear_refs"), "5").unwrap();
    let before = memory_bytes(pid, "VmRSS:");
    list(client, count).await;
    memory_bytes(pid, "VmHWM:").saturating_sub(before)
}

/// Makes `count` entries with as many requests under way as there are makers.
async fn fill(client: &Client, count: usize) {
    client.mkdir("/big", 0o755).await.unwrap();
    let makers = (0..MAKERS).map(|maker| {
        let client = client.clone();
        tokio::spawn(async move {
            for number in (maker..count).step_by(MAKERS) {
                let path = format!("/big/{number}");
                client.symlink("nowhere", path).await.unwrap();
            }
        })
    });
    for maker in makers.collect::<Vec<_>>() {
        maker.await.unwrap();
    }
}

/// Lists the directory by pages; each name is to be seen once.
async fn list(client: &Client, count: usize) {
    let mut seen = vec![false; count];
    let mut pages = client.read_dir("/big").await.unwrap();
    while let Some(page) = pages.next_page().await.unwrap() {
        for entry in page {
            let number: usize = std::str::from_utf8(&entry.name).unwrap().parse().unwrap();
            assert!(
                !std::mem::replace(&mut seen[number], true),
                "{number} twice"
            );
        }
    }
    let missing = seen.iter().filter(|seen| !**seen).count();
    assert_eq!(missing, 0);
}

/// A client of the cluster in a directory, and its metadata server's process.
async fn connected(dir: &Path) -> (Client, u32) {
    let status = status(dir).unwrap();
    let address = status["mds"]["advertise"][0].as_str().unwrap();
    let client = connect(address.parse().unwrap(), "listing").await;
    (client, pid_of(&status, "mds").unwrap())
}

#[tokio::test]
async fn listing_does_not_grow() {
    let count = std::env::var(ENTRIES_VARIABLE).map_or(ENTRIES, |n| n.parse().unwrap());
    let dir = tempfile::tempdir().unwrap();
    let up = Up::start(dir.path(), &["--ds", "1", "--port", "0"]);
    let (client, _) = connected(dir.path()).await;
    fill(&client, count).await;
    client.close().await.unwrap();
    assert!(up.stop().success());

    let up = Up::start(dir.path(), &[]);
    let (client, pid) = connected(dir.path()).await;
    let at_first = memory_bytes(pid, "VmRSS:");
    let mut growths = Vec::new();
    for _ in 0..LISTINGS {
        growths.push(growth_bytes(&client, pid, count).await);
    }
    println!("{count} entries; {at_first} bytes before, growth by each listing: {growths:?}");
    let caches = CACHED_MAX.min(count as u64) * CACHED_BYTES;
    assert!(growths[0] <= caches + GROWTH_BYTES_MAX, "{growths:?}");
    for growth in &growths[1..] {
        assert!(*growth <= GROWTH_BYTES_MAX, "{growths:?}");
    }
    client.close().await.unwrap();
    assert!(up.stop().success());
}
