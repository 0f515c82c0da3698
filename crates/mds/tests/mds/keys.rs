//! Goal: keys change while layouts are out, and nothing that a client holds breaks before it was asked for (rule R13).
//! A change that a crash interrupted goes on. Method: as in layouts.rs, with a wall clock that the test sets.
#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]

use crate::rig::cluster::{FakeDs, Port, cluster};
use crate::rig::file::{File, Granted, patiently};
use crate::rig::{KEY_TIMES, Rig, START_S};
use ::cluster::AdminError;
use fs::rotate_key;
use layout::{DsHandle, HandleError, KEYS_MAX, KeyError, KeyState};
use meta::MemStore;
use nfs4::cb::CbLayoutRecallArgs;
use nfs4::{CbOpNum, IoMode, NfsStatus, OpReader};
use session_client::CallbackHandler;
use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use tracing_mutex::parkinglot::Mutex;

const ROTATION_S: i64 = KEY_TIMES.rotation_ms as i64 / 1000;
const OVERLAP_S: i64 = KEY_TIMES.overlap_ms as i64 / 1000;

/// A few ticks.
async fn ticks() {
    tokio::time::sleep(Duration::from_millis(3_500)).await;
}

fn key_of(granted: &Granted) -> u32 {
    let handle = &granted.body.file_handles.0[0].0;
    u32::from_be_bytes(handle[4..8].try_into().unwrap())
}

fn verify(rig: &Rig, ds: &FakeDs, granted: &Granted) -> Result<DsHandle, HandleError> {
    let cluster_id = rig.nfsd.role().fs().cluster().id();
    DsHandle::verify(&granted.body.file_handles.0[0].0, cluster_id, &ds.ring())
}

fn keys(rig: &Rig) -> Vec<(u32, KeyState)> {
    let keys = rig.nfsd.role().fs().cluster().status().keys;
    keys.iter().map(|k| (k.id, k.state)).collect()
}

/// Answers recalls with "will return", and remembers them.
#[derive(Default)]
struct Recalled(Mutex<usize>);

impl CallbackHandler for Recalled {
    fn callback<'a>(
        &'a self,
        op: CbOpNum,
        args: &'a mut OpReader<'_>,
    ) -> Pin<Box<dyn Future<Output = NfsStatus> + Send + 'a>> {
        assert_eq!(op, CbOpNum::LayoutRecall);
        let _args: CbLayoutRecallArgs<'_> = args.args().unwrap();
        *self.0.lock() += 1;
        Box::pin(std::future::ready(NfsStatus::Ok))
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_key_signs_when_every_serving_data_server_has_it_and_the_old_one_stays_good() {
    use KeyState::{Active, Next, Valid};
    let (rig, _port, servers) = cluster(2).await;
    let alice = rig.session("alice").await;
    let file = File::create(&alice, "f").await;
    let old = file.layout(IoMode::Rw).await;
    assert_eq!(key_of(&old), 1);

    servers[1].told.lock().mute_keys = true;
    let made = rotate_key(rig.nfsd.role().fs()).await.unwrap();
    assert_eq!((made.id, made.signs), (2, false));
    assert_eq!(keys(&rig), [(1, Active), (2, Next)]);
    let other = File::create(&alice, "g").await;
    let meanwhile = other.layout(IoMode::Rw).await;
    assert_eq!(key_of(&meanwhile), 1, "one data server has not the new key");
    let again = rotate_key(rig.nfsd.role().fs()).await.unwrap_err();
    assert!(matches!(
        again,
        AdminError::KeysBusy | AdminError::Key(KeyError::NotNext)
    ));

    servers[1].told.lock().mute_keys = false;
    ticks().await;
    assert_eq!(keys(&rig), [(1, Valid), (2, Active)]);
    let third = File::create(&alice, "h").await;
    let new = third.layout(IoMode::Rw).await;
    assert_eq!(key_of(&new), 2);
    for ds in &servers {
        for granted in [&old, &meanwhile, &new] {
            assert!(verify(&rig, ds, granted).is_ok());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_retires_durably_with_the_last_layout_under_it() {
    let (rig, _port, servers) = cluster(2).await;
    let alice = rig.session("alice").await;
    let (f, g) = (
        File::create(&alice, "f").await,
        File::create(&alice, "g").await,
    );
    let (first, second) = (f.layout(IoMode::Rw).await, g.layout(IoMode::Read).await);
    assert!(rotate_key(rig.nfsd.role().fs()).await.unwrap().signs);
    // Signed anew, but the client may go on with what it had.
    let renewed = f.layout(IoMode::Read).await;
    assert_eq!(key_of(&renewed), 2);
    g.layout_return(second.stateid).await.unwrap();
    ticks().await;
    assert_eq!(keys(&rig).len(), 2, "a layout is out");
    f.layout_return(renewed.stateid).await.unwrap();
    ticks().await;
    assert_eq!(keys(&rig), [(2, KeyState::Active)]);
    for ds in &servers {
        assert_eq!(ds.ring().retired_through(), 1);
        let refused = HandleError::UnknownKey {
            key_id: 1,
            retired: true,
        };
        assert_eq!(verify(&rig, ds, &first), Err(refused));
        assert!(verify(&rig, ds, &renewed).is_ok());
    }
    let store = Arc::clone(&rig.store);
    drop(rig);
    let rig = Rig::over(store).await;
    assert_eq!(keys(&rig), [(2, KeyState::Active)]);
    assert_eq!(
        rotate_key(rig.nfsd.role().fs()).await.unwrap().id,
        3,
        "ids only rise"
    );
}

#[tokio::test(start_paused = true)]
async fn after_the_overlap_old_layouts_are_recalled_and_no_others() {
    let (rig, _port, _servers) = cluster(1).await;
    let (old_asked, new_asked) = (Arc::new(Recalled::default()), Arc::new(Recalled::default()));
    let alice = rig
        .session_of("alice", *b"boot0001", Some(old_asked.clone()))
        .await;
    let bob = rig
        .session_of("bob", *b"boot0001", Some(new_asked.clone()))
        .await;
    let f = File::create(&alice, "f").await;
    let old = f.layout(IoMode::Rw).await;
    rotate_key(rig.nfsd.role().fs()).await.unwrap();
    let g = File::create(&bob, "g").await;
    let new = g.layout(IoMode::Rw).await;
    rig.clock_s.fetch_add(OVERLAP_S - 1, Ordering::Relaxed);
    ticks().await;
    assert_eq!((*old_asked.0.lock(), *new_asked.0.lock()), (0, 0));
    rig.clock_s.fetch_add(1, Ordering::Relaxed);
    ticks().await;
    assert_eq!((*old_asked.0.lock(), *new_asked.0.lock()), (1, 0), "once");
    f.layout_return(old.stateid).await.unwrap();
    ticks().await;
    assert_eq!(keys(&rig), [(2, KeyState::Active)]);
    let again = f.layout(IoMode::Rw).await;
    assert_eq!((key_of(&again), key_of(&new)), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_return_is_fenced_and_the_key_retires_all_the_same() {
    let (rig, _port, servers) = cluster(1).await;
    let asked = Arc::new(Recalled::default());
    let alice = rig.session_of("alice", *b"boot0001", Some(asked)).await;
    let file = File::create(&alice, "f").await;
    file.layout(IoMode::Rw).await;
    rotate_key(rig.nfsd.role().fs()).await.unwrap();
    rig.clock_s.fetch_add(OVERLAP_S, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(40)).await;
    assert_eq!(keys(&rig), [(2, KeyState::Active)]);
    let fenced = servers[0].told.lock().fences.clone();
    let of_file = |f: &layout::Floor| matches!(f, layout::Floor::Client { file_id, .. } if *file_id == file.id());
    assert!(fenced.iter().any(of_file), "{fenced:?}");
    assert_eq!(key_of(&file.layout(IoMode::Rw).await), 2);
}

#[tokio::test(start_paused = true)]
async fn keys_change_early_while_floors_fill_up_somewhere() {
    use KeyState::{Active, Valid};
    let (rig, _port, servers) = cluster(2).await;
    let asked = Arc::new(Recalled::default());
    let alice = rig
        .session_of("alice", *b"boot0001", Some(asked.clone()))
        .await;
    let file = File::create(&alice, "f").await;
    let old = file.layout(IoMode::Rw).await;
    let fill = |percent| servers[1].told.lock().floors_fill_percent = percent;
    let pass = |seconds| rig.clock_s.fetch_add(seconds, Ordering::Relaxed);
    pass(60);
    fill(50);
    ticks().await;
    assert_eq!(keys(&rig), [(1, Active)], "half is room enough");
    fill(51);
    ticks().await;
    assert_eq!(keys(&rig), [(1, Valid), (2, Active)]);
    assert_eq!(*asked.0.lock(), 0);
    pass(60);
    ticks().await;
    assert_eq!(*asked.0.lock(), 1, "the old key is to retire soon");
    file.layout_return(old.stateid).await.unwrap();
    ticks().await;
    assert_eq!(
        servers[1].ring().retired_through(),
        2,
        "it was still filling up when the second was a minute old"
    );
    assert_eq!(keys(&rig), [(3, Active)]);
    fill(0);
    ticks().await;
    pass(120);
    ticks().await;
    assert_eq!(keys(&rig), [(3, Active)], "no more of them than needed");
}

#[tokio::test(start_paused = true)]
async fn the_interval_counts_from_the_making_of_the_key_over_restarts() {
    let (rig, _port, _servers) = cluster(1).await;
    let (store, clock) = (Arc::clone(&rig.store), Arc::clone(&rig.clock_s));
    clock.fetch_add(ROTATION_S - 1, Ordering::Relaxed);
    ticks().await;
    assert_eq!(keys(&rig), [(1, KeyState::Active)]);
    drop((rig, _port));
    let again = |store, clock| async move {
        let rig = Rig::at(store, clock).await;
        let port = Port::open(&rig);
        ticks().await;
        let keys = keys(&rig);
        drop((rig, port));
        keys
    };
    for _ in 0..3 {
        let now = again(store.clone(), clock.clone()).await;
        assert_eq!(now, [(1, KeyState::Active)], "a restart makes no key");
    }
    clock.fetch_add(1, Ordering::Relaxed);
    for _ in 0..3 {
        let now = again(store.clone(), clock.clone()).await;
        assert_eq!(now, [(2, KeyState::Active)], "and resets no clock");
    }
    // A clock that was wrong by years does not stop rotation.
    clock.store(START_S - 50 * ROTATION_S, Ordering::Relaxed);
    assert_eq!(again(store, clock).await, [(3, KeyState::Active)]);
}

#[tokio::test(start_paused = true)]
async fn a_data_server_that_was_away_gets_the_keys_before_it_serves() {
    let (rig, port, mut servers) = cluster(2).await;
    let alice = rig.session("alice").await;
    let file = File::create(&alice, "f").await;
    servers[1].go_away().await;
    assert!(
        rotate_key(rig.nfsd.role().fs()).await.unwrap().signs,
        "it serves nothing"
    );
    ticks().await;
    assert_eq!(keys(&rig), [(2, KeyState::Active)]);
    assert_eq!(
        file.try_layout(IoMode::Rw).await.unwrap_err(),
        NfsStatus::LayoutTryLater
    );
    assert_eq!(servers[1].ring().newest_id(), 1);
    servers[1].say_hello(&rig, &port).await.unwrap();
    let granted = file.layout(IoMode::Rw).await;
    assert_eq!(key_of(&granted), 2);
    assert!(verify(&rig, &servers[1], &granted).is_ok());
    assert_eq!(servers[1].ring().retired_through(), 1);
}

#[tokio::test(start_paused = true)]
async fn no_more_keys_are_live_than_may_be() {
    let (rig, _port, _servers) = cluster(1).await;
    let alice = rig.session("alice").await;
    let file = File::create(&alice, "f").await;
    let held = file.layout(IoMode::Read).await;
    for id in 2..=KEYS_MAX {
        assert_eq!(rotate_key(rig.nfsd.role().fs()).await.unwrap().id, id);
    }
    let refused = rotate_key(rig.nfsd.role().fs()).await.unwrap_err();
    assert!(
        matches!(refused, AdminError::Key(KeyError::Full)),
        "{refused}"
    );
    rig.clock_s.fetch_add(OVERLAP_S - 1, Ordering::Relaxed);
    ticks().await;
    assert_eq!(keys(&rig).len(), KEYS_MAX as usize);
    file.layout_return(held.stateid).await.unwrap();
    ticks().await;
    assert_eq!(keys(&rig), [(KEYS_MAX, KeyState::Active)]);
    assert_eq!(
        rotate_key(rig.nfsd.role().fs()).await.unwrap().id,
        KEYS_MAX + 1
    );
}

#[tokio::test(start_paused = true)]
async fn fences_for_a_data_server_that_is_away_go_with_the_key_that_they_need() {
    let (rig, port, mut servers) = cluster(2).await;
    let alice = rig.session("alice").await;
    let file = File::create(&alice, "f").await;
    let held = file.layout(IoMode::Rw).await;
    servers[1].go_away().await;
    let narrower = nfs4::attr::Attrs {
        mode: Some(0o400),
        ..Default::default()
    };
    patiently(|| file.try_set(&narrower)).await.unwrap();
    let pending = || rig.nfsd.role().fs().cluster().status().fences_pending;
    assert_eq!(pending(), 1, "the one that is away knows nothing of it");
    file.layout_return(held.stateid).await.unwrap();
    rotate_key(rig.nfsd.role().fs()).await.unwrap();
    ticks().await;
    assert_eq!(pending(), 0);
    servers[1].told.lock().floors.clear();
    servers[1].say_hello(&rig, &port).await.unwrap();
    let told = servers[1].told.lock().floors.clone();
    assert!(
        matches!(told[..], [layout::Floor::Cluster { .. }]),
        "{told:?}"
    );
    assert!(verify(&rig, &servers[1], &held).is_err());
}

#[tokio::test(start_paused = true)]
async fn a_removal_that_waited_over_a_rotation_names_the_newest_key() {
    let (rig, port, mut servers) = cluster(2).await;
    let alice = rig.session("alice").await;
    let file = File::create(&alice, "f").await;
    file.layout(IoMode::Rw).await;
    servers[1].go_away().await;
    file.remove().await;
    file.close().await;
    ticks().await;
    let through = |ds: &FakeDs| ds.told.lock().removed.last().map(|r| r.through_key);
    assert_eq!(through(&servers[0]), Some(1));
    assert!(rotate_key(rig.nfsd.role().fs()).await.unwrap().signs);
    ticks().await;
    assert_eq!(
        keys(&rig),
        [(2, KeyState::Active)],
        "a removed file needs no key"
    );
    servers[1].say_hello(&rig, &port).await.unwrap();
    ticks().await;
    assert_eq!(through(&servers[1]), Some(2));
}

/// The stores that crashes at any moment of a rotation and a retirement leave.
async fn crashes() -> Vec<Arc<MemStore>> {
    let store = Arc::new(MemStore::manual());
    let images: Arc<Mutex<Vec<MemStore>>> = Arc::default();
    let syncing = {
        let (store, images) = (Arc::clone(&store), Arc::clone(&images));
        tokio::spawn(async move {
            loop {
                let unsynced = store.unsynced();
                if unsynced > 0 {
                    let kept = (0..=unsynced).map(|n| store.after_crash_keeping(n));
                    images.lock().extend(kept);
                    store.sync();
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
    };
    let rig = Rig::over(store.clone()).await;
    let port = Port::open(&rig);
    let _ds = FakeDs::joined(&rig, &port, 1).await;
    ticks().await;
    images.lock().clear();
    rotate_key(rig.nfsd.role().fs()).await.unwrap();
    ticks().await;
    assert_eq!(keys(&rig), [(2, KeyState::Active)]);
    syncing.abort();
    images.lock().push(store.after_crash());
    let images = std::mem::take(&mut *images.lock());
    images.into_iter().map(Arc::new).collect()
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_moment_of_a_rotation_is_gone_on_with() {
    let mut found = BTreeSet::new();
    for image in crashes().await {
        let keep_synced = {
            let image = Arc::clone(&image);
            tokio::spawn(async move {
                loop {
                    image.sync();
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            })
        };
        let rig = Rig::at(image, Arc::new(AtomicI64::new(START_S))).await;
        let port = Port::open(&rig);
        found.insert(format!("{:?}", keys(&rig)));
        // Whatever it was, it ends: one key, which the data server has and which signs.
        let mut ds = FakeDs::known(1);
        ds.store.counter = 2;
        ds.say_hello(&rig, &port).await.unwrap();
        ticks().await;
        let [(id, KeyState::Active)] = keys(&rig)[..] else {
            panic!("{:?}", keys(&rig));
        };
        let alice = rig.session("alice").await;
        let granted = File::create(&alice, "after").await.layout(IoMode::Rw).await;
        assert_eq!(key_of(&granted), id);
        assert!(verify(&rig, &ds, &granted).is_ok());
        keep_synced.abort();
    }
    let wanted = [
        "[(1, Active), (2, Next)]",
        "[(1, Active)]",
        "[(1, Valid), (2, Active)]",
        "[(2, Active)]",
    ];
    assert_eq!(Vec::from_iter(found), wanted);
}
