//! Servers that answer what they must not, and what comes of it.

use crate::fake::Fault;
use crate::world::{UNIT, World, bytes};
use nfs3::Proc;
use nfs4::{NfsStatus, StableHow};
use ropewalk_foreign::{FileAt, ServerLimits};
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn a_wrong_answer_to_read_is_passed_over_for_another_mirror_and_marks_nobody_down() {
    for fault in [
        Fault::ReadsTooMuch,
        Fault::ReadsNothing,
        Fault::FailsReads,
        Fault::Shorts(1),
    ] {
        let world = World::new(2).await;
        let at = world.file(2, 1, 2);
        let data = bytes(1000);
        let write = world.foreign.write(&at, 0, StableHow::FileSync, &data);
        write.await.unwrap();
        let first = world.fake(&at, 0, 0);
        first.set_fault(Some(fault));
        let read = world.foreign.read(&at, 0, 1000).await.unwrap();
        assert_eq!(read, data, "{fault:?}");
        assert!(first.calls(Proc::Read) > 0, "{fault:?}: it was asked first");
        assert!(world.status(0).is_up && world.status(1).is_up);
        world.fake(&at, 1, 0).set_fault(Some(fault));
        let read = world.foreign.read(&at, 0, 1000).await.unwrap_err();
        assert_eq!((read.status, read.failed_mirrors), (NfsStatus::Io, 3));
    }
}

#[tokio::test(start_paused = true)]
async fn a_wrong_answer_to_write_names_the_mirror() {
    for fault in [
        Fault::ClaimsTooMuch,
        Fault::TakesNothing,
        Fault::LessStable,
        Fault::Shorts(1),
        Fault::Busy,
        Fault::KeepsOwners,
        Fault::LongHandles,
    ] {
        let world = World::new(2).await;
        let at = world.file(2, 1, 2);
        let index = world.index(&at, 1, 0);
        let data = bytes(1000);
        if matches!(fault, Fault::KeepsOwners) {
            world.foreign.make(&at).await.unwrap();
        }
        let newer = FileAt {
            epoch: at.epoch + 1,
            ..at
        };
        world.fakes[index].set_fault(Some(fault));
        let failed = match fault {
            Fault::KeepsOwners => world.foreign.cut(&newer, 5).await.unwrap(),
            _ => {
                let write = world.foreign.write(&at, 0, StableHow::FileSync, &data);
                write.await.unwrap().failed_mirrors
            }
        };
        assert_eq!(failed, 0b10, "{fault:?}");
        assert!(world.status(index).is_up, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_full_mirror_fails_the_whole_write() {
    let world = World::new(2).await;
    let at = world.file(2, 1, 2);
    world.fake(&at, 1, 0).set_fault(Some(Fault::NoSpace));
    let data = bytes(1000);
    let write = world.foreign.write(&at, 0, StableHow::Unstable, &data);
    let write = write.await.unwrap_err();
    let (whole, touched) = (write.whole_mirrors, write.touched_mirrors);
    assert_eq!((write.status, whole, touched), (NfsStatus::NoSpc, 1, 1));
    let far = world
        .foreign
        .write(&at, u64::MAX - 5, StableHow::Unstable, &data);
    assert_eq!(far.await.unwrap_err().status, NfsStatus::FBig);
}

#[tokio::test(start_paused = true)]
async fn what_a_server_takes_or_tells_in_parts_is_continued() {
    let world = World::new(2).await;
    let at = world.file(1, 2, 1);
    for fake in &world.fakes {
        fake.set_fault(Some(Fault::Shorts(1000)));
    }
    let data = bytes(4 * UNIT as usize);
    let write = world.foreign.write(&at, 5, StableHow::FileSync, &data);
    write.await.unwrap();
    let read = world.foreign.read(&at, 5, data.len() as u64).await.unwrap();
    assert_eq!(read, data);
}

#[tokio::test(start_paused = true)]
async fn stale_handles_are_looked_up_once_more() {
    let world = World::new(1).await;
    let at = world.file(1, 1, 1);
    let data = bytes(1000);
    let stable = StableHow::FileSync;
    world.foreign.write(&at, 0, stable, &data).await.unwrap();
    world.fakes[0].forget_handles();
    assert_eq!(world.foreign.read(&at, 0, 1000).await.unwrap(), data);
    world.fakes[0].forget_handles();
    world.foreign.write(&at, 0, stable, &data).await.unwrap();
    world.fakes[0].forget_handles();
    world.foreign.remove(1, 1, 1).await.unwrap();
    assert!(world.fakes[0].files().is_empty());
    assert!(world.status(0).is_up);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_was_there_and_is_gone_is_neither_a_hole_nor_committed() {
    let world = World::new(2).await;
    let at = world.file(2, 1, 2);
    let data = bytes(1000);
    let stable = StableHow::Unstable;
    for is_read in [true, false] {
        world.foreign.write(&at, 0, stable, &data).await.unwrap();
        world.fake(&at, 0, 0).lose_files();
        match is_read {
            true => assert_eq!(world.foreign.read(&at, 0, 1000).await.unwrap(), data),
            false => {
                let committed = world.foreign.commit(&at).await.unwrap();
                assert_eq!(committed.failed_mirrors, 1);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_tells_little_is_asked_for_the_rest() {
    let world = World::new(1).await;
    world.fakes[0].set_fault(Some(Fault::TellsLittle));
    let at = world.file(1, 1, 1);
    let handles = world.foreign.handles(&at).await.unwrap();
    let files = world.fakes[0].files();
    let seen = files.values().next().unwrap();
    assert_eq!((seen.owner.0, &seen.fh), (at.ids().uid, &handles[0][0].fh));
}

#[tokio::test(start_paused = true)]
async fn a_failed_commit_names_the_mirror_and_a_restart_in_a_write_asks_for_it_again() {
    let world = World::new(2).await;
    let at = world.file(2, 1, 2);
    let data = bytes(20_000);
    let stable = StableHow::Unstable;
    world.foreign.write(&at, 0, stable, &data).await.unwrap();
    world.fake(&at, 1, 0).set_fault(Some(Fault::FailsCommits));
    let committed = world.foreign.commit(&at).await.unwrap();
    assert_eq!(committed.failed_mirrors, 2);
    world.fake(&at, 1, 0).set_fault(Some(Fault::VerifierMoves));
    let write = world
        .foreign
        .write(&at, 0, stable, &data)
        .await
        .unwrap_err();
    assert_eq!((write.status, write.touched_mirrors), (NfsStatus::Delay, 3));
}

#[tokio::test(start_paused = true)]
async fn a_slow_server_is_waited_for() {
    let world = World::new(1).await;
    let at = world.file(1, 1, 1);
    world.fakes[0].set_fault(Some(Fault::Slow(Duration::from_secs(2))));
    let data = bytes(100);
    let write = world.foreign.write(&at, 0, StableHow::FileSync, &data);
    write.await.unwrap();
    world.pass(6).await;
    assert!(world.status(0).is_up);
}

#[tokio::test(start_paused = true)]
async fn limits_that_cannot_be_are_not_believed() {
    for (told, most) in [(0, 512), (u32::MAX, 1 << 20)] {
        let limits = ServerLimits {
            read_bytes_max: told,
            write_bytes_max: told,
            file_bytes_max: u64::MAX,
        };
        let world = World::limited(1, limits).await;
        let at = world.file(1, 1, 1);
        let data = bytes(2 << 20);
        let write = world.foreign.write(&at, 0, StableHow::FileSync, &data);
        write.await.unwrap();
        let read = world.foreign.read(&at, 0, 2 << 20).await.unwrap();
        assert!(read == data, "{told}");
        assert_eq!(world.fakes[0].largest(), (most, most));
        world.fakes[0].set_room(u64::MAX, u64::MAX);
        world.pass(3).await;
        assert_eq!(world.foreign.space(), (u64::MAX, u64::MAX));
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_no_file_is_no_object() {
    let mut world = World::new(1).await;
    let at = world.file(1, 1, 1);
    world.foreign.make(&at).await.unwrap();
    world.fakes[0].turn_files_into_dirs();
    world.reopen();
    let read = world.foreign.read(&at, 0, 10).await.unwrap_err();
    assert_eq!((read.status, read.failed_mirrors), (NfsStatus::Io, 1));
    let made = world.foreign.make(&at).await.unwrap_err();
    assert_eq!(made.status, NfsStatus::Io);
}

/// This process did not see it: only the other mirror tells that there was something.
#[tokio::test(start_paused = true)]
async fn an_object_that_one_mirror_has_is_no_hole_whichever_is_asked_first() {
    for lost in [0, 1] {
        let mut world = World::new(2).await;
        let at = world.file(2, 1, 2);
        let data = bytes(1000);
        let stable = StableHow::FileSync;
        world.foreign.write(&at, 0, stable, &data).await.unwrap();
        let lost = world.index(&at, lost, 0);
        world.fakes[lost].lose_files();
        world.reopen();
        assert_eq!(world.foreign.read(&at, 0, 1000).await.unwrap(), data);
        let stat = world.foreign.stat(&at).await.unwrap();
        assert_eq!(stat[0].size_bytes, 1000);
    }
}

#[tokio::test(start_paused = true)]
async fn no_layout_names_an_empty_object_in_the_place_of_one_with_data() {
    for lost in [0, 1] {
        let mut world = World::new(2).await;
        let at = world.file(2, 1, 2);
        let data = bytes(1000);
        let stable = StableHow::FileSync;
        world.foreign.write(&at, 0, stable, &data).await.unwrap();
        let index = world.index(&at, lost, 0);
        world.fakes[index].lose_files();
        world.reopen();
        let refused = world.foreign.handles(&at).await.unwrap_err();
        assert_eq!(refused.failed_mirrors, 1 << lost);
        assert_eq!(world.fakes[index].files().len(), 0, "nothing is made");
        let good = FileAt {
            bad_mirrors: 1 << lost,
            ..at
        };
        assert_eq!(world.foreign.handles(&good).await.unwrap().len(), 1);
    }
    let world = World::new(2).await;
    let unheard = world.file(3, 1, 2);
    assert_eq!(world.foreign.handles(&unheard).await.unwrap().len(), 2);
}
