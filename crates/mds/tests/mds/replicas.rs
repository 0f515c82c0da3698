//! Goal: what was promised outlives any data server of a file with copies, one after the other, and copies that lack
//! something are given it. Method: a metadata server and real data servers over stores in memory, time paused.
#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]

use crate::placement::set_policy;
use crate::rig::Client;
use crate::rig::file::{File, patiently};
use crate::rig::real::{Real, bytes_of, cluster, fill, pattern, try_commit, write};
use cluster::PlaceStatus;
use nfs4::StableHow;
use std::time::Duration;

/// New files have two copies.
pub(crate) async fn keep_two_copies(alice: &Client) {
    let root = alice.lookup(&[]).await.unwrap();
    let set = set_policy(alice, &root, "copies=2 inline_max=0");
    set.await.unwrap();
}

/// Waits until each place that is to have copies has them.
pub(crate) async fn until_level(rig: &crate::rig::Rig) {
    for _ in 0..120 {
        let places = rig.nfsd.role().fs().cluster().status().places;
        let is_level = |p: &PlaceStatus| p.is_served && 1 + p.sync.len() == p.copies as usize;
        if places.iter().any(|p| p.copies > 1) && places.iter().all(is_level) {
            return;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    panic!(
        "copies are lacking: {:?}",
        rig.nfsd.role().fs().cluster().status().places
    );
}

#[tokio::test(start_paused = true)]
async fn what_was_promised_outlives_each_data_server_in_turn() {
    let (rig, port, mut servers) = cluster(3).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let alice = rig.session("alice").await;
    keep_two_copies(&alice).await;
    let file = File::create(&alice, "file").await;
    let mut model = pattern(300_000);
    fill(&file, 0, &model).await;
    patiently(|| try_commit(&file)).await.unwrap();
    until_level(&rig).await;
    for (turn, server) in servers.iter_mut().enumerate() {
        // Its lease ends, and another one takes its places.
        server.stop().await;
        assert!(
            bytes_of(&file, 0, usize::MAX).await == model,
            "without {turn}"
        );
        let text = format!("written without {turn}");
        let at = 50_000 * (turn + 1);
        write(&file, at as u64, StableHow::FileSync, text.as_bytes()).await;
        model[at..at + text.len()].copy_from_slice(text.as_bytes());
        server.start(&rig, &port, 50 + turn as u64).await;
        until_level(&rig).await;
    }
    assert!(bytes_of(&file, 0, usize::MAX).await == model);
    // Nobody has a part of a removed file.
    let is_empty = |s: &Real| {
        let nfsd = s.nfsd.as_ref().unwrap();
        nfsd.role().status().objects_count == 0
    };
    file.remove().await;
    file.close().await;
    for _ in 0..60 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        if servers.iter().all(is_empty) {
            return;
        }
    }
    panic!("parts of a removed file are left");
}

/// Parts that the data servers have compared.
fn compared(servers: &[Real]) -> u64 {
    let running = servers.iter().filter_map(|s| s.nfsd.as_ref());
    running
        .map(|nfsd| nfsd.role().status().parts_compared)
        .sum()
}

#[tokio::test(start_paused = true)]
async fn a_member_that_comes_back_is_compared_in_what_may_differ_alone() {
    let (rig, port, mut servers) = cluster(2).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let alice = rig.session("alice").await;
    keep_two_copies(&alice).await;
    let mut files = Vec::new();
    for n in 0..20 {
        let file = File::create(&alice, &format!("file{n}")).await;
        fill(&file, 0, &pattern(1000)).await;
        patiently(|| try_commit(&file)).await.unwrap();
        files.push(file);
    }
    until_level(&rig).await;
    let settle = || tokio::time::sleep(Duration::from_secs(60));
    settle().await;
    for turn in 0..2 {
        servers[turn].stop().await;
        // A settled part, and one that is new.
        write(
            &files[turn],
            500,
            StableHow::FileSync,
            b"while one was away",
        )
        .await;
        let new = File::create(&alice, &format!("new{turn}")).await;
        fill(&new, 0, &pattern(3000)).await;
        patiently(|| try_commit(&new)).await.unwrap();
        let before = compared(&servers);
        servers[turn].start(&rig, &port, 50 + turn as u64).await;
        until_level(&rig).await;
        let compared = compared(&servers) - before;
        assert!((1..=4).contains(&compared), "{compared} parts of 20");
        settle().await;
    }
    // Each of them alone has all that was promised.
    for (turn, server) in (0_u64..).zip(&mut servers) {
        server.stop().await;
        for (n, file) in files.iter().enumerate() {
            let mut model = pattern(1000);
            if n < 2 {
                model[500..518].copy_from_slice(b"while one was away");
            }
            assert!(bytes_of(file, 0, usize::MAX).await == model, "file{n}");
        }
        server.start(&rig, &port, 60 + turn).await;
        until_level(&rig).await;
    }
}

#[tokio::test(start_paused = true)]
async fn members_are_filled_at_the_rate_that_was_set() {
    const BLOCKS: u64 = 32;
    let (rig, port, mut servers) = cluster(2).await;
    let set_rate = |rate| rig.nfsd.role().fs().cluster().set_fill_rate(rate);
    tokio::time::sleep(Duration::from_secs(3)).await;
    let alice = rig.session("alice").await;
    keep_two_copies(&alice).await;
    let file = File::create(&alice, "file").await;
    write(&file, 0, StableHow::FileSync, b"makes the group").await;
    until_level(&rig).await;
    let mut took = Vec::new();
    for rate in [64 << 10, 0] {
        servers[1].stop().await;
        let model = pattern(usize::try_from(BLOCKS * (64 << 10)).unwrap());
        fill(&file, 0, &model).await;
        write(&file, rate, StableHow::FileSync, b"differs").await;
        patiently(|| try_commit(&file)).await.unwrap();
        set_rate(rate);
        tokio::time::sleep(Duration::from_secs(3)).await;
        servers[1].start(&rig, &port, 50 + rate % 7).await;
        let since = tokio::time::Instant::now();
        until_level(&rig).await;
        took.push(since.elapsed().as_secs());
    }
    // Stripes are shorter than blocks: each of two places has bytes in each block.
    assert!(
        (2 * BLOCKS - 4..2 * BLOCKS + 20).contains(&took[0]),
        "{took:?}"
    );
    assert!(took[1] < 20, "{took:?}");
}

/// Files of a test that counts them.
const FILES: u64 = 7;

#[tokio::test(start_paused = true)]
async fn parts_that_lack_a_copy_are_told_until_it_is_there() {
    let (rig, port, mut servers) = cluster(3).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let alice = rig.session("alice").await;
    keep_two_copies(&alice).await;
    for number in 0..FILES {
        let file = File::create(&alice, &format!("file{number}")).await;
        fill(&file, 0, &pattern(3_000)).await;
        patiently(|| try_commit(&file)).await.unwrap();
    }
    until_level(&rig).await;
    let places = || rig.nfsd.role().fs().cluster().status().places;
    let is_whole = |p: &PlaceStatus| p.lacking_parts == Some(0);
    assert!(places().iter().all(is_whole));
    servers[0].stop().await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let mut told = 0;
    for place in places()
        .iter()
        .filter(|p| p.copies == 2 && p.sync.is_empty())
    {
        let mut parts = 0;
        let of_place = &mut |id: objects::ObjectId, _| {
            parts += u64::from(u32::from(id.place) == place.place);
            true
        };
        servers[place.primary as usize - 1]
            .objects
            .list(of_place)
            .unwrap();
        // A part that is empty has an entry and no object.
        let lacking_parts = place.lacking_parts.unwrap();
        assert!((parts..=FILES).contains(&lacking_parts), "{place:?}");
        told += parts;
    }
    assert!(told >= 4, "it had copies of most files");
    servers[0].start(&rig, &port, 50).await;
    until_level(&rig).await;
    assert!(places().iter().all(is_whole));
}
