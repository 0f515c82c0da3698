//! Goal: nothing that a client was told is lost when the metadata server or a data server goes away (rules R1, R2, R3,
//! R4, R6, R8, R9). Only members are listened to. Method: as in layouts.rs; a restart of the metadata server is a
//! second one over the same store.
#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]

use crate::rig::Rig;
use crate::rig::cluster::{FakeDs, Port, cluster, join};
use crate::rig::file::{File, patiently};
use ::cluster::{ServerState, add_token, expel};
use control::{JoinSecret, Status, StoreIdentity};
use layout::Floor;
use meta::MemStore;
use nfs4::ops::SHARE_ACCESS_BOTH;
use nfs4::{IoMode, NfsStatus};
use ropewalk_mds::Mds;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

#[tokio::test(start_paused = true)]
async fn after_a_restart_sizes_come_from_the_data_servers_before_anything_is_served() {
    let (rig, _port, mut servers) = cluster(2).await;
    let alice = rig.session("alice").await;
    let file = File::create(&alice, "f").await;
    let granted = file.layout(IoMode::Rw).await;
    file.layout_commit(granted.stateid, 5000).await.unwrap();
    let quiet = File::create(&alice, "quiet").await;
    let (_, change) = file.try_attrs().await.unwrap();
    // Unit 4096, so bytes up to 12,288 are in units 0 and 2 of the first data server of the file.
    let first = granted.body.first_stripe_index as usize;
    servers[first].told.lock().sizes.insert(file.id(), 12_000);
    servers[1 - first].told.lock().sizes.insert(file.id(), 5000);
    let store = Arc::clone(&rig.store);
    for ds in &mut servers {
        ds.go_away().await;
    }
    drop(rig);

    let rig = Rig::over(store).await;
    let port = Port::open(&rig);
    let alice = rig.session("alice").await;
    let again = File {
        client: &alice,
        name: "f".into(),
        fh: file.fh.clone(),
        open: file.open,
    };
    let other = File {
        client: &alice,
        name: "q".into(),
        fh: quiet.fh.clone(),
        open: quiet.open,
    };
    assert_eq!(again.try_attrs().await, Err(NfsStatus::Delay));
    assert!(other.try_attrs().await.is_ok(), "only marked files wait");
    servers[0].say_hello(&rig, &port).await.unwrap();
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(
        again.try_attrs().await,
        Err(NfsStatus::Delay),
        "one data server is away"
    );
    let refused = servers[0].size(file.id()).await.unwrap_err();
    assert_eq!(refused.status, Status::TryLater);

    servers[1].say_hello(&rig, &port).await.unwrap();
    let old_floor = servers[0].told.lock().floors[0];
    let new_floor = *servers[0].told.lock().floors.last().unwrap();
    let (Floor::Cluster { epoch: old }, Floor::Cluster { epoch: new }) = (old_floor, new_floor)
    else {
        panic!("the cluster floor comes first");
    };
    assert!(new > old, "a restart raises the cluster floor");
    let (size, after) = patiently(|| again.try_attrs()).await.unwrap();
    assert_eq!(size, 12_000);
    assert!(after > change);
    assert_eq!(rig.nfsd.role().fs().status().sizes_unknown, 0);
    assert_eq!(servers[0].size(file.id()).await.unwrap().size_bytes, 12_000);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_read_keeps_its_file_waiting_and_cuts_nothing() {
    let (rig, _port, servers) = cluster(2).await;
    let (alice, bob) = (rig.session("alice").await, rig.session("bob").await);
    let file = File::create(&alice, "f").await;
    let healthy = File::create(&alice, "healthy").await;
    let bobs = File::open(&bob, "f", SHARE_ACCESS_BOTH).await.unwrap();
    let bobs_other = File::open(&bob, "healthy", SHARE_ACCESS_BOTH)
        .await
        .unwrap();
    for file in [&file, &healthy] {
        file.layout(IoMode::Rw).await;
        for ds in &servers {
            ds.told.lock().sizes.insert(file.id(), 12_000);
        }
    }
    for status in [Status::Io, Status::TryLater, Status::NoSpace] {
        let told = &servers[1].told;
        told.lock().unreadable.insert(file.id(), status);
        if status == Status::Io {
            // Alice goes without LAYOUTCOMMIT.
            let _again = rig.session_of("alice", *b"boot0002", None).await;
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(bobs.try_attrs().await, Err(NfsStatus::Delay), "{status:?}");
        assert_eq!(rig.nfsd.role().fs().status().sizes_unknown, 1);
    }
    assert_eq!(
        bobs_other.try_attrs().await.unwrap().0,
        12_000,
        "only that file waits"
    );
    servers[1].told.lock().unreadable.clear();
    assert_eq!(patiently(|| bobs.try_attrs()).await.unwrap().0, 12_000);
}

#[tokio::test(start_paused = true)]
async fn a_layoutcommit_behind_his_own_cut_is_not_measured_by_what_cannot_be_read() {
    let (rig, _port, servers) = cluster(2).await;
    let alice = rig.session("alice").await;
    let file = File::create(&alice, "f").await;
    let granted = file.layout(IoMode::Rw).await;
    file.layout_commit(granted.stateid, 9000).await.unwrap();
    patiently(|| file.try_truncate(10)).await.unwrap();
    for ds in &servers {
        ds.told.lock().sizes.insert(file.id(), 9000);
        ds.told.lock().unreadable.insert(file.id(), Status::Io);
    }
    let clipped = file.layout_commit(granted.stateid, 9000).await;
    assert_eq!(clipped, Err(NfsStatus::Delay));
    for ds in &servers {
        ds.told.lock().unreadable.clear();
    }
    file.layout_commit(granted.stateid, 9000).await.unwrap();
    assert_eq!(file.try_attrs().await.unwrap().0, 9000);
}

#[tokio::test(start_paused = true)]
async fn a_truncation_that_a_crash_cut_short_is_ended_before_the_file_is_served() {
    let (rig, _port, mut servers) = cluster(2).await;
    let alice = rig.session("alice").await;
    let file = File::create(&alice, "f").await;
    let granted = file.layout(IoMode::Rw).await;
    file.layout_commit(granted.stateid, 9000).await.unwrap();
    for ds in &servers {
        ds.told.lock().sizes.insert(file.id(), 9000);
    }
    servers[1].go_away().await;
    assert_eq!(file.try_truncate(100).await, Err(NfsStatus::Delay));
    assert_eq!(rig.nfsd.role().fs().status().truncations, 1);
    assert_eq!(
        file.try_layout(IoMode::Rw).await.unwrap_err(),
        NfsStatus::LayoutTryLater
    );
    let store = Arc::clone(&rig.store);
    servers[0].go_away().await;
    drop(rig);

    let rig = Rig::over(store).await;
    let port = Port::open(&rig);
    let alice = rig.session("alice").await;
    let again = File {
        client: &alice,
        name: "f".into(),
        fh: file.fh.clone(),
        open: file.open,
    };
    for ds in &mut servers {
        ds.say_hello(&rig, &port).await.unwrap();
    }
    let (size, _) = patiently(|| again.try_attrs()).await.unwrap();
    assert_eq!(size, 100, "the cut comes before the sizes are taken");
    for ds in &servers {
        assert_eq!(ds.told.lock().sizes[&file.id()], 100);
    }
    assert_eq!(rig.nfsd.role().fs().status().truncations, 0);
}

#[tokio::test(start_paused = true)]
async fn a_removed_file_is_removed_everywhere_once_it_is_closed() {
    let (rig, port, mut servers) = cluster(2).await;
    let alice = rig.session("alice").await;
    let file = File::create(&alice, "f").await;
    file.layout(IoMode::Rw).await;
    file.remove().await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(servers[0].told.lock().removed.is_empty(), "it is open");
    servers[1].go_away().await;
    file.close().await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(servers[0].told.lock().removed.len(), 1, "told once");
    let item = servers[0].told.lock().removed[0];
    assert_eq!((item.file_id, item.generation), (file.id(), 2));
    let queue = |rig: &Rig| {
        let cred = namespace::Cred::root();
        let mut op = namespace::Op::new(&cred, namespace::Time::default());
        rig.nfsd
            .role()
            .fs()
            .namespace()
            .removal_batch(&mut op, 0, 10)
            .unwrap()
            .len()
    };
    assert_eq!(queue(&rig), 1, "one has not acknowledged");
    servers[1].say_hello(&rig, &port).await.unwrap();
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(servers[1].told.lock().removed.len(), 1);
    assert_eq!(queue(&rig), 0);
}

#[tokio::test(start_paused = true)]
async fn a_stable_write_is_reported_and_counts() {
    let (rig, _port, servers) = cluster(1).await;
    let alice = rig.session("alice").await;
    let file = File::create(&alice, "f").await;
    let (_, before) = file.try_attrs().await.unwrap();
    servers[0].wrote(file.id(), 300).await.unwrap();
    let (size, change) = file.try_attrs().await.unwrap();
    assert_eq!(size, 300);
    assert!(change > before);
    servers[0].wrote(file.id(), 100).await.unwrap();
    let (size, later) = file.try_attrs().await.unwrap();
    assert_eq!(size, 300, "a write never shrinks a file");
    assert!(later > change);
    assert_eq!(servers[0].size(file.id()).await.unwrap().size_bytes, 300);
    assert_eq!(
        servers[0].size(99_999).await.unwrap_err().status,
        Status::NotFound
    );
    assert_eq!(
        servers[0].wrote(99_999, 1).await.unwrap_err().status,
        Status::NotFound
    );
}

#[tokio::test(start_paused = true)]
async fn a_token_is_taken_once_and_a_changed_store_is_refused() {
    let (rig, port, mut servers) = cluster(1).await;
    let store = StoreIdentity {
        store_id: 77,
        counter: 1,
        changes: 0,
    };
    let used = join(&rig, "x", JoinSecret([1; 16]), store)
        .await
        .unwrap_err();
    assert_eq!(used.status, Status::BadToken);
    add_token(rig.nfsd.role().fs().cluster(), &JoinSecret([9; 16]), 0)
        .await
        .unwrap();
    let expired = join(&rig, "x", JoinSecret([9; 16]), store)
        .await
        .unwrap_err();
    assert_eq!(expired.status, Status::BadToken);

    let ds = &mut servers[0];
    ds.go_away().await;
    ds.store.counter = 5;
    ds.say_hello(&rig, &port).await.unwrap();
    ds.go_away().await;
    ds.store.counter = 4;
    let older = ds.say_hello(&rig, &port).await.unwrap_err();
    assert_eq!(older.status, Status::StoreRolledBack);
    ds.store = StoreIdentity {
        store_id: 78,
        counter: 9,
        changes: 0,
    };
    let other = ds.say_hello(&rig, &port).await.unwrap_err();
    assert_eq!(other.status, Status::StoreSwapped);
    ds.store = StoreIdentity {
        store_id: 1,
        counter: 5,
        changes: 0,
    };
    ds.say_hello(&rig, &port).await.unwrap();
    expel(rig.nfsd.role().fs().cluster(), ds.id, "test")
        .await
        .unwrap();
    let out = ds.say_hello(&rig, &port).await.unwrap_err();
    assert_eq!(out.status, Status::Expelled);
    assert_eq!(
        rig.nfsd.role().fs().cluster().status().servers[0].state,
        ServerState::Expelled
    );
}

#[tokio::test(start_paused = true)]
async fn new_files_go_to_all_data_servers_and_old_files_stay_where_they_are() {
    let (rig, port, _servers) = cluster(1).await;
    let alice = rig.session("alice").await;
    let old = File::create(&alice, "old").await;
    let mut more = Vec::new();
    for number in 2..=3 {
        more.push(FakeDs::joined(&rig, &port, number).await);
    }
    tokio::time::sleep(Duration::from_secs(4)).await;
    let new = File::create(&alice, "new").await;
    let (a, b) = (
        old.layout(IoMode::Read).await,
        new.layout(IoMode::Read).await,
    );
    assert_ne!(a.body.device_id, b.body.device_id);
    let groups = rig.nfsd.role().fs().cluster().status().groups;
    assert_eq!(
        groups.iter().map(|(_, s)| s.len()).collect::<Vec<_>>(),
        [1, 3]
    );
    assert_eq!(rig.nfsd.role().fs().cluster().space().total_bytes, 3000);
}

/// The server again, over the same store.
async fn again(rig: Rig) -> Rig {
    let store = Arc::clone(&rig.store);
    drop(rig);
    Rig::over(store).await
}

#[tokio::test(start_paused = true)]
async fn a_restart_waits_for_who_held_something_and_for_nobody_else() {
    let (rig, port, _servers) = cluster(1).await;
    rig.stranger("eve", *b"boot0001", None)
        .session
        .establish()
        .await
        .unwrap();
    rig.session("bob").await;
    let alice = rig.session("alice").await;
    File::create(&alice, "f").await.close().await;
    tokio::time::sleep(Duration::from_secs(4)).await;
    drop(port);
    let rig = again(rig).await;
    assert!(!rig.nfsd.clients().lock().in_grace(), "nobody has anything");

    let alice = rig.session("alice").await;
    rig.session("bob").await;
    let file = File::open(&alice, "f", SHARE_ACCESS_BOTH).await.unwrap();
    let rig = again(rig).await;
    assert!(rig.nfsd.clients().lock().in_grace());
    rig.session("carol").await;
    Mds::tick(&rig.nfsd).await;
    assert!(rig.nfsd.clients().lock().in_grace(), "alice has not come");
    let alice = rig.stranger("alice", *b"boot0001", None);
    alice.session.establish().await.unwrap();
    file.reclaimed_by(&alice).await.unwrap();
    alice.reclaim_complete().await;
    assert!(
        rig.nfsd.clients().lock().in_grace(),
        "bob is given a second"
    );
    tokio::time::sleep(Duration::from_secs(1)).await;
    Mds::tick(&rig.nfsd).await;
    assert!(!rig.nfsd.clients().lock().in_grace(), "he had nothing");

    let rig = again(rig).await;
    rig.session_of("alice", *b"boot0002", None).await;
    rig.session("carol").await;
    assert!(!rig.nfsd.clients().lock().in_grace(), "nobody is missing");
}

#[tokio::test(start_paused = true)]
async fn who_has_closed_everything_is_soon_waited_for_no_more_until_he_opens_again() {
    let (rig, port, _servers) = cluster(1).await;
    let alice = rig.session("alice").await;
    let file = File::create(&alice, "f").await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    drop(port);
    let rig = again(rig).await;
    assert!(rig.nfsd.clients().lock().in_grace(), "it is open");

    let alice = rig.stranger("alice", *b"boot0001", None);
    alice.session.establish().await.unwrap();
    let open = file.reclaimed_by(&alice).await.unwrap();
    alice.reclaim_complete().await;
    File {
        client: &alice,
        open,
        ..file
    }
    .close()
    .await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    Mds::tick(&rig.nfsd).await;
    let rig = again(rig).await;
    assert!(!rig.nfsd.clients().lock().in_grace(), "it is closed");

    let alice = rig.session("alice").await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    Mds::tick(&rig.nfsd).await;
    let file = File::open(&alice, "f", SHARE_ACCESS_BOTH).await.unwrap();
    let rig = again(rig).await;
    assert!(rig.nfsd.clients().lock().in_grace());
    let alice = rig.stranger("alice", *b"boot0001", None);
    alice.session.establish().await.unwrap();
    file.reclaimed_by(&alice).await.unwrap();
}

/// Has a store that is synced by hand synced always.
fn synced(store: &Arc<MemStore>) -> JoinHandle<()> {
    let store = Arc::clone(store);
    tokio::spawn(async move {
        loop {
            store.sync();
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
}

#[tokio::test(start_paused = true)]
async fn an_open_is_recorded_before_the_file_that_it_makes() {
    // A disk that keeps what was written in its order, cut between any two transactions.
    let store = Arc::new(MemStore::manual());
    let syncing = synced(&store);
    let rig = Rig::over(store.clone()).await;
    let port = Port::open(&rig);
    let _ds = FakeDs::joined(&rig, &port, 1).await;
    let alice = rig.session("alice").await;
    tokio::time::sleep(Duration::from_secs(4)).await;
    Mds::tick(&rig.nfsd).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let root = alice.lookup(&[]).await.unwrap();
    syncing.abort();
    let _ = syncing.await;
    let opening = tokio::time::timeout(Duration::from_secs(1), File::try_open(&alice, &root, "f"));
    assert!(opening.await.is_err(), "no reply before it is durable");
    let mut made = 0;
    for kept in 0..=store.unsynced() {
        let left = Arc::new(store.after_crash_keeping(kept));
        let _syncing = synced(&left);
        let rig = Rig::over(left).await;
        let bob = rig.session("bob").await;
        if bob.lookup(&["f"]).await.is_ok() {
            made += 1;
            assert!(
                rig.nfsd.clients().lock().in_grace(),
                "after {kept} transactions"
            );
        }
    }
    assert!(made > 0);
}

/// Under a layout for writing the mark "RW out" sees to the size after a crash (R1). So a report of a stable write needs no
/// sync (R21). Nobody is told of it before it is durable, and the change attribute never comes back.
#[tokio::test(start_paused = true)]
async fn a_stable_write_under_a_layout_waits_for_no_sync_and_is_not_lost() {
    let second = Duration::from_secs(1);
    let store = Arc::new(MemStore::manual());
    let syncing = synced(&store);
    let rig = Rig::over(store.clone()).await;
    let port = Port::open(&rig);
    let mut ds = FakeDs::joined(&rig, &port, 1).await;
    let alice = rig.session("alice").await;
    let (marked, unmarked) = (
        File::create(&alice, "marked").await,
        File::create(&alice, "unmarked").await,
    );
    marked.layout(IoMode::Rw).await;
    syncing.abort();
    let _ = syncing.await;
    let told = tokio::time::timeout(second, ds.wrote(marked.id(), 300)).await;
    told.expect("it waits for no sync").unwrap();
    let told = tokio::time::timeout(second, ds.wrote(unmarked.id(), 300)).await;
    assert!(told.is_err(), "without a mark it does");
    let seen = tokio::time::timeout(second, marked.try_attrs()).await;
    assert!(seen.is_err(), "nobody is told of what a crash takes back");
    let lost = Arc::new(store.after_crash());
    for _ in 0..20 {
        ds.wrote(marked.id(), 300).await.unwrap();
    }
    store.sync();
    let (size, change) = marked.try_attrs().await.unwrap();
    assert_eq!(size, 300);

    ds.told.lock().sizes.insert(marked.id(), 300);
    ds.go_away().await;
    let _syncing = synced(&lost);
    let rig = Rig::over(lost).await;
    let port = Port::open(&rig);
    let alice = rig.session("alice").await;
    let again = File {
        client: &alice,
        name: "marked".into(),
        fh: marked.fh.clone(),
        open: marked.open,
    };
    assert_eq!(again.try_attrs().await, Err(NfsStatus::Delay));
    ds.say_hello(&rig, &port).await.unwrap();
    let (size, after) = patiently(|| again.try_attrs()).await.unwrap();
    assert_eq!(size, 300);
    assert!(after > change, "{after} after {change}");
}
