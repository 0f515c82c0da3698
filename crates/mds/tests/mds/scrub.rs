//! Goal: a block that changes on a disk by itself is found, and mended from another copy; without one, reads say so (rule P26).
//! Method: a metadata server and real data servers over stores in memory, whose bytes the test changes; time paused.
#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]

use crate::placement::set_policy;
use crate::rig::file::{File, patiently};
use crate::rig::real::{
    Real, after_from_to, bytes_of, cluster, cluster_with, fill, from_to, pattern, try_commit,
    try_read, write,
};
use crate::rig::{Client, Rig};
use control::ScrubState;
use nfs4::ops::{LinkArgs, LinkRes};
use nfs4::{NfsStatus, StableHow};
use objects::ObjectId;
use std::time::Duration;

/// Parts have their sums after so long without a change.
const QUIET: Duration = Duration::from_secs(40);

async fn written<'c>(alice: &'c Client, copies: u32, model: &[u8]) -> File<'c> {
    let root = alice.lookup(&[]).await.unwrap();
    let policy = format!("copies={copies} inline_max=0");
    set_policy(alice, &root, &policy).await.unwrap();
    let file = File::create(alice, "file").await;
    fill(&file, 0, model).await;
    patiently(|| try_commit(&file)).await.unwrap();
    tokio::time::sleep(QUIET).await;
    file
}

fn objects_of(server: &Real) -> Vec<(ObjectId, u64)> {
    let mut found = Vec::new();
    let visit = &mut |id, stat: objects::ObjectStat| {
        found.push((id, stat.size_bytes));
        true
    };
    server.objects.list(visit).unwrap();
    found
}

/// Changes the last byte of an object, as a disk would.
fn flip(server: &Real, (id, size_bytes): (ObjectId, u64)) {
    let at = size_bytes - 1;
    let byte = objects::whole(server.objects.read(id, at, 1).unwrap()).unwrap();
    server
        .objects
        .write_again(id, at, &[byte[0] ^ 0x40])
        .unwrap();
}

/// Has all data servers scrub. Returns what each says then.
async fn scrub(rig: &Rig) -> Vec<ScrubState> {
    let order = rig.nfsd.role().fs().cluster().order_scrub();
    for _ in 0..60 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let servers = rig.nfsd.role().fs().cluster().status().servers;
        if servers
            .iter()
            .all(|s| s.scrub.order >= order && !s.scrub.is_running)
        {
            return servers.into_iter().map(|s| s.scrub).collect();
        }
    }
    panic!("scrub did not end");
}

fn sum(states: &[ScrubState], of: impl Fn(&ScrubState) -> u64) -> u64 {
    states.iter().map(of).sum()
}

#[tokio::test(start_paused = true)]
async fn a_damaged_block_of_either_member_is_mended_from_the_other() {
    let (rig, _port, servers) = cluster(2).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let model = pattern(300_000);
    let alice = rig.session("alice").await;
    let file = written(&alice, 2, &model).await;
    for server in &servers {
        let damaged = objects_of(server);
        assert!(!damaged.is_empty());
        for object in damaged {
            flip(server, object);
        }
        let states = scrub(&rig).await;
        assert_eq!(sum(&states, |s| s.damaged_blocks), 0, "{states:?}");
        assert!(bytes_of(&file, 0, usize::MAX).await == model);
    }
    let states = scrub(&rig).await;
    assert!(sum(&states, |s| s.blocks_found) >= 2, "{states:?}");
    assert_eq!(
        sum(&states, |s| s.blocks_found),
        sum(&states, |s| s.blocks_mended)
    );
}

#[tokio::test(start_paused = true)]
async fn a_read_that_is_compared_mends_what_it_reads() {
    let (rig, _port, servers) = cluster_with(2, true).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let model = pattern(300_000);
    let alice = rig.session("alice").await;
    let file = written(&alice, 2, &model).await;
    for server in &servers {
        for object in objects_of(server) {
            flip(server, object);
        }
        assert!(bytes_of(&file, 0, usize::MAX).await == model);
        scrub(&rig).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_last_bad_copy_is_an_io_error_until_it_is_overwritten() {
    let (rig, _port, servers) = cluster(1).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let mut model = pattern(300_000);
    let alice = rig.session("alice").await;
    let file = written(&alice, 1, &model).await;
    for object in objects_of(&servers[0]) {
        flip(&servers[0], object);
    }
    let states = scrub(&rig).await;
    assert_eq!(sum(&states, |s| s.damaged_blocks), 1, "{states:?}");
    assert_eq!(states[0].damaged_files.0.len(), 1);
    let end = 4 * 65_536;
    let read = |at: usize| try_read(&file, at as u64, 16);
    assert_eq!(read(end).await, Err(NfsStatus::Io));
    assert!(read(0).await.is_ok(), "others are read");
    // The whole block anew.
    let new = vec![7; model.len() - end];
    write(&file, end as u64, StableHow::FileSync, &new).await;
    model[end..].copy_from_slice(&new);
    assert!(bytes_of(&file, 0, usize::MAX).await == model);
    let states = scrub(&rig).await;
    assert_eq!(sum(&states, |s| s.damaged_blocks), 0, "{states:?}");
}

#[tokio::test(start_paused = true)]
async fn changes_of_clients_are_no_damage() {
    let (rig, _port, servers) = cluster(2).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let mut model = pattern(300_000);
    let alice = rig.session("alice").await;
    let file = written(&alice, 2, &model).await;
    for turn in 0..3_usize {
        let at = 60_000 + turn * 70_000;
        write(&file, at as u64, StableHow::FileSync, b"changed").await;
        model[at..at + 7].copy_from_slice(b"changed");
        assert!(bytes_of(&file, 0, usize::MAX).await == model);
        scrub(&rig).await;
        tokio::time::sleep(QUIET).await;
    }
    let states = scrub(&rig).await;
    assert_eq!(sum(&states, |s| s.blocks_found), 0, "{states:?}");
    assert!(sum(&states, |s| s.bytes_read) > 0);
    drop(servers);
}

#[tokio::test(start_paused = true)]
async fn a_damaged_file_is_named_by_a_path_also_after_links_renames_and_a_new_layout() {
    let (rig, _port, servers) = cluster(2).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let alice = rig.session("alice").await;
    let model = pattern(100_000);
    let file = written(&alice, 1, &model).await;
    let paths = || {
        let number = |server: &Real| objects_of(server)[0].0.file_id;
        let fs = rig.nfsd.role().fs();
        let found = fs::file_paths(fs, &[number(&servers[0]), 4_000_000]).unwrap();
        assert_eq!(found.len(), 1, "one is no file");
        (found[0].number, found[0].inode, found[0].path.clone())
    };
    let (number, inode, path) = paths();
    assert_eq!((number, path.as_deref()), (inode, Some("/file")));
    // In a directory, and under a name of another one.
    let root = alice.lookup(&[]).await.unwrap();
    let dir = File {
        client: &alice,
        name: "dir".to_owned(),
        fh: crate::names::mkdir(&alice, &root, "dir").await.unwrap(),
        open: nfs4::Stateid::default(),
    };
    let new_name = xdr::Opaque(b"second");
    let linked = from_to(&file, &dir, &LinkArgs { new_name }).await;
    after_from_to(&linked).take::<LinkRes>().unwrap();
    assert_eq!(paths().2.as_deref(), Some("/file"));
    file.remove().await;
    assert_eq!(paths().2.as_deref(), Some("/dir/second"));
    // With other objects.
    let set = || crate::restripe::set(&file, "stripe_unit=64K");
    patiently(set).await.unwrap();
    crate::restripe::ended(&file).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let (number, same, path) = paths();
    assert_eq!((same, path.as_deref()), (inode, Some("/dir/second")));
    assert_ne!(number, inode);
}
