//! Truncation: a durable intent, then every data server, then the size (rule R3).
//!
//! # Ownership
//! The file's gate keeps proxied I/O out. A hold on its layouts keeps LAYOUTGET out. The name space's intent keeps other truncations
//! out, also after a crash.
//!
//! # Ordering
//! 1. Layouts for writing come back, except the caller's own. A client's LAYOUTCOMMIT precedes its LAYOUTRETURN and must pass the gate.
//! 2. The gate closes. The intent and the new epoch are durable. Earlier LAYOUTCOMMITs are refused.
//! 3. Every data server has cut and raised its floor. It answers SET_SIZE when no write below the floor runs, so nothing grows again.
//! 4. The size changes.
//!
//! The epoch stays if nobody but the caller has a valid handle for writing: there are no late writes of others. The caller's layout
//! stays too. Its LAYOUTCOMMITs are measured at the data servers until it gets a new stateid.
//!
//! # Failure
//! With a data server away the caller gets `NFS4ERR_DELAY` and the intent stays. The tick completes it; layouts and proxied I/O
//! wait meanwhile. If a data server's store fails, all of them get `NFS4ERR_IO` until the tick succeeds. An expelled data server
//! has nothing to cut.

use crate::actor::{Actor, Prepared};
use crate::bad_mirrors;
use crate::foreign_files::{file_at, is_stranded};
use crate::fs::{Fs, status};
use crate::quiesce::{self, LayoutHold, layouts_gone};
use crate::unknown_sizes::intents;
use control::{ItemStatuses, SetSizeArgs, SetSizeItem, Status};
use foreign::FileAt;
use layout::Epoch;
use namespace::{Cred, Inode, NsError, Op, SET_ID_BITS, SetAttr, TruncateIntent};
use nfs4::{ClientId, NfsStatus};
use state::IoModes;
use std::sync::Arc;
use stripes::{Expelled, Spread, status_of};
use tokio::sync::OwnedRwLockWriteGuard;

/// Sets the size of a file that may have data beyond it, and the other attributes of the request with it.
pub(crate) async fn truncate(
    fs: &Arc<Fs>,
    actor: &mut Actor,
    inode: &Arc<Inode>,
    wanted: &SetAttr,
    opened_for_write: bool,
    kept: &Prepared,
) -> Result<Arc<Inode>, NfsStatus> {
    fs.check_not_truncating(inode.id)?;
    // LAYOUTGET is held off from here on: nobody joins those that are gone.
    let _hold = LayoutHold::new(fs, inode.id);
    let others = match wanted.size == Some(0) && is_stranded(fs, inode) {
        // It gets other objects, so that no layout may stay.
        true => (IoModes::ANY, None),
        false => (IoModes::RW, Some(actor.client()?)),
    };
    let _alone = alone(fs, inode, others).await?;
    // It may have been given other objects meanwhile.
    let inode = &actor.ns(fs, |ns, op| ns.getattr(op, inode.id))?;
    truncate_alone(fs, actor, inode, wanted, opened_for_write, kept).await
}

/// As [`truncate`], for a caller that holds the file and its gate already. Nobody else may have a layout to write it.
pub(crate) async fn truncate_alone(
    fs: &Arc<Fs>,
    actor: &mut Actor,
    inode: &Arc<Inode>,
    wanted: &SetAttr,
    opened_for_write: bool,
    kept: &Prepared,
) -> Result<Arc<Inode>, NfsStatus> {
    let file = inode.id;
    fs.restripes.overtake(file);
    let new_size = wanted.size.ok_or(NfsStatus::Inval)?;
    let attrs = SetAttr {
        size: None,
        ..wanted.clone()
    };
    let me = actor.tag(fs)?;
    // A data server takes no set-id bits off: a handle that was kept must not outlive their setting.
    let sets_id = wanted.mode.is_some_and(|mode| mode & SET_ID_BITS != 0);
    let fence = sets_id || !fs.layouts.writers.lock().only(file, me);
    // Once the intent is durable the cut is made, whatever happens: that is the change.
    let intent = actor.change_as(fs, kept, |ns, op| {
        ns.begin_truncate(op, file, new_size, &attrs, opened_for_write, fence)
    })?;
    fs.layouts.truncating.lock().insert(file, NfsStatus::Delay);
    if fence {
        fs.layouts.writers.lock().forget(file);
    }
    {
        let _order = fs.layouts.grant_lock(file).lock();
        fs.state().layouts.raise_commit_floor(file.0, fence);
    }
    fs.durable(actor.observed).await?;
    cut(fs, inode, &intent).await.inspect_err(|status| {
        tracing::warn!(file = file.0, %status, "truncation goes on later");
    })?;
    let mut ended = false;
    let done = actor.ns(fs, |ns, op| {
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
        fs.layouts.truncating.lock().remove(&file);
        fs.note_space(file);
    }
    done
}

/// Waits until nobody has such a layout, except one client. To be called under a hold.
async fn alone(
    fs: &Arc<Fs>,
    inode: &Inode,
    (modes, except): (IoModes, Option<ClientId>),
) -> Result<OwnedRwLockWriteGuard<()>, NfsStatus> {
    layouts_gone(fs, inode, modes, except).await?;
    // Another truncation may have come first, and a client may have been fenced.
    let gate = quiesce::gate(fs, inode.id).await?;
    let held = fs.state().layouts.is_held(inode.id.0, modes, except);
    if held {
        return Err(NfsStatus::Delay);
    }
    Ok(gate)
}

/// Makes every data server of the file cut its object. What is done again is done already. When it is not done, the
/// answer is what others are told until it is. It is `Io` when a data server's store failed: asking again may help and
/// waiting does not.
async fn cut(fs: &Arc<Fs>, inode: &Inode, intent: &TruncateIntent) -> Result<(), NfsStatus> {
    let done = match file_at(fs, inode) {
        Some(at) => cut_foreign(fs, inode, at, intent).await,
        None => cut_own(fs, inode, intent).await,
    };
    let done = done.map_err(|status| match status {
        NfsStatus::Io => NfsStatus::Io,
        _ => NfsStatus::Delay,
    });
    if let (Err(status), Some(told)) = (done, fs.layouts.truncating.lock().get_mut(&intent.file)) {
        *told = status;
    }
    done
}

/// At foreign servers the objects get the ids of the new epoch first, so that no earlier layout writes after the cut.
async fn cut_foreign(
    fs: &Arc<Fs>,
    inode: &Inode,
    at: FileAt,
    intent: &TruncateIntent,
) -> Result<(), NfsStatus> {
    if intent.new_size == 0 && fs.foreign.is_stranded(&at) {
        return take_other_place(fs, inode).await;
    }
    let epoch = at.epoch.max(intent.floor);
    let at = FileAt { epoch, ..at };
    let failed = fs.foreign.cut(&at, intent.new_size).await?;
    bad_mirrors::lose(fs, inode.id, failed).await
}

/// A file that is to have no bytes goes to servers that are there. Nobody has a layout: none was left when the intent was made, and
/// none is granted until it is gone.
async fn take_other_place(fs: &Arc<Fs>, inode: &Inode) -> Result<(), NfsStatus> {
    let was = inode.placement.ok_or(NfsStatus::ServerFault)?;
    if fs.state().layouts.is_held(inode.id.0, IoModes::ANY, None) {
        return Err(NfsStatus::Delay);
    }
    let policy = inode.layout_policy().unwrap_or_default();
    let place = fs.place(policy, true)?;
    let mut actor = Actor::root();
    actor.ns(fs, |ns, op| ns.begin_anew(op, (inode.id, was), place))?;
    fs.durable(actor.observed).await?;
    let file = inode.id.0;
    tracing::warn!(
        file,
        "a file whose servers were removed is emptied, and begins at others"
    );
    Ok(())
}

async fn cut_own(fs: &Fs, inode: &Inode, intent: &TruncateIntent) -> Result<(), NfsStatus> {
    // An inline file is cut in the metadata store.
    let spread = Spread::of(&fs.cluster, inode, Expelled::Skipped)?;
    let spread = spread.ok_or(NfsStatus::ServerFault)?;
    let item = |place| SetSizeItem {
        object: spread.object(place),
        size_bytes: intent.new_size,
        floor: Epoch::from_u64(intent.floor),
        through_key: fs.cluster.newest_key_id(),
    };
    let args = |place| SetSizeArgs {
        items: vec![item(place)].into(),
    };
    let answers = spread.ask_all(args).await?;
    let mut statuses = answers.iter().map(|(_, answer)| is_cut(answer));
    statuses.find(Result::is_err).unwrap_or(Ok(()))
}

/// Whether a data server has cut its object.
pub(crate) fn is_cut(answer: &ItemStatuses) -> Result<(), NfsStatus> {
    match answer.0.first() {
        Some(Status::Ok | Status::NotFound | Status::Removed) => Ok(()),
        Some(status) => Err(status_of(*status)),
        None => Err(NfsStatus::Delay),
    }
}

/// Ends truncations that a crash or a missing data server interrupted. Their callers have been told to ask again.
pub(crate) async fn redo_all(fs: &Arc<Fs>) {
    if fs.layouts.truncating.lock().is_empty() {
        return;
    }
    let cred = Cred::root();
    let mut op = Op::new(&cred, fs.now());
    let intents = match intents(&fs.ns, &mut op) {
        Ok(intents) => intents,
        Err(error) => {
            tracing::error!(%error, "truncations");
            return;
        }
    };
    for intent in intents {
        redo(fs, &intent).await;
    }
}

async fn redo(fs: &Arc<Fs>, intent: &TruncateIntent) {
    let gate = fs.layouts.gate(intent.file);
    // Held by the truncation itself while that is still at it.
    let Ok(_alone) = gate.try_write() else { return };
    if fs.check_not_truncating(intent.file).is_ok() {
        return;
    }
    let _hold = LayoutHold::new(fs, intent.file);
    let cred = Cred::root();
    let mut op = Op::new(&cred, fs.now());
    let inode = match fs.ns.getattr(&mut op, intent.file) {
        Ok(inode) => inode,
        Err(error) => {
            if error == NsError::Stale {
                fs.layouts.truncating.lock().remove(&intent.file);
            }
            return;
        }
    };
    // The store that failed may be well again: others wait for this attempt, which may take long.
    if let Some(told) = fs.layouts.truncating.lock().get_mut(&intent.file) {
        *told = NfsStatus::Delay;
    }
    if fs.durable(op.observed()).await.is_err() || cut(fs, &inode, intent).await.is_err() {
        return;
    }
    let done = fs
        .ns
        .finish_truncate(&mut op, intent.file, &SetAttr::default());
    match done {
        Ok(_) | Err(NsError::Stale | NsError::Inval) => {
            fs.note_space(intent.file);
            if fs.durable(op.observed()).await.is_ok() {
                fs.layouts.truncating.lock().remove(&intent.file);
                fs.cluster.changed().notify_waiters();
            }
        }
        Err(error) => tracing::error!(%error, status = %status(&error), "truncation"),
    }
}
