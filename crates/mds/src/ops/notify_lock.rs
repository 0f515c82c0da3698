//! `CB_NOTIFY_LOCK` (RFC 8881 §20.11): those who wait for a byte-range lock hear that it may be free now.
//!
//! # Ordering
//! A denied request with a blocking type is remembered under the lock under which it was denied, so none that frees the range
//! afterwards is missed. OPEN promises notifications (`OPEN4_RESULT_MAY_NOTIFY_LOCK`), and clients poll in spite of it.
//!
//! # Failure
//! A notification that cannot be delivered, or one too many at a time, is dropped: the client asks again by itself.

use crate::Mds;
use crate::cx;
use namespace::{Cred, FileId, Op};
use nfs4::cb::CbNotifyLockArgs;
use nfs4::{ClientId, FileHandle, StateOwner};
use server::Nfsd;
use std::sync::Arc;
use xdr::Opaque;

/// Most notifications under way at once.
pub(crate) const NOTIFICATIONS_MAX: usize = 256;

/// Tells all whose wanted lock of the file is free now. Returns at once.
pub(crate) fn notify_unblocked(nfsd: &Nfsd<Mds>, file: FileId) {
    let mds = nfsd.role();
    let ready = mds.state().unblocked(file.0);
    if ready.is_empty() {
        return;
    }
    let cred = Cred::root();
    let mut op = Op::new(&cred, mds.now());
    let (Some(me), Ok(inode)) = (mds.data().service(), mds.namespace().getattr(&mut op, file))
    else {
        return;
    };
    let fh = cx::handle_of(mds, &inode);
    for (client, owner) in ready {
        let Ok(permit) = Arc::clone(mds.lock_notifications()).try_acquire_owned() else {
            return;
        };
        let (me, fh) = (Arc::clone(&me), fh.clone());
        tokio::spawn(async move {
            notify(&me, client, &owner, &fh).await;
            drop(permit);
        });
    }
}

async fn notify(nfsd: &Nfsd<Mds>, client: ClientId, owner: &[u8], fh: &FileHandle) {
    let sent = nfsd
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
