//! `CB_NOTIFY_LOCK` (RFC 8881 §20.11): those who wait for a byte-range lock hear that it may be free now.
//!
//! # Ordering
//! A denied request with a blocking type is remembered under the lock under which it was denied. No later release of the range is
//! missed. OPEN promises notifications (`OPEN4_RESULT_MAY_NOTIFY_LOCK`), and clients poll in spite of it.
//!
//! # Failure
//! A notification that cannot be delivered, or one too many at a time, is dropped: the client asks again by itself.

use crate::fs::Fs;
use client_table::ClientTable;
use namespace::{Cred, FileId, Op};
use nfs4::cb::CbNotifyLockArgs;
use nfs4::{ClientId, FileHandle, StateOwner};
use std::sync::Arc;
use xdr::Opaque;

/// Tells all whose wanted lock of the file is free now, and grants hosts theirs. Returns at once.
pub fn notify_unblocked(fs: &Fs, file: FileId) {
    let unblocked = fs.state().unblocked(file.0);
    if !unblocked.granted.is_empty() {
        fs.host_grants.add(unblocked.granted);
    }
    let ready = unblocked.free;
    if ready.is_empty() {
        return;
    }
    let cred = Cred::root();
    let mut op = Op::new(&cred, fs.now());
    let Ok(inode) = fs.ns.getattr(&mut op, file) else {
        return;
    };
    let fh = fs.handle_of(&inode);
    for (client, owner) in ready {
        let Ok(permit) = Arc::clone(&fs.lock_notifications).try_acquire_owned() else {
            return;
        };
        let (clients, fh) = (Arc::clone(&fs.clients), fh.clone());
        tokio::spawn(async move {
            notify(&clients, client, &owner, &fh).await;
            drop(permit);
        });
    }
}

async fn notify(clients: &ClientTable, client: ClientId, owner: &[u8], fh: &FileHandle) {
    let sent = clients
        .callback(client, &|b| {
            b.push(&CbNotifyLockArgs {
                fh: Opaque(&fh.0),
                lock_owner: StateOwner {
                    clientid: client,
                    owner: Opaque(owner),
                },
            });
        })
        .await;
    if let Err(error) = sent {
        tracing::debug!(?error, client = client.value, "lock notification");
    }
}
