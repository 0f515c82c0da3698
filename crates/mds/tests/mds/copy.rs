//! Goal: COPY within the server copies the bytes, the holes and nothing else, at once or after the answer. What it
//! tells as copied is there. Method: a metadata server and real data servers over stores in memory, in one process,
//! time paused.
#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]

use crate::rig::cluster::Port;
use crate::rig::file::{File, patiently};
use crate::rig::real::{
    Real, after_from_to, bytes_of, cluster, fill, fill_sparse, from_to, len, pattern, try_commit,
    write, write_untold,
};
use crate::rig::{self, Rig, after_putfh};
use control::Request;
use nfs4::cb::{CbOffloadArgs, OffloadInfo};
use nfs4::ops::{
    CONTENT_DATA, Copied, CopyArgs, CopyRes, OffloadCancelArgs, OffloadCancelRes,
    OffloadStatusArgs, OffloadStatusRes, SHARE_ACCESS_READ, SeekArgs, SeekRes,
};
use nfs4::{CbOpNum, NfsStatus, OpReader, StableHow, Stateid};
use objects::{MemObjects, MemOptions, ObjectId, ObjectStore};
use rpc::CallHeader;
use session_client::CallbackHandler;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;
use tokio::sync::Notify;
use tracing_mutex::parkinglot::Mutex;
use transport::memory::{Fate, Faults, Passage};
use xdr::Decoder;

const MIB: u64 = 1 << 20;

/// What COPY is asked for.
#[derive(Clone, Copy)]
struct Ask {
    src_offset: u64,
    dst_offset: u64,
    count: u64,
    synchronous: bool,
}

const ALL: Ask = Ask {
    src_offset: 0,
    dst_offset: 0,
    count: 0,
    synchronous: true,
};

async fn try_copy(src: &File<'_>, dst: &File<'_>, ask: Ask) -> Result<Copied, NfsStatus> {
    let args = CopyArgs {
        src_stateid: src.open,
        dst_stateid: dst.open,
        src_offset: ask.src_offset,
        dst_offset: ask.dst_offset,
        count: ask.count,
        consecutive: true,
        synchronous: ask.synchronous,
        source_servers: Vec::new().into(),
    };
    let done = from_to(src, dst, &args).await;
    let mut reply = after_from_to(&done);
    match reply.take::<CopyRes>().map_err(|e| e.status().unwrap())? {
        CopyRes::Ok(copied) => Ok(copied),
        CopyRes::NoReqs(_) => Err(NfsStatus::OffloadNoReqs),
    }
}

async fn copy(src: &File<'_>, dst: &File<'_>, ask: Ask) -> Result<Copied, NfsStatus> {
    patiently(|| try_copy(src, dst, ask)).await
}

async fn status(dst: &File<'_>, stateid: Stateid) -> Result<OffloadStatusRes, NfsStatus> {
    let args = OffloadStatusArgs { stateid };
    let done = dst.client.on(&dst.fh, |b| {
        b.push(&args);
    });
    let done = done.await;
    let mut reply = after_putfh(&done);
    reply
        .take::<OffloadStatusRes>()
        .map_err(|e| e.status().unwrap())
}

async fn cancel(dst: &File<'_>, stateid: Stateid) -> Result<(), NfsStatus> {
    let args = OffloadCancelArgs { stateid };
    let done = dst.client.on(&dst.fh, |b| {
        b.push(&args);
    });
    let done = done.await;
    let mut reply = after_putfh(&done);
    let res = reply.take::<OffloadCancelRes>();
    res.map(drop).map_err(|e| e.status().unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_copy_has_the_bytes_and_the_holes_and_leaves_the_rest() {
    let (rig, _port, _servers) = cluster(3).await;
    let alice = rig.session("alice").await;
    let src = File::create(&alice, "src").await;
    let dst = File::create(&alice, "dst").await;
    let mut model = fill_sparse(&src).await;
    // Old bytes in the destination go where the source has a hole.
    fill(&dst, 5 * MIB, &vec![9; len(3 * MIB)]).await;
    let copied = copy(&src, &dst, ALL).await.unwrap();
    assert_eq!(copied.response.count, model.len() as u64);
    assert_eq!(copied.response.callback_id, None);
    assert!(copied.requirements.consecutive && copied.requirements.synchronous);
    assert_eq!(copied.response.committed, StableHow::FileSync);
    let verifier = patiently(|| try_commit(&dst)).await.unwrap();
    assert_eq!(copied.response.write_verifier, verifier, "as COMMIT has it");
    assert!(bytes_of(&dst, 0, usize::MAX).await == model);
    let args = SeekArgs {
        stateid: dst.open,
        offset: 3 * MIB,
        what: CONTENT_DATA,
    };
    let done = alice.on(&dst.fh, |b| {
        b.push(&args);
    });
    let done = done.await;
    let found = after_putfh(&done).take::<SeekRes>().unwrap();
    assert_eq!(
        (found.eof, found.offset / MIB),
        (false, 20),
        "a hole is one"
    );

    // A part, at another place and with other borders.
    let part = Ask {
        src_offset: 1_000_001,
        dst_offset: 777,
        count: 500_000,
        ..ALL
    };
    assert_eq!(
        copy(&src, &dst, part).await.unwrap().response.count,
        500_000
    );
    let moved = model[1_000_001..1_500_001].to_vec();
    model[777..500_777].copy_from_slice(&moved);
    assert!(bytes_of(&dst, 0, usize::MAX).await == model);
    // Beyond the end: the file grows as by a write.
    let beyond = Ask {
        dst_offset: 30 * MIB,
        count: 10,
        ..ALL
    };
    copy(&src, &dst, beyond).await.unwrap();
    assert_eq!(dst.try_attrs().await.unwrap().0, 30 * MIB + 10);
    assert_eq!(bytes_of(&dst, 30 * MIB, 99).await, pattern(10));
}

#[tokio::test(start_paused = true)]
async fn a_copy_has_what_is_written_under_a_layout_and_not_yet_told() {
    let (rig, _port, _servers) = cluster(1).await;
    let alice = rig.session("alice").await;
    let src = File::create(&alice, "src").await;
    let dst = File::create(&alice, "dst").await;
    write(&src, 0, StableHow::FileSync, b"told").await;
    write_untold(&rig, &src, pattern(5000)).await;
    assert_eq!(src.try_attrs().await.unwrap().0, 4);
    let copied = copy(&src, &dst, ALL).await.unwrap();
    assert_eq!(copied.response.count, 5000);
    assert_eq!(bytes_of(&dst, 0, usize::MAX).await, pattern(5000));
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_copied_is_refused() {
    let (rig, _port, _servers) = cluster(2).await;
    let alice = rig.session("alice").await;
    let src = File::create(&alice, "src").await;
    let dst = File::create(&alice, "dst").await;
    write(&src, 0, StableHow::FileSync, b"bytes").await;
    let ask = |src_offset, dst_offset, count| Ask {
        src_offset,
        dst_offset,
        count,
        ..ALL
    };
    let refused = |status| Err::<Copied, _>(status);
    for (beyond, status) in [
        (ask(6, 0, 0), NfsStatus::Inval),
        (ask(0, 0, 6), NfsStatus::Inval),
        (ask(u64::MAX, 0, 5), NfsStatus::Inval),
        (ask(0, u64::MAX, 5), NfsStatus::FBig),
    ] {
        assert_eq!(copy(&src, &dst, beyond).await, refused(status));
    }
    let nothing = copy(&src, &dst, ask(5, 0, 0)).await.unwrap();
    assert_eq!(nothing.response.count, 0);
    assert_eq!(copy(&src, &src, ALL).await, refused(NfsStatus::Inval));
    let reader = File::open(&alice, "dst", SHARE_ACCESS_READ).await.unwrap();
    assert_eq!(copy(&src, &reader, ALL).await, refused(NfsStatus::OpenMode));
    let dir = File {
        fh: alice.lookup(&[]).await.unwrap(),
        name: String::new(),
        ..dst
    };
    assert_eq!(copy(&dir, &src, ALL).await, refused(NfsStatus::WrongType));
    assert_eq!(
        status(&src, src.open).await.err(),
        Some(NfsStatus::BadStateid)
    );
    assert_eq!(cancel(&src, src.open).await, Err(NfsStatus::BadStateid));
}

/// Remembers CB_OFFLOAD; the first `deaf` of them are answered as if the client could not take them now.
#[derive(Default)]
struct Offloads {
    deaf: Mutex<u32>,
    seen: Mutex<Vec<(Vec<u8>, Stateid, OffloadInfo)>>,
}

impl CallbackHandler for Offloads {
    fn callback<'a>(
        &'a self,
        op: CbOpNum,
        args: &'a mut OpReader<'_>,
    ) -> Pin<Box<dyn Future<Output = NfsStatus> + Send + 'a>> {
        assert_eq!(op, CbOpNum::Offload);
        let args: CbOffloadArgs<'_> = args.args().unwrap();
        let mut deaf = self.deaf.lock();
        let answer = if *deaf > 0 {
            *deaf -= 1;
            NfsStatus::Delay
        } else {
            let seen = (args.fh.0.to_vec(), args.stateid, args.info);
            self.seen.lock().push(seen);
            NfsStatus::Ok
        };
        Box::pin(std::future::ready(answer))
    }
}

const LATER: Ask = Ask {
    synchronous: false,
    ..ALL
};

#[tokio::test(start_paused = true)]
async fn a_large_copy_goes_on_behind_its_answer_and_the_client_is_called_back() {
    let (rig, _port, _servers) = cluster(2).await;
    let offloads = Arc::new(Offloads::default());
    *offloads.deaf.lock() = 3;
    let session = rig.session_of("alice", *b"boot0001", Some(offloads.clone()));
    let alice = session.await;
    let src = File::create(&alice, "src").await;
    let dst = File::create(&alice, "dst").await;
    let model = pattern(len(17 * MIB));
    fill(&src, 0, &model).await;
    let begun = copy(&src, &dst, LATER).await.unwrap();
    assert!(!begun.requirements.synchronous);
    let stateid = begun.response.callback_id.unwrap();
    assert_ne!(stateid.seqid, 0);
    while offloads.seen.lock().is_empty() {
        match status(&dst, stateid).await {
            Ok(res) if res.complete.is_none() => assert!(res.count <= 17 * MIB),
            Ok(res) => assert_eq!((res.count, res.complete), (17 * MIB, Some(NfsStatus::Ok))),
            Err(e) => assert_eq!(e, NfsStatus::BadStateid),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let (fh, named, info) = offloads.seen.lock()[0].clone();
    assert_eq!((&fh[..], named), (&dst.fh.0[..], stateid));
    let OffloadInfo::Ok(response) = info else {
        panic!("{info:?}");
    };
    assert_eq!((response.count, response.callback_id), (17 * MIB, None));
    assert_eq!(response.committed, StableHow::FileSync);
    assert!(bytes_of(&dst, 0, usize::MAX).await == model);
    // The client has answered: the stateid is no more.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(
        status(&dst, stateid).await.err(),
        Some(NfsStatus::BadStateid)
    );
    assert_eq!(offloads.seen.lock().len(), 1);
    // Who cannot be called back gets a part of it at once.
    let bob = rig.session("bob").await;
    let (src, dst) = (
        File::create(&bob, "src").await,
        File::create(&bob, "dst2").await,
    );
    let copied = copy(&src, &dst, LATER).await.unwrap();
    assert_eq!(
        copied.response.callback_id.is_none(),
        copied.requirements.synchronous
    );
}

#[tokio::test(start_paused = true)]
async fn a_copy_waits_for_a_data_server_and_can_be_cancelled() {
    let (rig, port, mut servers) = cluster(2).await;
    let offloads = Arc::new(Offloads::default());
    let session = rig.session_of("alice", *b"boot0001", Some(offloads.clone()));
    let alice = session.await;
    let src = File::create(&alice, "src").await;
    let dst = File::create(&alice, "dst").await;
    let other = File::create(&alice, "other").await;
    let model = pattern(len(17 * MIB));
    fill(&src, 0, &model).await;
    servers[1].stop().await;
    assert_eq!(
        try_copy(&src, &dst, Ask { count: MIB, ..ALL }).await,
        Err(NfsStatus::Delay)
    );
    let waiting = copy(&src, &dst, LATER)
        .await
        .unwrap()
        .response
        .callback_id
        .unwrap();
    let stopped = copy(&src, &other, LATER)
        .await
        .unwrap()
        .response
        .callback_id
        .unwrap();
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(status(&dst, waiting).await.unwrap().complete, None);
    let strange = status(&other, waiting).await;
    assert_eq!(
        strange.err(),
        Some(NfsStatus::BadStateid),
        "of another file"
    );
    cancel(&other, stopped).await.unwrap();
    assert_eq!(cancel(&other, stopped).await, Err(NfsStatus::BadStateid));
    servers[1].start(&rig, &port, 99).await;
    while offloads.seen.lock().is_empty() {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    let seen = offloads.seen.lock().clone();
    assert_eq!(seen.len(), 1, "nothing is said of what was cancelled");
    assert_eq!(seen[0].1, waiting);
    assert!(matches!(seen[0].2, OffloadInfo::Ok(done) if done.count == 17 * MIB));
    assert!(bytes_of(&dst, 0, usize::MAX).await == model);
    // A chunk that was under way may have ended.
    assert!(other.try_attrs().await.unwrap().0 <= MIB);
}

/// A record to a data server that gets lost, once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lost {
    /// A READ or a WRITE, after so many others.
    Io(u32),
    Commit,
}

/// Loses it when it comes, and says so: whatever waits for it waits until the data server is started anew.
#[derive(Default)]
struct Moment {
    awaited: Mutex<Option<Lost>>,
    came: Notify,
}

impl Faults for Moment {
    fn fate(&self, passage: &Passage<'_>) -> Fate {
        let mut awaited = self.awaited.lock();
        if passage.to != "ds2" {
            return Fate::Deliver;
        }
        match &mut *awaited {
            Some(Lost::Io(n)) if passage.from == "mds-proxy" && *n > 0 => {
                *n -= 1;
                return Fate::Deliver;
            }
            Some(Lost::Io(_)) if passage.from == "mds-proxy" => {}
            Some(Lost::Commit) if is_commit(passage.bytes) => {}
            _ => return Fate::Deliver,
        }
        *awaited = None;
        self.came.notify_one();
        Fate::Lose
    }
}

/// Whether it is a COMMIT of the control program.
fn is_commit(record: &[u8]) -> bool {
    let call = CallHeader::decode(&mut Decoder::new(record));
    let commit = control::CommitObjectsArgs::PROC as u32;
    call.is_ok_and(|c| (c.program, c.procedure) == (control::PROGRAM, commit))
}

/// A power cut that takes back something of an object.
fn without_some(objects: &MemObjects, id: ObjectId) -> MemObjects {
    let bytes = |objects: &MemObjects| {
        let read = objects.read(id, 0, 32 << 20);
        read.map(|span| objects::contract::bytes(&span)).ok()
    };
    let before = bytes(objects);
    let mut left = (0..100).map(|seed| objects.after_crash(seed));
    left.find(|left| bytes(left) != before).unwrap()
}

#[tokio::test(start_paused = true)]
async fn what_a_data_server_lost_before_it_was_committed_is_copied_again() {
    // READs are 17 × 128 at most, of stripes of 4 KiB on two data servers.
    for lost in [Lost::Io(3000), Lost::Commit] {
        let moment = Arc::new(Moment::default());
        let rig = Rig::troubled(moment.clone()).await;
        let port = Port::open(&rig);
        let mut first = Real::new(1);
        first.start(&rig, &port, 1).await;
        let mut disk = Arc::new(MemObjects::new(MemOptions {
            manual: true,
            ..MemOptions::default()
        }));
        let mut second = Real::new(2);
        second.objects = disk.clone();
        second.start(&rig, &port, 2).await;

        let offloads = Arc::new(Offloads::default());
        let session = rig.session_of("alice", *b"boot0001", Some(offloads.clone()));
        let alice = session.await;
        let src = File::create(&alice, "src").await;
        let dst = File::create(&alice, "dst").await;
        let model = pattern(len(17 * MIB));
        fill(&src, 0, &model).await;
        let before = patiently(|| try_commit(&src)).await.unwrap();
        *moment.awaited.lock() = Some(lost);
        let begun = copy(&src, &dst, LATER).await.unwrap();
        assert!(!begun.requirements.synchronous);
        moment.came.notified().await;
        second.stop().await;
        let object = ObjectId {
            file_id: dst.id(),
            generation: 1,
            place: 1,
        };
        disk = Arc::new(without_some(&disk, object));
        second.objects = disk.clone();
        second.start(&rig, &port, 99).await;
        while offloads.seen.lock().is_empty() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let seen = offloads.seen.lock().clone();
        let OffloadInfo::Ok(done) = &seen[0].2 else {
            panic!("{lost:?}: {:?}", seen[0].2);
        };
        assert_eq!(done.count, 17 * MIB);
        assert_ne!(done.write_verifier, before, "that of another start");
        assert!(bytes_of(&dst, 0, usize::MAX).await == model, "{lost:?}");
        // It was told as FILE_SYNC: another power cut takes nothing.
        second.stop().await;
        second.objects = Arc::new(disk.after_crash(5));
        second.start(&rig, &port, 100).await;
        assert!(bytes_of(&dst, 0, usize::MAX).await == model, "{lost:?}");
    }
}

/// Counts the COMMITs of the control program, and the messages of I/O by the metadata server.
#[derive(Debug, Default)]
struct Counting {
    commits: AtomicU64,
    io: AtomicU64,
}

impl Faults for Counting {
    fn fate(&self, passage: &Passage<'_>) -> Fate {
        let commits = u64::from(is_commit(passage.bytes));
        self.commits.fetch_add(commits, SeqCst);
        let io = u64::from(passage.from == "mds-proxy");
        self.io.fetch_add(io, SeqCst);
        Fate::Deliver
    }
}

#[tokio::test(start_paused = true)]
async fn a_small_copy_is_one_read_and_one_write_and_no_commit() {
    let counting = Arc::new(Counting::default());
    let rig = Rig::troubled(counting.clone()).await;
    let port = Port::open(&rig);
    let mut servers = [Real::new(1), Real::new(2)];
    for (seed, server) in (1..).zip(&mut servers) {
        server.start(&rig, &port, seed).await;
    }
    let alice = rig.session("alice").await;
    // Over one data server, over both, and above the limit. The first ones connect.
    let sizes = [10, 10, 10, 4097, 65_536, 65_537];
    for (n, size) in (0..).zip(sizes) {
        let is_small = size <= 65_536;
        let src = File::create(&alice, &format!("src{n}")).await;
        let dst = File::create(&alice, &format!("dst{n}")).await;
        let bytes = pattern(size);
        fill(&src, 0, &bytes).await;
        let (commits, io) = (counting.commits.load(SeqCst), counting.io.load(SeqCst));
        let copied = copy(&src, &dst, ALL).await.unwrap();
        assert_eq!(copied.response.count, size as u64);
        assert_eq!(copied.response.committed, StableHow::FileSync);
        let committed = counting.commits.load(SeqCst) - commits;
        assert_eq!(committed == 0, is_small, "{size}: {committed} COMMITs");
        if n == 2 {
            // A READ and a WRITE, unless the bytes lie in the metadata store.
            let expected = if rig::inline_max_bytes() > 0 { 0 } else { 2 };
            assert_eq!(counting.io.load(SeqCst) - io, expected);
        }
        assert!(bytes_of(&dst, 0, usize::MAX).await == bytes, "{size}");
    }
    // What the destination had after the range stays, and a range of zeros is a hole.
    let (src, dst) = (
        File::create(&alice, "zeros").await,
        File::create(&alice, "old").await,
    );
    fill(&dst, 0, &pattern(9000)).await;
    write(&src, 8191, StableHow::FileSync, &[0]).await;
    copy(&src, &dst, ALL).await.unwrap();
    let mut model = pattern(9000);
    model[..8192].fill(0);
    assert!(bytes_of(&dst, 0, usize::MAX).await == model);
}
