//! Layouts: granted, committed, returned, recalled, taken away.
//!
//! # Ownership
//! The state table says who holds what; the mark "RW out" on the inode says the same durably for writers (R1).
//!
//! # Ordering
//! Holder and mark are entered under the file's grant lock, and taken off under it, so a mark is there whenever a writer
//! is. The mark's transaction is observed by LAYOUTGET, so it is durable before the reply. A handle carries the epoch that
//! is read last, and that must be the one of the inode by which the permission was judged: a chmod, fence or truncation
//! that comes in between refuses it or makes it stale, never the other way round. Its key is taken before that, together
//! with the entry in the state table, which keeps the key from retiring (see `keys`).
//!
//! # Failure
//! A recall that does not arrive is sent again. A client that does not answer one in a lease is fenced off the file at every data server and loses its layout; a
//! writer's file then waits until its size was taken from the data servers.

use super::fence;
use super::space::note_space;
use crate::Mds;
use crate::cx::{self, Cx, ns};
use layout::{ClientTag, DsHandle, Epoch, Rights, SigningKey};
use meta::Seq;
use namespace::{Cred, FileId, Inode, Op, SizeCommit, Time};
use nfs4::cb::{CbLayoutRecallArgs, LayoutRecall, LayoutRecallFile};
use nfs4::layout::{LAYOUT_NFSV4_1_FILES, LENGTH_TO_EOF};
use nfs4::ops::LayoutCommitRes;
use nfs4::{ClientId, NfsStatus, Stateid};
use server::{CallbackError, Nfsd};
use state::{IoMode, IoModes, LayoutWanted, Other, Recall, RecallAnswer, Returned};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How often in its time a recall is sent that a client has answered: its session may have been replaced since.
const RECALLS_PER_LEASE: u64 = 4;
/// Pause before a recall is sent again that did not arrive, and between two looks at whether it can.
const AGAIN_MS: u64 = 1_000;

/// How long LAYOUTGET waits for fences that are under way.
const FENCE_WAIT_MS: u64 = 500;

/// What LAYOUTGET asks for.
pub(crate) struct GrantRequest {
    pub(crate) stateid: Stateid,
    pub(crate) mode: IoMode,
    /// The caller has the permission to read, opened or not.
    pub(crate) may_read: bool,
    /// What [`super::stamps`] said; for reading nothing.
    pub(crate) stamps: Vec<Time>,
}

/// Grants the current client a layout of the whole file: the stateid, and the handle for the data servers.
pub(crate) fn grant(
    nfsd: &Nfsd<Mds>,
    cx: &mut Cx<'_>,
    inode: &Inode,
    request: &GrantRequest,
) -> Result<(Stateid, [u8; layout::DS_HANDLE_BYTES]), NfsStatus> {
    let mds = nfsd.role();
    let data = mds.data();
    let file = inode.id;
    let client = cx.client()?;
    let group = inode.placement.ok_or(NfsStatus::LayoutUnavailable)?.group;
    check_grantable(nfsd, inode, group, request.mode)?;
    let owner = cx.session.as_ref().map(|s| Arc::clone(&s.owner));
    let tag = ClientTag::of(data.cluster_id, &owner.ok_or(NfsStatus::OpNotInSession)?);
    let order = data.grant_lock(file).lock();
    let modes = match request.mode {
        IoMode::Read => IoModes::READ,
        IoMode::ReadWrite => IoModes::RW,
    };
    let held_before = mds.state().layouts.holders(file.0, modes).contains(&client);
    let (key, stateid) = enter(mds, client, file, request)?;
    // Looked at again behind the entry: whoever fences from here on finds this holder.
    let epoch = mds.namespace().fencing_epoch(inode);
    let now = ns(mds, cx, |ns, op| ns.getattr(op, file));
    let risen = now.map_or(true, |now| {
        // A time that was set after the data servers were asked would have no stamps.
        let times = (now.mtime, now.ctime) != (inode.mtime, inode.ctime);
        times && now.mtime != now.ctime || mds.namespace().fencing_epoch(&now) != epoch
    });
    let fenced = risen || data.is_fencing(group, file) || super::ready(nfsd, file).is_err();
    let marked = match request.mode {
        IoMode::ReadWrite if !fenced => ns(mds, cx, |ns, op| {
            ns.mark_rw_out(op, file, client.value, &request.stamps)
        }),
        _ => Ok(()),
    };
    if fenced || marked.is_err() {
        if !held_before {
            let mut state = mds.state();
            let _undone = state
                .layouts
                .return_file(stateid, client, file.0, modes, true);
        }
        return Err(marked.err().unwrap_or(NfsStatus::LayoutTryLater));
    }
    if request.mode == IoMode::ReadWrite {
        data.writers.lock().add(file, tag);
    }
    let handle = DsHandle {
        cluster_id: data.cluster_id,
        file_id: file.0,
        generation: inode.generation,
        mirror: 0,
        rights: match request.mode {
            IoMode::Read => Rights::Read,
            IoMode::ReadWrite => Rights::ReadWrite,
        },
        epoch: Epoch::from_u64(epoch),
        client: tag,
    };
    drop(order);
    Ok((stateid, handle.sign(&key)))
}

/// The current file, once nothing is under way that keeps layouts off it and soon ends: the recovery of its size, a fence.
///
/// # Errors
/// `LayoutTryLater` when that takes longer. `LayoutUnavailable` for clients that share a name and end each other's sessions: each end
/// would cost a fence and a recovery of all that they write. Through this server they lose nothing but their sessions.
pub(crate) async fn grantable(nfsd: &Nfsd<Mds>, cx: &mut Cx<'_>) -> Result<Arc<Inode>, NfsStatus> {
    let owner = cx.session.as_ref().map(|session| &session.owner);
    if owner.is_some_and(|owner| nfsd.is_name_shared(owner)) {
        return Err(NfsStatus::LayoutUnavailable);
    }
    let inode = cx::current_regular(nfsd.role(), cx)?;
    let recovered = super::until_ready(nfsd, inode.id).await;
    let mut waited = recovered.map_err(|_| NfsStatus::LayoutTryLater)?;
    if let Some(placement) = inode.placement
        && nfsd.role().data().is_fencing(placement.group, inode.id)
    {
        waited = true;
        if !fence::settled(nfsd, placement.group, inode.id, FENCE_WAIT_MS).await {
            return Err(NfsStatus::LayoutTryLater);
        }
    }
    if waited {
        cx::current_regular(nfsd.role(), cx)
    } else {
        Ok(inode)
    }
}

/// Whether a layout of this mode may be granted now, as far as it does not depend on the client.
fn check_grantable(
    nfsd: &Nfsd<Mds>,
    inode: &Inode,
    group: u32,
    mode: IoMode,
) -> Result<(), NfsStatus> {
    let data = nfsd.role().data();
    let file = inode.id;
    if mode == IoMode::ReadWrite && inode.has_privileges() {
        // A data server knows no users, and set-id bits must go when others write. A file that gains them rises in its
        // epoch, so the caller finds out.
        return Err(NfsStatus::LayoutUnavailable);
    }
    super::ready(nfsd, file).map_err(|_| NfsStatus::LayoutTryLater)?;
    let ids = data.group_servers(group);
    let servers = data.servers.lock();
    if servers.members_of(&ids).len() < ids.len() {
        // Some of it is lost for good; the rest is served through this server.
        return Err(NfsStatus::LayoutUnavailable);
    }
    let is_live = servers.all_live(&ids);
    drop(servers);
    let busy = data.cutting(file).is_err()
        || data.offloads.lock().stopped(file).is_err()
        || data.is_fencing(group, file);
    if busy || !is_live {
        return Err(NfsStatus::LayoutTryLater);
    }
    Ok(())
}

/// Enters a holder, and takes the key of his handle in the same step: while the layout is held, the key does not retire.
fn enter(
    mds: &Mds,
    client: ClientId,
    file: FileId,
    request: &GrantRequest,
) -> Result<(SigningKey, Stateid), NfsStatus> {
    let keys = mds.data().keys.lock();
    let key = keys.ring().active().ok_or(NfsStatus::LayoutTryLater)?;
    let mut state = mds.state();
    let want = LayoutWanted {
        mode: request.mode,
        may_read: request.may_read,
        return_on_close: true,
    };
    let stateid = state.layout_get(request.stateid, client, file.0, want)?;
    state.layouts.signed(&stateid.other, key.id());
    Ok((key.clone(), stateid))
}

/// LAYOUTCOMMIT: what the client wrote counts (R12). One under a stateid from before a truncation is refused (R3), unless that
/// truncation was the client's own and left his layout alone: then what the data servers have since the cut bounds the size.
pub(crate) async fn commit_layout(
    nfsd: &Nfsd<Mds>,
    cx: &mut Cx<'_>,
    inode: &Arc<Inode>,
    stateid: Stateid,
    commit: SizeCommit,
) -> Result<Arc<Inode>, NfsStatus> {
    let mds = nfsd.role();
    let data = mds.data();
    let file = inode.id;
    let client = cx.client()?;
    // Keeps truncations out while the size is measured and entered.
    let gate = data.gate(file);
    let _shared = gate.read().await;
    let checked = mds.state().layouts.check_commit(stateid, client, file.0);
    let commit = match checked {
        Ok(()) => commit,
        Err(NfsStatus::BadLayout) if his_own_cut(nfsd, cx, file, client) => {
            data.cutting(file)?;
            let end = super::sizes::measure(nfsd, inode).await?;
            SizeCommit {
                new_end: commit.new_end.map(|claimed| claimed.min(end)),
                ..commit
            }
        }
        // A layout that is no more: of an earlier boot, or fenced off. What was written under it is found at the data servers
        // (R1). Linux takes BADLAYOUT for that, and would make an I/O error of BAD_STATEID.
        Err(NfsStatus::BadStateid) => return Err(NfsStatus::BadLayout),
        Err(status) => return Err(status),
    };
    let _order = data.grant_lock(file).lock();
    let kept = |after: &Arc<Inode>| (layout_committed(inode, after), None);
    let after = cx::change(mds, cx, kept, |ns, op| ns.commit_size(op, file, commit))?;
    note_space(nfsd, file);
    Ok(after)
}

/// The result of LAYOUTCOMMIT.
pub(crate) fn layout_committed(before: &Inode, after: &Inode) -> LayoutCommitRes {
    LayoutCommitRes {
        new_size: (after.size > before.size).then_some(after.size),
    }
}

/// Whether the client holds the file for writing, alone, with a handle that a truncation since then has left alone.
fn his_own_cut(nfsd: &Nfsd<Mds>, cx: &Cx<'_>, file: FileId, client: ClientId) -> bool {
    let mds = nfsd.role();
    let Some(session) = &cx.session else {
        return false;
    };
    let tag = ClientTag::of(mds.data().cluster_id, &session.owner);
    let holds = mds.state().layouts.rw_holders(file.0).contains(&client);
    holds && mds.data().writers.lock().is_held_by_only(file, tag)
}

/// LAYOUTRETURN of the file (with `stateid`), or of everything.
pub(crate) async fn return_layouts(
    nfsd: &Nfsd<Mds>,
    cx: &mut Cx<'_>,
    modes: IoModes,
    what: Option<(FileId, Stateid, bool)>,
) -> Result<Option<Stateid>, NfsStatus> {
    let client = cx.client()?;
    let returned = match what {
        Some((file, stateid, whole)) => {
            let mut state = nfsd.role().state();
            vec![
                state
                    .layouts
                    .return_file(stateid, client, file.0, modes, whole)?,
            ]
        }
        None => nfsd.role().state().layouts.return_all(client, modes),
    };
    let stateid = if what.is_some() {
        returned.first().and_then(|r| r.stateid)
    } else {
        None
    };
    layouts_returned(nfsd, cx, returned).await?;
    Ok(stateid)
}

/// Layouts came back: marks go, and whoever waits is told.
pub(crate) async fn layouts_returned(
    nfsd: &Nfsd<Mds>,
    _cx: &mut Cx<'_>,
    returned: Vec<Returned>,
) -> Result<(), NfsStatus> {
    settle_returned(nfsd, returned).await;
    Ok(())
}

/// As [`layouts_returned`], outside of any COMPOUND.
pub(crate) async fn settle_returned(nfsd: &Nfsd<Mds>, returned: Vec<Returned>) {
    let files: BTreeSet<u64> = returned
        .iter()
        .filter(|r| r.stateid.is_none())
        .map(|r| r.file)
        .collect();
    unmark(nfsd, returned);
    nfsd.role().data().changed.notify_waiters();
    for file in files {
        super::removal::discard_if_unused(nfsd, FileId(file)).await;
    }
}

/// Takes the marks of writers that returned. Nobody waits for these transactions: a mark too many costs a look at the
/// data servers after a restart.
fn unmark(nfsd: &Nfsd<Mds>, returned: Vec<Returned>) {
    let mds = nfsd.role();
    let cred = Cred::root();
    for r in returned.into_iter().filter(|r| r.rw) {
        let file = FileId(r.file);
        let _order = mds.data().grant_lock(file).lock();
        if mds.state().layouts.rw_holders(r.file).contains(&r.client) {
            continue;
        }
        let mut op = Op::new(&cred, mds.now());
        if let Err(error) = mds
            .namespace()
            .clear_rw_out(&mut op, file, Some(r.client.value))
        {
            tracing::error!(%error, file = r.file, "RW-out mark");
        }
    }
}

/// Whether data servers may have bytes of a file whose size is 0.
pub(crate) fn may_have_data(nfsd: &Nfsd<Mds>, file: FileId) -> bool {
    super::ready(nfsd, file).is_err()
        || nfsd
            .role()
            .state()
            .layouts
            .is_held(file.0, IoModes::RW, None)
        || nfsd.role().data().cutting(file).is_err()
}

/// Whether size or data of a file are about to change without anybody's doing: recovery, or a truncation that goes on later.
pub(crate) fn is_unsettled(nfsd: &Nfsd<Mds>, file: FileId) -> bool {
    super::ready(nfsd, file).is_err() || nfsd.role().data().truncating.lock().contains_key(&file)
}

/// Somebody lost access to the file: handles given out so far must stop working before the reply (R10). The epoch was
/// raised together with the attribute.
pub(crate) async fn access_narrowed(
    nfsd: &Nfsd<Mds>,
    cx: &mut Cx<'_>,
    inode: &Arc<Inode>,
) -> Result<(), NfsStatus> {
    let Some(placement) = inode.placement else {
        return Ok(());
    };
    let epoch = Epoch::from_u64(nfsd.role().namespace().fencing_epoch(inode));
    nfsd.role().data().writers.lock().forget(inode.id);
    // What the floor refers to must not be lost while data servers already enforce it.
    nfsd.role().durable(Seq(cx.observed_seq)).await?;
    fence::note(nfsd, placement.group, inode.id, None, epoch);
    if let Some(me) = nfsd.role().data().service() {
        fence::deliver_all(&me);
    }
    // Long enough for a data server that must first be given up: a repeated request would find nothing to narrow.
    let wait_ms = fence::WAIT_MS_MAX + u64::from(nfsd.role().data().ds_lease_ms);
    if fence::settled(nfsd, placement.group, inode.id, wait_ms).await {
        Ok(())
    } else {
        Err(NfsStatus::Delay)
    }
}

/// A client is no more: it is fenced off what it held, and what it may have written is found out (R1, R5).
pub(crate) async fn client_gone(nfsd: &Nfsd<Mds>, owner: &[u8], returned: Vec<Returned>) {
    let tag = ClientTag::of(nfsd.role().data().cluster_id, owner);
    let items: Vec<(Returned, ClientTag)> = returned.into_iter().map(|r| (r, tag)).collect();
    take_away(nfsd, &items).await;
    let files: BTreeSet<u64> = items.iter().map(|(r, _)| r.file).collect();
    for file in files {
        super::removal::discard_if_unused(nfsd, FileId(file)).await;
    }
}

/// Fences clients off files and starts the recovery of what writers left. Grants on these files wait for it by themselves.
async fn take_away(nfsd: &Nfsd<Mds>, items: &[(Returned, ClientTag)]) {
    let data = nfsd.role().data();
    {
        // First of all: nobody may see a size, or get a layout, that does not know of the writes.
        let mut unknown = data.unknown.lock();
        for (r, _) in items.iter().filter(|(r, _)| r.rw) {
            unknown.add_client(FileId(r.file), r.client.value);
        }
    }
    for (r, tag) in items {
        if let Err(status) = fence::raise(nfsd, FileId(r.file), Some(*tag)) {
            // The store has failed: nothing is granted any more, and the next boot's floor covers it.
            tracing::error!(%status, file = r.file, "fence");
        }
    }
    if let Some(me) = data.service() {
        fence::deliver_all(&me);
    }
}

/// Fences clients whose recalls are overdue, then takes their layouts.
pub(super) async fn fence_overdue(nfsd: &Nfsd<Mds>) {
    let mds = nfsd.role();
    let now_ms = nfsd.now_ms();
    let overdue = mds.state().layouts.overdue(now_ms);
    if overdue.is_empty() {
        return;
    }
    let mut items = Vec::with_capacity(overdue.len());
    for recall in &overdue {
        tracing::warn!(
            file = recall.file,
            client = recall.client.value,
            "layout not returned"
        );
        let owner = nfsd.clients().owner(recall.client).map(<[u8]>::to_vec);
        let tag = ClientTag::of(mds.data().cluster_id, &owner.unwrap_or_default());
        let rw = mds
            .state()
            .layouts
            .rw_holders(recall.file)
            .contains(&recall.client);
        let held = Returned {
            client: recall.client,
            file: recall.file,
            rw,
            stateid: None,
        };
        items.push((held, tag));
    }
    take_away(nfsd, &items).await;
    for recall in &overdue {
        // Its mark stays until the size is taken.
        let _fenced = mds.state().layouts.revoke(&recall.stateid.other);
    }
    mds.data().changed.notify_waiters();
    for (r, _) in &items {
        super::removal::discard_if_unused(nfsd, FileId(r.file)).await;
    }
}

/// Fences a client off a file and takes its layout, if it has one: it has lost its claim on the file otherwise.
pub(crate) async fn fence_off(nfsd: &Nfsd<Mds>, client: ClientId, file: FileId) {
    let mds = nfsd.role();
    let held = mds.state().layouts.held_by(client, file.0);
    let Some((other, rw)) = held else { return };
    let owner = nfsd.clients().owner(client).map(<[u8]>::to_vec);
    let tag = ClientTag::of(mds.data().cluster_id, &owner.unwrap_or_default());
    let held = Returned {
        client,
        file: file.0,
        rw,
        stateid: None,
    };
    take_away(nfsd, &[(held, tag)]).await;
    // Its mark stays until the size is taken.
    let _fenced = mds.state().layouts.revoke(&other);
    mds.data().changed.notify_waiters();
}

/// Recalls layouts of a file from all clients but `except`; returns at once.
pub(super) fn recall(nfsd: &Nfsd<Mds>, inode: &Inode, modes: IoModes, except: Option<ClientId>) {
    let mds = nfsd.role();
    let deadline_ms = nfsd.now_ms().saturating_add(mds.lease_ms());
    let recalls = mds
        .state()
        .layouts
        .begin_recall(inode.id.0, modes, except, deadline_ms);
    for recall in recalls {
        start_recall(nfsd, inode, recall);
    }
}

fn start_recall(nfsd: &Nfsd<Mds>, inode: &Inode, recall: Recall) {
    let Some(me) = nfsd.role().data().service() else {
        return;
    };
    let fh = cx::handle_of(nfsd.role(), inode);
    tokio::spawn(async move { send_recall(&me, recall, &fh.0).await });
}

/// Recalls layouts with handles that keys up to `key` signed, as far as they are among `look_max` states behind `after`.
/// Returns where to go on.
pub(super) fn recall_of_keys(
    nfsd: &Nfsd<Mds>,
    key: u32,
    after: Option<Other>,
    look_max: usize,
) -> Option<Other> {
    let mds = nfsd.role();
    let deadline_ms = nfsd.now_ms().saturating_add(mds.lease_ms());
    let (recalls, next) =
        mds.state()
            .layouts
            .begin_recall_of_keys(key, after, look_max, deadline_ms);
    let cred = Cred::root();
    for recall in recalls {
        let mut op = Op::new(&cred, mds.now());
        // One of a file that is gone comes up as overdue.
        if let Ok(inode) = mds.namespace().getattr(&mut op, FileId(recall.file)) {
            start_recall(nfsd, &inode, recall);
        }
    }
    next
}

/// Sends one CB_LAYOUTRECALL, again as long as the layout is out and its time is not over: the client may be cut off for a while, or
/// have a new session that knows nothing of it.
async fn send_recall(nfsd: &Nfsd<Mds>, mut recall: Recall, fh: &[u8]) {
    let mds = nfsd.role();
    while nfsd.now_ms() < recall.deadline_ms {
        let sent = send_once(nfsd, &recall, fh).await;
        let answer = match sent {
            Ok(()) => Some(RecallAnswer::WillReturn),
            Err(CallbackError::Status(NfsStatus::NoMatchingLayout)) => {
                Some(RecallAnswer::NoMatchingLayout)
            }
            Err(error) => {
                tracing::warn!(?error, client = recall.client.value, "layout recall");
                None
            }
        };
        if let Some(answer) = answer {
            let other = &recall.stateid.other;
            let returned = mds.state().layouts.recall_answered(other, answer);
            settle_returned(nfsd, returned.into_iter().collect()).await;
        }
        let pause_ms = match sent {
            Err(CallbackError::NoBackChannel | CallbackError::Lost) => AGAIN_MS,
            _ => mds.lease_ms() / RECALLS_PER_LEASE,
        };
        match wait_for_return(nfsd, &recall, pause_ms).await {
            Some(again) => recall = again,
            None => return,
        }
    }
}

/// One try, once there is a place for it.
async fn send_once(nfsd: &Nfsd<Mds>, recall: &Recall, fh: &[u8]) -> Result<(), CallbackError> {
    let permits = Arc::clone(&nfsd.role().data().recalls);
    let permit = permits.acquire_owned().await;
    let _permit = permit.map_err(|_| CallbackError::NoBackChannel)?;
    let iomode = if recall.modes == IoModes::READ {
        nfs4::IoMode::Read
    } else if recall.modes == IoModes::RW {
        nfs4::IoMode::Rw
    } else {
        nfs4::IoMode::Any
    };
    nfsd.callback(recall.client, &|b| {
        b.push(&CbLayoutRecallArgs {
            layout_type: LAYOUT_NFSV4_1_FILES,
            iomode,
            changed: false,
            what: LayoutRecall::File(LayoutRecallFile {
                fh: xdr::Opaque(fh),
                offset: 0,
                length: LENGTH_TO_EOF,
                stateid: recall.stateid,
            }),
        });
    })
    .await
}

/// Waits for `pause_ms`, and further until the client can be reached. Returns what is to be sent then, unless the layout came back,
/// its time is over or another recall has taken this one's place.
async fn wait_for_return(nfsd: &Nfsd<Mds>, recall: &Recall, pause_ms: u64) -> Option<Recall> {
    let mds = nfsd.role();
    let pause_until = Instant::now() + Duration::from_millis(pause_ms);
    loop {
        let changed = mds.data().changed.notified();
        tokio::pin!(changed);
        changed.as_mut().enable();
        if !mds.state().layouts.is_due(recall) || nfsd.now_ms() >= recall.deadline_ms {
            return None;
        }
        if Instant::now() >= pause_until && nfsd.can_call_back(recall.client) {
            return mds.state().layouts.recall_again(recall);
        }
        let _either = tokio::time::timeout(Duration::from_millis(AGAIN_MS), changed).await;
    }
}
