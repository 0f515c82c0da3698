//! Goal: CLONE gives a file the bytes and holes of another without touching the rest, whatever data servers they lie
//! on. It refuses what cannot share storage. Method: a metadata server and real data servers over stores in memory, in
//! one process, time paused. Stripe units have 4 KiB; the file systems that share storage are the object store's tests.
#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]

use crate::rig::file::{File, patiently};
use crate::rig::real::{
    after_from_to, bytes_of, cluster, direct_session, direct_write, fill, fill_sparse, from_to,
    len, pattern, write, write_untold,
};
use crate::rig::{Rig, after_putfh};
use namespace::{Cred, FileId, Op, Time};
use nfs4::ops::{
    CONTENT_DATA, CloneArgs, CloneRes, SHARE_ACCESS_BOTH, SHARE_ACCESS_READ, SeekArgs, SeekRes,
};
use nfs4::{IoMode, NfsStatus, StableHow};
use std::time::Duration;

const UNIT: u64 = 4096;
const MIB: u64 = 1 << 20;

/// Offsets in source and destination, and how much.
type Ask = (u64, u64, u64);

async fn try_clone(src: &File<'_>, dst: &File<'_>, ask: Ask) -> Result<(), NfsStatus> {
    let (src_offset, dst_offset, count) = ask;
    let args = CloneArgs {
        src_stateid: src.open,
        dst_stateid: dst.open,
        src_offset,
        dst_offset,
        count,
    };
    let done = from_to(src, dst, &args).await;
    let mut reply = after_from_to(&done);
    let cloned = reply.take::<CloneRes>();
    cloned.map(drop).map_err(|e| e.status().unwrap())
}

async fn clone(src: &File<'_>, dst: &File<'_>, ask: Ask) -> Result<(), NfsStatus> {
    patiently(|| try_clone(src, dst, ask)).await
}

/// The data server that has the first stripe.
fn first_index(rig: &Rig, file: &File<'_>) -> u32 {
    let cred = Cred::root();
    let mut op = Op::new(&cred, Time::default());
    let inode = rig
        .nfsd
        .role()
        .fs()
        .namespace()
        .getattr(&mut op, FileId(file.id()));
    inode.unwrap().placement.unwrap().first_index
}

#[tokio::test(start_paused = true)]
async fn an_empty_file_becomes_the_other_and_both_go_on_by_themselves() {
    let (rig, _port, _servers) = cluster(3).await;
    let alice = rig.session("alice").await;
    let src = File::create(&alice, "src").await;
    let model = fill_sparse(&src).await;
    let mut is_other_place = false;
    for name in ["a", "b", "c"] {
        let dst = File::create(&alice, name).await;
        is_other_place |= first_index(&rig, &dst) != first_index(&rig, &src);
        clone(&src, &dst, (0, 0, 0)).await.unwrap();
        assert_eq!(dst.try_attrs().await.unwrap().0, model.len() as u64);
        assert!(bytes_of(&dst, 0, usize::MAX).await == model, "{name}");
        let args = SeekArgs {
            stateid: dst.open,
            offset: 3 * MIB,
            what: CONTENT_DATA,
        };
        let done = alice.on(&dst.fh, |b| {
            b.push(&args);
        });
        let found = after_putfh(&done.await).take::<SeekRes>().unwrap();
        assert_eq!(found.offset / MIB, 20, "a hole is one");
        write(&dst, 5, StableHow::FileSync, b"its own").await;
        assert_eq!(bytes_of(&src, 0, 64).await, model[..64]);
        assert_eq!(bytes_of(&dst, 5, 7).await, b"its own");
    }
    assert!(is_other_place, "the first stripe rotates");
}

#[tokio::test(start_paused = true)]
async fn a_clone_has_what_is_written_under_a_layout_and_not_yet_told() {
    let (rig, _port, _servers) = cluster(1).await;
    let alice = rig.session("alice").await;
    let src = File::create(&alice, "src").await;
    let dst = File::create(&alice, "dst").await;
    write(&src, 0, StableHow::FileSync, b"told").await;
    write_untold(&rig, &src, pattern(5000)).await;
    clone(&src, &dst, (0, 0, 0)).await.unwrap();
    assert_eq!(bytes_of(&dst, 0, usize::MAX).await, pattern(5000));
}

#[tokio::test(start_paused = true)]
async fn a_range_is_cloned_into_bytes_that_are_there() {
    let (rig, _port, _servers) = cluster(3).await;
    let alice = rig.session("alice").await;
    let src = File::create(&alice, "src").await;
    let bytes = pattern(len(40 * UNIT) + 5);
    fill(&src, 0, &bytes).await;
    let dst = File::create(&alice, "dst").await;
    // Shifted by two units, into a file without bytes.
    clone(&src, &dst, (4 * UNIT, 6 * UNIT, 0)).await.unwrap();
    let mut model = vec![0; len(6 * UNIT)];
    model.extend(&bytes[len(4 * UNIT)..]);
    assert!(bytes_of(&dst, 0, usize::MAX).await == model);
    // And by the same into one that has some: a part in the middle.
    write(&dst, 0, StableHow::Unstable, &vec![9; len(30 * UNIT)]).await;
    model[..len(30 * UNIT)].fill(9);
    clone(&src, &dst, (8 * UNIT, 10 * UNIT, 5 * UNIT))
        .await
        .unwrap();
    model[len(10 * UNIT)..len(15 * UNIT)].copy_from_slice(&bytes[len(8 * UNIT)..len(13 * UNIT)]);
    assert!(bytes_of(&dst, 0, usize::MAX).await == model);
    // The end of the source in the middle of the destination: the rest of its block is zeros.
    write(
        &dst,
        42 * UNIT,
        StableHow::Unstable,
        &vec![9; len(4 * UNIT)],
    )
    .await;
    model.resize(len(42 * UNIT), 0);
    model.resize(len(46 * UNIT), 9);
    clone(&src, &dst, (38 * UNIT, 40 * UNIT, 0)).await.unwrap();
    let end = len(42 * UNIT) + 5;
    model[len(40 * UNIT)..end].copy_from_slice(&bytes[len(38 * UNIT)..]);
    model[end..len(43 * UNIT)].fill(0);
    assert!(bytes_of(&dst, 0, usize::MAX).await == model);
    // Within one file, by whole rounds over the data servers.
    clone(&dst, &dst, (0, 60 * UNIT, 20 * UNIT)).await.unwrap();
    model.resize(len(60 * UNIT), 0);
    model.extend_from_within(..len(20 * UNIT));
    assert!(bytes_of(&dst, 0, usize::MAX).await == model);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_cloned_is_refused() {
    let (rig, _port, _servers) = cluster(2).await;
    let alice = rig.session("alice").await;
    let src = File::create(&alice, "src").await;
    let dst = File::create(&alice, "dst").await;
    fill(&src, 0, &pattern(len(4 * UNIT) + 5)).await;
    let refusals = [
        ((5 * UNIT, 0, 0), NfsStatus::Inval),
        ((0, 0, 5 * UNIT), NfsStatus::Inval),
        ((1, 0, UNIT), NfsStatus::Inval),
        ((0, UNIT + 1, UNIT), NfsStatus::Inval),
        ((0, 0, UNIT + 1), NfsStatus::Inval),
        ((0, u64::MAX - UNIT + 1, UNIT), NfsStatus::FBig),
    ];
    for (ask, status) in refusals {
        assert_eq!(clone(&src, &dst, ask).await, Err(status), "{ask:?}");
    }
    let overlap = clone(&src, &src, (0, 2 * UNIT, 4 * UNIT)).await;
    assert_eq!(overlap, Err(NfsStatus::Inval));
    // Storage is shared on one data server, so never between two.
    write(&dst, 0, StableHow::FileSync, b"x").await;
    let same = first_index(&rig, &src) == first_index(&rig, &dst);
    let to = if same { UNIT } else { 0 };
    let apart = clone(&src, &dst, (0, to, 4 * UNIT)).await;
    assert_eq!(apart, Err(NfsStatus::XDev));
    let reader = File::open(&alice, "dst", SHARE_ACCESS_READ).await.unwrap();
    let refused = clone(&src, &reader, (0, 0, 0)).await;
    assert_eq!(refused, Err(NfsStatus::OpenMode));
    let dir = File {
        fh: alice.lookup(&[]).await.unwrap(),
        name: String::new(),
        ..dst
    };
    let refused = clone(&dir, &src, (0, 0, 0)).await;
    assert_eq!(refused, Err(NfsStatus::WrongType));
    // Behind the end there is nothing.
    let none = File::create(&alice, "none").await;
    assert_eq!(clone(&none, &src, (0, 0, 0)).await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn nobody_writes_the_source_or_sees_the_destination_meanwhile() {
    let (rig, _port, mut servers) = cluster(2).await;
    let (alice, bob) = (rig.session("alice").await, rig.session("bob").await);
    let src = File::create(&alice, "src").await;
    let dst = File::create(&alice, "dst").await;
    fill(&src, 0, &pattern(len(4 * UNIT))).await;
    let bobs = File::open(&bob, "dst", SHARE_ACCESS_READ).await.unwrap();
    let granted = bobs.layout(IoMode::Read).await;
    // He does not answer the recall; once he has returned it by himself it goes on.
    assert_eq!(
        try_clone(&src, &dst, (0, 0, 0)).await,
        Err(NfsStatus::Delay)
    );
    assert_eq!(dst.try_attrs().await.unwrap().0, 0);
    bobs.layout_return(granted.stateid).await.unwrap();
    clone(&src, &dst, (0, 0, 0)).await.unwrap();
    assert!(bytes_of(&bobs, 0, usize::MAX).await == pattern(len(4 * UNIT)));
    // With a data server away nothing is begun.
    let again = File::create(&alice, "again").await;
    servers[1].stop().await;
    let refused = try_clone(&src, &again, (0, 0, 0)).await;
    assert_eq!(refused, Err(NfsStatus::Delay));
}

/// A new file that begins on another data server than `src`.
async fn create_apart<'c>(rig: &Rig, src: &File<'c>) -> File<'c> {
    for n in 0..4 {
        let file = File::create(src.client, &format!("apart{n}")).await;
        if first_index(rig, &file) != first_index(rig, src) {
            return file;
        }
    }
    panic!("first stripes do not rotate");
}

/// What bob does when he is to return a layout; then he returns it.
async fn before_returning(bobs: &File<'_>, last: impl Future<Output = ()>, src: &File<'_>) {
    let dst = File {
        client: src.client,
        name: bobs.name.clone(),
        fh: bobs.fh.clone(),
        open: File::open(src.client, &bobs.name, SHARE_ACCESS_BOTH)
            .await
            .unwrap()
            .open,
    };
    let cloning = clone(src, &dst, (0, 0, 0));
    let obeying = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        last.await;
    };
    let (cloned, ()) = tokio::join!(cloning, obeying);
    assert_eq!(cloned, Err(NfsStatus::XDev), "then it is to be copied");
    assert_eq!(bytes_of(bobs, 0, usize::MAX).await, b"acknowledged");
}

#[tokio::test(start_paused = true)]
async fn what_others_tell_of_as_they_return_their_layouts_is_not_cut() {
    let (rig, _port, _servers) = cluster(2).await;
    let (alice, bob) = (rig.session("alice").await, rig.session("bob").await);
    let src = File::create(&alice, "src").await;
    fill(&src, 0, &pattern(len(4 * UNIT))).await;
    let dst = create_apart(&rig, &src).await;
    let bobs = File::open(&bob, &dst.name, SHARE_ACCESS_BOTH)
        .await
        .unwrap();
    let granted = bobs.layout(IoMode::Rw).await;
    let first_index = first_index(&rig, &dst);
    let first_ds = format!("ds{}", first_index + 1);
    let direct = direct_session(&rig, &bob, "bob", &first_ds).await;
    let handle = &granted.body.file_handles.0[first_index as usize];
    let bytes = bytes::Bytes::from_static(b"acknowledged");
    let stable = StableHow::DataSync;
    let written = direct_write(&direct, &bob.caller, handle, bobs.open, stable, &bytes).await;
    written.unwrap();
    let tells = async {
        bobs.layout_commit(granted.stateid, 12).await.unwrap();
        bobs.layout_return(granted.stateid).await.unwrap();
    };
    before_returning(&bobs, tells, &src).await;
}

#[tokio::test(start_paused = true)]
async fn what_others_write_through_the_metadata_server_while_layouts_return_is_not_cut() {
    let (rig, _port, _servers) = cluster(2).await;
    let (alice, bob) = (rig.session("alice").await, rig.session("bob").await);
    let src = File::create(&alice, "src").await;
    fill(&src, 0, &pattern(len(4 * UNIT))).await;
    let dst = create_apart(&rig, &src).await;
    let bobs = File::open(&bob, &dst.name, SHARE_ACCESS_BOTH)
        .await
        .unwrap();
    let granted = bobs.layout(IoMode::Rw).await;
    let writes = async {
        write(&bobs, 0, StableHow::FileSync, b"acknowledged").await;
        bobs.layout_return(granted.stateid).await.unwrap();
    };
    before_returning(&bobs, writes, &src).await;
}
