//! Goal: a write of the metadata server itself that ends half way, by a power loss or by a server, leaves no two versions of a
//! mirrored file. Method: as in foreign.rs; the metadata server begins again over what is stored while a server is silent.
#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]

use crate::far::fake::Fault;
use crate::far::*;
use crate::rig::Rig;
use crate::rig::file::{File, patiently};
use crate::rig::real::{bytes_of, fill, try_write, write};
use namespace::{Cred, FileId, OWN_WRITER, Op, Time};
use nfs3::Proc;
use nfs4::attr::{self, Attrs};
use nfs4::{NfsStatus, NfsTime, SetTime, StableHow};
use std::time::Duration;

/// The clients of the mark of a file.
fn marked(rig: &Rig, file: &File<'_>) -> Vec<u64> {
    let cred = Cred::root();
    let mut op = Op::new(&cred, Time::default());
    let ns = rig.nfsd.role().fs().namespace();
    let page = ns.rw_out_files(&mut op, FileId(file.id() - 1), 1).unwrap();
    let mark = page.into_iter().find(|(of, _)| of.0 == file.id());
    mark.map(|(_, mark)| mark.clients.0).unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn mirrors_are_level_after_a_power_loss_during_a_write() {
    for (silent, unstable) in [(0, false), (1, false), (1, true)] {
        let (rig, port, far) = far_cluster(2, "copies=2").await;
        let old = bytes(9000, 1);
        {
            let alice = rig.session("alice").await;
            let file = far_file(&alice, "f").await;
            fill(&file, 0, &old).await;
            pass(60).await;
            assert_eq!(marked(&rig, &file), []);
            far.mute(Far::index(&rig, &file, silent, 0));
            let new = bytes(5000, 2);
            let stable = match unstable {
                true => StableHow::Unstable,
                false => StableHow::FileSync,
            };
            tokio::select! {
                _ = try_write(&file, 0, stable, &new) => panic!("a server is silent"),
                () = pass(1) => {}
            }
        }
        let (rig, _port) = far.restart(rig, port).await;
        far.start(0);
        far.start(1);
        let alice = rig.session("alice").await;
        let file = far_file(&alice, "f").await;
        let seen = bytes_of(&file, 0, usize::MAX).await;
        far.whole(&rig, &file, &seen).await;
        assert_eq!(bytes_of(&file, 0, usize::MAX).await, seen);
        pass(20).await;
        assert_eq!(marked(&rig, &file), []);
    }
}

#[tokio::test(start_paused = true)]
async fn a_burst_of_writes_has_one_mark_which_goes_when_all_is_committed() {
    let (rig, _port, far) = far_cluster(2, "copies=2").await;
    let alice = rig.session("alice").await;
    let file = far_file(&alice, "f").await;
    let store = rig.nfsd.role().fs().store();
    let mut costs = Vec::new();
    for n in 0..4 {
        let before = store.applied();
        write(&file, n * 100, StableHow::Unstable, &bytes(100, 1)).await;
        costs.push(store.applied().0 - before.0);
    }
    // The mark, and the note that all objects were made.
    assert_eq!(costs[0], costs[1] + 2, "{costs:?}");
    assert_eq!(costs[1..], [costs[1]; 3]);
    assert_eq!(marked(&rig, &file), [OWN_WRITER]);
    let commits = || far.fakes[0].calls(Proc::Commit);
    let before = commits();
    pass(20).await;
    assert_eq!(marked(&rig, &file), []);
    assert_eq!(commits(), before + 1);
    write(&file, 0, StableHow::FileSync, &bytes(100, 2)).await;
    assert_eq!(marked(&rig, &file), [OWN_WRITER]);
    pass(20).await;
    assert_eq!(marked(&rig, &file), []);
    assert_eq!(commits(), before + 1, "it was durable");
    assert_eq!(inode(&rig, &file).bad_mirrors(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_file_with_one_mirror_has_no_mark() {
    let (rig, _port, _far) = far_cluster(2, "copies=1").await;
    let alice = rig.session("alice").await;
    let file = far_file(&alice, "f").await;
    write(&file, 0, StableHow::Unstable, b"bytes").await;
    assert_eq!(marked(&rig, &file), []);
}

#[tokio::test(start_paused = true)]
async fn the_mark_holds_up_no_growth_and_a_restart_keeps_a_time_that_was_set() {
    let (rig, port, far) = far_cluster(2, "copies=2").await;
    let then = NfsTime {
        seconds: 12_345,
        nanoseconds: 6,
    };
    {
        let alice = rig.session("alice").await;
        let file = far_file(&alice, "f").await;
        write(&file, 0, StableHow::FileSync, b"bytes").await;
        let cuts = || far.fakes[0].calls(Proc::SetAttr);
        let before = cuts();
        patiently(|| file.try_truncate(100)).await.unwrap();
        assert_eq!(cuts(), before);
        let set = Attrs {
            time_modify_set: Some(SetTime::Client(then)),
            ..Attrs::default()
        };
        patiently(|| file.try_set(&set)).await.unwrap();
        assert_eq!(marked(&rig, &file), [OWN_WRITER]);
    }
    let (rig, _port) = far.restart(rig, port).await;
    let alice = rig.session("alice").await;
    let file = far_file(&alice, "f").await;
    let mut model = b"bytes".to_vec();
    model.resize(100, 0);
    assert_eq!(bytes_of(&file, 0, usize::MAX).await, model);
    let got = alice.attrs(&file.fh, &[attr::TIME_MODIFY]).await.unwrap();
    assert_eq!(got.time_modify, Some(then));
    far.whole(&rig, &file, &model).await;
}

#[tokio::test(start_paused = true)]
async fn a_write_without_room_at_one_mirror_leaves_one_version() {
    for full in [0, 1] {
        let (rig, _port, far) = far_cluster(2, "copies=2").await;
        let alice = rig.session("alice").await;
        let file = far_file(&alice, "f").await;
        let mut model = bytes(9000, 1);
        fill(&file, 0, &model).await;
        let fake = &far.fakes[Far::index(&rig, &file, full, 0)];
        fake.set_fault(Some(Fault::NoSpace));
        let new = bytes(5000, 2);
        let refused = try_write(&file, 0, StableHow::FileSync, &new).await;
        assert_eq!(refused.unwrap_err(), NfsStatus::NoSpc);
        assert_eq!(inode(&rig, &file).bad_mirrors(), 1 << full);
        model[..5000].copy_from_slice(&new);
        assert_eq!(bytes_of(&file, 0, usize::MAX).await, model);
        fake.set_fault(None);
        far.whole(&rig, &file, &model).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_without_room_anywhere_costs_no_mirror() {
    let (rig, _port, far) = far_cluster(2, "copies=2").await;
    let alice = rig.session("alice").await;
    let file = far_file(&alice, "f").await;
    let model = bytes(9000, 1);
    fill(&file, 0, &model).await;
    let fault = |fault| far.fakes.iter().for_each(|fake| fake.set_fault(fault));
    fault(Some(Fault::NoSpace));
    let refused = try_write(&file, 0, StableHow::FileSync, &bytes(5000, 2)).await;
    assert_eq!(refused.unwrap_err(), NfsStatus::NoSpc);
    fault(None);
    pass(20).await;
    assert_eq!(inode(&rig, &file).bad_mirrors(), 0);
    assert_eq!(marked(&rig, &file), []);
    far.whole(&rig, &file, &model).await;
}

/// Whoever wrote never comes back.
#[tokio::test(start_paused = true)]
async fn a_write_that_nobody_tries_again_leaves_one_version() {
    let (rig, _port, far) = far_cluster(2, "copies=2").await;
    let alice = rig.session("alice").await;
    let file = far_file(&alice, "f").await;
    fill(&file, 0, &bytes(9000, 1)).await;
    pass(20).await;
    // Its server does not say that it has the bytes, and the other one has not.
    let at = |mirror| &far.fakes[Far::index(&rig, &file, mirror, 0)];
    at(0).set_fault(Some(Fault::Slow(Duration::from_secs(60))));
    far.mute(Far::index(&rig, &file, 1, 0));
    let refused = try_write(&file, 0, StableHow::FileSync, &bytes(5000, 2)).await;
    assert_eq!(refused.unwrap_err(), NfsStatus::Delay);
    assert_eq!(marked(&rig, &file), [OWN_WRITER]);
    at(0).set_fault(None);
    far.start(Far::index(&rig, &file, 1, 0));
    pass(120).await;
    let seen = bytes_of(&file, 0, usize::MAX).await;
    far.whole(&rig, &file, &seen).await;
    assert_eq!(marked(&rig, &file), []);
}
