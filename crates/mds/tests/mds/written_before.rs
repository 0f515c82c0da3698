//! Goal: what is set after a write stands, however late the write is reported: modification time and set-id bits. A
//! write to a file with set-id bits takes them off before its bytes lie on a data server (POSIX futimens, fchmod,
//! write). Method: a metadata server, data servers that remember or real ones, over the memory transport, time paused.
#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]

use crate::rig;
use crate::rig::cluster::{FakeDs, Port, cluster};
use crate::rig::delegated::{self, BOTH, Given, User};
use crate::rig::file::{File, patiently};
use crate::rig::{Client, Rig, after_putfh, real};
use control::Status;
use nfs4::attr::{self, Attrs};
use nfs4::cb::{CbLayoutRecallArgs, LayoutRecall};
use nfs4::ops::{
    AllocateArgs, AllocateRes, Copied, CopyArgs, CopyRes, DeallocateArgs, DeallocateRes,
    SHARE_ACCESS_BOTH, SHARE_ACCESS_WRITE,
};
use nfs4::{
    CbOpNum, FileHandle, IoMode, NfsStatus, NfsTime, OpReader, SetTime, StableHow, Stateid,
};
use session_client::CallbackHandler;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tracing_mutex::parkinglot::Mutex;

/// A modification time that somebody sets: 2001.
const SET_S: i64 = 981_158_400;

/// Notes recalls of layouts, and answers them as told.
struct Recalls {
    seen: Mutex<Vec<Stateid>>,
    answer: NfsStatus,
}

impl Recalls {
    fn answering(answer: NfsStatus) -> Arc<Self> {
        Arc::new(Self {
            seen: Mutex::default(),
            answer,
        })
    }

    async fn first(&self) -> Stateid {
        for _ in 0..1000 {
            if let Some(stateid) = self.seen.lock().first().copied() {
                return stateid;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        panic!("nothing was recalled");
    }
}

impl CallbackHandler for Recalls {
    fn callback<'a>(
        &'a self,
        op: CbOpNum,
        args: &'a mut OpReader<'_>,
    ) -> Pin<Box<dyn Future<Output = NfsStatus> + Send + 'a>> {
        assert_eq!(op, CbOpNum::LayoutRecall);
        let args: CbLayoutRecallArgs<'_> = args.args().unwrap();
        if let LayoutRecall::File(file) = args.what {
            self.seen.lock().push(file.stateid);
        }
        Box::pin(std::future::ready(self.answer))
    }
}

fn time(seconds: i64) -> Attrs {
    Attrs {
        time_modify_set: Some(SetTime::Client(NfsTime {
            seconds,
            nanoseconds: 0,
        })),
        ..Attrs::default()
    }
}

fn mode(mode: u32) -> Attrs {
    Attrs {
        mode: Some(mode),
        ..Attrs::default()
    }
}

/// Seconds of the modification time, size, mode.
async fn seen(client: &Client, fh: &FileHandle) -> Result<(i64, u64, u32), NfsStatus> {
    let wanted = [attr::TIME_MODIFY, attr::SIZE, attr::MODE];
    let got = client.attrs(fh, &wanted).await?;
    Ok((
        got.time_modify.unwrap().seconds,
        got.size.unwrap(),
        got.mode.unwrap(),
    ))
}

async fn set(client: &Client, fh: &FileHandle, attrs: &Attrs) -> NfsStatus {
    let set = client.set_attrs(fh, Stateid::default(), attrs).await;
    set.err().unwrap_or(NfsStatus::Ok)
}

/// A cluster, and a client whose back channel answers recalls of layouts as told.
async fn with_recalls(answer: NfsStatus) -> (Rig, Port, Vec<FakeDs>, Client, Arc<Recalls>) {
    let (rig, port, servers) = cluster(2).await;
    let recalls = Recalls::answering(answer);
    let back: Arc<dyn CallbackHandler> = recalls.clone();
    let alice = rig.session_of("alice", *b"boot0001", Some(back)).await;
    (rig, port, servers, alice, recalls)
}

#[tokio::test(start_paused = true)]
async fn a_write_is_reported_before_the_time_is_set_and_not_after() {
    let (rig, _port, _servers, alice, recalls) = with_recalls(NfsStatus::Ok).await;
    let bob = rig.session("bob").await;
    let file = File::create(&alice, "f").await;
    let granted = file.layout(IoMode::Rw).await;
    // The writer itself sets the time, as `cp -p` and `tar -x` do.
    let report = async {
        let stateid = recalls.first().await;
        file.layout_commit(granted.stateid, 10_000).await.unwrap();
        file.layout_return(stateid).await.unwrap();
    };
    let set_time = time(SET_S);
    let (done, ()) = tokio::join!(file.try_set(&set_time), report);
    done.unwrap();
    assert_eq!(seen(&alice, &file.fh).await.unwrap().0, SET_S);
    rig.clock_s.fetch_add(100, Ordering::Relaxed);
    let late = file.layout_commit(granted.stateid, 10_000).await;
    assert_eq!(late, Err(NfsStatus::BadLayout));
    assert_eq!(seen(&bob, &file.fh).await.unwrap(), (SET_S, 10_000, 0o644));
    // What is written afterwards moves it.
    let granted = file.layout(IoMode::Rw).await;
    file.layout_commit(granted.stateid, 10).await.unwrap();
    assert_eq!(seen(&bob, &file.fh).await.unwrap().0, rig::START_S + 100);
}

#[tokio::test(start_paused = true)]
async fn an_unused_layout_holds_nobody_up() {
    let (rig, _port, _servers, alice, recalls) = with_recalls(NfsStatus::NoMatchingLayout).await;
    let file = File::create(&alice, "f").await;
    file.layout(IoMode::Rw).await;
    let started = tokio::time::Instant::now();
    file.try_set(&time(SET_S)).await.unwrap();
    assert!(started.elapsed() < Duration::from_millis(100));
    assert_eq!(recalls.seen.lock().len(), 1);
    // Nothing is asked back for what no report could take back.
    file.layout(IoMode::Rw).await;
    let harmless = Attrs {
        time_access_set: Some(SetTime::Server),
        mode: Some(0o755),
        ..Attrs::default()
    };
    file.try_set(&harmless).await.unwrap();
    patiently(|| file.try_truncate(0)).await.unwrap();
    assert_eq!(recalls.seen.lock().len(), 1);
    drop(rig);
}

#[tokio::test(start_paused = true)]
async fn set_id_bits_end_every_handle_and_layouts_for_writing() {
    let (rig, _port, servers, alice, recalls) = with_recalls(NfsStatus::NoMatchingLayout).await;
    let file = File::create(&alice, "f").await;
    file.layout(IoMode::Rw).await;
    let fences_before = servers[0].told.lock().fences.len();
    file.try_set(&mode(0o4775)).await.unwrap();
    assert_eq!(recalls.seen.lock().len(), 1);
    for ds in &servers {
        let fences = ds.told.lock().fences.len();
        assert!(fences > fences_before, "a handle that was kept is dead");
    }
    let refused = patiently(|| file.try_layout(IoMode::Rw)).await;
    assert_eq!(refused.err(), Some(NfsStatus::LayoutUnavailable));
    file.layout(IoMode::Read).await;
    // Without group execute a set-group-ID bit gives nobody a group.
    file.try_set(&mode(0o2664)).await.unwrap();
    file.layout(IoMode::Rw).await;
    file.try_set(&mode(0o2674)).await.unwrap();
    let refused = patiently(|| file.try_layout(IoMode::Rw)).await;
    assert_eq!(refused.err(), Some(NfsStatus::LayoutUnavailable));
    file.try_set(&mode(0o755)).await.unwrap();
    file.layout(IoMode::Rw).await;
    drop(rig);
}

/// Alice sets a time, takes a layout and starts again without having written, or having written.
#[tokio::test(start_paused = true)]
async fn recovery_moves_a_time_that_was_set_only_for_a_write_after_it() {
    for written in [false, true] {
        let (rig, _port, servers, alice, _recalls) =
            with_recalls(NfsStatus::NoMatchingLayout).await;
        let bob = rig.session("bob").await;
        let file = File::create(&alice, "f").await;
        let granted = file.layout(IoMode::Rw).await;
        let wrote = |seconds| {
            for ds in &servers {
                let mut told = ds.told.lock();
                told.sizes.insert(file.id(), 4096);
                told.modified_s = seconds;
            }
        };
        // By a clock that is ahead.
        wrote(rig::START_S + 50);
        file.layout_commit(granted.stateid, 4096).await.unwrap();
        rig.clock_s.fetch_add(10, Ordering::Relaxed);
        file.try_set(&time(SET_S)).await.unwrap();
        file.layout(IoMode::Rw).await;
        if written {
            wrote(rig::START_S + 60);
        }
        let _again = rig.session_of("alice", *b"boot0002", None).await;
        let (mtime, size, _) = patiently(|| seen(&bob, &file.fh)).await.unwrap();
        let right = if written { rig::START_S + 60 } else { SET_S };
        assert_eq!((mtime, size), (right, 4096), "written: {written}");
    }
}

/// A layout is not given out before the data servers have said when the file was last written.
#[tokio::test(start_paused = true)]
async fn a_layout_waits_for_what_recovery_will_need() {
    let (_rig, _port, servers, alice, _recalls) = with_recalls(NfsStatus::NoMatchingLayout).await;
    let file = File::create(&alice, "f").await;
    file.try_set(&time(SET_S)).await.unwrap();
    let told = &servers[1].told;
    told.lock().unreadable.insert(file.id(), Status::Io);
    let asked = told.lock().stats_count;
    let refused = file.try_layout(IoMode::Rw).await;
    assert_eq!(refused.err(), Some(NfsStatus::LayoutTryLater));
    assert_eq!(told.lock().stats_count, asked + 1);
    told.lock().unreadable.clear();
    file.layout(IoMode::Rw).await;
    // Nobody is asked where the last change was a write.
    let new = File::create(&alice, "new").await;
    let asked = told.lock().stats_count;
    new.layout(IoMode::Rw).await;
    assert_eq!(told.lock().stats_count, asked);
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_set_the_time_has_modified_nothing_since() {
    let (rig, _port, _ds) = delegated::cluster().await;
    let (alice, bob) = (User::new(&rig, "alice").await, User::new(&rig, "bob").await);
    let held = alice.open("f", BOTH).await;
    assert!(matches!(held.delegation, Given::Write(..)));
    let (change, size) = alice.attrs(&held.fh).await.unwrap();
    // She has modified it, and says so.
    *alice.back.known.lock() = Some((change + 1, size));
    let (mtime, ..) = seen(&bob.client, &held.fh).await.unwrap();
    assert_eq!(mtime, rig::START_S);
    // She writes it back, sets the time, and holds nothing that is newer.
    *alice.back.known.lock() = Some((change, size));
    assert_eq!(
        set(&alice.client, &held.fh, &time(SET_S)).await,
        NfsStatus::Ok
    );
    for _ in 0..2 {
        assert_eq!(seen(&bob.client, &held.fh).await.unwrap().0, SET_S);
    }
    *alice.back.known.lock() = Some((change + 1, size));
    assert_eq!(seen(&bob.client, &held.fh).await.unwrap().0, rig::START_S);
}

/// What changes a file's data.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Writer {
    Write,
    Allocate,
    Deallocate,
    Copy,
    Truncate,
    Extend,
}

const WRITERS: [Writer; 6] = [
    Writer::Write,
    Writer::Allocate,
    Writer::Deallocate,
    Writer::Copy,
    Writer::Truncate,
    Writer::Extend,
];

async fn change(how: Writer, file: &File<'_>, src: &File<'_>) -> Result<(), NfsStatus> {
    let refused = |e: nfs4::OpError| e.status().unwrap();
    let (offset, length) = (0, 4096);
    match how {
        Writer::Write => real::try_write(file, 0, StableHow::Unstable, b"x")
            .await
            .map(drop),
        Writer::Truncate => file.try_truncate(10).await,
        Writer::Extend => file.try_truncate(1 << 20).await,
        Writer::Allocate => {
            let stateid = file.open;
            let done = file.client.on(&file.fh, |b| {
                b.push(&AllocateArgs {
                    stateid,
                    offset,
                    length,
                });
            });
            let done = done.await;
            let res = after_putfh(&done).take::<AllocateRes>();
            res.map(drop).map_err(refused)
        }
        Writer::Deallocate => {
            let stateid = file.open;
            let done = file.client.on(&file.fh, |b| {
                b.push(&DeallocateArgs {
                    stateid,
                    offset,
                    length,
                });
            });
            let done = done.await;
            let res = after_putfh(&done).take::<DeallocateRes>();
            res.map(drop).map_err(refused)
        }
        Writer::Copy => {
            let args = CopyArgs {
                src_stateid: src.open,
                dst_stateid: file.open,
                src_offset: 0,
                dst_offset: 0,
                count: 0,
                consecutive: true,
                synchronous: true,
                source_servers: Vec::new().into(),
            };
            let done = real::from_to(src, file, &args).await;
            let mut reply = real::after_from_to(&done);
            match reply.take::<CopyRes>().map_err(refused)? {
                CopyRes::Ok(Copied { .. }) => Ok(()),
                CopyRes::NoReqs(_) => Err(NfsStatus::OffloadNoReqs),
            }
        }
    }
}

/// The mode that a local file system of Linux leaves: anybody but root takes set-user-ID off, and set-group-ID where the
/// group may execute the file.
fn mode_on_linux(before: u32, is_root: bool) -> u32 {
    match (is_root, before & 0o010 != 0) {
        (true, _) => before,
        (false, true) => before & !0o6000,
        (false, false) => before & !0o4000,
    }
}

#[tokio::test(start_paused = true)]
async fn every_writer_takes_set_id_bits_off_as_on_linux() {
    let (rig, _port, _servers) = real::cluster(2).await;
    let root = rig.session("alice").await;
    // Owner, another member of the group, root.
    let users = [
        root.user_with(1000, vec![2000]),
        root.user_with(1001, vec![2000]),
        root.user(0),
    ];
    let mut number = 0;
    for bits in [0o4775, 0o2775, 0o6775, 0o2765, 0o6765] {
        for (who, user) in users.iter().enumerate() {
            for how in WRITERS {
                number += 1;
                let made = File::create(&root, &format!("f{number}")).await;
                real::write(&made, 0, StableHow::FileSync, &[1; 100]).await;
                let owned = Attrs {
                    owner: Some(b"1000"[..].into()),
                    owner_group: Some(b"2000"[..].into()),
                    ..Attrs::default()
                };
                made.try_set(&owned).await.unwrap();
                let with_bits = mode(bits);
                patiently(|| made.try_set(&with_bits)).await.unwrap();
                let src = File::create(&root, "src").await;
                real::write(&src, 0, StableHow::FileSync, &[2; 100]).await;
                src.try_set(&mode(0o666)).await.unwrap();
                let file = File::open(user, &made.name, SHARE_ACCESS_BOTH)
                    .await
                    .unwrap();
                let src = File::open(user, "src", SHARE_ACCESS_BOTH).await.unwrap();
                patiently(|| change(how, &file, &src)).await.unwrap();
                let (_, _, after) = seen(&root, &made.fh).await.unwrap();
                let right = mode_on_linux(bits, who == 2);
                assert_eq!(after, right, "{bits:o} {how:?} by user {who}");
            }
        }
    }
}

/// The data server takes neither bytes nor a cut, and the bits are off all the same: they go first.
#[tokio::test(start_paused = true)]
async fn set_id_bits_go_before_the_bytes_come() {
    let (rig, _port, servers, alice, _recalls) = with_recalls(NfsStatus::NoMatchingLayout).await;
    for how in [Writer::Write, Writer::Truncate] {
        let made = File::create(&alice, &format!("{how:?}")).await;
        let granted = made.layout(IoMode::Rw).await;
        made.layout_commit(granted.stateid, 1000).await.unwrap();
        let all = mode(0o4777);
        patiently(|| made.try_set(&all)).await.unwrap();
        servers[0].told.lock().failing = true;
        let user = alice.user(1001);
        let file = File::open(&user, &made.name, SHARE_ACCESS_WRITE)
            .await
            .unwrap();
        change(how, &file, &file).await.unwrap_err();
        assert_eq!(seen(&alice, &made.fh).await.unwrap().2, 0o777, "{how:?}");
    }
    drop(rig);
}
