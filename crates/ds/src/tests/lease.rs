//! The tie to the MDS: HELLO, heartbeats, the end of the lease, missed floors, expulsion (R6, R9).

use super::*;
use control::{ExpelArgs, FloorsArgs, ShutdownArgs, Text};
use transport::CloseReason;

#[tokio::test(start_paused = true)]
async fn hello_tells_who_the_store_is() {
    let stores = Stores::new();
    let world = World::over(&stores).await;
    let first = world.mds.state.lock().hellos[0].clone();
    assert_eq!((first.cluster_id, first.ds_id), (CLUSTER, 3));
    assert_eq!(first.store.store_id, world.ds().store_id());
    assert_eq!(first.store.counter, 1);
    let again = World::over(&stores).await;
    let second = again.mds.state.lock().hellos[0].clone();
    assert_eq!(second.store.store_id, first.store.store_id);
    assert_eq!(second.store.counter, 2);
    assert_ne!(second.boot_nonce, first.boot_nonce);
    assert_ne!(again.ds().verifier(), world.ds().verifier());
}

#[tokio::test(start_paused = true)]
async fn heartbeats_keep_the_lease_and_tell_what_was_counted() {
    let world = World::new().await;
    let a = world.client(b"a").await;
    let fh = Grant::to(b"a").fh();
    a.write(&fh, 0, b"abc", StableHow::Unstable).await.unwrap();
    tokio::time::sleep(Duration::from_millis(u64::from(LEASE_MS) * 10)).await;
    a.write(&fh, 0, b"abc", StableHow::Unstable).await.unwrap();
    tokio::time::sleep(Duration::from_millis(u64::from(LEASE_MS))).await;
    let state = world.mds.state.lock();
    assert_eq!(state.hellos.len(), 1);
    let last = state.heartbeats.last().unwrap();
    assert_eq!(last.counters.client_written_bytes, 6);
    assert_eq!(last.capacity.objects_count, 1);
    assert!(last.capacity.free_bytes < last.capacity.total_bytes);
    assert_eq!(last.floors_fill_percent, 0);
}

/// `df` shows what an operation of the metadata server has done to the room.
#[tokio::test(start_paused = true)]
async fn a_call_that_moves_room_is_followed_by_a_heartbeat() {
    let world = World::new().await;
    tokio::time::sleep(Duration::from_millis(u64::from(LEASE_MS) / 3 + 50)).await;
    let beats = || world.mds.state.lock().heartbeats.len();
    let objects = || vec![].into();
    let before = beats();
    let asked = world
        .mds
        .call(&control::StatArgs { objects: objects() })
        .await;
    asked.unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(beats(), before, "STAT moves nothing");
    let items = || vec![].into();
    world
        .mds
        .call(&control::RemoveObjectsArgs { items: items() })
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(beats(), before + 1);
}

#[tokio::test(start_paused = true)]
async fn without_heartbeats_nothing_is_served_until_hello() {
    let world = World::new().await;
    let a = world.client(b"a").await;
    let mds = world.client(b"mds").await;
    let (fh, own) = (Grant::to(b"a").fh(), Grant::to(b"mds").fh());
    {
        let mut state = world.mds.state.lock();
        state.answers_heartbeats = false;
        state.refuse_hello = Some(Status::TryLater);
    }
    tokio::time::sleep(Duration::from_millis(u64::from(LEASE_MS) + 1)).await;
    assert_eq!(world.ds().status().lease, LeaseState::Away);
    let wrote = a.write(&fh, 0, b"abc", StableHow::Unstable).await;
    assert_eq!(wrote.unwrap_err(), NfsStatus::PnfsNoLayout);
    assert_eq!(
        a.read(&fh, 0, 1).await.unwrap_err(),
        NfsStatus::PnfsNoLayout
    );
    assert_eq!(a.commit(&fh).await.unwrap_err(), NfsStatus::PnfsNoLayout);
    assert_eq!(mds.read(&own, 0, 1).await.unwrap_err(), NfsStatus::Delay);
    assert_eq!(world.ds().status().refusals.not_serving, 4);
    {
        let mut state = world.mds.state.lock();
        state.answers_heartbeats = true;
        state.refuse_hello = None;
    }
    world.until_serving().await;
    a.write(&fh, 0, b"abc", StableHow::Unstable).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_was_suspended_for_longer_than_its_lease_serves_nothing() {
    let world = World::new().await;
    let a = world.client(b"a").await;
    let fh = Grant::to(b"a").fh();
    a.write(&fh, 0, b"abc", StableHow::Unstable).await.unwrap();
    let lease = Duration::from_millis(u64::from(LEASE_MS));
    let left_ms = |ds: &Ds| match ds.status().lease {
        LeaseState::Serving { left_ms } => left_ms,
        other => panic!("{other:?}"),
    };
    SUSPENDED.set(Duration::from_millis(left_ms(world.ds()) / 2));
    a.write(&fh, 0, b"abc", StableHow::Unstable).await.unwrap();
    world.mds.state.lock().refuse_hello = Some(Status::TryLater);
    SUSPENDED.set(SUSPENDED.get() + lease);
    // By any other clock the lease goes on, and heartbeats are answered.
    assert_eq!(world.ds().status().lease, LeaseState::Away);
    let wrote = a.write(&fh, 0, b"abc", StableHow::Unstable).await;
    assert_eq!(wrote.unwrap_err(), NfsStatus::PnfsNoLayout);
    let read = a.read(&fh, 0, 1).await;
    assert_eq!(read.unwrap_err(), NfsStatus::PnfsNoLayout);
    assert_eq!(a.commit(&fh).await.unwrap_err(), NfsStatus::PnfsNoLayout);
    world.mds.state.lock().refuse_hello = None;
    world.until_serving().await;
    a.write(&fh, 0, b"abc", StableHow::Unstable).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_broken_connection_is_no_end_of_the_lease() {
    let world = World::new().await;
    let a = world.client(b"a").await;
    let fh = Grant::to(b"a").fh();
    world.mds.state.lock().refuse_hello = Some(Status::TryLater);
    world.mds.conn().close(CloseReason::Asked);
    tokio::time::sleep(Duration::from_millis(100)).await;
    a.write(&fh, 0, b"abc", StableHow::Unstable).await.unwrap();
    // What needs the MDS must wait for it, though.
    let wrote = a.write(&fh, 0, b"abc", StableHow::FileSync).await;
    assert_eq!(wrote.unwrap_err(), NfsStatus::Delay);
    assert_eq!(a.read(&fh, 0, 9).await.unwrap_err(), NfsStatus::Delay);
    world.mds.state.lock().refuse_hello = None;
    tokio::time::sleep(Duration::from_secs(2)).await;
    a.write(&fh, 0, b"abc", StableHow::FileSync).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn missed_floors_come_before_io() {
    let stores = Stores::new();
    let mds = Mds::new();
    mds.state.lock().floors_pending = true;
    let world = World::unready(stores.index.clone(), stores.objects.clone(), mds).await;
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!(world.ds().status().lease, LeaseState::CatchingUp);
    let a = world.client(b"a").await;
    let fh = Grant::to(b"a").fh();
    let page = |page, last, file_id| FloorsArgs {
        page,
        last,
        floors: vec![Floor::File {
            file_id,
            epoch: Epoch::new(BOOT, 2),
            through_key: 2,
        }]
        .into(),
    };
    world.mds.call(&page(0, false, FILE)).await.unwrap();
    let gap = world.mds.call(&page(2, true, FILE)).await;
    assert_eq!(gap.unwrap_err(), Status::Invalid);
    let early = a.write(&fh, 0, b"abc", StableHow::Unstable).await;
    assert_eq!(early.unwrap_err(), NfsStatus::PnfsNoLayout);
    // Heartbeats renew the lease meanwhile, and open nothing.
    tokio::time::sleep(Duration::from_millis(u64::from(LEASE_MS) * 2)).await;
    assert_eq!(world.ds().status().lease, LeaseState::CatchingUp);
    world.mds.call(&page(1, true, FILE + 1)).await.unwrap();
    let fenced = a.write(&fh, 0, b"abc", StableHow::Unstable).await;
    assert_eq!(fenced.unwrap_err(), NfsStatus::PnfsNoLayout);
    assert_eq!(world.ds().status().refusals.fenced, 1);
    let new = Grant::to(b"a").epoch(2).fh();
    a.write(&new, 0, b"abc", StableHow::Unstable).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_cluster_floor_of_a_heartbeat_fences() {
    let world = World::new().await;
    let a = world.client(b"a").await;
    let fh = Grant::to(b"a").fh();
    a.write(&fh, 0, b"abc", StableHow::Unstable).await.unwrap();
    world.mds.state.lock().cluster_floor = Epoch::boot_floor(BOOT + 1);
    tokio::time::sleep(Duration::from_millis(u64::from(LEASE_MS))).await;
    assert_eq!(
        a.read(&fh, 0, 1).await.unwrap_err(),
        NfsStatus::PnfsNoLayout
    );
}

#[tokio::test(start_paused = true)]
async fn an_expelled_server_stops_for_good() {
    let world = World::new().await;
    let a = world.client(b"a").await;
    let reason = Text::cut("disk is failing");
    world.mds.call(&ExpelArgs { reason }).await.unwrap();
    let read = a.read(&Grant::to(b"a").fh(), 0, 1).await;
    assert_eq!(read.unwrap_err(), NfsStatus::PnfsNoLayout);
    let end = world.ended().await;
    let reason = "disk is failing".to_owned();
    assert_eq!(end, LinkEnd::Expelled { reason });
}

#[tokio::test(start_paused = true)]
async fn shutdown_is_answered_and_handed_on() {
    let world = World::new().await;
    world
        .mds
        .call(&ShutdownArgs { drain_ms: 77 })
        .await
        .unwrap();
    assert_eq!(world.ended().await, LinkEnd::Shutdown { drain_ms: 77 });
}

#[tokio::test(start_paused = true)]
async fn a_final_refusal_ends_the_link() {
    let mds = Mds::new();
    mds.state.lock().refuse_hello = Some(Status::StoreRolledBack);
    let stores = Stores::new();
    let world = World::unready(stores.index.clone(), stores.objects.clone(), mds).await;
    let LinkEnd::Refused(refusal) = world.ended().await else {
        panic!("not refused");
    };
    assert_eq!(refusal.status, Status::StoreRolledBack);
}

#[tokio::test(start_paused = true)]
async fn calls_on_an_older_connection_are_refused() {
    let world = World::new().await;
    let old = world.mds.conn();
    // A second HELLO on another connection, as after a network that lost the end of the first.
    let newer = world.network.connector("ds", world.context.clone());
    let conn = transport::Connector::connect(
        &newer,
        &Address::Memory("mds".into()),
        transport::NoService::shared(),
    )
    .await
    .unwrap();
    let until = world.ds().gate.lease_now() + Duration::from_secs(1);
    assert!(
        world
            .ds()
            .gate
            .hello(&conn, ClientTag::of(CLUSTER, b"mds"), until)
    );
    let args = control::FenceArgs {
        floors: Vec::new().into(),
    };
    let error = link::call(&old, &args, Duration::from_secs(60))
        .await
        .unwrap_err();
    let LinkError::Refused(refusal) = error else {
        panic!("{error}");
    };
    assert_eq!(refusal.status, Status::NotReady);
}

#[tokio::test(start_paused = true)]
async fn a_late_heartbeat_does_not_revive_a_lease() {
    let world = World::new().await;
    let conn = world.ds().gate.conn().unwrap();
    let clock = crate::virtual_lease_clock();
    let gate = crate::gate::Gate::new(layout::Floors::new(), None, clock.clone());
    let after = |ms| clock() + Duration::from_millis(ms);
    assert!(gate.hello(&conn, ClientTag::of(CLUSTER, b"mds"), after(100)));
    gate.serve(gate.tenure());
    tokio::time::sleep(Duration::from_millis(90)).await;
    assert!(gate.renew(&conn, after(100)));
    assert_eq!(gate.lease_state(), LeaseState::Serving { left_ms: 100 });
    tokio::time::sleep(Duration::from_millis(101)).await;
    assert!(!gate.renew(&conn, after(100)));
    assert_eq!(gate.lease_state(), LeaseState::Away);
    let other = world.mds.conn();
    assert!(gate.hello(&conn, ClientTag::of(CLUSTER, b"mds"), after(100)));
    assert!(!gate.renew(&other, after(500)), "another connection's");
}

#[tokio::test(start_paused = true)]
async fn floors_that_were_told_before_another_hello_make_nobody_serve() {
    let world = World::new().await;
    let conn = world.ds().gate.conn().unwrap();
    let clock = crate::virtual_lease_clock();
    let gate = crate::gate::Gate::new(layout::Floors::new(), None, clock.clone());
    let hello = || {
        let until = clock() + Duration::from_secs(1);
        assert!(gate.hello(&conn, ClientTag::of(CLUSTER, b"mds"), until));
        gate.tenure()
    };
    let (earlier, now) = (hello(), hello());
    gate.took_page(earlier, 0);
    assert!(gate.expects_page(0), "it is told all of it again");
    gate.serve(earlier);
    assert_eq!(gate.lease_state(), LeaseState::CatchingUp);
    gate.serve(now);
    assert!(matches!(gate.lease_state(), LeaseState::Serving { .. }));
}
