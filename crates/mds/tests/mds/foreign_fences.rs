//! Goal: who may not write any more at foreign servers cannot: after a truncation, a mode that takes rights away, the end of a
//! client, a restart. What a lost writer has written is taken in, and one of its mirrors counts. Method: as in foreign.rs.
#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]

use crate::far::*;
use crate::rig::file::{File, patiently};
use crate::rig::real::{bytes_of, fill, read, try_read, write};
use crate::rig::{Client, Rig};
use nfs4::attr::Attrs;
use nfs4::{IoMode, StableHow};

/// Another client's open of a file of `/far`.
async fn theirs<'c>(client: &'c Client, name: &str) -> File<'c> {
    far_file(client, name).await
}

#[tokio::test(start_paused = true)]
async fn a_truncation_keeps_the_layouts_of_others_from_writing_and_cuts_all_mirrors() {
    let (rig, _port, far) = far_cluster(4, "stripe_count=2 copies=2").await;
    let recalled = Recalled::new(true);
    let alice = rig
        .session_of("alice", *b"boot0001", Some(recalled.clone()))
        .await;
    let bob = rig.session("bob").await;
    let file = far_file(&alice, "f").await;
    let data = bytes(6 * UNIT, 1);
    let old = far_layout(&file, IoMode::Rw).await;
    old.write((&rig, &far), 0, &data).await.unwrap();
    file.layout_commit(old.stateid, data.len() as u64)
        .await
        .unwrap();
    let bobs = theirs(&bob, "f").await;
    patiently(|| bobs.try_truncate(UNIT as u64 + 10))
        .await
        .unwrap();
    assert_eq!(recalled.seen.lock().len(), 1);
    for place in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let late = old.write_at((&rig, &far), place, 0, b"late").await;
        assert!(late.is_err(), "{place:?}");
    }
    for object in far.objects(&rig, &file).iter().flatten().flatten() {
        assert!(object.data.len() <= UNIT + 10);
    }
    patiently(|| bobs.try_truncate(3 * UNIT as u64))
        .await
        .unwrap();
    let mut model = data[..UNIT + 10].to_vec();
    model.resize(3 * UNIT, 0);
    assert_eq!(bytes_of(&bobs, 0, usize::MAX).await, model);
    far.whole(&rig, &file, &model).await;
    let new = far_layout(&file, IoMode::Rw).await;
    assert_ne!(new.ids(0, 0), old.ids(0, 0));
}

/// Linux opens with O_TRUNC so: its own layout stays as good as it was.
#[tokio::test(start_paused = true)]
async fn the_only_writer_truncates_and_goes_on_with_its_layout() {
    let (rig, _port, far) = far_cluster(2, "copies=2").await;
    let alice = rig.session("alice").await;
    let file = far_file(&alice, "f").await;
    fill(&file, 0, &bytes(5000, 1)).await;
    let layout = far_layout(&file, IoMode::Rw).await;
    patiently(|| file.try_truncate(0)).await.unwrap();
    let data = bytes(100, 2);
    layout.write((&rig, &far), 0, &data).await.unwrap();
    file.layout_commit(layout.stateid, 100).await.unwrap();
    assert_eq!(read(&file, 0, 200).await, (data, true));
}

#[tokio::test(start_paused = true)]
async fn a_mode_that_takes_rights_away_fences_all() {
    let (rig, _port, far) = far_cluster(2, "copies=2").await;
    let alice = rig.session("alice").await;
    let file = far_file(&alice, "f").await;
    fill(&file, 0, &bytes(100, 1)).await;
    let old = far_layout(&file, IoMode::Rw).await;
    let bob = rig.session("bob").await;
    let bobs = theirs(&bob, "f").await;
    let ro = far_layout(&bobs, IoMode::Read).await;
    ro.read_at((&rig, &far), (1, 0), (0, 10)).await.unwrap();
    let narrow = Attrs {
        mode: Some(0o400),
        ..Attrs::default()
    };
    file.try_set(&narrow).await.unwrap();
    for mirror in [0, 1] {
        let late = old.write_at((&rig, &far), (mirror, 0), 0, b"late").await;
        assert!(late.is_err());
        let late = ro.read_at((&rig, &far), (mirror, 0), (0, 10)).await;
        assert!(late.is_err());
    }
}

/// Alice writes other bytes at each mirror, and is no more.
async fn torn<'c>(rig: &Rig, far: &Far, alice: &'c Client) -> (File<'c>, FarLayout) {
    let file = far_file(alice, "f").await;
    let layout = far_layout(&file, IoMode::Rw).await;
    for (mirror, byte) in [(0, b'a'), (1, b'b')] {
        let bytes = vec![byte; 1000 + 1000 * mirror];
        layout
            .write_at((rig, far), (mirror, 0), 0, &bytes)
            .await
            .unwrap();
    }
    (file, layout)
}

async fn is_one_of_the_mirrors(rig: &Rig, far: &Far, file: &File<'_>, old: &FarLayout) {
    let (size, _) = patiently(|| file.try_attrs()).await.unwrap();
    assert!([1000, 2000].contains(&size), "{size}");
    let seen = bytes_of(file, 0, usize::MAX).await;
    let byte = if size == 1000 { b'a' } else { b'b' };
    assert!(seen == vec![byte; seen.len()] && seen.len() as u64 == size);
    // Before its mirrors are brought back, what is written to a bad one has no effect.
    let good = |mirror: &usize| inode(rig, file).bad_mirrors() & (1 << mirror) == 0;
    for mirror in [0, 1].into_iter().filter(good) {
        let late = old.write_at((rig, far), (mirror, 0), 0, b"late").await;
        assert!(late.is_err(), "{mirror}");
    }
    far.whole(rig, file, &seen).await;
    assert_eq!(bytes_of(file, 0, usize::MAX).await, seen);
    let new = far_layout(file, IoMode::Rw).await;
    assert_eq!(new.body.mirrors.0.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn what_a_lost_writer_left_is_taken_from_one_mirror_and_brought_to_all() {
    let (rig, _port, far) = far_cluster(2, "copies=2").await;
    let alice = rig.session("alice").await;
    let bob = rig.session("bob").await;
    let (_file, old) = torn(&rig, &far, &alice).await;
    let bobs = theirs(&bob, "f").await;
    drop(rig.session_of("alice", *b"boot0002", None).await);
    is_one_of_the_mirrors(&rig, &far, &bobs, &old).await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_writer_holds_nobody_up_though_one_of_its_mirrors_is_down() {
    for dead in [0, 1] {
        let (rig, _port, far) = far_cluster(2, "copies=2").await;
        let alice = rig.session("alice").await;
        let bob = rig.session("bob").await;
        let (file, old) = torn(&rig, &far, &alice).await;
        let bobs = theirs(&bob, "f").await;
        let dead = Far::index(&rig, &file, dead, 0);
        far.kill(dead);
        drop(rig.session_of("alice", *b"boot0002", None).await);
        let (size, _) = patiently(|| bobs.try_attrs()).await.unwrap();
        let seen = bytes_of(&bobs, 0, usize::MAX).await;
        assert_eq!(seen.len() as u64, size);
        let layout = far_layout(&bobs, IoMode::Rw).await;
        far.start(dead);
        give_back(&bobs, layout.stateid, b"").await.unwrap();
        is_one_of_the_mirrors(&rig, &far, &bobs, &old).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_answers_no_recall_is_fenced_before_one_mirror_is_chosen() {
    let (rig, _port, far) = far_cluster(2, "copies=2").await;
    let alice = rig.session("alice").await;
    let (_file, old) = torn(&rig, &far, &alice).await;
    let carol = rig
        .session_of("carol", *b"boot0001", Some(Recalled::new(false)))
        .await;
    let carols = theirs(&carol, "f").await;
    let ro = far_layout(&carols, IoMode::Read).await;
    let bob = rig.session("bob").await;
    let bobs = theirs(&bob, "f").await;
    drop(rig.session_of("alice", *b"boot0002", None).await);
    let alive = async {
        loop {
            pass(5).await;
            carol.session.renew().await.unwrap();
        }
    };
    let test = async {
        is_one_of_the_mirrors(&rig, &far, &bobs, &old).await;
        let late = ro.read_at((&rig, &far), (0, 0), (0, 10)).await;
        assert!(late.is_err());
    };
    tokio::select! {
        () = alive => unreachable!(),
        () = test => {}
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_restart_ids_change_and_what_was_out_for_writing_is_taken_in() {
    let (rig, port, far) = far_cluster(2, "copies=2").await;
    let alice = rig.session("alice").await;
    let (_file, old) = torn(&rig, &far, &alice).await;
    let quiet = far_file(&alice, "quiet").await;
    fill(&quiet, 0, &bytes(100, 4)).await;
    let ro = far_layout(&quiet, IoMode::Read).await;
    pass(3).await;
    let pool = far.fakes[0].files().len();
    let (rig, port) = far.restart(rig, port).await;
    let alice = rig.session("alice").await;
    let file = far_file(&alice, "f").await;
    is_one_of_the_mirrors(&rig, &far, &file, &old).await;
    let quiet = far_file(&alice, "quiet").await;
    assert_eq!(bytes_of(&quiet, 0, usize::MAX).await, bytes(100, 4));
    let new = far_layout(&quiet, IoMode::Read).await;
    assert_ne!(new.ids(0, 0), ro.ids(0, 0));
    let late = ro.read_at((&rig, &far), (0, 0), (0, 10)).await;
    assert!(late.is_err());
    // Names that the earlier run has reserved are taken first.
    for n in 0..20 {
        far_file(&alice, &format!("n{n}")).await;
        pass(2).await;
    }
    let more = far.fakes[0].files().len();
    assert!(more <= pool + 20 + 4, "{pool} {more}");
    assert_eq!(try_read(&quiet, 0, 3).await.unwrap().0, bytes(3, 4));
    drop(port);
}

#[tokio::test(start_paused = true)]
async fn a_file_opened_again_after_a_restart_is_written_with_new_ids() {
    let (rig, port, far) = far_cluster(2, "copies=2").await;
    let alice = rig.session("alice").await;
    let file = far_file(&alice, "f").await;
    fill(&file, 0, &bytes(100, 1)).await;
    let (rig, _port) = far.restart(rig, port).await;
    let alice = rig.session("alice").await;
    let file = far_file(&alice, "f").await;
    write(&file, 50, StableHow::FileSync, b"more").await;
    let layout = far_layout(&file, IoMode::Rw).await;
    layout.write((&rig, &far), 0, b"new").await.unwrap();
    let mut model = bytes(100, 1);
    model[..3].copy_from_slice(b"new");
    model[50..54].copy_from_slice(b"more");
    assert_eq!(read(&file, 0, 1000).await.0, model);
    let status = file.layout_commit(layout.stateid, 3).await;
    assert_eq!(status, Ok(()));
}
