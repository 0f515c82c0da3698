//! Goal: a directory is listed whole, each name once, whatever its size, and neither the metadata server nor the client keeps
//! what it has listed. Method: the real server on its embedded store; our own client makes the entries and lists them by pages
//! while the peak of the server's resident memory is watched. `cargo xtask listing` does it with a million entries.
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
/// What listings may add to the peak of the server's memory: far less than a million entries take.
const GROWTH_BYTES_MAX: u64 = 32 << 20;
/// Listings of the whole directory; the first also fills caches, which have limits of their own.
const LISTINGS: usize = 3;

/// The largest resident memory of a process so far, from proc(5).
fn peak_bytes(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find(|l| l.starts_with("VmHWM:")).unwrap();
    let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib * 1024
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

async fn run(dir: &Path, count: usize) {
    let status = status(dir).unwrap();
    let address = status["mds"]["advertise"][0].as_str().unwrap();
    let pid = pid_of(&status, "mds").unwrap();
    let client = connect(address.parse().unwrap(), "listing").await;
    fill(&client, count).await;
    let mut peaks = vec![peak_bytes(pid)];
    for _ in 0..LISTINGS {
        list(&client, count).await;
        peaks.push(peak_bytes(pid));
    }
    println!("{count} entries; peak bytes before, and after each listing: {peaks:?}");
    let growth = peaks[LISTINGS] - peaks[1];
    assert!(growth <= GROWTH_BYTES_MAX, "grew by {growth} bytes");
    client.close().await.unwrap();
}

#[tokio::test]
async fn listing_does_not_grow() {
    let count = std::env::var(ENTRIES_VARIABLE).map_or(ENTRIES, |n| n.parse().unwrap());
    let dir = tempfile::tempdir().unwrap();
    let up = Up::start(dir.path(), &["--ds", "1"]);
    run(dir.path(), count).await;
    assert!(up.stop().success());
}
