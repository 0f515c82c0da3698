//! Goal: with eager creation the objects of a file are there when its OPEN is answered. Nobody waits for a data server that is away, and none
//! is lost or left behind; and all that holds with lazy creation holds.
//! Method: the tests of other programs that touch data servers once more, since [`rig::creation`] is eager in this program, and some of
//! its own.
#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]
#![allow(
    clippy::duplicate_mod,
    reason = "each test program brings the rig along"
)]

#[path = "mds/clone.rs"]
mod clone;
#[path = "mds/copy.rs"]
mod copy;
#[path = "mds/far.rs"]
mod far;
#[path = "mds/foreign_faults.rs"]
mod foreign_faults;
#[path = "mds/keys.rs"]
mod keys;
#[path = "mds/layouts.rs"]
mod layouts;
#[path = "mds/names.rs"]
mod names;
#[path = "mds/persist.rs"]
mod persist;
#[path = "mds/placement.rs"]
mod placement;
#[path = "mds/proxy.rs"]
mod proxy;
#[path = "mds/ranges.rs"]
mod ranges;
#[path = "mds/recalls.rs"]
mod recalls;
#[path = "mds/recovery.rs"]
mod recovery;
#[path = "mds/rig/mod.rs"]
mod rig;

use fs::{Creation, removals_waiting};
use meta::MemStore;
use nfs4::StableHow;
use rig::Rig;
use rig::cluster::Port;
use rig::file::{File, patiently};
use rig::real::{self, Real};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

fn objects_of(real: &Real) -> usize {
    let mut objects = 0;
    let mut visit = |_, _| {
        objects += 1;
        true
    };
    real.objects.list(&mut visit).unwrap();
    objects
}

#[tokio::test(start_paused = true)]
async fn objects_are_there_when_open_is_answered_and_gone_with_the_file() {
    assert_eq!(rig::creation(), Creation::Eager);
    let (rig, _port, mut servers) = real::cluster(3).await;
    let alice = rig.session("alice").await;
    let file = File::create(&alice, "f").await;
    for real in &servers {
        assert_eq!(objects_of(real), 1, "{}", real.name);
    }
    // An open of what exists makes nothing.
    let again = File::create(&alice, "f").await;
    assert_eq!(again.fh, file.fh);
    real::write(&again, 0, StableHow::FileSync, &real::pattern(20_000)).await;
    again.close().await;
    again.remove().await;
    patiently(|| async {
        match removals_waiting(rig.nfsd.role().fs()) {
            0 => Ok(()),
            _ => Err(nfs4::NfsStatus::Delay),
        }
    })
    .await
    .unwrap();
    for real in &mut servers {
        assert_eq!(objects_of(real), 0, "{}", real.name);
    }
}

#[tokio::test(start_paused = true)]
async fn a_data_server_that_is_away_holds_up_no_open_and_gets_no_new_file() {
    let (rig, port, mut servers) = real::cluster(2).await;
    let alice = rig.session("alice").await;
    // Both are in the group of the files to come.
    File::create(&alice, "before").await;
    servers[1].stop().await;
    let start = tokio::time::Instant::now();
    let file = File::create(&alice, "f").await;
    assert!(start.elapsed() < Duration::from_secs(1), "it waited");
    assert_eq!((objects_of(&servers[0]), objects_of(&servers[1])), (2, 1));
    servers[1].start(&rig, &port, 9).await;
    let bytes = real::pattern(20_000);
    let write = || real::try_write(&file, 0, StableHow::FileSync, &bytes);
    patiently(write).await.unwrap();
    assert_eq!((objects_of(&servers[0]), objects_of(&servers[1])), (2, 1));
    assert_eq!(real::bytes_of(&file, 0, bytes.len()).await, bytes);
}

#[tokio::test(start_paused = true)]
async fn one_that_does_not_answer_holds_up_one_open_and_is_asked_again_later() {
    let (rig, port, mut servers) = real::cluster(2).await;
    let alice = rig.session("alice").await;
    File::create(&alice, "before").await;
    servers[1].deafen();
    let start = tokio::time::Instant::now();
    File::create(&alice, "first").await;
    assert!(start.elapsed() < Duration::from_secs(6), "it waited");
    let start = tokio::time::Instant::now();
    File::create(&alice, "second").await;
    assert!(
        start.elapsed() < Duration::from_secs(1),
        "it was asked again"
    );
    assert_eq!((objects_of(&servers[0]), objects_of(&servers[1])), (3, 1));
    servers[1].stop().await;
    servers[1].start(&rig, &port, 9).await;
    tokio::time::sleep(Duration::from_secs(15)).await;
    File::create(&alice, "third").await;
    assert_eq!((objects_of(&servers[0]), objects_of(&servers[1])), (4, 2));
}

#[tokio::test(start_paused = true)]
async fn what_is_not_durable_yet_is_told_to_no_data_server() {
    let store = Arc::new(MemStore::manual());
    let syncs = Arc::new(AtomicBool::new(true));
    let (disk, runs) = (Arc::clone(&store), Arc::clone(&syncs));
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_millis(1)).await;
            if runs.load(Relaxed) {
                disk.sync();
            }
        }
    });
    let rig = Rig::over(store).await;
    let port = Port::open(&rig);
    let mut ds = Real::new(1);
    ds.start(&rig, &port, 1).await;
    let alice = rig.session("alice").await;
    File::create(&alice, "first").await;
    syncs.store(false, Relaxed);
    let second = File::create(&alice, "second");
    tokio::pin!(second);
    let waited = tokio::time::timeout(Duration::from_secs(1), &mut second).await;
    assert!(
        waited.is_err(),
        "a create was answered before it was durable"
    );
    assert_eq!(objects_of(&ds), 1);
    syncs.store(true, Relaxed);
    second.await;
    assert_eq!(objects_of(&ds), 2);
}

#[tokio::test(start_paused = true)]
async fn objects_at_foreign_servers_are_there_when_open_is_answered() {
    let (rig, _port, far) = far::far_cluster(4, "stripe_count=2 copies=2").await;
    let alice = rig.session("alice").await;
    let file = far::far_file(&alice, "f").await;
    let objects = far.objects(&rig, &file).concat();
    assert_eq!(objects.iter().flatten().count(), 4);
    for fake in &far.fakes {
        assert_eq!(fake.files().len(), 1, "there is no pool");
    }
    // One that is dead holds nobody up for long, and its objects come with the first use.
    far.kill(0);
    let start = tokio::time::Instant::now();
    let late = far::far_file(&alice, "late").await;
    assert!(start.elapsed() < Duration::from_secs(6), "it waited");
    real::write(&late, 0, StableHow::FileSync, b"late").await;
    far.start(0);
    far.whole(&rig, &late, b"late").await;
}
