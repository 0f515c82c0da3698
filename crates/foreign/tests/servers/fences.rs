//! Fences: old ids are refused once a fence has settled, and nothing brings them back.

use crate::fake::Fault;
use crate::world::{World, bytes};
use bytes::Bytes;
use nfs3::{Nfs3Status, StableHow};
use nfs3_client::{CallerAuth, Nfs3Client, Nfs3Error};
use nfs4::NfsStatus;
use ropewalk_foreign::*;
use std::time::Duration;

const WAIT_MS: u64 = 3_000;

fn caller(uid: u32, gid: u32) -> CallerAuth {
    CallerAuth::auth_sys(&rpc::AuthSys {
        stamp: 0,
        machine: b"client".to_vec(),
        uid,
        gid,
        gids: Vec::new(),
    })
}

async fn client_writes(
    nfs: &Nfs3Client,
    ids: Ids,
    object: &PlacedObject,
) -> Result<u32, Nfs3Error> {
    let data = Bytes::from_static(b"client");
    let who = caller(ids.uid, ids.gid);
    let wrote = nfs.write(&who, &object.fh, 0, StableHow::FileSync, &data);
    wrote.await.map(|ok| ok.count)
}

fn is_refused<T: std::fmt::Debug>(result: Result<T, Nfs3Error>) -> bool {
    matches!(result, Err(Nfs3Error::Status(Nfs3Status::Access)))
}

fn fence(world: &World, at: &FileAt, epoch: u64) {
    world
        .foreign
        .note_fence(at.group, at.number, at.generation, epoch, at.bad_mirrors);
    world.foreign.deliver_fences();
}

#[tokio::test(start_paused = true)]
async fn a_client_with_old_ids_is_refused_and_one_with_new_ids_is_not() {
    let world = World::new(2).await;
    let at = world.file(1, 1, 2);
    let handles = world.foreign.handles(&at).await.unwrap();
    let nfs = [0, 1].map(|mirror| world.client(world.index(&at, mirror, 0)));
    for (mirror, nfs) in nfs.iter().enumerate() {
        let object = &handles[mirror][0];
        client_writes(nfs, at.ids(), object).await.unwrap();
        let reader = caller(READER_UID, at.ids().gid);
        nfs.read(&reader, &object.fh, 0, 10).await.unwrap();
        let wrote = client_writes(
            nfs,
            Ids {
                uid: READER_UID,
                ..at.ids()
            },
            object,
        );
        assert!(is_refused(wrote.await), "readers do not write");
    }
    let newer = FileAt {
        epoch: at.epoch + 1,
        ..at
    };
    fence(&world, &at, newer.epoch);
    assert!(world.foreign.is_fencing(at.group, 1));
    assert!(world.foreign.fences_settled(at.group, 1, WAIT_MS).await);
    assert!(!world.foreign.is_fencing(at.group, 1));
    assert_eq!(world.foreign.fences_waiting(), 0);
    for (mirror, nfs) in nfs.iter().enumerate() {
        let object = &handles[mirror][0];
        assert!(is_refused(client_writes(nfs, at.ids(), object).await));
        let reader = caller(READER_UID, at.ids().gid);
        assert!(is_refused(nfs.read(&reader, &object.fh, 0, 10).await));
        client_writes(nfs, newer.ids(), object).await.unwrap();
    }
    // A grant that began before the fence does not undo it, and does not blame a mirror.
    let late = world.foreign.handles(&at).await.unwrap_err();
    assert_eq!((late.status, late.failed_mirrors), (NfsStatus::Delay, 0));
    assert_eq!(world.foreign.handles(&newer).await.unwrap(), handles);
}

#[tokio::test(start_paused = true)]
async fn a_fence_waits_for_a_server_that_is_down_and_settles_when_it_is_back() {
    let world = World::new(2).await;
    let at = world.file(1, 1, 2);
    world.foreign.handles(&at).await.unwrap();
    let dead = world.index(&at, 1, 0);
    world.kill(dead);
    fence(&world, &at, at.epoch + 1);
    assert!(!world.foreign.fences_settled(at.group, 1, WAIT_MS).await);
    assert_eq!(world.foreign.fences_waiting(), 1);
    // While it waits, older ids come to no server.
    let late = world.foreign.handles(&at).await.unwrap_err();
    assert_eq!(late.status, NfsStatus::Delay);
    let other = world.fake(&at, 0, 0).files();
    let ids = ids_of(1, 1, at.epoch + 1);
    assert_eq!(other.values().next().unwrap().owner.0, ids.uid);
    world.start(dead);
    world.pass(4).await;
    assert!(!world.foreign.is_fencing(at.group, 1));
    let files = world.fakes[dead].files();
    assert_eq!(files.values().next().unwrap().owner.0, ids.uid);
}

#[tokio::test(start_paused = true)]
async fn a_mirror_that_turns_bad_or_a_server_that_is_removed_is_not_waited_for() {
    for is_bad in [true, false] {
        let world = World::new(2).await;
        let mut at = world.file(1, 1, 2);
        world.foreign.handles(&at).await.unwrap();
        let dead = world.index(&at, 0, 0);
        world.kill(dead);
        fence(&world, &at, at.epoch + 1);
        assert!(!world.foreign.fences_settled(at.group, 1, WAIT_MS).await);
        if is_bad {
            at.bad_mirrors = 1;
            fence(&world, &at, at.epoch + 1);
        } else {
            let id = u32::try_from(dead).unwrap() + 1;
            world.foreign.remove_server(id, true).await.unwrap();
        }
        assert!(world.foreign.fences_settled(at.group, 1, WAIT_MS).await);
        assert_eq!(world.foreign.fences_waiting(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_made_after_its_fence_has_no_older_ids() {
    let world = World::new(1).await;
    let at = world.file(1, 1, 1);
    fence(&world, &at, at.epoch + 5);
    assert!(world.foreign.fences_settled(at.group, 1, WAIT_MS).await);
    let late = world.foreign.handles(&at).await.unwrap_err();
    assert_eq!((late.status, late.failed_mirrors), (NfsStatus::Delay, 0));
    assert!(world.fakes[0].files().is_empty());
    let data = bytes(5);
    let wrote = world
        .foreign
        .write(&at, 0, nfs4::StableHow::FileSync, &data);
    wrote.await.unwrap();
    let files = world.fakes[0].files();
    let owner = files.values().next().unwrap().owner.0;
    assert_eq!(owner, ids_of(1, 1, at.epoch + 5).uid);
}

#[tokio::test(start_paused = true)]
async fn a_slow_grant_and_a_fence_at_the_same_time_end_with_the_ids_of_the_fence() {
    let world = World::new(1).await;
    let first = world.file(1, 1, 1);
    world.foreign.make(&first).await.unwrap();
    let at = FileAt {
        epoch: first.epoch + 1,
        ..first
    };
    let slow = |ms| world.fakes[0].set_fault(Some(Fault::Slow(Duration::from_millis(ms))));
    let pause = |ms| tokio::time::sleep(Duration::from_millis(ms));
    // Its LOOKUP is answered after 100 ms, its SETATTR half a second later. Those of the fence would be done by then.
    slow(100);
    let foreign = world.foreign.clone();
    let granting = tokio::spawn(async move { foreign.make(&at).await });
    pause(50).await;
    slow(500);
    pause(100).await;
    world.fakes[0].set_fault(None);
    fence(&world, &at, at.epoch + 1);
    pause(100).await;
    assert!(!granting.is_finished(), "it is under way");
    granting.await.unwrap().unwrap();
    assert!(world.foreign.fences_settled(at.group, 1, WAIT_MS).await);
    let files = world.fakes[0].files();
    let owner = files.values().next().unwrap().owner.0;
    assert_eq!(owner, ids_of(1, 1, at.epoch + 1).uid);
}

#[tokio::test(start_paused = true)]
async fn a_fence_that_a_server_refuses_stays_and_does_not_hold_up_others() {
    let world = World::new(2).await;
    let (at, other) = (world.file(1, 1, 1), world.file(2, 1, 1));
    world.foreign.handles(&at).await.unwrap();
    world.foreign.handles(&other).await.unwrap();
    world.fake(&at, 0, 0).set_fault(Some(Fault::FailsSetAttr));
    fence(&world, &at, at.epoch + 1);
    fence(&world, &other, at.epoch + 1);
    assert!(world.foreign.fences_settled(other.group, 2, WAIT_MS).await);
    world.pass(3).await;
    assert!(world.foreign.is_fencing(at.group, 1));
    let late = world.foreign.handles(&at).await.unwrap_err();
    assert_eq!((late.status, late.failed_mirrors), (NfsStatus::Delay, 0));
    world.fake(&at, 0, 0).set_fault(None);
    world.pass(2).await;
    assert!(!world.foreign.is_fencing(at.group, 1));
}

#[tokio::test(start_paused = true)]
async fn beyond_the_bound_every_file_of_the_group_counts_as_being_fenced() {
    let world = World::new(1).await;
    let at = world.file(1, 1, 1);
    world.kill(0);
    world.pass(3).await;
    let full = FENCES_MAX as u64;
    for number in 0..full {
        world.foreign.note_fence(at.group, number, 1, 9, 0);
    }
    assert!(!world.foreign.is_fencing(at.group, full + 7));
    world.foreign.note_fence(at.group, full, 1, 9, 0);
    assert_eq!(world.foreign.fences_waiting(), FENCES_MAX);
    assert!(world.foreign.is_fencing(at.group, full + 7));
}
