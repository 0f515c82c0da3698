//! What a handle and a stateid must be (R4, R5, R6, R10, R13).

use super::*;
use control::{FenceArgs, KeysArgs};
use nfs4::ops::{
    FreeStateidArgs, FreeStateidRes, GetAttrArgs, GetAttrRes, PutRootFhArgs, PutRootFhRes,
    RemoveArgs, RemoveRes, SecInfoNoNameArgs, SecInfoNoNameRes, SecInfoStyle, TestStateidArgs,
    TestStateidRes,
};
use nfs4::{Bitmap, attr};

#[tokio::test(start_paused = true)]
async fn every_altered_byte_makes_a_forgery() {
    let world = World::new().await;
    let a = world.client(b"a").await;
    let fh = Grant::to(b"a").fh();
    a.write(&fh, 0, b"abc", StableHow::Unstable).await.unwrap();
    for at in 0..fh.len() {
        let mut forged = fh.clone();
        forged[at] ^= 1;
        let read = a.read(&forged, 0, 1).await;
        assert_eq!(read.unwrap_err(), NfsStatus::BadHandle, "byte {at}");
    }
    for len in [0, 1, 63] {
        let read = a.read(&fh[..len], 0, 1).await;
        assert_eq!(read.unwrap_err(), NfsStatus::BadHandle);
    }
    assert_eq!(world.ds().status().refusals.forged, 67);
    let mut other = Grant::to(b"a");
    other.handle.cluster_id += 1;
    assert_eq!(
        a.read(&other.fh(), 0, 1).await.unwrap_err(),
        NfsStatus::BadHandle
    );
    let unknown_key = Grant {
        key_id: 3,
        ..Grant::to(b"a")
    };
    assert_eq!(
        a.read(&unknown_key.fh(), 0, 1).await.unwrap_err(),
        NfsStatus::BadHandle
    );
    // The good one is still good.
    assert_eq!(a.read(&fh, 0, 3).await.unwrap().1, b"abc");
}

#[tokio::test(start_paused = true)]
async fn a_handle_is_good_for_its_client_only() {
    let world = World::new().await;
    let (a, b) = (world.client(b"a").await, world.client(b"b").await);
    let fh = Grant::to(b"a").fh();
    // Before and after the owner's own use, which fills the table of verified handles.
    for n in 1..=3 {
        let wrote = b.write(&fh, 0, b"evil", StableHow::Unstable).await;
        assert_eq!(wrote.unwrap_err(), NfsStatus::PnfsNoLayout);
        assert_eq!(world.ds().status().refusals.of_others, n);
        a.write(&fh, 0, b"good", StableHow::Unstable).await.unwrap();
    }
    assert_eq!(a.read(&fh, 0, 4).await.unwrap().1, b"good");
}

#[tokio::test(start_paused = true)]
async fn a_handle_for_reading_does_not_write() {
    let world = World::new().await;
    let a = world.client(b"a").await;
    let mut grant = Grant::to(b"a");
    grant.handle.rights = Rights::Read;
    let fh = grant.fh();
    world.mds.state.lock().sizes.insert(FILE, 1);
    assert_eq!(a.read(&fh, 0, 1).await.unwrap(), (true, vec![0]));
    let wrote = a.write(&fh, 0, b"x", StableHow::Unstable).await;
    assert_eq!(wrote.unwrap_err(), NfsStatus::Access);
    assert_eq!(a.commit(&fh).await.unwrap_err(), NfsStatus::Access);
    assert_eq!(world.ds().status().refusals.rights, 2);
    assert_eq!(world.ds().status().objects_count, 0);
}

#[tokio::test(start_paused = true)]
async fn special_and_layout_stateids_are_refused() {
    let world = World::new().await;
    let a = world.client(b"a").await;
    let fh = Grant::to(b"a").fh();
    world.mds.state.lock().sizes.insert(FILE, 1);
    let mut layout = OPEN;
    layout.other[4] = 3;
    for bad in [
        Stateid::ANONYMOUS,
        Stateid::READ_BYPASS,
        Stateid::INVALID,
        layout,
    ] {
        let read = a.read_as(&fh, bad, 0, 1).await;
        assert_eq!(read.unwrap_err(), NfsStatus::BadStateid, "{bad:?}");
    }
    for kind in [1, 2, 4] {
        let mut good = OPEN;
        good.other[4] = kind;
        a.read_as(&fh, good, 0, 1).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_fence_is_for_a_client_a_file_or_all() {
    let world = World::new().await;
    let (a, b) = (world.client(b"a").await, world.client(b"b").await);
    let low = |owner: &[u8]| Grant::to(owner).epoch(1).fh();
    let high = |owner: &[u8]| Grant::to(owner).epoch(9).fh();
    for (client, owner) in [(&a, b"a"), (&b, b"b")] {
        client
            .write(&low(owner), 0, b"x", StableHow::Unstable)
            .await
            .unwrap();
    }
    world
        .mds
        .fence(Floor::Client {
            file_id: FILE,
            client: ClientTag::of(CLUSTER, b"a"),
            epoch: Epoch::new(BOOT, 2),
            through_key: 2,
        })
        .await;
    assert_eq!(
        a.read(&low(b"a"), 0, 1).await.unwrap_err(),
        NfsStatus::PnfsNoLayout
    );
    assert_eq!(
        a.commit(&low(b"a")).await.unwrap_err(),
        NfsStatus::PnfsNoLayout
    );
    a.read(&high(b"a"), 0, 1).await.unwrap();
    b.read(&low(b"b"), 0, 1).await.unwrap();
    world
        .mds
        .fence(Floor::File {
            file_id: FILE,
            epoch: Epoch::new(BOOT, 2),
            through_key: 2,
        })
        .await;
    assert_eq!(
        b.read(&low(b"b"), 0, 1).await.unwrap_err(),
        NfsStatus::PnfsNoLayout
    );
    b.read(&high(b"b"), 0, 1).await.unwrap();
    let epoch = Epoch::boot_floor(BOOT + 1);
    world.mds.fence(Floor::Cluster { epoch }).await;
    assert_eq!(
        b.read(&high(b"b"), 0, 1).await.unwrap_err(),
        NfsStatus::PnfsNoLayout
    );
    assert_eq!(world.ds().status().refusals.fenced, 4);
    let mut new = Grant::to(b"b");
    new.handle.epoch = Epoch::new(BOOT + 1, 1);
    b.read(&new.fh(), 0, 1).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn retired_keys_take_their_handles_and_floors_with_them() {
    let world = World::new().await;
    let a = world.client(b"a").await;
    let old = Grant {
        key_id: 1,
        ..Grant::to(b"a")
    };
    a.write(&old.fh(), 0, b"x", StableHow::Unstable)
        .await
        .unwrap();
    world
        .mds
        .fence(Floor::File {
            file_id: FILE,
            epoch: Epoch::new(BOOT, 2),
            through_key: 1,
        })
        .await;
    let removed = Floor::Tombstone {
        file_id: FILE + 1,
        generation: 2,
        through_key: 1,
    };
    world.mds.fence(removed).await;
    assert_eq!(world.ds().status().floors_count, 2);
    let mut ring = ring(1..=3);
    ring.retire_through(1).unwrap();
    let keys = KeySet::of(&ring);
    world.mds.call(&KeysArgs { keys }).await.unwrap();
    assert_eq!(world.ds().status().floors_count, 0);
    world.mds.fence(removed).await;
    assert_eq!(world.ds().status().floors_count, 0, "it comes too late");
    // Its floor is gone, and so is its key: not good, yet not forged.
    assert_eq!(
        a.read(&old.fh(), 0, 1).await.unwrap_err(),
        NfsStatus::PnfsNoLayout
    );
    let new = Grant {
        key_id: 3,
        ..Grant::to(b"a")
    };
    assert_eq!(a.read(&new.fh(), 0, 1).await.unwrap().1, b"x");
    let refusals = world.ds().status().refusals;
    assert_eq!((refusals.forged, refusals.fenced), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_next_key_is_good_beside_the_active_one() {
    let world = World::new().await;
    let a = world.client(b"a").await;
    let grant = |key_id| Grant {
        key_id,
        ..Grant::to(b"a")
    };
    a.write(&grant(2).fh(), 0, b"x", StableHow::Unstable)
        .await
        .unwrap();
    let early = a.read(&grant(3).fh(), 0, 1).await.unwrap_err();
    assert_eq!(early, NfsStatus::BadHandle);
    let mut ring = ring(1..=2);
    ring.insert_next(key(3)).unwrap();
    let keys = KeySet::of(&ring);
    world.mds.call(&KeysArgs { keys }).await.unwrap();
    for key_id in 1..=3 {
        assert_eq!(a.read(&grant(key_id).fh(), 0, 1).await.unwrap().1, b"x");
    }
}

#[tokio::test(start_paused = true)]
async fn keys_that_retired_while_it_was_down_take_its_stored_floors_at_hello() {
    let stores = Stores::new();
    let world = World::over(&stores).await;
    for through_key in 1..=2 {
        world
            .mds
            .fence(Floor::File {
                file_id: u64::from(through_key),
                epoch: Epoch::new(BOOT, 2),
                through_key,
            })
            .await;
    }
    drop(world);
    let mds = Mds::new();
    mds.state.lock().keys = ring(1..=3);
    mds.state.lock().keys.retire_through(1).unwrap();
    let world = World::with(stores.index.clone(), stores.objects.clone(), mds).await;
    assert_eq!(world.ds().status().floors_count, 1, "one needs a live key");
    drop(world);
    let world = World::over(&stores).await;
    assert_eq!(world.ds().status().floors_count, 1, "durably");
}

#[tokio::test(start_paused = true)]
async fn a_removed_file_stays_removed() {
    let stores = Stores::new();
    let world = World::over(&stores).await;
    let a = world.client(b"a").await;
    let fh = Grant::to(b"a").fh();
    a.write(&fh, 0, b"abc", StableHow::DataSync).await.unwrap();
    let remove = control::RemoveObjectsArgs {
        items: vec![control::RemoveItem {
            places: 1,
            file_id: FILE,
            generation: 2,
            floor: Epoch::new(BOOT, 2),
            through_key: 2,
        }]
        .into(),
    };
    let statuses = world.mds.call(&remove).await.unwrap();
    assert_eq!(statuses.0, [Status::Ok]);
    // Repeated, as after a lost answer.
    assert_eq!(world.mds.call(&remove).await.unwrap().0, [Status::Ok]);
    for epoch in [1, 9] {
        let fh = Grant::to(b"a").epoch(epoch).fh();
        let late = a.write(&fh, 0, b"late", StableHow::FileSync).await;
        assert_eq!(late.unwrap_err(), NfsStatus::Stale);
        assert_eq!(a.read(&fh, 0, 1).await.unwrap_err(), NfsStatus::Stale);
    }
    let mut objects = 0;
    let mut visit = |_, _| {
        objects += 1;
        true
    };
    stores.objects.list(&mut visit).unwrap();
    assert_eq!(objects, 0);
    let status = world.ds().status();
    assert_eq!((status.objects_count, status.refusals.removed), (0, 4));
}

#[tokio::test(start_paused = true)]
async fn a_fence_waits_for_the_io_that_was_let_in_and_for_no_later_one() {
    let world = World::new().await;
    let owner: Arc<[u8]> = Arc::from(&b"a"[..]);
    let gate = &world.ds().gate;
    let old = Grant::to(b"a").fh();
    let running = gate.admit(&old, &owner, crate::gate::Want::Write).unwrap();
    let floors: control::FenceArgs = FenceArgs {
        floors: vec![Floor::File {
            file_id: FILE,
            epoch: Epoch::new(BOOT, 2),
            through_key: 2,
        }]
        .into(),
    };
    let fence = world.mds.call(&floors);
    tokio::pin!(fence);
    let wait = Duration::from_secs(1);
    assert!(tokio::time::timeout(wait, &mut fence).await.is_err());
    // A second one, as after a reconnection, must not overtake.
    let again = world.mds.call(&floors);
    tokio::pin!(again);
    assert!(tokio::time::timeout(wait, &mut again).await.is_err());
    let new = Grant::to(b"a").epoch(2).fh();
    let later = gate.admit(&new, &owner, crate::gate::Want::Write).unwrap();
    let refused = gate.admit(&old, &owner, crate::gate::Want::Read);
    assert_eq!(refused.err(), Some(crate::gate::Refused::Fenced));
    drop(running);
    fence.await.unwrap();
    again.await.unwrap();
    drop(later);
}

#[tokio::test(start_paused = true)]
async fn a_truncation_waits_for_a_file_sync_and_its_report() {
    let world = World::new().await;
    let a = world.client(b"a").await;
    let fh = Grant::to(b"a").fh();
    let hold = world.mds.wrote_gate.acquire().await.unwrap();
    let write = a.write(&fh, 0, b"abcdef", StableHow::FileSync);
    tokio::pin!(write);
    let wait = Duration::from_secs(1);
    assert!(tokio::time::timeout(wait, &mut write).await.is_err());
    let cut = control::SetSizeArgs {
        items: vec![control::SetSizeItem {
            object: control::ObjectRef {
                group: 0,
                file_id: FILE,
                generation: 1,
                place: 0,
            },
            size_bytes: 2,
            floor: Epoch::new(BOOT, 2),
            through_key: 2,
        }]
        .into(),
    };
    let cut = world.mds.call(&cut);
    tokio::pin!(cut);
    let early = tokio::time::timeout(wait, &mut cut).await;
    assert!(early.is_err(), "a report could come behind the truncation");
    drop(hold);
    write.await.unwrap();
    assert_eq!(cut.await.unwrap().0, [Status::Ok]);
}

#[tokio::test(start_paused = true)]
async fn the_small_operations() {
    let world = World::new().await;
    let a = world.client(b"a").await;
    let fh = Grant::to(b"a").fh();
    a.write(&fh, 0, b"abc", StableHow::Unstable).await.unwrap();
    let wanted = Bitmap::of(&[attr::SIZE, attr::TYPE, attr::LEASE_TIME, attr::MODE]);
    let build = |b: &mut nfs4::CompoundBuilder| {
        b.push(&PutFhArgs {
            object: Opaque(&fh),
        })
        .push(&GetAttrArgs {
            attr_request: wanted,
        })
        .push(&TestStateidArgs {
            stateids: vec![OPEN].into(),
        })
        .push(&SecInfoNoNameArgs {
            style: SecInfoStyle::CurrentFh,
        })
        .push(&FreeStateidArgs { stateid: OPEN });
        Vec::new()
    };
    let outcome = a.session.compound(&a.caller, &build).await.unwrap();
    let mut reply = outcome.results().unwrap();
    reply.take::<PutFhRes>().unwrap();
    let attrs = reply
        .take::<GetAttrRes<'_>>()
        .unwrap()
        .attributes
        .attrs()
        .unwrap();
    assert_eq!(
        (attrs.size, attrs.lease_time_s, attrs.mode),
        (Some(3), Some(90), None)
    );
    let tested = reply.take::<TestStateidRes>().unwrap();
    assert_eq!(tested.statuses.0, [NfsStatus::BadStateid]);
    assert_eq!(reply.take::<SecInfoNoNameRes>().unwrap().flavors.0.len(), 2);
    let freed = reply.take::<FreeStateidRes>().map_err(status);
    assert_eq!(freed.unwrap_err(), NfsStatus::BadStateid);
    let build = |b: &mut nfs4::CompoundBuilder| {
        b.push(&PutRootFhArgs {});
        Vec::new()
    };
    let outcome = a.session.compound(&a.caller, &build).await.unwrap();
    let root = outcome
        .results()
        .unwrap()
        .take::<PutRootFhRes>()
        .map_err(status);
    assert_eq!(root.unwrap_err(), NfsStatus::NotSupp);
    let build = |b: &mut nfs4::CompoundBuilder| {
        b.push(&PutFhArgs {
            object: Opaque(&fh),
        })
        .push(&RemoveArgs {
            target: Opaque(b"x"),
        });
        Vec::new()
    };
    let outcome = a.session.compound(&a.caller, &build).await.unwrap();
    let mut reply = outcome.results().unwrap();
    reply.take::<PutFhRes>().unwrap();
    let removed = reply.take::<RemoveRes>().map_err(status);
    assert_eq!(removed.unwrap_err(), NfsStatus::NotSupp);
}
