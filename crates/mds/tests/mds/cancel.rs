//! Goal: a copy that was cancelled, or whose client started again, has stopped: what the client writes after that stays. Method: one WRITE of the copy to its data
//! server is late; the client cancels the copy meanwhile and writes to the same place. Time is paused.
#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]

use crate::rig::cluster::Port;
use crate::rig::file::{File, patiently};
use crate::rig::real::{
    Real, after_from_to, bytes_of, direct_session, direct_write, fill, from_to, len, pattern,
    try_read,
};
use crate::rig::{Client, Rig, after_putfh};
use nfs4::ops::{CopyArgs, CopyRes, OffloadCancelArgs, OffloadCancelRes};
use nfs4::{IoMode, NfsStatus, StableHow, Stateid};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::Notify;
use transport::memory::{Fate, Faults, Passage};

const MIB: u64 = 1 << 20;
/// How late the WRITE is: longer than the answer to a cancellation may wait.
const LATE: Duration = Duration::from_secs(4);
/// Bytes of a record that only a WRITE has.
const WRITE_BYTES_MIN: usize = 4096;
/// Bytes that the client writes; the late WRITE is of as many and more.
const MINE_BYTES: usize = 4096;

/// Delays the next WRITE of the metadata server, once.
#[derive(Default)]
struct Late {
    is_awaited: AtomicBool,
    came: Notify,
}

impl Faults for Late {
    fn fate(&self, passage: &Passage<'_>) -> Fate {
        let is_write = passage.from == "mds-proxy" && passage.bytes.len() >= WRITE_BYTES_MIN;
        if !is_write || !self.is_awaited.swap(false, Relaxed) {
            return Fate::Deliver;
        }
        self.came.notify_one();
        Fate::Delay(LATE)
    }
}

async fn copy(src: &File<'_>, dst: &File<'_>) -> Stateid {
    let args = CopyArgs {
        src_stateid: src.open,
        dst_stateid: dst.open,
        src_offset: 0,
        dst_offset: 0,
        count: 0,
        consecutive: true,
        synchronous: false,
        source_servers: Vec::new().into(),
    };
    let begun = patiently(|| async {
        let done = from_to(src, dst, &args).await;
        let begun = after_from_to(&done).take::<CopyRes>();
        begun.map_err(|e| e.status().unwrap())
    });
    match begun.await.unwrap() {
        CopyRes::Ok(begun) => begun.response.callback_id.unwrap(),
        CopyRes::NoReqs(_) => panic!("refused"),
    }
}

async fn cancel(dst: &File<'_>, stateid: Stateid) -> Result<(), NfsStatus> {
    let args = OffloadCancelArgs { stateid };
    let done = dst.client.on(&dst.fh, |b| {
        b.push(&args);
    });
    let done = done.await;
    let cancelled = after_putfh(&done).take::<OffloadCancelRes>();
    cancelled.map(drop).map_err(|e| e.status().unwrap())
}

struct Scene {
    rig: Rig,
    late: Arc<Late>,
    // Keep the cluster alive.
    _port: Port,
    _server: Real,
}

impl Scene {
    async fn new() -> Self {
        let late = Arc::new(Late::default());
        let rig = Rig::troubled(late.clone()).await;
        let port = Port::open(&rig);
        let mut server = Real::new(1);
        server.start(&rig, &port, 1).await;
        Self {
            rig,
            late,
            _port: port,
            _server: server,
        }
    }

    /// One after the other, each boot of hers in place of the one before.
    async fn alice(&self, boot: [u8; 8]) -> Client {
        let callbacks = Some(Arc::new(session_client::NoCallbacks) as Arc<_>);
        self.rig.session_of("alice", boot, callbacks).await
    }

    /// Begins a copy, and returns when a WRITE of it is late.
    async fn copy_late(&self, alice: &Client) -> Stateid {
        let src = File::create(alice, "src").await;
        let dst = File::create(alice, "dst").await;
        fill(&src, 0, &pattern(len(17 * MIB))).await;
        self.late.is_awaited.store(true, Relaxed);
        let stateid = copy(&src, &dst).await;
        self.late.came.notified().await;
        stateid
    }

    /// Writes by a layout, over another connection than that of the late WRITE; it stays.
    async fn write_directly(&self, dst: &File<'_>) {
        let mine = vec![9; MINE_BYTES];
        let granted = dst.layout(IoMode::Rw).await;
        let direct = direct_session(&self.rig, dst.client, "alice", "ds1").await;
        let (handle, bytes) = (&granted.body.file_handles.0[0], mine.clone().into());
        let (caller, stable) = (&dst.client.caller, StableHow::DataSync);
        let wrote = direct_write(&direct, caller, handle, dst.open, stable, &bytes);
        wrote.await.unwrap();
        tokio::time::sleep(2 * LATE).await;
        assert!(bytes_of(dst, 0, MINE_BYTES).await == mine);
    }
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_was_cancelled_writes_nothing_more() {
    let scene = Scene::new().await;
    let alice = scene.alice(*b"boot0001").await;
    let stateid = scene.copy_late(&alice).await;
    let dst = File::create(&alice, "dst").await;
    patiently(|| cancel(&dst, stateid)).await.unwrap();
    assert_eq!(cancel(&dst, stateid).await, Err(NfsStatus::BadStateid));
    scene.write_directly(&dst).await;
}

#[tokio::test(start_paused = true)]
async fn a_copy_whose_client_starts_again_is_over_before_that_can_write() {
    let scene = Scene::new().await;
    let before = scene.alice(*b"boot0001").await;
    scene.copy_late(&before).await;
    let alice = scene.alice(*b"boot0002").await;
    let dst = File::create(&alice, "dst").await;
    let layout = dst.try_layout(IoMode::Rw).await;
    assert_eq!(layout.err(), Some(NfsStatus::LayoutTryLater));
    let read = try_read(&dst, 0, 1).await;
    assert_eq!(read.err(), Some(NfsStatus::Delay));
    scene.write_directly(&dst).await;
}
