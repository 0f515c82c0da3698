//! Another disk in the place of the one that was added.

use crate::fake::Fake;
use crate::world::{World, bytes, new_server};
use nfs3::Proc;
use nfs4::{NfsStatus, StableHow};
use ropewalk_foreign::*;

const STABLE: StableHow = StableHow::FileSync;
const CODE: ExportIdentity = ExportIdentity {
    cluster_id: crate::world::CLUSTER,
    code: 7,
};

fn made(world: &World, index: usize) -> [u64; 3] {
    [Proc::MkDir, Proc::Create, Proc::Remove].map(|proc| world.fakes[index].calls(proc))
}

#[tokio::test(start_paused = true)]
async fn another_disk_gets_nothing_and_loses_nothing_until_the_right_one_is_back() {
    for is_found_by_pulse in [true, false] {
        let world = World::new(2).await;
        let at = world.file(2, 1, 2);
        let gone = world.file(4, 1, 2);
        let data = bytes(100);
        for file in [&at, &gone] {
            world.foreign.write(file, 0, STABLE, &data).await.unwrap();
        }
        let index = world.index(&at, 0, 0);
        let server = world.status(index).id;
        let disk = world.fakes[index].unmount();
        let before = made(&world, index);
        if is_found_by_pulse {
            world.pass(3).await;
            assert!(!world.status(index).is_up);
        }
        assert_eq!(world.foreign.read(&at, 0, 100).await.unwrap(), data);
        let alone = FileAt {
            bad_mirrors: 1 << 1,
            has_objects: true,
            ..at
        };
        let read = world.foreign.read(&alone, 0, 100).await.unwrap_err();
        assert_eq!(read.status, NfsStatus::Delay, "it is not lost");
        let write = world.foreign.write(&at, 0, STABLE, &data).await.unwrap();
        assert_eq!(write.failed_mirrors, 1);
        let removed = world.foreign.remove(server, 4, 1).await.unwrap_err();
        assert_eq!(removed.status, NfsStatus::Delay);
        let status = world.status(index);
        let words =
            "another disk or directory is in its place: there is no .ropewalk-00000000000000c1";
        assert_eq!(
            (status.is_up, status.last_error.as_deref()),
            (false, Some(words))
        );
        let pick = world.foreign.pick(1, 2, MayLack::Stripes).unwrap();
        assert_eq!(pick, Err(NoPlace::NotYet));
        world.foreign.make(&world_file(&at, 6)).await.unwrap_err();
        world.pass(5).await;
        assert!(!world.status(index).is_up, "it answers, and stays wrong");
        assert_eq!(made(&world, index), before);
        assert!(world.fakes[index].is_empty());

        world.fakes[index].mount(disk);
        world.pass(3).await;
        assert!(world.status(index).is_up);
        assert_eq!(world.foreign.read(&alone, 0, 100).await.unwrap(), data);
        world.foreign.remove(server, 4, 1).await.unwrap();
        assert_eq!(world.fakes[index].files().len(), 1);
    }
}

fn world_file(like: &FileAt, number: u64) -> FileAt {
    FileAt { number, ..*like }
}

/// Each has all directories of the cluster: only the code tells them apart.
#[tokio::test(start_paused = true)]
async fn two_exports_of_a_cluster_that_changed_places_are_both_wrong() {
    let world = World::new(2).await;
    for index in [0, 1] {
        let id = world.status(index).id;
        world.foreign.remove_server(id, true).await.unwrap();
    }
    for index in [0, 1] {
        let identity = ExportIdentity {
            code: CODE.code + index as u128,
            ..CODE
        };
        let client = world.client(index);
        identity.leave(&client, &Fake::root()).await.unwrap();
        let new = NewServer {
            code: Some(identity.code),
            ..new_server(index)
        };
        world.foreign.add(new).await.unwrap();
    }
    world.pass(3).await;
    let is_up = |server: u32| world.foreign.is_up(server);
    assert_eq!([3, 4].map(is_up), [true, true]);
    let first = world.fakes[0].unmount();
    let second = world.fakes[1].mount(first);
    world.fakes[0].mount(second);
    world.pass(3).await;
    assert_eq!([3, 4].map(is_up), [false, false]);
    let status = world.foreign.servers().remove(2);
    let why = status.last_error.unwrap();
    assert!(why.contains("another code"), "{why}");
    let known = world.foreign.server_with(&CODE).await;
    assert_eq!(known, Some(3), "one that is down is known by its record");
}

#[tokio::test(start_paused = true)]
async fn the_code_of_an_export_that_an_earlier_program_added_is_taken_over() {
    let mut world = World::new(1).await;
    CODE.leave(&world.client(0), &Fake::root()).await.unwrap();
    world.pass(3).await;
    world.reopen();
    world.pass(3).await;
    assert!(world.status(0).is_up);
    let newer = ExportIdentity { code: 8, ..CODE };
    newer.leave(&world.client(0), &Fake::root()).await.unwrap();
    world.pass(3).await;
    assert!(!world.status(0).is_up);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_answers_and_fails_says_with_what_for_a_while() {
    use crate::fake::Fault;
    let world = World::new(1).await;
    let at = world.file(1, 1, 1);
    let data = bytes(10);
    world.foreign.write(&at, 0, STABLE, &data).await.unwrap();
    let told = || {
        let status = world.status(0);
        assert!(status.is_up);
        (status.is_failing, status.last_error)
    };
    assert_eq!(told(), (false, None));
    for (fault, words) in [
        (Fault::FailsReads, "NFS3ERR_IO"),
        (Fault::ReadsNothing, "too little before the end"),
    ] {
        world.fakes[0].set_fault(Some(fault));
        world.foreign.read(&at, 0, 10).await.unwrap_err();
        world.pass(5).await;
        let (is_failing, why) = told();
        assert!(
            is_failing && why.clone().unwrap().contains(words),
            "{why:?}"
        );
    }
    world.fakes[0].set_fault(None);
    world.pass(60).await;
    let (is_failing, why) = told();
    assert!(!is_failing && why.is_some(), "what was last is still told");
}
