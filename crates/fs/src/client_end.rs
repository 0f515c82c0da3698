//! The end of a client, and of the grace period.
//!
//! # Ordering
//! A client is fenced off what it held, and its record is gone durably, before anybody else is granted it (rules R6, R18).

use crate::client_record::{delete, delete_dropped, record, stored};
use crate::fs::Fs;
use crate::{delegations, kept_replies, layouts, lock_notify, offload, removal};
use meta::{Purpose, TxOutcome};
use namespace::FileId;
use nfs4::{ClientId, NfsStatus};
use state::RemovedClient;
use std::sync::Arc;

/// Settles what a client that is no more leaves behind: state, layouts, the record.
pub async fn removed(fs: &Arc<Fs>, removed: RemovedClient) {
    let gone = fs.state().remove_client(removed.client);
    offload::offloads_of_gone(fs, removed.client);
    // Fence before anybody else is granted what the client held (rule R6).
    layouts::client_gone(fs, &removed.owner, gone.layouts);
    if removed.recorded || !removed.sessions.is_empty() {
        let deleted = fs.store().transact(&mut |tx| {
            tx.purpose(Purpose::Removal);
            if removed.recorded {
                delete(tx, removed.client);
            }
            for session in &removed.sessions {
                kept_replies::forget(tx, *session)?;
            }
            Ok(TxOutcome::Commit)
        });
        if let Ok(seq) = stored(deleted) {
            let _ = fs.durable(seq).await;
        }
    }
    delegations::client_gone(fs);
    for file in gone.unlocked_files {
        lock_notify::notify_unblocked(fs, FileId(file));
    }
    for file in gone.closed_files {
        removal::discard_if_unused(fs, FileId(file));
    }
}

/// Whether a client may be granted new state now, or may reclaim. While reclaims come the grace period goes on.
///
/// # Errors
/// `Grace` and `NoGrace`; `StaleClientId` for an unknown client.
pub fn check_grace(fs: &Fs, client: ClientId, reclaim: bool) -> Result<(), NfsStatus> {
    let now_ms = fs.clients.now_ms();
    let mut clients = fs.clients.lock();
    clients.check_grace(client, reclaim)?;
    if reclaim {
        clients.reclaimed(now_ms);
    }
    Ok(())
}

/// Takes everything from a client whose lease is over, because somebody else wants it. Returns whether it is over.
pub async fn revoke_if_lapsed(fs: &Arc<Fs>, client: ClientId) -> bool {
    let now_ms = fs.clients.now_ms();
    let gone = {
        let mut clients = fs.clients.lock();
        if !clients.lapsed(client, now_ms) {
            return false;
        }
        clients.revoke(client)
    };
    if let Some(gone) = gone {
        removed(fs, gone).await;
    }
    true
}

/// The engine has noted RECLAIM_COMPLETE: the client counts from now on, and the grace period may be over. A failure to store
/// its record is told when it then asks for state.
///
/// # Errors
/// `ServerFault` when the store has failed.
pub async fn reclaim_complete(fs: &Arc<Fs>, client: ClientId) -> Result<(), NfsStatus> {
    if let Ok(Some(seq)) = record(fs, client, false) {
        fs.durable(seq).await?;
    }
    poll_grace(fs).await;
    Ok(())
}

/// Ends the grace period when it is time.
pub async fn poll_grace(fs: &Arc<Fs>) {
    let now_ms = fs.clients.now_ms();
    let Some(end) = fs.clients.lock().poll_grace(now_ms) else {
        return;
    };
    tracing::info!(?end, "grace period over");
    let seq = fs.store().transact(&mut |tx| {
        delete_dropped(tx, |client| fs.clients.lock().drops_record(client))?;
        Ok(TxOutcome::Commit)
    });
    let durable = match stored(seq) {
        Ok(seq) => fs.durable(seq).await.is_ok(),
        Err(_) => false,
    };
    if durable {
        fs.clients.lock().grace_finished();
        // Orphans that nobody reclaimed go.
        removal::sweep(fs);
    }
}
