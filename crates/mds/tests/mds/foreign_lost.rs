//! Goal: bytes that a foreign server has lost are an error and never zeros, also after a restart, and hold no other file up. A file
//! that is to have no bytes lacks none. Method: as in foreign.rs.
#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]

use crate::far::fake::Fault;
use crate::far::*;
use crate::rig::file::{File, patiently};
use crate::rig::real::{bytes_of, fill, try_read, try_write, write};
use crate::rig::{Client, Rig};
use nfs4::{IoMode, NfsStatus, OpNum, StableHow};

/// The name of the objects of a file.
fn object(rig: &Rig, file: &File<'_>) -> String {
    let data = inode(rig, file).data();
    format!("{:016x}.{:08x}", data.file.0, data.generation)
}

#[tokio::test(start_paused = true)]
async fn a_lost_object_is_an_error_after_a_restart_and_holds_nobody_up() {
    let (rig, port, far) = far_cluster(1, "").await;
    let alice = rig.session("alice").await;
    let [through, direct, other] = ["through", "direct", "other"];
    let data = bytes(5000, 1);
    let file = far_file(&alice, through).await;
    assert!(!inode(&rig, &file).has_objects(), "nothing is lost yet");
    fill(&file, 0, &data).await;
    assert!(inode(&rig, &file).has_objects());
    // One that a client writes by its layout, and has out while the server restarts.
    let file = far_file(&alice, direct).await;
    let layout = far_layout(&file, IoMode::Rw).await;
    assert!(inode(&rig, &file).has_objects());
    layout.write((&rig, &far), 0, &data).await.unwrap();
    file.layout_commit(layout.stateid, 5000).await.unwrap();
    for name in [through, direct] {
        let file = far_file(&alice, name).await;
        far.fakes[0].lose_file(&object(&rig, &file));
    }
    let file = far_file(&alice, other).await;
    let out = far_layout(&file, IoMode::Rw).await;
    out.write((&rig, &far), 0, &data).await.unwrap();
    let empty = far_file(&alice, "empty").await;
    assert!(!inode(&rig, &empty).has_objects());

    let (rig, port) = far.restart(rig, port).await;
    let alice = rig.session("alice").await;
    for name in [through, direct] {
        let file = far_file(&alice, name).await;
        let read = patiently(|| try_read(&file, 0, 5000)).await;
        assert_eq!(read.err(), Some(NfsStatus::Io), "{name}");
        let stable = StableHow::FileSync;
        let written = patiently(|| try_write(&file, 0, stable, b"new")).await;
        assert_eq!(written.err(), Some(NfsStatus::Io), "{name}");
        for mode in [IoMode::Read, IoMode::Rw] {
            let granted = patiently(|| try_far_layout(&file, mode)).await;
            assert_eq!(granted.err(), Some(NfsStatus::LayoutUnavailable));
        }
        let files = far.fakes[0].files();
        assert!(!files.contains_key(&object(&rig, &file)), "{name}");
    }
    let file = far_file(&alice, other).await;
    assert_eq!(bytes_of(&file, 0, usize::MAX).await, data);
    // Nothing was ever written to it.
    let empty = far_file(&alice, "empty").await;
    write(&empty, 0, StableHow::FileSync, b"first").await;
    remove(&alice, &["far"], through).await.unwrap();
    drop(port);
}

#[tokio::test(start_paused = true)]
async fn a_mirror_that_lost_its_object_is_brought_back_from_the_other_after_a_restart() {
    let (rig, port, far) = far_cluster(2, "stripe_count=1 copies=2").await;
    let alice = rig.session("alice").await;
    let file = far_file(&alice, "f").await;
    let data = bytes(5000, 1);
    fill(&file, 0, &data).await;
    let index = Far::index(&rig, &file, 0, 0);
    far.fakes[index].lose_file(&object(&rig, &file));
    let (rig, _port) = far.restart(rig, port).await;
    let alice = rig.session("alice").await;
    let file = far_file(&alice, "f").await;
    assert_eq!(bytes_of(&file, 0, usize::MAX).await, data);
    write(&file, 0, StableHow::FileSync, &data[..10]).await;
    far.whole(&rig, &file, &data).await;
}

/// Who could not read it: a client with a layout for reading, or this server for a client without one.
#[tokio::test(start_paused = true)]
async fn a_mirror_that_cannot_be_read_is_looked_at_and_made_again() {
    for (is_reported, is_lost) in [(true, false), (true, true), (false, false), (false, true)] {
        let (rig, _port, far) = far_cluster(3, "stripe_count=1 copies=2").await;
        let alice = rig.session("alice").await;
        let file = far_file(&alice, "f").await;
        let data = bytes(5000, 1);
        fill(&file, 0, &data).await;
        pass(20).await;
        let was = inode(&rig, &file).data();
        let mirror = u32::try_from(was.file.0 % 2).unwrap();
        let faulty = &far.fakes[Far::index(&rig, &file, mirror, 0)];
        match is_lost {
            true => faulty.lose_file(&object(&rig, &file)),
            false => faulty.set_fault(Some(Fault::FailsReads)),
        }
        if is_reported {
            let layout = far_layout(&file, IoMode::Read).await;
            let errors = vec![fault(&layout, mirror as usize, OpNum::Read, NfsStatus::Io)];
            report(&file, layout.stateid, errors).await.unwrap();
            give_back(&file, layout.stateid, b"").await.unwrap();
        } else {
            // Files begin with different mirrors.
            let read = patiently(|| try_read(&file, 0, 5000)).await.unwrap();
            assert_eq!(read.0, data);
        }
        pass(2).await;
        let is_at_it = inode(&rig, &file).bad_mirrors() == 1 << mirror;
        assert!(
            is_at_it || inode(&rig, &file).data() != was,
            "{is_reported} {is_lost}"
        );
        faulty.set_fault(None);
        far.whole(&rig, &file, &data).await;
        assert_ne!(inode(&rig, &file).data(), was, "it has other objects");
    }
}

/// Cuts a file to nothing: by SETATTR, or by OPEN with a size of 0. Returns it as it is open then.
async fn emptied<'c>(by_open: bool, client: &'c Client, name: &str) -> File<'c> {
    if by_open {
        let dir = client.lookup(&["far"]).await.unwrap();
        let open = || File::try_open_emptied(client, &dir, name);
        patiently(open).await.unwrap();
        return far_file(client, name).await;
    }
    let file = far_file(client, name).await;
    patiently(|| file.try_truncate(0)).await.unwrap();
    file
}

#[tokio::test(start_paused = true)]
async fn a_lost_file_that_is_cut_to_nothing_is_usable_again() {
    for (mirrors, by_open, is_restarted) in [
        (1, false, true),
        (1, true, true),
        (1, false, false),
        (2, false, true),
    ] {
        let policy = format!("stripe_count=2 copies={mirrors}");
        let (rig, port, far) = far_cluster(2 * mirrors, &policy).await;
        let alice = rig.session("alice").await;
        let data = bytes(3 * UNIT, 1);
        let file = far_file(&alice, "f").await;
        fill(&file, 0, &data).await;
        let name = object(&rig, &file);
        pass(20).await;
        for fake in &far.fakes {
            fake.lose_file(&name);
        }
        let (rig, _port) = match is_restarted {
            true => far.restart(rig, port).await,
            false => (rig, port),
        };
        let bob = rig.session("bob").await;
        let file = far_file(&bob, "f").await;
        let read = patiently(|| try_read(&file, 0, 10)).await;
        assert_eq!(read.err(), Some(NfsStatus::Io));

        // Its bytes stay lost when some of them are to stay, and nothing waits for that for ever.
        patiently(|| file.try_truncate(UNIT as u64)).await.unwrap();
        let read = patiently(|| try_read(&file, 0, 10)).await;
        assert_eq!(read.err(), Some(NfsStatus::Io));

        let file = emptied(by_open, &bob, "f").await;
        assert_eq!(bytes_of(&file, 0, 10).await, b"");
        file.try_truncate(UNIT as u64).await.unwrap();
        assert_eq!(bytes_of(&file, 0, UNIT).await, vec![0; UNIT]);
        fill(&file, 0, &data).await;
        let layout = far_layout(&file, IoMode::Rw).await;
        layout.write((&rig, &far), 0, &data[..10]).await.unwrap();
        give_back(&file, layout.stateid, b"").await.unwrap();
        far.whole(&rig, &file, &data).await;
    }
}

/// Then there is nothing to be cut, and no byte is lost.
#[tokio::test(start_paused = true)]
async fn an_empty_file_whose_object_is_lost_is_usable_once_it_is_emptied() {
    for by_open in [false, true] {
        let (rig, port, far) = far_cluster(1, "").await;
        let alice = rig.session("alice").await;
        let file = far_file(&alice, "f").await;
        fill(&file, 0, b"old").await;
        file.try_truncate(0).await.unwrap();
        far.fakes[0].lose_file(&object(&rig, &file));
        let (rig, _port) = far.restart(rig, port).await;
        let alice = rig.session("alice").await;
        let file = far_file(&alice, "f").await;
        let stable = StableHow::FileSync;
        let written = patiently(|| try_write(&file, 0, stable, b"new")).await;
        assert_eq!(written.err(), Some(NfsStatus::Io));
        let file = emptied(by_open, &alice, "f").await;
        write(&file, 0, stable, b"new").await;
        assert_eq!(bytes_of(&file, 0, 10).await, b"new");
    }
}

/// The other one has none of the bytes either, so there is nothing to be brought back.
#[tokio::test(start_paused = true)]
async fn a_mirror_that_lost_its_object_stays_good_when_all_is_cut() {
    let (rig, port, far) = far_cluster(2, "stripe_count=1 copies=2").await;
    let alice = rig.session("alice").await;
    let file = far_file(&alice, "f").await;
    fill(&file, 0, b"old").await;
    pass(20).await;
    let data = inode(&rig, &file).data();
    far.fakes[Far::index(&rig, &file, 0, 0)].lose_file(&object(&rig, &file));
    let (rig, _port) = far.restart(rig, port).await;
    let alice = rig.session("alice").await;
    let file = far_file(&alice, "f").await;
    patiently(|| file.try_truncate(0)).await.unwrap();
    assert_eq!(inode(&rig, &file).bad_mirrors(), 0);
    write(&file, 0, StableHow::FileSync, b"new").await;
    far.whole(&rig, &file, b"new").await;
    assert_eq!(inode(&rig, &file).data(), data, "the same objects");
}
