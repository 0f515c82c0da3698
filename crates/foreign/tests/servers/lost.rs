//! Objects that were made and are missing: their bytes are lost, and no zeros.

use crate::world::{UNIT, World, bytes};
use control::Status;
use nfs3::Proc;
use nfs4::{NfsStatus, StableHow};
use ropewalk_foreign::FileAt;

const STABLE: StableHow = StableHow::FileSync;

#[tokio::test(start_paused = true)]
async fn an_object_that_was_made_and_is_missing_after_a_restart_is_an_error_and_not_made_again() {
    let mut world = World::new(1).await;
    let unknown = world.file(1, 1, 1);
    let at = FileAt {
        has_objects: true,
        ..unknown
    };
    let data = bytes(1000);
    world
        .foreign
        .write(&at, 0, STABLE, &data)
        .await
        .unwrap_err();
    world
        .foreign
        .write(&unknown, 0, STABLE, &data)
        .await
        .unwrap();
    world.reopen();
    assert_eq!(world.foreign.read(&at, 0, 1000).await.unwrap(), data);
    world.fakes[0].lose_files();
    world.reopen();
    let creates = world.fakes[0].calls(Proc::Create);
    let io = |error: ropewalk_foreign::FarError| (error.status, error.failed_mirrors);
    let lost = (NfsStatus::Io, 1);
    assert_eq!(io(world.foreign.read(&at, 0, 9).await.unwrap_err()), lost);
    assert_eq!(io(world.foreign.commit(&at).await.unwrap_err()), lost);
    // There is nothing to be cut, and the bytes before the end stay lost.
    assert_eq!(world.foreign.cut(&at, 5).await, Ok(0));
    assert_eq!(io(world.foreign.handles(&at).await.unwrap_err()), lost);
    assert_eq!(io(world.foreign.make(&at).await.unwrap_err()), lost);
    let write = world
        .foreign
        .write(&at, 0, STABLE, &data)
        .await
        .unwrap_err();
    assert_eq!((write.status, write.touched_mirrors), (NfsStatus::Io, 0));
    let stat = world.foreign.stat(&at).await.unwrap();
    assert_eq!(stat[0].status, Status::NotFound);
    assert_eq!(world.fakes[0].calls(Proc::Create), creates);
    // Of a file that an earlier program wrote nobody knows whether it has a hole there.
    let zeros = world.foreign.read(&unknown, 0, 9).await.unwrap();
    assert_eq!(zeros, vec![0; 9]);
    // Its removal is no loss.
    world.foreign.remove(1, 1, 1).await.unwrap();
    assert_eq!(world.foreign.read(&at, 0, 9).await.unwrap(), vec![0; 9]);
}

#[tokio::test(start_paused = true)]
async fn what_one_mirror_has_lost_is_waited_for_at_the_other() {
    let mut world = World::new(2).await;
    let at = world.file(2, 1, 2);
    let data = bytes(1000);
    world.foreign.write(&at, 0, STABLE, &data).await.unwrap();
    let at = FileAt {
        has_objects: true,
        ..at
    };
    let (lost, other) = (world.index(&at, 0, 0), world.index(&at, 1, 0));
    world.fakes[lost].lose_files();
    world.reopen();
    assert_eq!(world.foreign.read(&at, 0, 1000).await.unwrap(), data);
    assert_eq!(world.foreign.stat(&at).await.unwrap()[0].size_bytes, 1000);
    let refused = world.foreign.handles(&at).await.unwrap_err();
    let told = (refused.status, refused.failed_mirrors);
    assert_eq!(told, (NfsStatus::Delay, 1));
    let written = world.foreign.write(&at, 0, STABLE, &data).await.unwrap();
    assert_eq!(written.failed_mirrors, 1);
    world.kill(other);
    let read = world.foreign.read(&at, 0, 1000).await.unwrap_err();
    assert_eq!(read.status, NfsStatus::Delay, "no zeros, and no error yet");
    let stat = world.foreign.stat(&at).await.unwrap_err();
    assert_eq!(stat.status, NfsStatus::Delay);
    assert!(world.fakes[lost].files().is_empty());
}

/// So that one note for a file says all of its objects.
#[tokio::test(start_paused = true)]
async fn the_first_write_makes_the_objects_of_all_stripes() {
    let world = World::new(4).await;
    let at = world.file(1, 2, 2);
    let data = bytes(10);
    world.foreign.write(&at, 0, STABLE, &data).await.unwrap();
    assert!(world.fakes.iter().all(|fake| fake.files().len() == 1));
    let at = FileAt {
        has_objects: true,
        ..at
    };
    let unit = u64::from(UNIT);
    world.foreign.write(&at, unit, STABLE, &data).await.unwrap();
    // One that cannot be made fails its mirror.
    let next = FileAt {
        number: 3,
        has_objects: false,
        ..at
    };
    world.kill(world.index(&next, 1, 1));
    let written = world.foreign.write(&next, 0, STABLE, &data).await.unwrap();
    assert_eq!(written.failed_mirrors, 0b10);
}

#[tokio::test(start_paused = true)]
async fn a_lost_object_is_made_again_for_a_file_that_is_cut_to_nothing() {
    for is_known in [true, false] {
        let mut world = World::new(1).await;
        let at = world.file(1, 1, 1);
        let data = bytes(1000);
        world.foreign.write(&at, 0, STABLE, &data).await.unwrap();
        world.fakes[0].lose_files();
        if !is_known {
            world.reopen();
        }
        // Of one that may never have had bytes nothing is made.
        assert_eq!(world.foreign.cut(&at, 0).await, Ok(0));
        assert!(world.fakes[0].files().is_empty());
        let at = FileAt {
            has_objects: true,
            ..at
        };
        assert_eq!(world.foreign.cut(&at, 0).await, Ok(0));
        assert_eq!(world.foreign.read(&at, 0, 9).await.unwrap(), vec![0; 9]);
        world.foreign.write(&at, 0, STABLE, &data).await.unwrap();
        assert_eq!(world.foreign.read(&at, 0, 1000).await.unwrap(), data);
    }
}

/// What one mirror lacks while the other does not answer may be there.
#[tokio::test(start_paused = true)]
async fn a_cut_waits_for_a_server_that_is_down_where_the_other_mirror_is_lost() {
    let mut world = World::new(2).await;
    let at = world.file(2, 1, 2);
    world
        .foreign
        .write(&at, 0, STABLE, &bytes(1000))
        .await
        .unwrap();
    let at = FileAt {
        has_objects: true,
        ..at
    };
    world.fakes[world.index(&at, 0, 0)].lose_files();
    world.reopen();
    world.kill(world.index(&at, 1, 0));
    let cut = world.foreign.cut(&at, 5).await;
    assert_eq!(cut.map_err(|e| e.status), Err(NfsStatus::Delay));
    // Of this nothing may be anywhere, so that one mirror is enough.
    assert_eq!(world.foreign.cut(&at, 0).await, Ok(0b10));
}
