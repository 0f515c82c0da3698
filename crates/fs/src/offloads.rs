//! The table of copies that go on after their COPY was answered.

use namespace::FileId;
use nfs4::{ClientId, NfsStatus, Stateid, Verifier};
use state::{Other, StateKind, StateidSource};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use tokio::sync::Notify;

/// Copies of one client at one time.
const CLIENT_COPIES_MAX: usize = 16;
/// Copies of all clients at one time.
const COPIES_MAX: usize = 1024;
/// Sequence id of all copy stateids: never 0 (RFC 7862 §4.8).
pub(crate) const SEQID: u32 = 1;

/// All copies that go on.
#[derive(Debug)]
pub(crate) struct Offloads {
    pub(crate) copies: BTreeMap<Other, Offload>,
    source: StateidSource,
}

#[derive(Debug)]
pub(crate) struct Offload {
    client: ClientId,
    dst: FileId,
    pub(crate) progress: Arc<Progress>,
    pub(crate) result: Option<Result<CopyDone, NfsStatus>>,
    /// It runs although its client is gone.
    is_orphan: bool,
}

impl Offloads {
    /// An empty table. `boot` was never used before by this server.
    pub(crate) fn new(boot: u32) -> Self {
        Self {
            copies: BTreeMap::new(),
            source: StateidSource::new(boot),
        }
    }

    /// Enters a copy, unless there are too many.
    pub(crate) fn add(&mut self, client: ClientId, dst: FileId) -> Option<(Other, Arc<Progress>)> {
        let of_client = self.copies.values().filter(|c| c.client == client).count();
        if of_client >= CLIENT_COPIES_MAX || self.copies.len() >= COPIES_MAX {
            return None;
        }
        let other = self.source.next(StateKind::Copy);
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

    pub(crate) fn find(
        &self,
        client: ClientId,
        dst: FileId,
        stateid: Stateid,
    ) -> Result<&Offload, NfsStatus> {
        let found = self.copies.get(&stateid.other);
        found
            .filter(|c| c.client == client && c.dst == dst && stateid.seqid == SEQID)
            .ok_or(NfsStatus::BadStateid)
    }

    pub(crate) fn cancel(&mut self, other: &Other) {
        if let Some(offload) = self.copies.remove(other) {
            offload.progress.is_cancelled.store(true, Relaxed);
        }
    }

    /// A copy has ended: whether anybody wants to know.
    pub(crate) fn ended(&mut self, other: &Other, result: Result<CopyDone, NfsStatus>) -> bool {
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
    pub(crate) fn orphan(&mut self, client: ClientId) {
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
    pub(crate) fn stopped(&self, dst: FileId) -> Result<(), NfsStatus> {
        let mut copies = self.copies.values();
        match copies.any(|copy| copy.is_orphan && copy.dst == dst) {
            true => Err(NfsStatus::Delay),
            false => Ok(()),
        }
    }
}

/// A copy that is done, and durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyDone {
    /// Fewer than asked for when the source was cut meanwhile.
    pub count: u64,
    /// The write verifier of the destination.
    pub verifier: Verifier,
}

/// How far a copy is, and whether it shall go on.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    pub(crate) copied_bytes: AtomicU64,
    pub(crate) is_cancelled: AtomicBool,
    /// Said when nothing of it is written any more.
    pub(crate) stopped: Notify,
}

#[cfg(test)]
mod tests {
    use super::*;
    use nfs4::OTHER_BYTES;

    const A: ClientId = ClientId { value: 1 };
    const B: ClientId = ClientId { value: 2 };

    #[test]
    fn copies_of_a_client_are_bounded_and_its_own() {
        let mut offloads = Offloads::new(7);
        let mut last = [0; OTHER_BYTES];
        for _ in 0..CLIENT_COPIES_MAX {
            last = offloads.add(A, FileId(5)).expect("there is room").0;
        }
        assert!(offloads.add(A, FileId(5)).is_none());
        let (of_b, progress) = offloads.add(B, FileId(5)).expect("of another client");
        assert_eq!(&of_b[..5], [0, 0, 0, 7, StateKind::Copy as u8]);
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
        assert!(offloads.add(A, FileId(5)).is_some());
    }
}
