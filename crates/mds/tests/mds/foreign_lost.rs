//! Goal: bytes that a foreign server has lost are an error and never zeros, also after a restart, and hold no other file up. Method: as
//! in foreign.rs.
#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]

use crate::far::fake::Fault;
use crate::far::*;
use crate::rig::Rig;
use crate::rig::file::{File, patiently};
use crate::rig::real::{bytes_of, fill, try_read, try_write, write};
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
