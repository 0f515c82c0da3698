//! What persistent sessions keep (RFC 8881 §2.10.6.5, rule R15): key `e` session id, slot -> the newest change of the slot.
//!
//! # Ordering
//! Written in the transaction of the change itself. A session id begins with the boot number that made it. That tells replies of
//! earlier runs without a record of the session.
//!
//! # Failure
//! What cannot be deleted now goes with the sweep of the next run.

use crate::fs::Fs;
use bytes::Bytes;
use meta::{MetaError, Purpose, Tx, TxOutcome, prefix_end};
use namespace::FileId;
use nfs4::{FileHandle, NfsStatus, SessionId};
use state::{SessionName, SlotOf};
use std::sync::atomic::Ordering::Relaxed;

const TAG: u8 = b'e';
const SESSION_KEY_BYTES: usize = 17;
/// Records deleted in one step.
const PAGE: usize = 1024;
/// Leases after a start for which the sessions of earlier runs are kept. Clients have found their way back by then, or
/// have lost their leases.
const KEPT_LEASES: u64 = 2;

fn session_key(session: SessionId) -> [u8; SESSION_KEY_BYTES] {
    let mut key = [TAG; SESSION_KEY_BYTES];
    key[1..].copy_from_slice(&session.bytes);
    key
}

/// The key of a slot.
pub fn key(slot: SlotOf) -> Vec<u8> {
    let mut key = session_key(slot.session).to_vec();
    key.extend(slot.slot.to_be_bytes());
    key
}

/// Keeps a whole reply, in a transaction that it shares with others.
pub fn keep(fs: &Fs, slot: SlotOf, reply: &[u8]) -> Result<u64, NfsStatus> {
    match fs.store().put_later(&key(slot), reply) {
        Ok(seq) => Ok(seq.0),
        Err(MetaError::NoSpace) => Err(NfsStatus::NoSpc),
        Err(error) => {
            tracing::error!(%error, "kept replies");
            Err(NfsStatus::ServerFault)
        }
    }
}

/// What an earlier run kept of a slot.
pub fn kept(fs: &Fs, slot: SlotOf) -> Result<Option<Bytes>, NfsStatus> {
    let name = SessionName::of(slot.session);
    // Of a session that was not persistent nothing is left (RFC 8881 §15.1.11.5).
    if !name.is_persistent || name.boot == 0 || name.boot >= fs.ns.boot() {
        return Err(NfsStatus::BadSession);
    }
    fs.store().get(&key(slot)).map_err(|error| {
        tracing::error!(%error, "kept replies");
        NfsStatus::ServerFault
    })
}

/// Whether nothing is left to do of what an earlier run has answered. A truncation keeps its answer with its intent, and a client
/// that has the answer may read from the data servers.
pub fn is_ended(fs: &Fs, file: &FileHandle) -> Result<(), NfsStatus> {
    let file = FileId(fs.parse_handle(&file.0)?.file_id);
    fs.check_not_truncating(file).map_err(|_| NfsStatus::Delay)
}

/// Deletes what a session keeps.
pub(crate) fn forget(tx: &mut dyn Tx, session: SessionId) -> Result<(), MetaError> {
    let start = session_key(session);
    let slots = tx.scan(
        &start,
        &prefix_end(&start),
        state::SLOTS_PER_SESSION_MAX as usize,
    )?;
    for (key, _) in slots {
        tx.delete(&key);
    }
    Ok(())
}

/// A client has destroyed its session.
pub fn destroyed(fs: &Fs, session: SessionId) {
    let forgotten = fs.store().transact(&mut |tx| {
        tx.purpose(Purpose::Removal);
        forget(tx, session)?;
        Ok(TxOutcome::Commit)
    });
    if let Err(error) = forgotten {
        tracing::warn!(%error, "kept replies");
    }
}

/// Deletes what sessions of earlier runs kept, once their clients are back. Called by the tick; works once.
pub(crate) fn sweep(fs: &Fs) {
    if fs.jobs.replies_swept.load(Relaxed) || fs.clients.now_ms() < KEPT_LEASES * fs.lease_ms {
        return;
    }
    let mut end = vec![TAG];
    end.extend(fs.ns.boot().to_be_bytes());
    let mut count = 0;
    let swept = fs.store().transact(&mut |tx| {
        let page = tx.scan(&[TAG], &end, PAGE)?;
        count = page.len();
        for (key, _) in page {
            tx.delete(&key);
        }
        tx.purpose(Purpose::Removal);
        Ok(TxOutcome::Commit)
    });
    match swept {
        Ok(_) if count < PAGE => fs.jobs.replies_swept.store(true, Relaxed),
        Ok(_) => {}
        Err(error) => tracing::warn!(%error, "kept replies of earlier runs"),
    }
}
