//! Bytes of files: stripes, mirrors, holes, cuts, verifiers.

use crate::fake::{Fake, Fault};
use crate::world::{UNIT, World, bytes};
use bytes::Bytes;
use control::Status;
use nfs3::Proc;
use nfs4::{NfsStatus, StableHow};
use ropewalk_foreign::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

const LEN: usize = 5 * UNIT as usize + 100;

async fn wrote(world: &World, at: &FileAt, offset: u64, data: &Bytes) -> FarWritten {
    let written = world
        .foreign
        .write(at, offset, StableHow::Unstable, data)
        .await;
    let written = written.unwrap();
    assert_eq!(written.committed, StableHow::Unstable);
    written
}

#[tokio::test(start_paused = true)]
async fn bytes_come_back_from_all_stripes_and_each_mirror_has_them() {
    let world = World::new(4).await;
    let mut at = world.file(0x1ff, 2, 2);
    let data = bytes(LEN);
    let written = wrote(&world, &at, 1000, &data).await;
    assert_eq!((written.failed_mirrors, written.verifiers.len()), (0, 4));
    for bad_mirrors in [0, 1, 2] {
        at.bad_mirrors = bad_mirrors;
        let read = world.foreign.read(&at, 1000, LEN as u64).await.unwrap();
        assert_eq!(read, data, "{bad_mirrors}");
        let part = world.foreign.read(&at, 5000, 3).await.unwrap();
        assert_eq!(part, data.slice(4000..4003));
    }
    let objects = world.fake(&at, 0, 1).files();
    let (name, object) = objects.first_key_value().unwrap();
    assert_eq!(name, "00000000000001ff.00000001");
    let ids = at.ids();
    assert_eq!(object.owner, (ids.uid, ids.gid, 0o640));
    // Sparse: unit 1 lies at its offset in the file, and unit 0 is a hole.
    assert!(object.data[..UNIT as usize].iter().all(|byte| *byte == 0));
    assert_eq!(object.data[UNIT as usize], data[UNIT as usize - 1000]);
}

#[tokio::test(start_paused = true)]
async fn objects_of_a_new_file_take_one_call_at_each_server_and_all_at_once() {
    let (world, pause) = (World::new(16).await, Duration::from_millis(100));
    let at = world.file(0x7700, 16, 1);
    let before = |fake: &Arc<Fake>| (fake.calls(Proc::Lookup), fake.calls(Proc::Create));
    let calls: Vec<_> = world.fakes.iter().map(before).collect();
    for fake in &world.fakes {
        fake.set_fault(Some(Fault::Slow(pause)));
    }
    let start = Instant::now();
    world.foreign.make(&at).await.unwrap();
    let elapsed = start.elapsed();
    assert!(pause <= elapsed && elapsed < 2 * pause, "{elapsed:?}");
    for (fake, (lookups, creates)) in world.fakes.iter().zip(calls) {
        assert_eq!(before(fake), (lookups, creates + 1));
    }
    // What a layout names is known then.
    let start = Instant::now();
    let handles = world.foreign.handles(&at).await.unwrap();
    assert_eq!((handles.len(), handles[0].len()), (1, 16));
    assert_eq!(start.elapsed(), Duration::ZERO);
    // One that is there already, with ids of another epoch, gets those of the file.
    let newer = FileAt {
        epoch: at.epoch + 1,
        ..at
    };
    world.foreign.make(&newer).await.unwrap();
    let ids = newer.ids();
    for fake in &world.fakes {
        let owners: Vec<_> = fake.files().values().map(|seen| seen.owner).collect();
        assert_eq!(owners, [(ids.uid, ids.gid, 0o640)]);
    }
}

#[tokio::test(start_paused = true)]
async fn holes_are_zeros_and_no_object_is_made_to_read_or_to_look() {
    let world = World::new(2).await;
    let at = world.file(1, 2, 1);
    let nothing = world
        .foreign
        .read(&at, 7, 3 * u64::from(UNIT))
        .await
        .unwrap();
    assert_eq!(nothing, Bytes::from(vec![0; 3 * UNIT as usize]));
    let stat = world.foreign.stat(&at).await.unwrap();
    assert!(stat.iter().all(|item| item.status == Status::NotFound));
    world.foreign.cut(&at, 100).await.unwrap();
    world.foreign.commit(&at).await.unwrap();
    assert!(world.fakes.iter().all(|fake| fake.files().is_empty()));
    wrote(&world, &at, u64::from(UNIT) + 10, &bytes(5)).await;
    let read = world.foreign.read(&at, u64::from(UNIT), 20).await.unwrap();
    let expected = [vec![0; 10], bytes(5).to_vec(), vec![0; 5]].concat();
    assert_eq!(read, expected);
    let beyond = world.foreign.read(&at, u64::MAX - 3, 10).await.unwrap();
    assert_eq!(beyond, vec![0; 10]);
    let beyond = world.foreign.read(&at, u64::MAX, 10).await.unwrap();
    assert_eq!(beyond, vec![0; 10], "no stripe has any of it");
    let much = world.foreign.read(&at, 0, READ_BYTES_MAX + 1).await;
    assert_eq!(much.unwrap_err().status, NfsStatus::Inval);
}

#[tokio::test(start_paused = true)]
async fn a_file_of_one_stripe_is_cut_by_the_limits_of_its_server_alone() {
    let world = World::new(1).await;
    let at = world.file(1, 1, 1);
    let data = bytes(3 * 8192);
    wrote(&world, &at, 1, &data).await;
    let read = world.foreign.read(&at, 1, 3 * 8192).await.unwrap();
    assert_eq!(read, data);
    let fake = &world.fakes[0];
    assert_eq!(fake.largest(), (8192, 8192));
    assert_eq!((fake.calls(Proc::Write), fake.calls(Proc::Read)), (3, 3));
    world.foreign.read(&at, 1, 8192).await.unwrap();
    assert_eq!(fake.calls(Proc::Read), 4);
    assert_eq!(fake.calls(Proc::Create), 1);
}

#[tokio::test(start_paused = true)]
async fn a_cut_ends_every_object_and_stat_tells_size_space_and_time() {
    let world = World::new(4).await;
    let at = world.file(1, 2, 2);
    wrote(&world, &at, 0, &bytes(LEN)).await;
    let stat = world.foreign.stat(&at).await.unwrap();
    let sizes: Vec<u64> = stat.iter().map(|item| item.size_bytes).collect();
    assert_eq!(sizes, [5 * u64::from(UNIT), LEN as u64]);
    assert_eq!(stat[1].durable_bytes, stat[1].size_bytes);
    assert_eq!(stat[1].space_bytes, 2 * LEN as u64, "of both mirrors");
    assert!(stat[0].status == Status::Ok && stat[0].modified.seconds > 0);
    let newer = FileAt {
        epoch: at.epoch + 1,
        ..at
    };
    assert_eq!(world.foreign.cut(&newer, 5000).await.unwrap(), 0);
    let ids = newer.ids();
    for fake in &world.fakes {
        let files = fake.files();
        let object = files.values().next().unwrap();
        assert_eq!(object.data.len(), 5000);
        assert_eq!(object.owner, (ids.uid, ids.gid, 0o640));
    }
    let read = world.foreign.read(&newer, 4990, 100).await.unwrap();
    assert_eq!(read[..10], bytes(LEN)[4990..5000]);
    assert!(read[10..].iter().all(|byte| *byte == 0));
    let old = world.foreign.cut(&at, 1).await.unwrap_err();
    assert_eq!((old.status, old.failed_mirrors), (NfsStatus::Delay, 0));
}

#[tokio::test(start_paused = true)]
async fn a_dead_mirror_is_named_by_a_write_and_passed_over_by_a_read() {
    let world = World::new(2).await;
    let mut at = world.file(2, 1, 2);
    let data = bytes(100);
    wrote(&world, &at, 0, &data).await;
    for mirror in [0, 1] {
        let dead = world.index(&at, mirror, 0);
        world.kill(dead);
        assert_eq!(world.foreign.read(&at, 0, 100).await.unwrap(), data);
        let written = wrote(&world, &at, 0, &data).await;
        assert_eq!(written.failed_mirrors, 1 << mirror);
        assert_eq!(written.verifiers.len(), 1);
        let committed = world.foreign.commit(&at).await.unwrap();
        assert_eq!(committed.failed_mirrors, 1 << mirror);
        assert_eq!(world.foreign.cut(&at, 100).await.unwrap(), 1 << mirror);
        assert_eq!(world.foreign.stat(&at).await.unwrap()[0].size_bytes, 100);
        let handles = world.foreign.handles(&at).await;
        // What is known already needs no call.
        assert_eq!(handles.unwrap_err().failed_mirrors, 1 << mirror);
        world.start(dead);
        world.pass(3).await;
    }
    world.kill(0);
    world.kill(1);
    let read = world.foreign.read(&at, 0, 100).await.unwrap_err();
    assert_eq!((read.status, read.failed_mirrors), (NfsStatus::Delay, 3));
    let write = world.foreign.write(&at, 0, StableHow::FileSync, &data);
    let write = write.await.unwrap_err();
    assert_eq!((write.status, write.touched_mirrors), (NfsStatus::Delay, 0));
    at.bad_mirrors = 3;
    let read = world.foreign.read(&at, 0, 100).await.unwrap_err();
    assert_eq!((read.status, read.failed_mirrors), (NfsStatus::Io, 0));
}

#[tokio::test(start_paused = true)]
async fn a_bad_mirror_is_neither_read_nor_written_nor_told() {
    let world = World::new(2).await;
    let mut at = world.file(1, 1, 2);
    wrote(&world, &at, 0, &bytes(10)).await;
    at.bad_mirrors = 1;
    let bad = world.fake(&at, 0, 0);
    let before = bad.files();
    let calls = [Proc::Read, Proc::Write, Proc::SetAttr].map(|p| bad.calls(p));
    wrote(&world, &at, 0, &bytes(3000)).await;
    world.foreign.read(&at, 0, 3000).await.unwrap();
    world.foreign.cut(&at, 20).await.unwrap();
    let handles = world.foreign.handles(&at).await.unwrap();
    assert_eq!(handles.len(), 1);
    assert_eq!(handles[0][0].mirror, 1);
    assert_eq!(bad.files(), before);
    let after = [Proc::Read, Proc::Write, Proc::SetAttr].map(|p| bad.calls(p));
    assert_eq!(after, calls);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_restarts_between_write_and_commit_changes_the_verifier() {
    let world = World::new(4).await;
    let at = world.file(1, 2, 2);
    let verifier = |written: &FarWritten| world.foreign.verifier(&at, &written.verifiers);
    let written = wrote(&world, &at, 0, &bytes(2 * UNIT as usize)).await;
    let committed = world.foreign.commit(&at).await.unwrap();
    assert_eq!(committed.verifier, verifier(&written));
    // A write to one stripe counts the others as last seen.
    let one = wrote(&world, &at, 0, &bytes(10)).await;
    assert_eq!(one.verifiers.len(), 2);
    assert_eq!(verifier(&one), committed.verifier);
    for index in 0..4 {
        let before = verifier(&wrote(&world, &at, 0, &bytes(10)).await);
        world.fakes[index].restart();
        let committed = world.foreign.commit(&at).await.unwrap();
        assert_ne!(committed.verifier, before, "{index}");
        let late = world.foreign.verifier(&at, &written.verifiers);
        assert_ne!(
            committed.verifier, late,
            "an answer from before counts as it was"
        );
        assert_eq!(
            committed.verifier,
            world.foreign.verifier(&at, &BTreeMap::new())
        );
    }
}

#[tokio::test(start_paused = true)]
async fn handles_are_those_of_the_objects_and_the_next_call_for_them_needs_no_server() {
    let world = World::new(4).await;
    let at = world.file(77, 2, 2);
    let handles = world.foreign.handles(&at).await.unwrap();
    assert_eq!(handles.len(), 2);
    for (mirror, row) in (0..).zip(&handles) {
        for (stripe, object) in (0..).zip(row) {
            assert_eq!((object.mirror, object.stripe), (mirror, stripe));
            let files = world.fake(&at, mirror, stripe).files();
            let seen = files.values().next().unwrap();
            assert_eq!(seen.fh, object.fh);
            let device = world.foreign.device_id(object.server).unwrap();
            assert_eq!(device, object.device);
            assert_eq!(seen.owner.0, at.ids().uid);
        }
    }
    let lookups = world.fakes[0].calls(Proc::Lookup);
    assert_eq!(world.foreign.handles(&at).await.unwrap(), handles);
    assert_eq!(world.fakes[0].calls(Proc::Lookup), lookups);
}

#[tokio::test(start_paused = true)]
async fn after_a_restart_of_the_metadata_server_objects_are_found_and_get_new_ids() {
    let mut world = World::new(1).await;
    let at = world.file(1, 1, 1);
    wrote(&world, &at, 0, &bytes(10)).await;
    world.reopen();
    assert_eq!(world.foreign.read(&at, 0, 10).await.unwrap(), bytes(10));
    let newer = FileAt {
        epoch: 2 << 32,
        ..at
    };
    world.foreign.handles(&newer).await.unwrap();
    let files = world.fakes[0].files();
    assert_eq!(files.values().next().unwrap().owner.0, newer.ids().uid);
    assert_eq!(world.fakes[0].calls(Proc::Create), 1);
}

#[tokio::test(start_paused = true)]
async fn a_removed_object_is_gone_and_one_that_is_not_there_is_removed() {
    let world = World::new(1).await;
    let at = world.file(1, 1, 1);
    wrote(&world, &at, 0, &bytes(10)).await;
    world.foreign.remove(1, 1, 1).await.unwrap();
    world.foreign.remove(1, 1, 1).await.unwrap();
    assert!(world.fakes[0].files().is_empty());
    assert_eq!(world.foreign.read(&at, 0, 10).await.unwrap(), vec![0; 10]);
    world.kill(0);
    let away = world.foreign.remove(1, 1, 1).await.unwrap_err();
    assert_eq!(away.status, NfsStatus::Delay);
}

#[tokio::test(start_paused = true)]
async fn who_found_a_file_before_its_removal_makes_no_object_after_it() {
    let world = World::new(1).await;
    let at = world.file(1, 1, 1);
    wrote(&world, &at, 0, &bytes(10)).await;
    let newer = FileAt {
        epoch: at.epoch + 1,
        ..at
    };
    world.foreign.remove(1, 1, 1).await.unwrap();
    for late in [&at, &newer] {
        let refused = world.foreign.handles(late).await.unwrap_err();
        assert_eq!(
            (refused.status, refused.failed_mirrors),
            (NfsStatus::Delay, 0)
        );
        let (how, data) = (StableHow::FileSync, bytes(10));
        let write = world.foreign.write(late, 0, how, &data);
        assert_eq!(write.await.unwrap_err().status, NfsStatus::Delay);
        world.foreign.note_fence(at.group, 1, 1, late.epoch, 0);
        world.pass(3).await;
        assert!(!world.foreign.is_fencing(at.group, 1));
    }
    assert!(world.fakes[0].files().is_empty());
}
