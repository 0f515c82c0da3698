//! Goal: a data server's store that went back, or that is there twice, is recognised (rule R9).
//! Method: as in recovery.rs; the false data server says what its store has come to.
#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]

use crate::rig::Rig;
use crate::rig::cluster::{FakeDs, Port};
use control::Status;
use std::sync::Arc;
use std::time::Duration;

fn refused(rig: &Rig) -> Option<String> {
    rig.nfsd.role().fs().cluster().status().servers[0]
        .refused
        .clone()
}

#[tokio::test(start_paused = true)]
async fn a_store_with_fewer_changes_than_it_told_of_is_refused() {
    let rig = Rig::new().await;
    let port = Port::open(&rig);
    let mut ds = FakeDs::joined(&rig, &port, 1).await;
    ds.store.changes = 7;
    ds.go_away().await;
    ds.say_hello(&rig, &port).await.unwrap();
    ds.told.lock().changes = 10;
    tokio::time::sleep(Duration::from_secs(2)).await;
    ds.go_away().await;
    // A copy from the middle of the run: its next start counts as many starts as the newest.
    for (counter, changes) in [(1, 9), (2, 9), (9, 7)] {
        (ds.store.counter, ds.store.changes) = (counter, changes);
        let older = ds.say_hello(&rig, &port).await.unwrap_err();
        assert_eq!(older.status, Status::StoreRolledBack);
    }
    assert!(refused(&rig).unwrap().contains("restored from a backup"));

    let store = Arc::clone(&rig.store);
    drop((rig, port));
    let rig = Rig::over(store).await;
    let port = Port::open(&rig);
    let older = ds.say_hello(&rig, &port).await.unwrap_err();
    assert_eq!(older.status, Status::StoreRolledBack);
    (ds.store.counter, ds.store.changes) = (2, 10);
    ds.say_hello(&rig, &port).await.unwrap();
    assert_eq!(refused(&rig), None);
}

#[tokio::test(start_paused = true)]
async fn a_copy_is_refused_while_the_store_is_connected_and_afterwards_if_it_lacks_something() {
    let rig = Rig::new().await;
    let port = Port::open(&rig);
    let mut ds = FakeDs::joined(&rig, &port, 1).await;
    let mut copy = FakeDs::known(1);
    copy.id = ds.id;
    copy.boot_nonce = [99; 16];
    let twice = copy.say_hello(&rig, &port).await.unwrap_err();
    assert_eq!(twice.status, Status::TryLater);
    assert!(refused(&rig).unwrap().contains("was the store copied?"));
    // The first one serves on, also over a new connection.
    assert_eq!(ds.size(99).await.unwrap_err().status, Status::NotFound);
    ds.say_hello(&rig, &port).await.unwrap();
    ds.told.lock().changes = 1;
    tokio::time::sleep(Duration::from_secs(2)).await;
    ds.go_away().await;
    let older = copy.say_hello(&rig, &port).await.unwrap_err();
    assert_eq!(older.status, Status::StoreRolledBack);
    copy.store.changes = 1;
    copy.say_hello(&rig, &port).await.unwrap();
}
