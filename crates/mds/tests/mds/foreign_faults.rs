//! Goal: a file with a server that fails goes on at its other mirrors, shows nothing old, and gets all mirrors back. What clients
//! report costs a mirror where a write is missing, and nothing else. Method: as in foreign.rs.
#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]

use crate::far::fake::Fault;
use crate::far::*;
use crate::layouts::stats;
use crate::rig::file::patiently;
use crate::rig::real::{bytes_of, fill, read, try_commit, try_read, try_write, write};
use nfs4::attr::Attrs;
use nfs4::flex_files::{FlexIoError, FlexLayoutReturn};
use nfs4::ops::DeviceError;
use nfs4::{DeviceId, IoMode, NfsStatus, OpNum, StableHow, Stateid};
use xdr::List;

#[tokio::test(start_paused = true)]
async fn a_write_goes_on_without_a_server_that_dies_and_its_mirror_comes_back() {
    for (dead_mirror, ends) in [
        (0, Far::kill as fn(&Far, usize)),
        (1, Far::kill),
        (0, Far::mute),
        (1, Far::mute),
    ] {
        let (rig, _port, far) = far_cluster(4, "stripe_count=2 copies=2").await;
        let alice = rig.session("alice").await;
        let file = far_file(&alice, "f").await;
        let mut model = bytes(6 * UNIT, 1);
        fill(&file, 0, &model).await;
        let dead = Far::index(&rig, &file, dead_mirror, 1);
        ends(&far, dead);
        let new = bytes(3 * UNIT, 2);
        write(&file, 100, StableHow::FileSync, &new).await;
        model[100..100 + new.len()].copy_from_slice(&new);
        assert_eq!(inode(&rig, &file).bad_mirrors(), 1 << dead_mirror);
        assert_eq!(bytes_of(&file, 0, usize::MAX).await, model);
        let layout = far_layout(&file, IoMode::Rw).await;
        assert_eq!(layout.body.mirrors.0.len(), 1);
        give_back(&file, layout.stateid, b"").await.unwrap();
        pass(20).await;
        far.start(dead);
        assert_eq!(bytes_of(&file, 0, usize::MAX).await, model);
        far.whole(&rig, &file, &model).await;
        assert_eq!(bytes_of(&file, 0, usize::MAX).await, model);
        pass(10).await;
        let objects = far.objects(&rig, &file).concat().len();
        assert_eq!(far.files_with_bytes(), objects, "the old ones are removed");
    }
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_fails_costs_the_mirror() {
    let (rig, _port, far) = far_cluster(2, "copies=2").await;
    let alice = rig.session("alice").await;
    let file = far_file(&alice, "f").await;
    let data = bytes(5000, 1);
    write(&file, 0, StableHow::Unstable, &data).await;
    let failing = Far::index(&rig, &file, 1, 0);
    far.fakes[failing].set_fault(Some(Fault::FailsCommits));
    patiently(|| try_commit(&file)).await.unwrap();
    assert_eq!(inode(&rig, &file).bad_mirrors(), 2);
    far.fakes[failing].set_fault(None);
    far.whole(&rig, &file, &data).await;
}

#[tokio::test(start_paused = true)]
async fn a_layout_for_writing_leaves_out_a_mirror_whose_server_is_dead() {
    let (rig, _port, far) = far_cluster(2, "copies=2").await;
    let alice = rig.session("alice").await;
    let file = far_file(&alice, "f").await;
    fill(&file, 0, &bytes(5000, 1)).await;
    let dead = Far::index(&rig, &file, 0, 0);
    far.kill(dead);
    pass(8).await;
    let layout = far_layout(&file, IoMode::Rw).await;
    assert_eq!(layout.body.mirrors.0.len(), 1);
    assert_eq!(inode(&rig, &file).bad_mirrors(), 1);
    let data = bytes(6000, 2);
    layout.write((&rig, &far), 0, &data).await.unwrap();
    file.layout_commit(layout.stateid, 6000).await.unwrap();
    far.start(dead);
    pass(5).await;
    assert_eq!(read(&file, 0, 10_000).await.0, data);
    give_back(&file, layout.stateid, b"").await.unwrap();
    far.whole(&rig, &file, &data).await;
}

#[tokio::test(start_paused = true)]
async fn a_layout_for_reading_passes_over_a_dead_server_and_marks_nothing() {
    let (rig, _port, far) = far_cluster(2, "copies=2").await;
    let alice = rig.session("alice").await;
    let file = far_file(&alice, "f").await;
    fill(&file, 0, &bytes(5000, 1)).await;
    far.kill(Far::index(&rig, &file, 0, 0));
    pass(8).await;
    let layout = far_layout(&file, IoMode::Read).await;
    assert_eq!(layout.body.mirrors.0.len(), 1);
    assert_eq!(inode(&rig, &file).bad_mirrors(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_truncation_goes_on_without_a_dead_mirror() {
    let (rig, _port, far) = far_cluster(2, "copies=2").await;
    let alice = rig.session("alice").await;
    let file = far_file(&alice, "f").await;
    let data = bytes(5000, 1);
    fill(&file, 0, &data).await;
    let dead = Far::index(&rig, &file, 0, 0);
    far.kill(dead);
    patiently(|| file.try_truncate(100)).await.unwrap();
    patiently(|| file.try_truncate(200)).await.unwrap();
    far.start(dead);
    let mut model = data[..100].to_vec();
    model.resize(200, 0);
    assert_eq!(bytes_of(&file, 0, usize::MAX).await, model);
    far.whole(&rig, &file, &model).await;
}

/// The writer keeps its own layout over its truncation, and the mirror must not count before that comes back.
#[tokio::test(start_paused = true)]
async fn a_truncation_by_a_writer_ends_though_a_mirror_dies_and_it_answers_no_recall() {
    let (rig, _port, far) = far_cluster(2, "copies=2").await;
    let alice = rig
        .session_of("alice", *b"boot0001", Some(Recalled::new(false)))
        .await;
    let file = far_file(&alice, "f").await;
    let data = bytes(5000, 1);
    fill(&file, 0, &data).await;
    far_layout(&file, IoMode::Rw).await;
    let dead = Far::index(&rig, &file, 0, 0);
    far.kill(dead);
    patiently(|| file.try_truncate(100)).await.unwrap();
    far.start(dead);
    assert_eq!(bytes_of(&file, 0, usize::MAX).await, data[..100]);
    far.whole(&rig, &file, &data[..100]).await;
}

#[tokio::test(start_paused = true)]
async fn a_mode_that_takes_rights_away_is_not_held_up_by_a_dead_mirror() {
    let (rig, _port, far) = far_cluster(2, "copies=2").await;
    let alice = rig.session("alice").await;
    let file = far_file(&alice, "f").await;
    fill(&file, 0, &bytes(5000, 1)).await;
    let dead = Far::index(&rig, &file, 0, 0);
    far.kill(dead);
    pass(8).await;
    let narrow = Attrs {
        mode: Some(0o600),
        ..Attrs::default()
    };
    patiently(|| file.try_set(&narrow)).await.unwrap();
    assert_eq!(
        inode(&rig, &file).bad_mirrors(),
        1,
        "no fence has reached it"
    );
    far_layout(&file, IoMode::Read).await;
}

#[tokio::test(start_paused = true)]
async fn only_a_write_that_is_missing_costs_a_mirror() {
    let (rig, _port, far) = far_cluster(2, "copies=2").await;
    let recalled = Recalled::new(true);
    let alice = rig
        .session_of("alice", *b"boot0001", Some(recalled.clone()))
        .await;
    let file = far_file(&alice, "f").await;
    let data = bytes(100, 1);
    fill(&file, 0, &data).await;
    let rw = far_layout(&file, IoMode::Rw).await;
    for (op, status) in [
        (OpNum::Read, NfsStatus::Io),
        (OpNum::Write, NfsStatus::Access),
        (OpNum::Write, NfsStatus::NoSpc),
        (OpNum::Commit, NfsStatus::Perm),
    ] {
        let errors = vec![fault(&rw, 1, op, status)];
        report(&file, rw.stateid, errors).await.unwrap();
        pass(2).await;
        assert_eq!(inode(&rig, &file).bad_mirrors(), 0, "{op:?} {status:?}");
    }
    assert_eq!(recalled.seen.lock().len(), 0);

    let mallory = rig.session("mallory").await;
    let theirs = far_file(&mallory, "f").await;
    let errors = vec![fault(&rw, 1, OpNum::Write, NfsStatus::Io)];
    for stateid in [rw.stateid, theirs.open, Stateid::ANONYMOUS] {
        let refused = report(&theirs, stateid, errors.clone()).await;
        assert!(refused.is_err());
    }
    let ro = far_layout(&theirs, IoMode::Read).await;
    report(&theirs, ro.stateid, errors.clone()).await.unwrap();
    pass(2).await;
    let bad = inode(&rig, &file).bad_mirrors();
    assert_eq!(bad, 0, "a reader writes nothing, and the mirror is well");
    give_back(&theirs, ro.stateid, b"").await.unwrap();

    far.fakes[rw.index(&rig, 1, 0)].set_fault(Some(Fault::NoSpace));
    report(&file, rw.stateid, errors).await.unwrap();
    pass(1).await;
    assert_eq!(recalled.seen.lock().len(), 1);
    far.fakes[rw.index(&rig, 1, 0)].set_fault(None);
    far.whole(&rig, &file, &data).await;
    assert_ne!(far_layout(&file, IoMode::Rw).await.fh(1, 0), rw.fh(1, 0));
}

/// As Linux 7.3 does it: both in one compound, and the living one once more.
#[tokio::test(start_paused = true)]
async fn reports_of_all_mirrors_spare_one_whose_server_answers() {
    for dead in [None, Some(0), Some(1)] {
        for order in [[0, 1, 0], [1, 0, 1]] {
            let (rig, _port, far) = far_cluster(2, "copies=2").await;
            let alice = rig.session("alice").await;
            let file = far_file(&alice, "f").await;
            let mut model = bytes(5000, 1);
            fill(&file, 0, &model).await;
            let rw = far_layout(&file, IoMode::Rw).await;
            let dead_server = dead.map(|mirror| rw.index(&rig, mirror, 0));
            dead_server.inspect(|server| far.kill(*server));
            for mirror in order {
                let errors = vec![fault(&rw, mirror, OpNum::Write, NfsStatus::NxIo)];
                report(&file, rw.stateid, errors).await.unwrap();
            }
            give_back(&file, rw.stateid, b"").await.unwrap();
            let new = bytes(3000, 2);
            patiently(|| try_write(&file, 500, StableHow::FileSync, &new))
                .await
                .unwrap();
            model[500..3500].copy_from_slice(&new);
            if let Some(mirror) = dead {
                assert_eq!(inode(&rig, &file).bad_mirrors(), 1 << mirror, "{order:?}");
            }
            assert_eq!(bytes_of(&file, 0, usize::MAX).await, model);
            dead_server.inspect(|server| far.start(*server));
            far.whole(&rig, &file, &model).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_mirror_is_marked_only_after_all_layouts_are_back() {
    let (rig, _port, far) = far_cluster(2, "copies=2").await;
    let recalled = Recalled::new(false);
    let alice = rig.session("alice").await;
    let bob = rig
        .session_of("bob", *b"boot0001", Some(recalled.clone()))
        .await;
    let file = far_file(&alice, "f").await;
    fill(&file, 0, &bytes(100, 1)).await;
    let bobs = far_file(&bob, "f").await;
    far_layout(&bobs, IoMode::Read).await;
    let rw = far_layout(&file, IoMode::Rw).await;
    let errors = vec![fault(&rw, 0, OpNum::Write, NfsStatus::Io)];
    report(&file, rw.stateid, errors).await.unwrap();
    give_back(&file, rw.stateid, b"").await.unwrap();
    pass(3).await;
    assert_eq!(inode(&rig, &file).bad_mirrors(), 0, "bob reads");
    let refused = try_far_layout(&file, IoMode::Rw).await.unwrap_err();
    assert_eq!(refused, NfsStatus::RecallConflict);
    let stateid = recalled.seen.lock().first().copied().unwrap();
    give_back(&bobs, stateid, b"").await.unwrap();
    pass(1).await;
    far.whole(&rig, &file, &bytes(100, 1)).await;
}

#[tokio::test(start_paused = true)]
async fn errors_in_a_layoutreturn_cost_the_mirror_and_nonsense_costs_nothing() {
    let (rig, _port, far) = far_cluster(2, "copies=2").await;
    let alice = rig.session("alice").await;
    let file = far_file(&alice, "f").await;
    let data = bytes(100, 1);
    fill(&file, 0, &data).await;
    let rw = far_layout(&file, IoMode::Rw).await;
    for malformed in [&[1][..], &[0xff; 64], &[0, 0, 0, 1, 0, 0, 0, 0]] {
        let refused = give_back(&file, rw.stateid, malformed).await;
        assert_eq!(refused, Err(NfsStatus::BadXdr));
    }
    let nobodys = DeviceError {
        device_id: DeviceId { bytes: [9; 16] },
        status: NfsStatus::Io as u32,
        opnum: OpNum::Write as u32,
    };
    let odd = DeviceError {
        status: u32::MAX,
        opnum: u32::MAX,
        ..fault(&rw, 0, OpNum::Write, NfsStatus::Io)
    };
    let many = [nobodys, odd].repeat(128);
    report(&file, rw.stateid, many).await.unwrap();
    pass(2).await;
    assert_eq!(inode(&rig, &file).bad_mirrors(), 0);
    let too_many = vec![nobodys; 257];
    assert_eq!(
        report(&file, rw.stateid, too_many).await,
        Err(NfsStatus::BadXdr)
    );
    let said = FlexLayoutReturn {
        io_errors: List(vec![FlexIoError {
            offset: u64::MAX,
            length: u64::MAX,
            // As Linux has it.
            stateid: Stateid::ANONYMOUS,
            errors: List(vec![fault(&rw, 0, OpNum::Write, NfsStatus::Io)]),
        }]),
        io_stats: List(Vec::new()),
    };
    let body = xdr::encode_to_vec(&said);
    give_back(&file, rw.stateid, &body).await.unwrap();
    pass(1).await;
    far.whole(&rig, &file, &data).await;
    assert_ne!(far_layout(&file, IoMode::Rw).await.fh(0, 0), rw.fh(0, 0));
}

#[tokio::test(start_paused = true)]
async fn two_writes_that_fail_at_different_mirrors_leave_one() {
    let (rig, _port, far) = far_cluster(2, "copies=2").await;
    let alice = rig.session("alice").await;
    let file = far_file(&alice, "f").await;
    fill(&file, 0, &bytes(100, 1)).await;
    // A reader keeps both waiting for as long as both need to fail.
    let carol = rig
        .session_of("carol", *b"boot0001", Some(Recalled::new(false)))
        .await;
    let carols = far_file(&carol, "f").await;
    let ro = far_layout(&carols, IoMode::Read).await;
    let at = |mirror| far.fakes[Far::index(&rig, &file, mirror, 0)].clone();
    let (first, second) = (at(0), at(1));
    first.set_fault(Some(Fault::NoSpace));
    let both = async {
        first.set_fault(Some(Fault::TakesNothing));
        let one = crate::rig::real::try_write(&file, 0, StableHow::FileSync, b"one");
        let two = async {
            pass(1).await;
            first.set_fault(None);
            second.set_fault(Some(Fault::TakesNothing));
            let wrote = crate::rig::real::try_write(&file, 50, StableHow::FileSync, b"two").await;
            second.set_fault(None);
            wrote
        };
        let back = async {
            pass(2).await;
            give_back(&carols, ro.stateid, b"").await.unwrap();
        };
        tokio::join!(one, two, back)
    };
    let (one, two, ()) = both.await;
    let bad = inode(&rig, &file).bad_mirrors();
    assert!(bad.count_ones() == 1, "{bad:b}");
    assert!(one.is_err() || two.is_err());
    let mut model = bytes(100, 1);
    for (at, bytes) in [(0, b"one"), (50, b"two")] {
        write(&file, at as u64, StableHow::FileSync, bytes).await;
        model[at..at + 3].copy_from_slice(bytes);
    }
    assert_eq!(try_read(&file, 0, 200).await.unwrap().0, model);
    far.whole(&rig, &file, &model).await;
}

/// The write may never be sent again. Then its bytes are at one mirror only, and that is the one that counts.
#[tokio::test(start_paused = true)]
async fn a_mirror_that_lacks_a_write_is_marked_though_the_writer_does_not_ask_again() {
    let (rig, _port, far) = far_cluster(2, "copies=2").await;
    let alice = rig.session("alice").await;
    let file = far_file(&alice, "f").await;
    let mut model = bytes(100, 1);
    fill(&file, 0, &model).await;
    let carol = rig
        .session_of("carol", *b"boot0001", Some(Recalled::new(false)))
        .await;
    let carols = far_file(&carol, "f").await;
    far_layout(&carols, IoMode::Rw).await;
    let failing = far.fakes[Far::index(&rig, &file, 0, 0)].clone();
    failing.set_fault(Some(Fault::TakesNothing));
    let wrote = crate::rig::real::try_write(&file, 0, StableHow::FileSync, b"new").await;
    assert_eq!(wrote.err(), Some(NfsStatus::Delay), "carol may read it");
    failing.set_fault(None);
    model[..3].copy_from_slice(b"new");
    // Carol is no more: a mirror is chosen.
    drop(rig.session_of("carol", *b"boot0002", None).await);
    assert_eq!(bytes_of(&file, 0, usize::MAX).await, model);
    far.whole(&rig, &file, &model).await;
}

/// Its disk may have become read-only: the pulse says nothing of that.
#[tokio::test(start_paused = true)]
async fn a_server_that_takes_no_writes_does_not_have_a_file_copied_again_and_again() {
    let (rig, _port, far) = far_cluster(2, "copies=2").await;
    let alice = rig.session("alice").await;
    let file = far_file(&alice, "f").await;
    let mut model = bytes(100_000, 1);
    fill(&file, 0, &model).await;
    let failing = Far::index(&rig, &file, 1, 0);
    far.fakes[failing].set_fault(Some(Fault::TakesNothing));
    write(&file, 0, StableHow::FileSync, b"new").await;
    model[..3].copy_from_slice(b"new");
    pass(5).await;
    let before = far.fakes[1 - failing].calls(nfs3::Proc::Write);
    pass(300).await;
    let writes = far.fakes[1 - failing].calls(nfs3::Proc::Write) - before;
    assert!(writes < 20, "{writes}");
    assert!(bytes_of(&file, 0, usize::MAX).await == model);
    far.fakes[failing].set_fault(None);
    far.whole(&rig, &file, &model).await;
}

#[tokio::test(start_paused = true)]
async fn the_holes_of_a_file_stay_holes_when_its_mirror_comes_back() {
    let (rig, _port, far) = far_cluster(2, "copies=2").await;
    let alice = rig.session("alice").await;
    let file = far_file(&alice, "f").await;
    let mut model = bytes(100, 1);
    write(&file, 0, StableHow::FileSync, &model).await;
    write(&file, 40 << 20, StableHow::FileSync, b"end").await;
    model.resize(40 << 20, 0);
    model.extend(b"end");
    let dead = Far::index(&rig, &file, 1, 0);
    far.kill(dead);
    write(&file, 0, StableHow::FileSync, b"new").await;
    model[..3].copy_from_slice(b"new");
    let before = far.fakes[1 - dead].calls(nfs3::Proc::Write);
    far.start(dead);
    far.whole(&rig, &file, &model).await;
    let writes = far.fakes[1 - dead].calls(nfs3::Proc::Write) - before;
    assert!(writes < 10, "{writes}");
    assert!(bytes_of(&file, 0, usize::MAX).await == model);
}

#[tokio::test(start_paused = true)]
async fn a_file_is_written_through_this_server_while_its_mirror_comes_back() {
    let (rig, _port, far) = far_cluster(2, "copies=2").await;
    let alice = rig.session("alice").await;
    let file = far_file(&alice, "f").await;
    let mut model = bytes(6 << 20, 1);
    fill(&file, 0, &model).await;
    let dead = Far::index(&rig, &file, 1, 0);
    far.kill(dead);
    write(&file, 0, StableHow::FileSync, b"first").await;
    model[..5].copy_from_slice(b"first");
    far.start(dead);
    let mut round = 0_usize;
    while fs::files_with_bad_mirrors(rig.nfsd.role().fs(), 1) > 0 {
        round += 1;
        let at = round * 700_001 % (5 << 20);
        let new = bytes(9000, u8::try_from(round % 30).unwrap());
        write(&file, at as u64, StableHow::Unstable, &new).await;
        model[at..at + new.len()].copy_from_slice(&new);
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        assert!(round < 5000, "it never comes back");
    }
    assert!(round > 1);
    assert!(bytes_of(&file, 0, usize::MAX).await == model);
    far.whole(&rig, &file, &model).await;
}

#[tokio::test(start_paused = true)]
async fn a_file_that_gets_its_mirrors_back_keeps_its_stripes_or_waits() {
    let (rig, _port, far) = far_cluster(4, "stripe_count=2 copies=2").await;
    let alice = rig.session("alice").await;
    let file = far_file(&alice, "f").await;
    let mut model = bytes(5 * UNIT, 1);
    fill(&file, 0, &model).await;
    let dead = Far::index(&rig, &file, 1, 0);
    far.kill(dead);
    let new = bytes(3 * UNIT, 2);
    write(&file, 0, StableHow::FileSync, &new).await;
    model[..new.len()].copy_from_slice(&new);
    pass(200).await;
    let fs = rig.nfsd.role().fs();
    let shape = || fs::shape_of(fs, &inode(&rig, &file)).unwrap();
    assert_eq!((shape().width, shape().copies), (2, 2));
    assert_eq!(inode(&rig, &file).bad_mirrors(), 2);
    assert_eq!(fs::servers_waited_for(fs), 4);
    far.start(dead);
    far.whole(&rig, &file, &model).await;
    assert_eq!((shape().width, shape().copies), (2, 2));
    pass(120).await;
    assert_eq!(fs::servers_waited_for(fs), 0);
}

/// Linux would write through this server for two minutes otherwise.
#[tokio::test(start_paused = true)]
async fn a_writer_is_told_to_try_later_while_a_small_file_gets_its_mirror_back_but_not_for_long() {
    for (len, first) in [
        (5000, NfsStatus::LayoutTryLater),
        (17 << 20, NfsStatus::LayoutUnavailable),
    ] {
        let (rig, _port, far) = far_cluster(2, "copies=2").await;
        let alice = rig.session("alice").await;
        let file = far_file(&alice, "f").await;
        fill(&file, 0, &bytes(len, 1)).await;
        let dead = Far::index(&rig, &file, 1, 0);
        far.kill(dead);
        write(&file, 0, StableHow::FileSync, b"new").await;
        far.fakes[dead].set_fault(Some(Fault::Slow(std::time::Duration::from_secs(3))));
        far.start(dead);
        let fs = rig.nfsd.role().fs();
        while fs::restriping(fs) == 0 {
            pass(1).await;
        }
        let refused = try_far_layout(&file, IoMode::Rw).await.unwrap_err();
        assert_eq!(refused, first);
        pass(6).await;
        assert_eq!(fs::restriping(fs), 1);
        let refused = try_far_layout(&file, IoMode::Rw).await.unwrap_err();
        assert_eq!(refused, NfsStatus::LayoutUnavailable);
    }
}

#[tokio::test(start_paused = true)]
async fn what_clients_say_they_moved_is_summed_by_server() {
    let (rig, _port, far) = far_cluster(2, "copies=2").await;
    let alice = rig.session("alice").await;
    let file = far_file(&alice, "f").await;
    let layout = far_layout(&file, IoMode::Rw).await;
    let device = layout.server(1, 0).device_id;
    for _ in 0..2 {
        stats(&file, layout.stateid, device).await.unwrap();
    }
    let index = layout.index(&rig, 1, 0);
    let servers = rig.nfsd.role().fs().foreign().servers();
    let read: Vec<u64> = servers.iter().map(|s| s.client_bytes.read).collect();
    assert_eq!(
        (read[index], read[1 - index]),
        (12_288, 0),
        "sums of a layout"
    );
    drop(far);
}
