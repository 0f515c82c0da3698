//! Goal: files move away from a server that is drained, while they are used, and one without files is removed. Method: as in
//! foreign.rs.
#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]

use crate::far::*;
use crate::rig::Rig;
use crate::rig::file::{File, patiently};
use crate::rig::real::{bytes_of, fill, try_read, write};
use fs::NotRemoved;
use nfs4::{IoMode, NfsStatus, StableHow};

/// The servers that a file lies on.
fn servers(rig: &Rig, file: &File<'_>) -> Vec<u32> {
    let fs = rig.nfsd.role().fs();
    let placement = inode(rig, file).placement.unwrap();
    fs.foreign().group(placement.group).unwrap().servers.clone()
}

async fn no_files_left(rig: &Rig, server: u32) {
    for second in 0.. {
        if fs::files_left_on(rig.nfsd.role().fs(), server) == Some(0) {
            return;
        }
        assert!(second < 300, "files stay");
        pass(1).await;
    }
}

async fn removed(rig: &Rig, server: u32) -> Result<(), NotRemoved> {
    fs::remove_far_server(rig.nfsd.role().fs(), server, false).await
}

#[tokio::test(start_paused = true)]
async fn files_move_away_from_a_drained_server_which_then_goes() {
    let (rig, port, far) = far_cluster(4, "stripe_count=1 copies=2").await;
    let alice = rig.session("alice").await;
    let mut files = Vec::new();
    for n in 0..8 {
        let file = far_file(&alice, &format!("f{n}")).await;
        fill(&file, 0, &bytes(20_000, n)).await;
        files.push(file);
    }
    assert!(files.iter().any(|file| servers(&rig, file).contains(&2)));
    let foreign = rig.nfsd.role().fs().foreign();
    assert!(matches!(
        removed(&rig, 2).await,
        Err(NotRemoved::NotDrained)
    ));
    foreign.drain(2).await.unwrap();
    assert!(matches!(removed(&rig, 2).await, Err(NotRemoved::NotYet)));
    no_files_left(&rig, 2).await;
    write(&files[0], 0, StableHow::FileSync, &bytes(20_000, 0)).await;
    for (n, file) in (0..).zip(&files) {
        assert!(!servers(&rig, file).contains(&2), "{n}");
        far.whole(&rig, file, &bytes(20_000, n)).await;
        assert!(bytes_of(file, 0, usize::MAX).await == bytes(20_000, n));
    }
    pass(30).await;
    assert_eq!(far.fakes[1].files().len(), 0, "nothing is left there");
    assert!(!foreign.groups_of(2).is_empty());
    removed(&rig, 2).await.unwrap();
    let newest = foreign.groups_of(2).len();
    assert!(newest <= 1, "groups end, apart from the newest of all");
    let groups: Vec<_> = files.iter().map(|file| servers(&rig, file)).collect();
    drop(files);
    drop(alice);
    let (rig, _port) = far.restart(rig, port).await;
    let alice = rig.session("alice").await;
    for (n, was) in (0..).zip(groups) {
        let file = far_file(&alice, &format!("f{n}")).await;
        assert_eq!(servers(&rig, &file), was);
        assert!(bytes_of(&file, 0, usize::MAX).await == bytes(20_000, n));
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_keeps_files_that_have_no_other_place_and_goes_after_they_are_removed() {
    let (rig, _port, far) = far_cluster(2, "copies=2").await;
    let alice = rig.session("alice").await;
    let file = far_file(&alice, "f").await;
    let model = bytes(9000, 1);
    fill(&file, 0, &model).await;
    let foreign = rig.nfsd.role().fs().foreign();
    foreign.drain(1).await.unwrap();
    pass(60).await;
    assert_eq!(fs::files_left_on(rig.nfsd.role().fs(), 1), Some(1));
    assert!(matches!(removed(&rig, 1).await, Err(NotRemoved::Files(1))));
    far.whole(&rig, &file, &model).await;
    file.close().await;
    remove(&alice, &["far"], "f").await.unwrap();
    pass(30).await;
    removed(&rig, 1).await.unwrap();
    assert!(!foreign.is_used(1));
    assert_eq!(far.fakes[0].files().len(), 0, "not even one made ahead");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_undrained_gets_files_again() {
    let (rig, _port, _far) = far_cluster(2, "copies=2").await;
    let foreign = rig.nfsd.role().fs().foreign();
    foreign.drain(1).await.unwrap();
    pass(60).await;
    assert_eq!(fs::files_left_on(rig.nfsd.role().fs(), 1), Some(0));
    foreign.undrain(1).await.unwrap();
    pass(2).await;
    assert_eq!(fs::files_left_on(rig.nfsd.role().fs(), 1), None);
    let alice = rig.session("alice").await;
    let file = far_file(&alice, "f").await;
    assert!(servers(&rig, &file).contains(&1));
}

/// What an administrator gave up is an error, and a name of it is still of use.
#[tokio::test(start_paused = true)]
async fn a_file_of_a_removed_server_is_usable_at_others_once_it_is_emptied() {
    let (rig, port, far) = far_cluster(2, "stripe_count=1").await;
    let alice = rig.session("alice").await;
    let mut lost = Vec::new();
    for n in 0..6 {
        let name = format!("f{n}");
        let file = far_file(&alice, &name).await;
        fill(&file, 0, &bytes(9000, n)).await;
        if servers(&rig, &file) == [1] {
            lost.push(name);
        }
    }
    assert!(lost.len() > 1);
    let file = far_file(&alice, &lost[0]).await;
    let layout = far_layout(&file, IoMode::Read).await;
    let forced = fs::remove_far_server(rig.nfsd.role().fs(), 1, true).await;
    forced.unwrap();
    let read = patiently(|| try_read(&file, 0, 10)).await;
    assert_eq!(read.err(), Some(NfsStatus::Io));
    // Some of it is not enough, and stands in nobody's way.
    patiently(|| file.try_truncate(100)).await.unwrap();
    let read = patiently(|| try_read(&file, 0, 10)).await;
    assert_eq!(read.err(), Some(NfsStatus::Io));

    // No layout may name what it had.
    assert_eq!(file.try_truncate(0).await, Err(NfsStatus::Delay));
    give_back(&file, layout.stateid, b"").await.unwrap();
    patiently(|| file.try_truncate(0)).await.unwrap();
    assert_eq!(servers(&rig, &file), [2]);
    assert_eq!(bytes_of(&file, 0, 10).await, b"");
    let model = bytes(20_000, 9);
    fill(&file, 0, &model).await;
    far.whole(&rig, &file, &model).await;
    let (rig, _port) = far.restart(rig, port).await;
    let alice = rig.session("alice").await;
    let file = far_file(&alice, &lost[0]).await;
    assert!(bytes_of(&file, 0, usize::MAX).await == model);
    remove(&alice, &["far"], &lost[0]).await.unwrap();

    // By OPEN too.
    let empty = async || {
        let dir = alice.lookup(&["far"]).await.unwrap();
        File::try_open_emptied(&alice, &dir, &lost[1]).await
    };
    patiently(empty).await.unwrap();
    let file = far_file(&alice, &lost[1]).await;
    fill(&file, 0, &model).await;
    far.whole(&rig, &file, &model).await;
}
