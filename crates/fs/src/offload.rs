//! Copies that go on after their COPY was answered (RFC 7862 §4.8, §15.8, §15.9, §16.1).
//!
//! ```text
//!   COPY ─► running ── done, durable ─► done ── CB_OFFLOAD answered ─► gone
//!              │                              └───── OFFLOAD_CANCEL ─────┤
//!              ├── OFFLOAD_CANCEL ─► stopping ── no WRITE under way ───────┤
//!              └── the client is gone ─────────────────────────────────────┘
//! ```
//! # Ownership
//! One task for each copy; the table has its progress and its result. A copy belongs to the client that asked for it, and no other
//! can see it.
//!
//! # Failure
//! A cancellation is answered when nothing of the copy can be written any more, with DELAY until then: what the client writes
//! after it stays. A copy of a client that is gone may still be writing. Until that is over, others' I/O through this server and
//! new layouts of the file get DELAY, since the client may be back already.
//!
//! CB_OFFLOAD is sent until it is answered, on whatever session the client has then. Meanwhile OFFLOAD_STATUS tells the result. A
//! restart forgets all copies; clients ask for them again when they find their state gone.

use crate::actor::{Actor, Prepared};
use crate::copy::run;
use crate::copy_job::{Copy, Patience};
use crate::delegations::Excluded;
use crate::fs::Fs;
use crate::offloads::{CopyDone, Offload, SEQID};
use client_table::CallbackError;
use namespace::{Cred, FileId};
use nfs4::cb::{CbOffloadArgs, OffloadInfo};
use nfs4::ops::WriteResponse;
use nfs4::{ClientId, FileHandle, NfsStatus, StableHow, Stateid};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use transport::CallId;

/// Pause between two rounds of trying to reach a client.
const CALLBACK_PAUSE_MS: u64 = 1_000;
/// How long a cancellation waits for what the copy is writing, before it is answered DELAY.
const CANCEL_WAIT: Duration = Duration::from_secs(2);
/// Begins a copy that is answered before it is done. `None` when there are too many already.
pub fn start(
    fs: &Arc<Fs>,
    client: ClientId,
    cred: &Cred,
    fh: &FileHandle,
    copy: Copy,
) -> Option<Stateid> {
    let mut offloads = fs.offloads.lock();
    let (other, progress) = offloads.add(client, copy.dst.id)?;
    let stateid = Stateid {
        seqid: SEQID,
        other,
    };
    let patience = Patience {
        progress,
        until: None,
    };
    // The copy outlives the open that it was asked under.
    let excluded = Excluded::new(fs, copy.dst.id);
    let (fs, cred, fh) = (Arc::clone(fs), cred.clone(), fh.clone());
    let task = async move {
        let work = work(Arc::clone(&fs), cred, copy, patience.clone());
        let work = tokio::spawn(CallId::carry(work));
        let result = work.await.unwrap_or(Err(NfsStatus::ServerFault));
        drop(excluded);
        let is_wanted = fs.offloads.lock().ended(&other, result);
        if !is_wanted {
            return;
        }
        patience.progress.stopped.notify_waiters();
        if patience.progress.is_cancelled.load(Relaxed) {
            // Whoever cancels it waits for this, or asks again, and takes it out.
            return;
        }
        let copied_bytes = patience.progress.copied_bytes.load(Relaxed);
        tell(&fs, client, stateid, &fh, info(result, copied_bytes)).await;
        fs.offloads.lock().cancel(&other);
    };
    tokio::spawn(CallId::carry(task));
    Some(stateid)
}

async fn work(
    fs: Arc<Fs>,
    cred: Cred,
    copy: Copy,
    patience: Patience,
) -> Result<CopyDone, NfsStatus> {
    let mut actor = Actor::for_task(cred);
    let result = run(&fs, &mut actor, &copy, &patience, &|_| Prepared::default()).await;
    fs.durable(actor.observed).await?;
    result
}

fn info(result: Result<CopyDone, NfsStatus>, copied_bytes: u64) -> OffloadInfo {
    match result {
        Ok(copied) => OffloadInfo::Ok(WriteResponse {
            callback_id: None,
            count: copied.count,
            committed: StableHow::FileSync,
            write_verifier: copied.verifier,
        }),
        Err(status) => OffloadInfo::Failed {
            status,
            copied_bytes,
        },
    }
}

/// Sends CB_OFFLOAD until the client has answered, or is gone, or has cancelled the copy.
async fn tell(
    fs: &Arc<Fs>,
    client: ClientId,
    stateid: Stateid,
    fh: &FileHandle,
    info: OffloadInfo,
) {
    let is_wanted = || {
        let offloads = fs.offloads.lock();
        offloads.copies.contains_key(&stateid.other)
    };
    while is_wanted() && fs.clients.lock().owner(client).is_some() {
        let result = fs
            .clients
            .callback(client, &|b| {
                b.push(&CbOffloadArgs {
                    fh: xdr::Opaque(&fh.0),
                    stateid,
                    info,
                });
            })
            .await;
        match result {
            Ok(()) => return,
            Err(CallbackError::Status(status)) if status != NfsStatus::Delay => {
                tracing::debug!(%status, "CB_OFFLOAD");
                return;
            }
            Err(error) => tracing::debug!(?error, client = client.value, "CB_OFFLOAD"),
        }
        tokio::time::sleep(Duration::from_millis(CALLBACK_PAUSE_MS)).await;
    }
}

/// How far a copy is, and how it ended if it has.
pub fn offload_status(
    fs: &Arc<Fs>,
    client: ClientId,
    dst: FileId,
    stateid: Stateid,
) -> Result<(u64, Option<NfsStatus>), NfsStatus> {
    let offloads = fs.offloads.lock();
    let offload = offloads.find(client, dst, stateid)?;
    Ok(match offload.result {
        None => (offload.progress.copied_bytes.load(Relaxed), None),
        Some(Ok(copied)) => (copied.count, Some(NfsStatus::Ok)),
        Some(Err(status)) => (offload.progress.copied_bytes.load(Relaxed), Some(status)),
    })
}

/// Ends a copy, wherever it is. Nothing more is said of it, and nothing of it is written.
///
/// # Errors
/// `Delay` while something of it is being written; to be asked again.
pub async fn offload_cancel(
    fs: &Arc<Fs>,
    client: ClientId,
    dst: FileId,
    stateid: Stateid,
) -> Result<(), NfsStatus> {
    let offloads = &fs.offloads;
    let progress = {
        let offloads = offloads.lock();
        let progress = &offloads.find(client, dst, stateid)?.progress;
        progress.is_cancelled.store(true, Relaxed);
        Arc::clone(progress)
    };
    let stops = async {
        loop {
            let mut stopped = std::pin::pin!(progress.stopped.notified());
            stopped.as_mut().enable();
            let ended = |copy: &Offload| copy.result.is_some();
            if offloads.lock().copies.get(&stateid.other).is_none_or(ended) {
                return;
            }
            stopped.await;
        }
    };
    let stops = tokio::time::timeout(CANCEL_WAIT, stops).await;
    stops.map_err(|_| NfsStatus::Delay)?;
    offloads.lock().copies.remove(&stateid.other);
    Ok(())
}

/// A client is no more, and neither are its copies.
pub(crate) fn offloads_of_gone(fs: &Arc<Fs>, client: ClientId) {
    fs.offloads.lock().orphan(client);
}
