//! Goal: a data server's store that went back, or that is there twice, is no member any more, and no promised byte is lost (rules R9, P13).
//! Method: a metadata server and real data servers over stores in memory, of which the test takes copies; time paused.
#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]

use crate::placement::set_policy;
use crate::replicas::until_level;
use crate::rig::cluster::Port;
use crate::rig::file::{File, patiently};
use crate::rig::real::{Real, bytes_of, cluster, fill, pattern, try_commit, write};
use crate::rig::{Client, Rig};
use cluster::PlaceStatus;
use nfs4::StableHow;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Longer than `scrub_interval`.
const SCRUB_IS_DUE_S: i64 = 8 * 86_400;

/// A file with two copies, each data server being primary of some of its stripes.
async fn with_copies<'a>(rig: &Rig, alice: &'a Client, model: &[u8]) -> File<'a> {
    let root = alice.lookup(&[]).await.unwrap();
    let set = set_policy(alice, &root, "copies=2 inline_max=0 stripe_unit=64K");
    set.await.unwrap();
    let file = File::create(alice, "file").await;
    fill(&file, 0, model).await;
    patiently(|| try_commit(&file)).await.unwrap();
    until_level(rig).await;
    let places = rig.nfsd.role().fs().cluster().status().places;
    for ds in [1, 2] {
        assert!(places.iter().any(|p| p.primary == ds), "{places:?}");
    }
    file
}

/// Why the metadata server refuses a data server, for `ropewalk status`.
fn refused(rig: &Rig, ds: u32) -> String {
    let servers = rig.nfsd.role().fs().cluster().status().servers;
    let server = servers.into_iter().find(|s| s.id == ds).unwrap();
    server.refused.unwrap_or_default()
}

/// Writes durably to each stripe, and into the model.
async fn write_to_each(file: &File<'_>, model: &mut [u8], text: &str) {
    for at in (100..model.len()).step_by(64 << 10) {
        write(file, at as u64, StableHow::FileSync, text.as_bytes()).await;
        model[at..at + text.len()].copy_from_slice(text.as_bytes());
    }
}

/// Each data server alone has every byte.
async fn each_has_all(rig: &Rig, port: &Port, servers: &mut [Real], of: (&File<'_>, &[u8])) {
    for (turn, server) in servers.iter_mut().enumerate() {
        until_level(rig).await;
        server.stop().await;
        assert!(
            bytes_of(of.0, 0, usize::MAX).await == of.1,
            "without {turn}"
        );
        server.start(rig, port, 90 + turn as u64).await;
    }
}

/// Copies a store, has the cluster go on, and puts the copy back.
async fn an_old_store_is_refused(which: usize, is_stopped_for_it: bool) {
    let (rig, port, mut servers) = cluster(2).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let alice = rig.session("alice").await;
    let mut model = pattern(300_000);
    let file = with_copies(&rig, &alice, &model).await;
    let (name, ds) = (
        servers[which].name.clone(),
        u32::try_from(which).unwrap() + 1,
    );
    if is_stopped_for_it {
        servers[which].stop().await;
    }
    let old = servers[which].copied_to(&name);
    if is_stopped_for_it {
        servers[which].start(&rig, &port, 40).await;
    }
    write_to_each(&file, &mut model, "written since").await;
    until_level(&rig).await;
    // The metadata server hears of changes within a second.
    tokio::time::sleep(Duration::from_secs(2)).await;
    servers[which].stop().await;
    let newest = std::mem::replace(&mut servers[which], old);
    servers[which].start(&rig, &port, 41).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let why = servers[which].refused.lock().clone().unwrap_or_default();
    assert!(why.contains("restored from a backup"), "{why}");
    assert!(refused(&rig, ds).contains("restored from a backup"));
    // Nothing of it is served: the other one has every place.
    assert!(bytes_of(&file, 0, usize::MAX).await == model);
    write_to_each(&file, &mut model, "without it").await;
    let places = rig.nfsd.role().fs().cluster().status().places;
    let has_it_not = |p: &PlaceStatus| p.copies < 2 || p.stale == [ds];
    assert!(places.iter().all(has_it_not), "{places:?}");
    // However often it is started.
    for turn in 0..3 {
        servers[which].stop().await;
        servers[which].start(&rig, &port, 42 + turn).await;
        assert!(servers[which].refused.lock().is_some());
    }
    // The newest store is taken again, and filled.
    servers[which].stop().await;
    servers[which] = newest;
    servers[which].start(&rig, &port, 60).await;
    until_level(&rig).await;
    assert_eq!(refused(&rig, ds), "");
    each_has_all(&rig, &port, &mut servers, (&file, &model)).await;
}

#[tokio::test(start_paused = true)]
async fn an_old_store_that_is_put_back_is_refused_and_nothing_is_lost() {
    for which in [0, 1] {
        for is_stopped_for_it in [false, true] {
            an_old_store_is_refused(which, is_stopped_for_it).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_waits_at_a_second_machine_is_refused_when_the_first_one_is_gone() {
    let (rig, port, mut servers) = cluster(2).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let alice = rig.session("alice").await;
    let mut model = pattern(300_000);
    let file = with_copies(&rig, &alice, &model).await;
    let mut copy = servers[0].copied_to("second");
    copy.clock_s.fetch_add(SCRUB_IS_DUE_S, Ordering::Relaxed);
    copy.start(&rig, &port, 40).await;
    assert!(refused(&rig, 1).contains("was the store copied?"));
    // Meanwhile the copy has work of its own: a scrub is due.
    tokio::time::sleep(Duration::from_secs(10)).await;
    write(&file, 100, StableHow::FileSync, b"x").await;
    model[100] = b'x';
    write(&file, (64 << 10) + 100, StableHow::FileSync, b"y").await;
    model[(64 << 10) + 100] = b'y';
    tokio::time::sleep(Duration::from_secs(3)).await;
    servers[0].stop().await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let why = copy.refused.lock().clone().unwrap_or_default();
    assert!(why.contains("restored from a backup"), "{why}");
    assert!(bytes_of(&file, 0, usize::MAX).await == model);
    copy.stop().await;
    servers[0].start(&rig, &port, 41).await;
    each_has_all(&rig, &port, &mut servers, (&file, &model)).await;
}
