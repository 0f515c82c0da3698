//! Servers come and go; new files are placed on those that can take them.

use crate::fake::{Fake, Fault};
use crate::world::{CLUSTER, World, new_server};
use layout::DeviceName;
use nfs4::NfsStatus;
use ropewalk_foreign::*;
use std::collections::BTreeSet;
use std::time::Duration;

const MIB: u64 = 1 << 20;

#[tokio::test(start_paused = true)]
async fn a_server_is_added_once_with_its_directories_and_is_there_after_a_restart() {
    let mut world = World::new(2).await;
    let dirs = world.fakes[0].dirs();
    assert_eq!(dirs.len(), 257);
    assert!(dirs.iter().all(|(_, mode)| *mode == 0o700));
    assert!(dirs.iter().any(|(n, _)| n == ".ropewalk-00000000000000c1"));
    assert!(dirs.iter().any(|(n, _)| n == "ff"));
    let again = world.foreign.add(new_server(0)).await;
    assert!(matches!(again, Err(AddError::Known(1))), "{again:?}");
    // Another port of the same host is another server.
    let twin = NewServer {
        target: new_server(0).target,
        ..new_server(1)
    };
    let again = world.foreign.add(twin).await;
    assert!(again.is_ok(), "{again:?}");
    world.foreign.remove_server(3, false).await.unwrap();
    let group = world.foreign.pick(2, 1, MayLack::Stripes).unwrap().unwrap();
    let before = world.foreign.group(group).unwrap();
    world.reopen();
    assert_eq!(world.foreign.servers().len(), 3);
    assert_eq!(world.foreign.group(group).unwrap(), before);
    assert!(!world.status(0).is_up, "nothing was seen yet");
    assert_eq!(
        world.foreign.pick(1, 1, MayLack::Stripes).unwrap(),
        Err(NoPlace::NotYet),
        "nobody knows yet whether a server is up"
    );
    world.pass(1).await;
    assert!(world.status(0).is_up);
    assert!(world.foreign.pick(1, 1, MayLack::Stripes).unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_cannot_be_reached_or_squashes_root_is_not_added() {
    let world = World::new(2).await;
    world.foreign.remove_server(2, false).await.unwrap();
    world.kill(1);
    let add = world.foreign.add(new_server(1)).await;
    assert!(matches!(add, Err(AddError::Server(_))), "{add:?}");
    world.start(1);
    world.fakes[1].wipe();
    world.fakes[1].set_fault(Some(Fault::SquashesRoot));
    let add = world.foreign.add(new_server(1)).await;
    assert!(matches!(add, Err(AddError::Server(_))), "{add:?}");
    world.fakes[1].wipe();
    world.fakes[1].set_fault(Some(Fault::TellsLittle));
    assert_eq!(world.foreign.add(new_server(1)).await.unwrap(), 3);
    let mut far = new_server(7);
    far.addresses.clear();
    let add = world.foreign.add(far).await;
    assert!(matches!(add, Err(AddError::Invalid(_))), "{add:?}");
}

#[tokio::test(start_paused = true)]
async fn new_files_go_round_the_servers_that_are_up_and_have_room() {
    let world = World::new(4).await;
    let picked = |width, mirrors| {
        let group = world
            .foreign
            .pick(width, mirrors, MayLack::Stripes)
            .unwrap()
            .unwrap();
        assert!(is_foreign(group));
        world.foreign.group(group).unwrap().servers.clone()
    };
    let firsts: BTreeSet<u32> = (0..8).map(|_| picked(2, 2)[0]).collect();
    assert_eq!(firsts.len(), 4, "each is the first in turn");
    let distinct = |servers: &[u32]| servers.iter().collect::<BTreeSet<_>>().len();
    assert_eq!(distinct(&picked(2, 2)), 4);
    assert_eq!(picked(9, 2).len(), 4, "the width is cut");
    assert_eq!(picked(0, 1).len(), 1);
    let all = |width| {
        let group = world.foreign.pick(width, 2, MayLack::Nothing).unwrap();
        group.map(|group| world.foreign.group(group).unwrap().width)
    };
    assert_eq!((all(2), all(0)), (Ok(2), Ok(1)));
    assert_eq!(all(3), Err(NoPlace::NotYet));
    world.fakes[1].set_room(100 * MIB, 63 * MIB);
    world.pass(3).await;
    assert_eq!(all(2), Err(NoPlace::Full));
    world.kill(0);
    world.pass(8).await;
    for _ in 0..8 {
        assert_eq!(distinct(&picked(9, 1)), 2);
        assert!(picked(9, 2).iter().all(|server| *server > 2));
    }
    assert_eq!(
        world.foreign.pick(1, 3, MayLack::Stripes).unwrap(),
        Err(NoPlace::Full)
    );
    assert_eq!(
        world.foreign.pick(1, 4, MayLack::Stripes).unwrap(),
        Err(NoPlace::NotYet)
    );
    world.fakes[1].set_room(100_000 * MIB, 999 * MIB);
    world.pass(3).await;
    assert_eq!(
        world.foreign.pick(1, 3, MayLack::Stripes).unwrap(),
        Err(NoPlace::Full)
    );
    world.fakes[1].set_room(100_000 * MIB, 1001 * MIB);
    world.pass(3).await;
    assert!(world.foreign.pick(1, 3, MayLack::Stripes).unwrap().is_ok());
    world.foreign.drain(2).await.unwrap();
    assert_eq!(
        world.foreign.pick(1, 3, MayLack::Stripes).unwrap(),
        Err(NoPlace::NotYet)
    );
}

#[tokio::test(start_paused = true)]
async fn a_new_file_may_have_a_mirror_on_a_server_that_is_down_but_not_its_first() {
    let world = World::new(3).await;
    world.kill(0);
    world.kill(1);
    world.pass(8).await;
    let pick = |width, mirrors, allowed| {
        let group = world.foreign.pick(width, mirrors, allowed).unwrap();
        group.map(|group| world.foreign.group(group).unwrap().servers.clone())
    };
    let too_few = Err(NoPlace::NotYet);
    assert_eq!(pick(1, 2, MayLack::Stripes), too_few);
    assert_eq!(
        pick(2, 2, MayLack::Mirrors).map(|s| (s.len(), s[0])),
        Ok((2, 3))
    );
    assert_eq!(
        pick(1, 3, MayLack::Mirrors).map(|s| (s.len(), s[0])),
        Ok((3, 3))
    );
    assert_eq!(pick(1, 4, MayLack::Mirrors), too_few);
    world.foreign.drain(1).await.unwrap();
    assert_eq!(pick(1, 3, MayLack::Mirrors), too_few, "one that is drained");
    world.kill(2);
    world.pass(8).await;
    assert_eq!(
        pick(1, 2, MayLack::Mirrors),
        too_few,
        "nobody has the first"
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_with_groups_is_removed_only_by_force_and_its_id_is_not_used_again() {
    let world = World::new(2).await;
    let at = world.file(1, 2, 1);
    let device = world.foreign.device_id(1).unwrap();
    let refused = world.foreign.remove_server(1, false).await;
    assert!(matches!(refused, Err(ChangeError::InUse)));
    world.foreign.remove_server(1, true).await.unwrap();
    assert_eq!(world.status(0).state, ServerState::Removed);
    assert_eq!(world.foreign.device_id(1), None);
    assert_eq!(world.foreign.device(device), None);
    let read = world.foreign.read(&at, 0, 1).await.unwrap_err();
    assert_eq!((read.status, read.failed_mirrors), (NfsStatus::Io, 1));
    world.foreign.remove(1, 1, 1).await.unwrap();
    assert_eq!(world.foreign.add(new_server(0)).await.unwrap(), 3);
    let again = world.foreign.remove_server(1, true).await;
    assert!(matches!(again, Err(ChangeError::Unknown)));
    assert!(!world.foreign.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_device_id_is_that_of_a_server_of_this_cluster() {
    let world = World::new(1).await;
    let id = world.foreign.device_id(1).unwrap();
    let device = world.foreign.device(id).unwrap();
    assert_eq!((device.server, device.read_bytes_max), (1, 8192));
    assert_eq!(device.addresses, new_server(0).addresses);
    let name = DeviceName::from_device_id(id);
    assert_eq!(name.cluster_id, CLUSTER);
    let others = [
        DeviceName {
            cluster_id: CLUSTER + 1,
            ..name
        },
        DeviceName { group: 1, ..name },
        DeviceName {
            group: name.group + 1,
            ..name
        },
        DeviceName { version: 2, ..name },
        DeviceName {
            group: u32::MAX,
            ..name
        },
    ];
    for other in others {
        let id = other.to_device_id();
        assert_eq!(world.foreign.server_of(id), None, "{other:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_pulse_tells_who_is_up_and_calls_to_who_is_not_fail_at_once() {
    let world = World::new(1).await;
    let at = world.file(1, 1, 1);
    world.foreign.make(&at).await.unwrap();
    assert_eq!(world.foreign.space().1, crate::fake::FREE_BYTES);
    world.mute(0);
    world.pass(7).await;
    let status = world.status(0);
    assert!(!status.is_up && status.last_error.is_some(), "{status:?}");
    assert_eq!(world.foreign.space(), (0, 0));
    let start = tokio::time::Instant::now();
    let write = world.foreign.commit(&at).await.unwrap_err();
    assert_eq!((write.status, write.failed_mirrors), (NfsStatus::Delay, 1));
    assert_eq!(start.elapsed(), Duration::ZERO);
    world.start(0);
    world.pass(6).await;
    assert!(world.status(0).is_up);
    world.foreign.commit(&at).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_call_that_gets_no_answer_marks_its_server_down() {
    let world = World::new(1).await;
    let at = world.file(1, 1, 1);
    world.mute(0);
    let start = tokio::time::Instant::now();
    let made = world.foreign.make(&at).await.unwrap_err();
    assert_eq!(made.status, NfsStatus::Delay);
    assert!(start.elapsed() <= CALL_GIVE_UP);
    assert!(!world.status(0).is_up);
}

#[tokio::test(start_paused = true)]
async fn an_export_is_known_by_its_file_while_its_server_is_up_and_used() {
    let world = World::new(3).await;
    let identity = ExportIdentity {
        cluster_id: 1,
        code: 7,
    };
    assert_eq!(world.foreign.server_with(&identity).await, None);
    let client = world.client(1);
    identity.leave(&client, &Fake::root()).await.unwrap();
    let id = world.status(1).id;
    assert_eq!(world.foreign.server_with(&identity).await, Some(id));
    let newer = ExportIdentity {
        code: 8,
        ..identity
    };
    assert_eq!(world.foreign.server_with(&newer).await, None);
    world.kill(1);
    world.pass(20).await;
    assert_eq!(world.foreign.server_with(&identity).await, None, "down");
    world.start(1);
    world.pass(20).await;
    world.foreign.remove_server(id, true).await.unwrap();
    assert_eq!(world.foreign.server_with(&identity).await, None, "removed");
}
