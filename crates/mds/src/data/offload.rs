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
//! A cancellation is answered when nothing of the copy can be written any more, DELAY until then: what the client writes
//! after it stays. Of a client that is gone a copy may still be writing: until that is over, others' I/O through this server and new layouts of
//! the file are told DELAY, since the client may be back already. CB_OFFLOAD is sent until it is answered, on whatever session the client has then; meanwhile OFFLOAD_STATUS tells the result. A restart
//! forgets all copies, and clients ask for them again when they find their state gone.

use super::copy::{Copied, Copy, Patience, Progress, run};
use crate::Mds;
use crate::cx::{Asker, Prepared};
use crate::delegations::ExcludedForTask;
use namespace::{Cred, FileId};
use nfs4::cb::{CbOffloadArgs, OffloadInfo};
use nfs4::ops::WriteResponse;
use nfs4::{ClientId, FileHandle, NfsStatus, OTHER_BYTES, StableHow, Stateid};
use server::{CallbackError, Nfsd};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Copies of one client at one time.
const CLIENT_COPIES_MAX: usize = 16;
/// Copies of all clients at one time.
const COPIES_MAX: usize = 1024;
/// Pause between two rounds of trying to reach a client.
const CALLBACK_PAUSE_MS: u64 = 1_000;
/// How long a cancellation waits for what the copy is writing, before it is answered DELAY.
const CANCEL_WAIT: Duration = Duration::from_secs(2);
/// What the fifth byte of a stateid says of a copy; other kinds are those of the `state` crate.
const KIND_COPY: u8 = 5;
/// Sequence id of all copy stateids: never 0 (RFC 7862 §4.8).
const SEQID: u32 = 1;

type Other = [u8; OTHER_BYTES];

/// All copies that go on.
#[derive(Debug, Default)]
pub(crate) struct Offloads {
    copies: BTreeMap<Other, Offload>,
    counter: u64,
}

#[derive(Debug)]
struct Offload {
    client: ClientId,
    dst: FileId,
    progress: Arc<Progress>,
    result: Option<Result<Copied, NfsStatus>>,
    /// It runs although its client is gone.
    is_orphan: bool,
}

impl Offloads {
    /// Enters a copy, unless there are too many.
    fn add(&mut self, boot: u32, client: ClientId, dst: FileId) -> Option<(Other, Arc<Progress>)> {
        let of_client = self.copies.values().filter(|c| c.client == client).count();
        if of_client >= CLIENT_COPIES_MAX || self.copies.len() >= COPIES_MAX {
            return None;
        }
        self.counter += 1;
        let mut other = [0; OTHER_BYTES];
        other[..4].copy_from_slice(&boot.to_be_bytes());
        other[4..].copy_from_slice(&self.counter.to_be_bytes());
        other[4] = KIND_COPY;
        let progress = Arc::new(Progress::default());
        let offload = Offload {
            client,
            dst,
            progress: Arc::clone(&progress),
            result: None,
            is_orphan: false,
        };
        self.copies.insert(other, offload);
        Some((other, progress))
    }

    fn find(&self, client: ClientId, dst: FileId, stateid: Stateid) -> Result<&Offload, NfsStatus> {
        let found = self.copies.get(&stateid.other);
        found
            .filter(|c| c.client == client && c.dst == dst && stateid.seqid == SEQID)
            .ok_or(NfsStatus::BadStateid)
    }

    fn cancel(&mut self, other: &Other) {
        if let Some(offload) = self.copies.remove(other) {
            offload.progress.is_cancelled.store(true, Relaxed);
        }
    }

    /// A copy has ended: whether anybody wants to know.
    fn ended(&mut self, other: &Other, result: Result<Copied, NfsStatus>) -> bool {
        let Some(offload) = self.copies.get_mut(other) else {
            return false;
        };
        offload.result = Some(result);
        let is_wanted = !offload.is_orphan;
        if !is_wanted {
            self.copies.remove(other);
        }
        is_wanted
    }

    /// A client is no more: its copies stop.
    fn orphan(&mut self, client: ClientId) {
        self.copies
            .retain(|_, c| c.client != client || c.result.is_none());
        for offload in self.copies.values_mut() {
            if offload.client == client {
                offload.is_orphan = true;
                offload.progress.is_cancelled.store(true, Relaxed);
            }
        }
    }

    /// Refuses what must wait for the copy of a client that is gone.
    pub(super) fn stopped(&self, dst: FileId) -> Result<(), NfsStatus> {
        let mut copies = self.copies.values();
        match copies.any(|copy| copy.is_orphan && copy.dst == dst) {
            true => Err(NfsStatus::Delay),
            false => Ok(()),
        }
    }
}

/// Begins a copy that is answered before it is done. `None` when there are too many already.
pub(crate) fn start(
    nfsd: &Arc<Nfsd<Mds>>,
    client: ClientId,
    cred: &Cred,
    fh: &FileHandle,
    copy: Copy,
) -> Option<Stateid> {
    let mds = nfsd.role();
    let mut offloads = mds.data().offloads.lock();
    let (other, progress) = offloads.add(mds.namespace().boot(), client, copy.dst.id)?;
    let stateid = Stateid {
        seqid: SEQID,
        other,
    };
    let patience = Patience {
        progress,
        until: None,
    };
    // The copy outlives the open that it was asked under.
    let excluded = ExcludedForTask::new(nfsd, copy.dst.id);
    let (nfsd, cred, fh) = (Arc::clone(nfsd), cred.clone(), fh.clone());
    tokio::spawn(async move {
        let work = tokio::spawn(work(Arc::clone(&nfsd), cred, copy, patience.clone()));
        let result = work.await.unwrap_or(Err(NfsStatus::ServerFault));
        drop(excluded);
        let is_wanted = nfsd.role().data().offloads.lock().ended(&other, result);
        if !is_wanted {
            return;
        }
        patience.progress.stopped.notify_waiters();
        if patience.progress.is_cancelled.load(Relaxed) {
            // Whoever cancels it waits for this, or asks again, and takes it out.
            return;
        }
        let copied_bytes = patience.progress.copied_bytes.load(Relaxed);
        tell(&nfsd, client, stateid, &fh, info(result, copied_bytes)).await;
        nfsd.role().data().offloads.lock().cancel(&other);
    });
    Some(stateid)
}

async fn work(
    nfsd: Arc<Nfsd<Mds>>,
    cred: Cred,
    copy: Copy,
    patience: Patience,
) -> Result<Copied, NfsStatus> {
    let mut asker = Asker::new(&cred);
    let result = run(&nfsd, &mut asker, &copy, &patience, &|_| {
        Prepared::default()
    })
    .await;
    nfsd.role().durable(asker.observed).await?;
    result
}

fn info(result: Result<Copied, NfsStatus>, copied_bytes: u64) -> OffloadInfo {
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
    nfsd: &Nfsd<Mds>,
    client: ClientId,
    stateid: Stateid,
    fh: &FileHandle,
    info: OffloadInfo,
) {
    let is_wanted = || {
        let offloads = nfsd.role().data().offloads.lock();
        offloads.copies.contains_key(&stateid.other)
    };
    while is_wanted() && nfsd.clients().owner(client).is_some() {
        let result = nfsd
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
pub(crate) fn offload_status(
    nfsd: &Nfsd<Mds>,
    client: ClientId,
    dst: FileId,
    stateid: Stateid,
) -> Result<(u64, Option<NfsStatus>), NfsStatus> {
    let offloads = nfsd.role().data().offloads.lock();
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
pub(crate) async fn offload_cancel(
    nfsd: &Nfsd<Mds>,
    client: ClientId,
    dst: FileId,
    stateid: Stateid,
) -> Result<(), NfsStatus> {
    let offloads = &nfsd.role().data().offloads;
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
pub(crate) fn offloads_of_gone(nfsd: &Nfsd<Mds>, client: ClientId) {
    nfsd.role().data().offloads.lock().orphan(client);
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ClientId = ClientId { value: 1 };
    const B: ClientId = ClientId { value: 2 };

    #[test]
    fn copies_of_a_client_are_bounded_and_its_own() {
        let mut offloads = Offloads::default();
        let mut last = [0; OTHER_BYTES];
        for _ in 0..CLIENT_COPIES_MAX {
            last = offloads.add(7, A, FileId(5)).expect("there is room").0;
        }
        assert!(offloads.add(7, A, FileId(5)).is_none());
        let (of_b, progress) = offloads.add(7, B, FileId(5)).expect("of another client");
        assert_eq!(&of_b[..5], [0, 0, 0, 7, KIND_COPY]);
        let stateid = |seqid, other| Stateid { seqid, other };
        assert!(offloads.find(A, FileId(5), stateid(1, last)).is_ok());
        for (client, file, stateid) in [
            (B, FileId(5), stateid(1, last)),
            (A, FileId(6), stateid(1, last)),
            (A, FileId(5), stateid(0, last)),
            (A, FileId(5), stateid(1, [9; 12])),
        ] {
            let found = offloads.find(client, file, stateid);
            assert_eq!(found.err(), Some(NfsStatus::BadStateid));
        }
        offloads.cancel(&of_b);
        assert!(progress.is_cancelled.load(Relaxed));
        offloads.cancel(&last);
        assert!(offloads.add(7, A, FileId(5)).is_some());
    }
}
