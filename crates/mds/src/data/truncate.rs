//! Truncation: a durable intent, then every data server, then the size (rule R3).
//!
//! # Ownership
//! The file's gate keeps proxied I/O out, a hold on its layouts keeps LAYOUTGET out, and the name space's intent keeps
//! other truncations out, also after a crash.
//!
//! # Ordering
//! Layouts for writing come back (all but the caller's own), before the gate closes: a client returns its layout behind its
//! LAYOUTCOMMIT, which passes the gate. Then: the intent and the epoch are durable; LAYOUTCOMMITs from before are
//! refused; every data server has cut and raised its floor; the size changes. When nobody but the caller ever had a handle
//! for writing that still holds, the epoch stays: there are no late writes of others to stop, and his layout goes on; only
//! his LAYOUTCOMMITs are measured at the data servers until he gets a new stateid. A
//! data server answers SET_SIZE when no write below the floor is under way, so nothing grows again behind the cut.
//!
//! # Failure
//! With a data server away the caller gets `NFS4ERR_DELAY` and the intent stays; the tick ends it, and whoever comes
//! meanwhile with a layout or proxied I/O waits. When a data server's store fails, all of these are told `NFS4ERR_IO` instead,
//! until the tick has ended it after all. One that was expelled has nothing to cut.

use super::call::call;
use super::exclusive::{self, Hold, layouts_gone};
use super::sizes;
use super::space::note_space;
use crate::Mds;
use crate::cx::{self, Cx, Prepared, ns};
use control::{SetSizeArgs, SetSizeItem, Status};
use layout::{ClientTag, Epoch};
use meta::Seq;
use namespace::{
    Cred, FileId, Inode, Namespace, NsError, Op, PAGE_MAX, SET_ID_BITS, SetAttr, TruncateIntent,
};
use nfs4::{ClientId, NfsStatus};
use server::Nfsd;
use state::IoModes;
use std::sync::Arc;
use tokio::sync::OwnedRwLockWriteGuard;
use transport::ConnHandle;

/// All truncations under way.
pub(super) fn intents(ns: &Namespace, op: &mut Op<'_>) -> Result<Vec<TruncateIntent>, NsError> {
    let mut out: Vec<TruncateIntent> = Vec::new();
    loop {
        let after = out.last().map_or(FileId(0), |i| i.file);
        let page = ns.truncate_intents(op, after, PAGE_MAX)?;
        let full = page.len() == PAGE_MAX;
        out.extend(page);
        if !full {
            return Ok(out);
        }
    }
}

/// Sets the size of a file that may have data beyond it, and the other attributes of the request with it.
pub(crate) async fn truncate(
    nfsd: &Nfsd<Mds>,
    cx: &mut Cx<'_>,
    inode: &Arc<Inode>,
    wanted: &SetAttr,
    opened_for_write: bool,
    kept: &Prepared,
) -> Result<Arc<Inode>, NfsStatus> {
    let client = cx.client()?;
    nfsd.role().data().cutting(inode.id)?;
    // LAYOUTGET is held off from here on: nobody joins those that are gone.
    let _hold = Hold::new(nfsd, inode.id);
    let _alone = alone(nfsd, inode, client).await?;
    truncate_alone(nfsd, cx, inode, wanted, opened_for_write, kept).await
}

/// As [`truncate`], for who holds the file and its gate already, when nobody else has a layout to write it.
pub(super) async fn truncate_alone(
    nfsd: &Nfsd<Mds>,
    cx: &mut Cx<'_>,
    inode: &Arc<Inode>,
    wanted: &SetAttr,
    opened_for_write: bool,
    kept: &Prepared,
) -> Result<Arc<Inode>, NfsStatus> {
    let mds = nfsd.role();
    let data = mds.data();
    let file = inode.id;
    let new_size = wanted.size.ok_or(NfsStatus::Inval)?;
    let attrs = SetAttr {
        size: None,
        ..wanted.clone()
    };
    let owner = cx.session.as_ref().map(|s| Arc::clone(&s.owner));
    let me = ClientTag::of(data.cluster_id, &owner.ok_or(NfsStatus::OpNotInSession)?);
    // A data server takes no set-id bits off: a handle that was kept must not outlive their setting.
    let sets_id = wanted.mode.is_some_and(|mode| mode & SET_ID_BITS != 0);
    let fence = sets_id || !data.writers.lock().only(file, me);
    // Once the intent is durable the cut is made, whatever happens: that is the change.
    let intent = cx::change_as(mds, cx, kept, |ns, op| {
        ns.begin_truncate(op, file, new_size, &attrs, opened_for_write, fence)
    })?;
    data.truncating.lock().insert(file, NfsStatus::Delay);
    if fence {
        data.writers.lock().forget(file);
    }
    {
        let _order = data.grant_lock(file).lock();
        mds.state().layouts.raise_commit_floor(file.0);
    }
    mds.durable(Seq(cx.observed_seq)).await?;
    cut(nfsd, inode, &intent).await.inspect_err(|status| {
        tracing::warn!(file = file.0, %status, "truncation goes on later");
    })?;
    let mut ended = false;
    let done = ns(mds, cx, |ns, op| {
        let mut result = ns.finish_truncate(op, file, &attrs);
        ended = result.is_ok() || result == Err(NsError::Stale);
        if let Err(NsError::Perm | NsError::Access) = result {
            // The permission to set them went meanwhile: the cut stands, the rest of the request fails.
            ended = ns.finish_truncate(op, file, &SetAttr::default()).is_ok();
        }
        if !ended {
            result = result.and(Err(NsError::Busy));
        }
        result
    });
    if ended {
        data.truncating.lock().remove(&file);
        note_space(nfsd, file);
    }
    done
}

/// Waits until nobody else writes. To be called under a hold.
async fn alone(
    nfsd: &Nfsd<Mds>,
    inode: &Inode,
    client: ClientId,
) -> Result<OwnedRwLockWriteGuard<()>, NfsStatus> {
    layouts_gone(nfsd, inode, IoModes::RW, Some(client)).await?;
    // Another truncation may have come first, and a client may have been fenced.
    let gate = exclusive::gate(nfsd, inode.id).await?;
    let mds = nfsd.role();
    let held = mds
        .state()
        .layouts
        .is_held(inode.id.0, IoModes::RW, Some(client));
    if held {
        return Err(NfsStatus::Delay);
    }
    Ok(gate)
}

/// Makes every data server of the file cut its object. What is done again is done already. When it is not done, the answer is
/// what others are told until it is.
async fn cut(nfsd: &Nfsd<Mds>, inode: &Inode, intent: &TruncateIntent) -> Result<(), NfsStatus> {
    let data = nfsd.role().data();
    let Some(placement) = inode.placement else {
        return Ok(());
    };
    let ids = data.group_servers(placement.group);
    let conns = data.servers.lock().conns_but_expelled(&ids);
    let conns = conns.ok_or(NfsStatus::Delay)?;
    let item = SetSizeItem {
        object: sizes::object_of(inode),
        size_bytes: intent.new_size,
        floor: Epoch::from_u64(intent.floor),
        through_key: data.keys.lock().ring().newest_id(),
    };
    let mut tasks = tokio::task::JoinSet::new();
    for (ds, conn) in ids.into_iter().zip(conns) {
        let Some(conn) = conn else { continue };
        tasks.spawn(async move { cut_one(ds, &conn, item).await });
    }
    let mut done = Ok(());
    while let Some(result) = tasks.join_next().await {
        match result.unwrap_or(Err(NfsStatus::Delay)) {
            Ok(()) => {}
            Err(NfsStatus::Io) => done = Err(NfsStatus::Io),
            Err(status) => done = done.and(Err(status)),
        }
    }
    if let (Err(status), Some(told)) = (done, data.truncating.lock().get_mut(&intent.file)) {
        *told = status;
    }
    done
}

/// `Io` when the data server's store failed: asking again may help, waiting for it does not.
async fn cut_one(ds: u32, conn: &ConnHandle, item: SetSizeItem) -> Result<(), NfsStatus> {
    let args = SetSizeArgs {
        items: vec![item].into(),
    };
    let answer = call(conn, &args).await.map_err(|error| {
        tracing::debug!(ds, %error, "an object was not cut");
        NfsStatus::Delay
    })?;
    let status = answer.0.first();
    if matches!(
        status,
        Some(Status::Ok | Status::NotFound | Status::Removed)
    ) {
        return Ok(());
    }
    tracing::debug!(ds, ?status, "an object was not cut");
    Err(match status {
        Some(Status::Io) => NfsStatus::Io,
        _ => NfsStatus::Delay,
    })
}

/// Ends truncations that a crash or a missing data server interrupted. Their callers have been told to ask again.
pub(super) async fn redo_all(nfsd: &Nfsd<Mds>) {
    let mds = nfsd.role();
    if mds.data().truncating.lock().is_empty() {
        return;
    }
    let cred = Cred::root();
    let mut op = Op::new(&cred, mds.now());
    let intents = match intents(mds.namespace(), &mut op) {
        Ok(intents) => intents,
        Err(error) => {
            tracing::error!(%error, "truncations");
            return;
        }
    };
    for intent in intents {
        redo(nfsd, &intent).await;
    }
}

async fn redo(nfsd: &Nfsd<Mds>, intent: &TruncateIntent) {
    let mds = nfsd.role();
    let data = mds.data();
    let gate = data.gate(intent.file);
    // Held by the truncation itself while that is still at it.
    let Ok(_alone) = gate.try_write() else { return };
    if data.cutting(intent.file).is_ok() {
        return;
    }
    let _hold = Hold::new(nfsd, intent.file);
    let cred = Cred::root();
    let mut op = Op::new(&cred, mds.now());
    let inode = match mds.namespace().getattr(&mut op, intent.file) {
        Ok(inode) => inode,
        Err(error) => {
            if error == NsError::Stale {
                data.truncating.lock().remove(&intent.file);
            }
            return;
        }
    };
    if mds.durable(op.observed()).await.is_err() || cut(nfsd, &inode, intent).await.is_err() {
        return;
    }
    let done = mds
        .namespace()
        .finish_truncate(&mut op, intent.file, &SetAttr::default());
    match done {
        Ok(_) | Err(NsError::Stale | NsError::Inval) => {
            note_space(nfsd, intent.file);
            if mds.durable(op.observed()).await.is_ok() {
                data.truncating.lock().remove(&intent.file);
                data.changed.notify_waiters();
            }
        }
        Err(error) => tracing::error!(%error, status = %cx::status(&error), "truncation"),
    }
}
