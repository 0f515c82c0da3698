//! Goal: new files go where there is room, and only there (D1, issue item 4). Without a data server no file is made
//! that could never get one. Method: as in layouts.rs; data servers say in heartbeats how much room they have.
#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]

use crate::rig::cluster::{FakeDs, Port, cluster};
use crate::rig::file::{File, patiently};
use crate::rig::{Client, Rig, after_putfh};
use ::cluster::{ServerState, expel};
use fs::removals_waiting;
use namespace::LayoutPolicy;
use nfs4::attr;
use nfs4::ops::{
    GetXattrArgs, GetXattrRes, ListXattrsArgs, ListXattrsRes, SetXattrArgs, SetXattrOption,
    SetXattrRes,
};
use nfs4::{FileHandle, IoMode, NfsStatus};
use std::sync::Arc;
use std::time::Duration;
use xdr::Opaque;

async fn heartbeats() {
    tokio::time::sleep(Duration::from_secs(3)).await;
}

#[tokio::test(start_paused = true)]
async fn new_files_avoid_full_data_servers_and_come_back_to_them() {
    let (rig, _port, servers) = cluster(3).await;
    let alice = rig.session("alice").await;
    let root = alice.lookup(&[]).await.unwrap();
    let groups = || rig.nfsd.role().fs().cluster().status().groups;
    let group_of_new = || {
        let id = rig
            .nfsd
            .role()
            .fs()
            .place(LayoutPolicy::default(), false)
            .unwrap()
            .group;
        groups().into_iter().find(|g| g.0 == id).unwrap().1
    };
    heartbeats().await;
    let old = File::create(&alice, "old").await;
    assert_eq!(group_of_new(), vec![1, 2, 3]);

    servers[1].told.lock().free_bytes = Some(100);
    heartbeats().await;
    assert_eq!(group_of_new(), vec![1, 3]);
    let narrow = File::create(&alice, "narrow").await;
    assert_ne!(
        narrow.layout(IoMode::Rw).await.body.device_id,
        old.layout(IoMode::Rw).await.body.device_id,
        "a file stays where it is"
    );

    servers[0].told.lock().free_bytes = Some(0);
    heartbeats().await;
    assert_eq!(group_of_new(), vec![3]);
    servers[2].told.lock().free_bytes = Some(0);
    heartbeats().await;
    let refused = File::try_open(&alice, &root, "none").await.unwrap_err();
    assert_eq!(refused, NfsStatus::NoSpc);
    let found = File::try_open(&alice, &root, "old").await.unwrap();
    assert_eq!(found.1, old.fh, "files that exist still open");
    assert_eq!(
        alice.lookup(&["none"]).await.unwrap_err().status(),
        Some(NfsStatus::NoEnt)
    );

    // Nearly the reserve is not enough for one that was full.
    servers[0].told.lock().free_bytes = Some(130);
    heartbeats().await;
    let refused = File::try_open(&alice, &root, "none").await.unwrap_err();
    assert_eq!(refused, NfsStatus::NoSpc);
    let count = groups().len();
    for ds in &servers {
        ds.told.lock().free_bytes = None;
    }
    heartbeats().await;
    assert_eq!(group_of_new(), vec![1, 2, 3]);
    assert_eq!(groups().len(), count, "the old group is taken up again");
}

/// However close to that moment somebody asks, and however often files are made before it.
#[tokio::test(start_paused = true)]
async fn a_data_server_that_status_shows_as_away_gets_no_new_file() {
    let (rig, _port, servers) = cluster(2).await;
    let data = || rig.nfsd.role().fs();
    let is_away = || data().cluster().status().servers[1].state == ServerState::Away;
    for offset_ms in (0..200).step_by(20) {
        heartbeats().await;
        servers[1].fall_silent();
        tokio::time::sleep(Duration::from_millis(offset_ms)).await;
        for _ in 0..100 {
            tokio::time::sleep(Duration::from_millis(30)).await;
            let is_away = is_away();
            let id = data().place(LayoutPolicy::default(), false).unwrap().group;
            let groups = data().cluster().status().groups;
            let group = groups.into_iter().find(|g| g.0 == id).unwrap().1;
            assert!(!is_away || !group.contains(&2), "{offset_ms}: {group:?}");
        }
        assert!(is_away());
        servers[1].speak_again();
    }
}

/// One that is connected and says nothing, as a stopped process; and one whose connection is gone.
#[tokio::test(start_paused = true)]
async fn new_files_avoid_a_data_server_that_is_away_within_two_seconds() {
    let (rig, _port, mut servers) = cluster(3).await;
    let data = || rig.nfsd.role().fs();
    let place = || data().place(LayoutPolicy::default(), false).unwrap().group;
    let group_of_new = || {
        let id = place();
        let groups = data().cluster().status().groups;
        groups.into_iter().find(|g| g.0 == id).unwrap().1
    };
    let state = |index: usize| data().cluster().status().servers[index].state;
    heartbeats().await;
    assert_eq!(group_of_new(), [1, 2, 3]);
    servers[1].fall_silent();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(group_of_new(), [1, 3]);
    assert_eq!(state(1), ServerState::Away);
    // A directory that wants two data servers gets two that serve.
    let two = LayoutPolicy {
        stripe_count: 1,
        ..LayoutPolicy::default()
    };
    for _ in 0..6 {
        let narrow = data().place(two, false).unwrap().group;
        let groups = data().cluster().status().groups;
        assert!(groups.iter().any(|g| g.0 == narrow && !g.1.contains(&2)));
    }
    servers[1].speak_again();
    heartbeats().await;
    assert_eq!(group_of_new(), [1, 2, 3], "the old group is taken up again");
    assert_eq!(state(1), ServerState::Serving);
    let count = data().cluster().status().groups.len();
    for _ in 0..10 {
        servers[1].fall_silent();
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(group_of_new(), [1, 3]);
        servers[1].speak_again();
        heartbeats().await;
        assert_eq!(group_of_new(), [1, 2, 3]);
    }
    assert_eq!(
        data().cluster().status().groups.len(),
        count,
        "groups do not multiply"
    );
    servers[2].go_away().await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(group_of_new(), [1, 2]);
    assert_eq!(state(2), ServerState::Away);
    // Nobody is there: files go where they went, and wait.
    for server in &mut servers[..2] {
        server.fall_silent();
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(group_of_new(), [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_data_servers_share_is_counted_once() {
    let (rig, _port, servers) = cluster(4).await;
    servers[0].told.lock().disk = 7;
    servers[2].told.lock().disk = 7;
    heartbeats().await;
    let space = rig.nfsd.role().fs().cluster().space();
    assert_eq!((space.total_bytes, space.free_bytes), (3000, 2700));
    assert_eq!(space.unused_bytes, 2850);
    // As statvfs has them: what the disks' administrators keep is free, and not available.
    let client = rig.session("alice").await;
    let root = client.lookup(&[]).await.unwrap();
    let wanted = [attr::SPACE_TOTAL, attr::SPACE_FREE, attr::SPACE_AVAIL];
    let got = client.attrs(&root, &wanted).await.unwrap();
    assert_eq!(
        (got.space_total, got.space_free, got.space_avail),
        (Some(3000), Some(2850), Some(2700))
    );
}

#[tokio::test(start_paused = true)]
async fn a_create_waits_for_the_first_data_server_and_not_for_one_that_is_away() {
    let rig = Rig::new().await;
    let port = Port::open(&rig);
    let alice = rig.session("alice").await;
    let root = alice.lookup(&[]).await.unwrap();
    let refused = File::try_open(&alice, &root, "f").await.unwrap_err();
    assert_eq!(refused, NfsStatus::Delay);
    let mut ds = FakeDs::joined(&rig, &port, 1).await;
    let file = File::create(&alice, "f").await;
    file.layout(IoMode::Rw).await;
    ds.go_away().await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    File::try_open(&alice, &root, "g").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn files_of_an_expelled_data_server_wait_for_nothing_and_new_ones_avoid_it() {
    let (rig, _port, mut servers) = cluster(2).await;
    heartbeats().await;
    let alice = rig.session("alice").await;
    let file = File::create(&alice, "f").await;
    file.layout(IoMode::Rw).await;
    let first = file.layout(IoMode::Rw).await.body.first_stripe_index as usize;
    // Two units of the server that stays: the file is longer than what was committed.
    let stays = 1 - first;
    servers[stays].told.lock().sizes.insert(file.id(), 8192);
    // It knows nothing of it: only the end of its lease helps.
    servers[first].go_away().await;
    expel(rig.nfsd.role().fs().cluster(), servers[first].id, "test")
        .await
        .unwrap();
    assert_eq!(
        file.try_layout(IoMode::Rw).await.unwrap_err(),
        NfsStatus::LayoutUnavailable
    );
    let new = rig
        .nfsd
        .role()
        .fs()
        .place(LayoutPolicy::default(), false)
        .unwrap()
        .group;
    let groups = rig.nfsd.role().fs().cluster().status().groups;
    let of_new = groups.into_iter().find(|g| g.0 == new).unwrap().1;
    assert_eq!(of_new, [servers[stays].id]);

    // The writer is gone without a word.
    drop(rig.session_of("alice", *b"boot0002", None).await);
    let bob = rig.session("bob").await;
    let seen = File::create(&bob, "f").await;
    let (size, _) = patiently(|| seen.try_attrs()).await.unwrap();
    assert_eq!(size, 8192);
    patiently(|| seen.try_truncate(10)).await.unwrap();
    assert_eq!(servers[stays].told.lock().sizes[&file.id()], 10);
    heartbeats().await;
    assert_eq!(rig.nfsd.role().fs().cluster().status().fences_pending, 0);
}

#[tokio::test(start_paused = true)]
async fn a_removal_that_only_an_expelled_data_server_lacks_is_done() {
    let (rig, _port, mut servers) = cluster(2).await;
    heartbeats().await;
    let alice = rig.session("alice").await;
    let file = File::create(&alice, "f").await;
    file.layout(IoMode::Rw).await;
    servers[1].go_away().await;
    file.remove().await;
    file.close().await;
    heartbeats().await;
    assert_eq!(servers[0].told.lock().removed.len(), 1);
    assert_eq!(
        removals_waiting(rig.nfsd.role().fs()),
        1,
        "the other may come back"
    );
    expel(rig.nfsd.role().fs().cluster(), servers[1].id, "test")
        .await
        .unwrap();
    heartbeats().await;
    assert_eq!(removals_waiting(rig.nfsd.role().fs()), 0);
    assert_eq!(servers[0].told.lock().removed.len(), 1, "told once");
}

/// SETXATTR of a directory's layout policy.
pub(crate) async fn set_policy(
    client: &Client,
    dir: &FileHandle,
    text: &str,
) -> Result<(), NfsStatus> {
    let done = client
        .on(dir, |b| {
            b.push(&SetXattrArgs {
                option: SetXattrOption::Either,
                name: Opaque(b"ropewalk.layout"),
                value: Opaque(text.as_bytes()),
            });
        })
        .await;
    let set = after_putfh(&done).take::<SetXattrRes>();
    set.map(drop).map_err(|e| e.status().unwrap())
}

/// GETXATTR of the same.
async fn policy(client: &Client, fh: &FileHandle) -> String {
    let done = client
        .on(fh, |b| {
            b.push(&GetXattrArgs {
                name: Opaque(b"ropewalk.layout"),
            });
        })
        .await;
    let got = after_putfh(&done).take::<GetXattrRes<'_>>().unwrap();
    String::from_utf8(got.value.0.to_vec()).unwrap()
}

async fn policies_listed(client: &Client, fh: &FileHandle) -> usize {
    let done = client
        .on(fh, |b| {
            b.push(&ListXattrsArgs {
                cookie: 0,
                maxcount: 4096,
            });
        })
        .await;
    let page = after_putfh(&done).take::<ListXattrsRes<'_>>().unwrap();
    page.names.0.len()
}

#[tokio::test(start_paused = true)]
async fn a_layout_policy_is_checked_and_set_by_the_owner_of_the_directory() {
    let (rig, _port, _servers) = cluster(5).await;
    heartbeats().await;
    let alice = rig.session("alice").await;
    let root = alice.lookup(&[]).await.unwrap();
    let before = File::create(&alice, "before").await;
    assert_eq!(
        policy(&alice, &root).await,
        "stripe_unit=4096 stripe_count=all inline_max=0"
    );
    for wrong in [
        "stripe_count=6",
        "stripe_count=0",
        "stripe_unit=1",
        "servers=nfs3",
        "what=1",
    ] {
        let refused = set_policy(&alice, &root, wrong).await;
        assert_eq!(refused, Err(NfsStatus::Inval), "{wrong}");
    }
    let stranger = alice.user(1000);
    let on_file = set_policy(&stranger, &before.fh, "stripe_count=1").await;
    assert_eq!(on_file, Err(NfsStatus::Perm));
    let by_stranger = set_policy(&stranger, &root, "stripe_count=1").await;
    assert_eq!(by_stranger, Err(NfsStatus::Perm));
    assert_eq!(policies_listed(&alice, &root).await, 0);
    set_policy(&alice, &root, "stripe_unit=8K stripe_count=2")
        .await
        .unwrap();
    assert_eq!(policies_listed(&alice, &root).await, 1);
    assert_eq!(
        policy(&stranger, &root).await,
        "stripe_unit=8192 stripe_count=2 inline_max=0"
    );
}

#[tokio::test(start_paused = true)]
async fn a_layout_policy_decides_width_and_unit_of_new_files_and_outlives_a_restart() {
    let (rig, _port, servers) = cluster(5).await;
    heartbeats().await;
    let alice = rig.session("alice").await;
    let root = alice.lookup(&[]).await.unwrap();
    let before = File::create(&alice, "before").await;
    set_policy(&alice, &root, "stripe_unit=8K stripe_count=2")
        .await
        .unwrap();

    // Three runs, the last goes on at the front; then again from their second data server.
    let mut seen = Vec::new();
    for n in 0..4 {
        let file = File::create(&alice, &format!("f{n}")).await;
        let body = file.layout(IoMode::Rw).await.body;
        assert_eq!(body.util.stripe_unit_bytes(), 8192);
        assert_eq!(body.file_handles.0.len(), 2);
        let id = rig.nfsd.role().fs().place(LayoutPolicy::default(), false);
        assert_eq!(id.unwrap().group, 1, "others go on as before");
        let group = layout::DeviceName::from_device_id(body.device_id).group;
        let groups = rig.nfsd.role().fs().cluster().status().groups;
        let of_file = groups.into_iter().find(|g| g.0 == group).unwrap().1;
        seen.push((of_file, body.first_stripe_index));
        assert_eq!(
            policy(&alice, &file.fh).await,
            "stripe_unit=8192 stripe_count=2"
        );
        assert_eq!(
            policies_listed(&alice, &file.fh).await,
            0,
            "a copy of it must not fail"
        );
    }
    let ids = |list: [usize; 2]| list.map(|n| servers[n].id).to_vec();
    assert_eq!(
        seen,
        [
            (ids([0, 1]), 0),
            (ids([2, 3]), 0),
            (ids([4, 0]), 0),
            (ids([0, 1]), 1)
        ]
    );
    assert_eq!(
        policy(&alice, &before.fh).await,
        "stripe_unit=4096 stripe_count=5"
    );

    // Before any data server is back, a file without a policy goes to a whole group.
    let again = Rig::over(Arc::clone(&rig.store)).await;
    let place = again.nfsd.role().fs().place(LayoutPolicy::default(), false);
    assert_eq!(place.unwrap().group, 1);
    let alice = again.session("alice").await;
    assert_eq!(
        policy(&alice, &root).await,
        "stripe_unit=8192 stripe_count=2 inline_max=0"
    );
}

#[tokio::test(start_paused = true)]
async fn a_client_that_takes_4096_bytes_of_a_layout_gets_one_however_many_data_servers_there_are() {
    let (rig, _port, _servers) = cluster(60).await;
    heartbeats().await;
    let alice = rig.session("alice").await;
    let root = alice.lookup(&[]).await.unwrap();
    // More than one file may have are cut into groups of equal width, which take turns.
    let mut devices = Vec::new();
    for name in ["a", "b"] {
        let file = File::create(&alice, name).await;
        let body = file.layout(IoMode::Rw).await.body;
        assert_eq!(body.file_handles.0.len(), 30);
        devices.push(body.device_id);
    }
    assert_ne!(devices[0], devices[1]);
    let refused = set_policy(&alice, &root, "stripe_count=59").await;
    assert_eq!(refused, Err(NfsStatus::Inval));
    set_policy(&alice, &root, "stripe_count=58").await.unwrap();
    let widest = File::create(&alice, "widest").await;
    let body = widest.layout(IoMode::Rw).await.body;
    assert_eq!(body.file_handles.0.len(), 58);

    let refused_count = || rig.nfsd.role().fs().status().layouts_too_wide;
    assert_eq!(refused_count(), 0);
    let refused = widest.try_layout_within(IoMode::Rw, 4000).await;
    assert_eq!(refused.unwrap_err(), NfsStatus::TooSmall);
    assert_eq!(refused_count(), 1);
}
