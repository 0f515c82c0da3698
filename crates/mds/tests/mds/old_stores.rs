//! Goal: a store that went back, or that is there twice, costs no promised byte (rules R9, P13, P21).
//! Method: a metadata server and real data servers over stores in memory, of which the test takes copies; time paused.
#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]

use crate::placement::set_policy;
use crate::replicas::until_level;
use crate::rig::cluster::Port;
use crate::rig::file::{File, patiently};
use crate::rig::real::{Real, bytes_of, cluster, fill, pattern, try_commit, try_read, write};
use crate::rig::{Client, Rig, copy_of};
use cluster::PlaceStatus;
use nfs4::ops::SHARE_ACCESS_BOTH;
use nfs4::{NfsStatus, StableHow};
use std::sync::Arc;
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

async fn reopened(client: &Client) -> File<'_> {
    File::open(client, "file", SHARE_ACCESS_BOTH).await.unwrap()
}

/// Groups that a data server has closed, and places that are not served.
fn closed(rig: &Rig, ds: u32) -> (Vec<u32>, usize) {
    let status = rig.nfsd.role().fs().cluster().status();
    let server = status.servers.into_iter().find(|s| s.id == ds).unwrap();
    let unserved = status.places.iter().filter(|p| !p.is_served).count();
    (server.closed_groups, unserved)
}

/// Puts an older store of the metadata server back and has it serve for a while. Then the newest one is put back, or the older
/// one accepted. Groups that changed under the older one are closed for the newest, which is accepted in turn.
async fn an_old_mds_store_closes_groups(is_accepted: bool) {
    let (rig, port, mut servers) = cluster(2).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let alice = rig.session("alice").await;
    let mut model = pattern(300_000);
    let file = with_copies(&rig, &alice, &model).await;
    let old = copy_of(&*rig.store);
    // By the rows of then the second data server is in sync. It lacks what is promised now.
    servers[1].stop().await;
    write_to_each(&file, &mut model, "promised without it").await;
    servers[0].stop().await;
    let newest = copy_of(&*rig.store);
    drop((alice, rig, port));

    let rig = Rig::over(Arc::new(old)).await;
    let port = Port::open(&rig);
    servers[1].start(&rig, &port, 70).await;
    servers[0].start(&rig, &port, 71).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let groups = closed(&rig, 1).0;
    let status = rig.nfsd.role().fs().cluster().status();
    assert!(
        !groups.is_empty(),
        "{:?} {:?} {:?}",
        servers[0].refused.lock(),
        status.servers,
        status.places
    );
    // However long it is, and however often versions would rise: nobody is made primary by old rows.
    for turn in 0..5 {
        tokio::time::sleep(Duration::from_secs(30)).await;
        let (still, unserved) = closed(&rig, 1);
        assert!(still == groups && unserved > 0, "{still:?} {unserved}");
        let bob = rig.session(&format!("bob {turn}")).await;
        let file = reopened(&bob).await;
        assert_eq!(
            try_read(&file, 0, 4096).await.unwrap_err(),
            NfsStatus::Delay
        );
        servers[0].stop().await;
        servers[0].start(&rig, &port, 72 + turn).await;
    }
    if !is_accepted {
        drop((rig, port));
        let rig = Rig::over(Arc::new(newest)).await;
        let port = Port::open(&rig);
        for (turn, server) in servers.iter_mut().enumerate() {
            server.stop().await;
            server.start(&rig, &port, 78 + turn as u64).await;
        }
        tokio::time::sleep(Duration::from_secs(3)).await;
        return opens(&rig, &port, &mut servers, &model).await;
    }
    opens(&rig, &port, &mut servers, &model).await;
}

async fn opens(rig: &Rig, port: &Port, servers: &mut [Real], model: &[u8]) {
    let cluster = Arc::clone(rig.nfsd.role().fs().cluster());
    assert!(cluster.accept_state().await.unwrap() > 0);
    for (turn, server) in servers.iter_mut().enumerate() {
        server.stop().await;
        server.start(rig, port, 80 + turn as u64).await;
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    until_level(rig).await;
    assert_eq!(closed(rig, 1), (Vec::new(), 0));
    let carol = rig.session("carol").await;
    let file = reopened(&carol).await;
    each_has_all(rig, port, servers, (&file, model)).await;
}

#[tokio::test(start_paused = true)]
async fn an_old_store_of_the_metadata_server_closes_groups_until_the_newest_is_back() {
    an_old_mds_store_closes_groups(false).await;
}

#[tokio::test(start_paused = true)]
async fn an_old_store_of_the_metadata_server_closes_groups_until_it_is_accepted() {
    an_old_mds_store_closes_groups(true).await;
}
