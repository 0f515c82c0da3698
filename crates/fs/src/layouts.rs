//! Layouts: granted, committed, returned, recalled, taken away.
//!
//! # Ownership
//! The state table has the holders; the mark "RW out" on the inode says the same durably for writers (R1).
//!
//! # Ordering
//! Holder and mark are entered under the file's grant lock, and taken off under it, so a mark is there whenever a
//! writer is. The mark's transaction is observed by LAYOUTGET, so it is durable before the reply. A handle carries the
//! epoch that is read last. It must be the epoch of the inode by which the permission was judged. A chmod, fence or
//! truncation in between refuses the handle or makes it stale. Its key is taken before that, together with the entry in
//! the state table, which keeps the key from retiring (see `keys`).
//!
//! # Failure
//! A recall that does not arrive is sent again. A client that does not answer one in a lease is fenced off the file at
//! every data server and loses its layout. A writer's file then waits until its size was taken from the data servers.

use crate::actor::{Actor, Prepared};
use crate::fencing::raise_epoch;
use crate::fs::Fs;
use crate::removal;
use crate::size_recovery::{measure, ready, until_ready};
use client_table::CallbackError;
use cluster::{FENCE_WAIT_MS_MAX, KeyUsers, MemberError};
use foreign::is_foreign;
use layout::{ClientTag, DsHandle, Epoch, LayoutKind, Rights, SignedHandle, SigningKey};
use namespace::{Cred, FileId, Inode, Op, SizeCommit, Time};
use nfs4::cb::{CbLayoutRecallArgs, LayoutRecall, LayoutRecallFile};
use nfs4::layout::LENGTH_TO_EOF;
use nfs4::{ClientId, DeviceId, NfsStatus, Stateid};
use state::{DeviceVersion, IoMode, IoModes, LayoutWanted, Other, Recall, RecallAnswer, Returned};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use stripes::striping_of;
use tokio::time::Instant;
use transport::CallId;

/// How often in its time a recall is sent that a client has answered: its session may have been replaced since.
const RECALLS_PER_LEASE: u64 = 4;
/// Pause before a recall is sent again that did not arrive, and between two looks at whether it can.
const AGAIN_MS: u64 = 1_000;

/// How long LAYOUTGET waits for fences that are under way.
const FENCE_WAIT_MS: u64 = 500;
/// How long LAYOUTGET waits for another primary of a place (rule P22).
const FAILOVER_WAIT_MS: u64 = 10_000;

/// How long writers are told to try later while a small foreign file is restriped.
const SHORT_COPY: Duration = Duration::from_secs(5);
/// The largest file that is small in this.
const SHORT_COPY_BYTES: u64 = 16 << 20;

/// What LAYOUTGET asks for.
pub struct GrantRequest {
    /// A stateid of the file: of an open, a lock, a delegation or a layout.
    pub stateid: Stateid,
    /// To read or to write.
    pub mode: IoMode,
    /// The caller has the permission to read, opened or not.
    pub may_read: bool,
    /// What [`crate::stamps`] said; for reading nothing.
    pub stamps: Vec<Time>,
}

/// Grants the current client a files layout of the whole file: the stateid, the device, and the handles for the data servers, by
/// place.
pub fn grant(
    fs: &Arc<Fs>,
    actor: &mut Actor,
    inode: &Inode,
    request: &GrantRequest,
) -> Result<(Stateid, DeviceId, Vec<SignedHandle>), NfsStatus> {
    let group = inode.placement.ok_or(NfsStatus::LayoutUnavailable)?.group;
    if is_foreign(group) {
        return Err(NfsStatus::LayoutUnavailable);
    }
    let tag = actor.tag(fs)?;
    let enter = |client| enter(fs, client, (inode.id, group), request);
    let (key, stateid, epoch) = hold(fs, actor, inode, request, enter)?;
    let data = inode.data();
    let handle = DsHandle {
        cluster_id: fs.cluster.id(),
        file_id: data.file.0,
        generation: data.generation,
        place: None,
        rights: match request.mode {
            IoMode::Read => Rights::Read,
            IoMode::ReadWrite => Rights::ReadWrite,
        },
        epoch: Epoch::from_u64(epoch),
        client: tag,
    };
    // A primary that changes meanwhile refuses its handle, and the client asks again.
    let group = fs.cluster.group(group).ok_or(NfsStatus::ServerFault)?;
    let striping = striping_of(inode, group.rows.len()).ok_or(NfsStatus::ServerFault)?;
    let handles = handle.sign_each(&group, striping, &key);
    let device = group.device_id(fs.cluster.id());
    Ok((stateid, device, handles.ok_or(NfsStatus::ServerFault)?))
}

/// Registers the current client as a holder, by `enter`, and marks a file that it may write. Returns what `enter` has, and the
/// epoch of the file that its handles or ids must be of: that of `inode`.
///
/// # Errors
/// `LayoutTryLater` when the file has changed since `inode`, or may not have layouts just now; those of [`check_grantable`].
pub(crate) fn hold<K>(
    fs: &Arc<Fs>,
    actor: &mut Actor,
    inode: &Inode,
    request: &GrantRequest,
    enter: impl FnOnce(ClientId) -> Result<(K, Stateid), NfsStatus>,
) -> Result<(K, Stateid, u64), NfsStatus> {
    let file = inode.id;
    let client = actor.client()?;
    let group = inode.placement.ok_or(NfsStatus::LayoutUnavailable)?.group;
    check_grantable(fs, inode, group, request.mode)?;
    let tag = actor.tag(fs)?;
    let _order = fs.layouts.grant_lock(file).lock();
    let modes = match request.mode {
        IoMode::Read => IoModes::READ,
        IoMode::ReadWrite => IoModes::RW,
    };
    let held_before = fs.state().layouts.holders(file.0, modes).contains(&client);
    let (entered, stateid) = enter(client)?;
    // Re-check after registering the holder: any fence raised from now on sees it.
    let epoch = fs.ns.fencing_epoch(inode);
    let now = actor.ns(fs, |ns, op| ns.getattr(op, file));
    let risen = now.map_or(true, |now| has_moved(fs, inode, &now));
    // It is written through this server alone.
    let is_restriped = request.mode == IoMode::ReadWrite && fs.restripes.has(file);
    let fenced = is_restriped || risen || fs.is_settling(inode) || ready(fs, file).is_err();
    let marked = match request.mode {
        IoMode::ReadWrite if !fenced => actor.ns(fs, |ns, op| {
            ns.mark_rw_out(op, file, client.value, &request.stamps)
        }),
        _ => Ok(()),
    };
    if fenced || marked.is_err() {
        if !held_before {
            let mut state = fs.state();
            let _undone = state
                .layouts
                .return_file(stateid, client, file.0, modes, true);
        }
        return Err(marked.err().unwrap_or(NfsStatus::LayoutTryLater));
    }
    if request.mode == IoMode::ReadWrite {
        fs.layouts.writers.lock().add(file, tag);
    }
    Ok((entered, stateid, epoch))
}

/// Whether a file is not what a layout would be granted by any more.
fn has_moved(fs: &Fs, then: &Inode, now: &Inode) -> bool {
    // A time that was set after the data servers were asked would have no stamps.
    let times = (now.mtime, now.ctime) != (then.mtime, then.ctime);
    let is_stamped = now.mtime != now.ctime || now.moved_data().is_some();
    let is_moved = now.data() != then.data() || now.placement != then.placement;
    let mirrors = now.bad_mirrors() != then.bad_mirrors();
    let epochs = fs.ns.fencing_epoch(now) != fs.ns.fencing_epoch(then);
    times && is_stamped || is_moved || mirrors || epochs
}

/// Waits until nothing is under way that keeps layouts off a file and soon ends: the recovery of its size, a fence.
/// Returns whether it waited: what was found of the file before is old then.
///
/// # Errors
/// `LayoutTryLater` when that takes longer. `LayoutUnavailable` for clients that share a name and end each other's
/// sessions. Each end would cost a fence and a recovery of all that they write. Through this server they lose nothing
/// but their sessions.
pub async fn grantable(fs: &Arc<Fs>, actor: &Actor, inode: &Inode) -> Result<bool, NfsStatus> {
    if fs.clients.is_name_shared(actor.owner()?) {
        return Err(NfsStatus::LayoutUnavailable);
    }
    let recovered = until_ready(fs, inode.id).await;
    let mut waited = recovered.map_err(|_| NfsStatus::LayoutTryLater)?;
    if let Some(placement) = inode.placement
        && fs.cluster.is_failing_over(placement.group)
    {
        // A client that is told to try later comes back long after the takeover.
        waited = true;
        fs.cluster
            .failed_over(placement.group, FAILOVER_WAIT_MS)
            .await;
    }
    if let Some(placement) = inode.placement
        && fs.is_settling(inode)
    {
        waited = true;
        let group = placement.group;
        if !fs.fences_settled(inode, FENCE_WAIT_MS).await
            || !is_foreign(group) && !fs.cluster.rows_told(group, FENCE_WAIT_MS).await
        {
            return Err(NfsStatus::LayoutTryLater);
        }
    }
    Ok(waited)
}

/// Whether a layout of this mode may be granted now, as far as it does not depend on the client.
fn check_grantable(fs: &Arc<Fs>, inode: &Inode, group: u32, mode: IoMode) -> Result<(), NfsStatus> {
    let file = inode.id;
    if mode == IoMode::ReadWrite && inode.has_privileges() {
        // A data server knows no users, and set-id bits must go when others write. A file that gains them rises in its
        // epoch, so the caller finds out.
        return Err(NfsStatus::LayoutUnavailable);
    }
    if mode == IoMode::ReadWrite && fs.restripes.has(file) {
        return Err(match is_short_copy(fs, inode) {
            true => NfsStatus::LayoutTryLater,
            // The copy may take long, and needs to see what is written.
            false => NfsStatus::LayoutUnavailable,
        });
    }
    ready(fs, file).map_err(|_| NfsStatus::LayoutTryLater)?;
    let ids = fs.cluster.group_servers(group);
    let is_live = match fs.cluster.check_all_live(&ids) {
        Ok(()) => true,
        Err(MemberError::Away) => false,
        // Some of it is lost for good; the rest is served through this server.
        Err(MemberError::Lost) => return Err(NfsStatus::LayoutUnavailable),
    };
    let busy = fs.check_not_truncating(file).is_err()
        || fs.offloads.lock().stopped(file).is_err()
        || fs.is_settling(inode);
    if busy || !is_live {
        return Err(NfsStatus::LayoutTryLater);
    }
    Ok(())
}

/// Whether a foreign file gets other objects in a moment. A client that is told to try later (RFC 8881 §15.1.10.3) writes nothing
/// until then. One that is told that there is no layout writes through this server, and Linux does not ask again for two minutes.
fn is_short_copy(fs: &Fs, inode: &Inode) -> bool {
    let is_young = fs
        .restripes
        .age(inode.id)
        .is_some_and(|age| age < SHORT_COPY);
    inode.is_foreign() && inode.size <= SHORT_COPY_BYTES && is_young
}

/// Registers a holder, and takes the key of its handle in the same step. The key does not retire while the layout is held.
/// The version of the device is noted before the handles are signed, so it is never newer than theirs. After a change of
/// primary either this layout counts as old, or its handles are of the new primary.
fn enter(
    fs: &Fs,
    client: ClientId,
    (file, group): (FileId, u32),
    request: &GrantRequest,
) -> Result<(SigningKey, Stateid), NfsStatus> {
    let version = fs.cluster.group(group).map_or(0, |g| g.version);
    let entered = fs.cluster.with_signing_key(|key| {
        let mut state = fs.state();
        let want = LayoutWanted {
            mode: request.mode,
            may_read: request.may_read,
            return_on_close: true,
        };
        let stateid = state.layout_get(request.stateid, client, file.0, want)?;
        state.layouts.signed(&stateid.other, key.id());
        let device = DeviceVersion { group, version };
        state.layouts.name_device(&stateid.other, device);
        Ok((key.clone(), stateid))
    });
    entered.ok_or(NfsStatus::LayoutTryLater)?
}

/// LAYOUTCOMMIT: what the client wrote counts (R12). One under a stateid from before a truncation is refused (R3). If that
/// truncation was the client's own and left its layout alone, what the data servers have since the cut bounds the size.
pub async fn commit_layout(
    fs: &Arc<Fs>,
    actor: &mut Actor,
    inode: &Arc<Inode>,
    (stateid, commit): (Stateid, SizeCommit),
    keep: &(dyn Fn(&Arc<Inode>) -> Prepared + Sync),
) -> Result<Arc<Inode>, NfsStatus> {
    let file = inode.id;
    let client = actor.client()?;
    // Keeps truncations out while the size is measured and entered.
    let gate = fs.layouts.gate(file);
    let _shared = gate.read().await;
    let checked = fs.state().layouts.check_commit(stateid, client, file.0);
    let commit = match checked {
        Ok(()) => commit,
        Err(NfsStatus::BadLayout) if is_own_cut(fs, actor, file, client) => {
            fs.check_not_truncating(file)?;
            let end = measure(fs, inode).await?;
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
    let _order = fs.layouts.grant_lock(file).lock();
    let after = actor.change(fs, keep, |ns, op| ns.commit_size(op, file, commit))?;
    fs.note_space(file);
    Ok(after)
}

/// Whether the client holds the file for writing, alone, with a handle that a truncation since then has left alone.
fn is_own_cut(fs: &Fs, actor: &Actor, file: FileId, client: ClientId) -> bool {
    let Ok(tag) = actor.tag(fs) else {
        return false;
    };
    let holds = fs.state().layouts.rw_holders(file.0).contains(&client);
    holds && fs.layouts.writers.lock().is_held_by_only(file, tag)
}

/// LAYOUTRETURN of the file (with `stateid`), or of everything of that type.
pub fn return_layouts(
    fs: &Fs,
    actor: &Actor,
    (kind, modes): (LayoutKind, IoModes),
    what: Option<(FileId, Stateid, bool)>,
) -> Result<Option<Stateid>, NfsStatus> {
    let client = actor.client()?;
    let returned = match what {
        Some((file, stateid, whole)) => {
            let mut state = fs.state();
            vec![
                state
                    .layouts
                    .return_file(stateid, client, file.0, modes, whole)?,
            ]
        }
        None => {
            let kind = Some(kind.number());
            fs.state().layouts.return_all(client, modes, kind)
        }
    };
    let stateid = if what.is_some() {
        returned.first().and_then(|r| r.stateid)
    } else {
        None
    };
    settle_returned(fs, returned);
    Ok(stateid)
}

/// Layouts came back: marks go, and whoever waits is told.
pub fn settle_returned(fs: &Fs, returned: Vec<Returned>) {
    let files: BTreeSet<u64> = returned
        .iter()
        .filter(|r| r.stateid.is_none())
        .map(|r| r.file)
        .collect();
    unmark(fs, returned);
    fs.cluster.changed().notify_waiters();
    for file in files {
        removal::discard_if_unused(fs, FileId(file));
    }
}

/// Takes the marks of writers that returned. Nobody waits for these transactions: a mark too many costs a look at the
/// data servers after a restart.
fn unmark(fs: &Fs, returned: Vec<Returned>) {
    let cred = Cred::root();
    for r in returned.into_iter().filter(|r| r.rw) {
        let file = FileId(r.file);
        let _order = fs.layouts.grant_lock(file).lock();
        if fs.state().layouts.rw_holders(r.file).contains(&r.client) {
            continue;
        }
        let mut op = Op::new(&cred, fs.now());
        if let Err(error) = fs.ns.clear_rw_out(&mut op, file, Some(r.client.value)) {
            tracing::error!(%error, file = r.file, "RW-out mark");
        }
    }
}

/// Whether data servers may have bytes of a file whose size is 0.
pub fn may_have_data(fs: &Arc<Fs>, file: FileId) -> bool {
    ready(fs, file).is_err()
        || fs.state().layouts.is_held(file.0, IoModes::RW, None)
        || fs.check_not_truncating(file).is_err()
}

/// Whether size or data of a file are about to change without anybody's doing: recovery, or a truncation that goes on later.
pub fn is_unsettled(fs: &Arc<Fs>, file: FileId) -> bool {
    ready(fs, file).is_err() || fs.layouts.truncating.lock().contains_key(&file)
}

/// Somebody lost access to the file: handles given out so far must stop working before the reply (R10). The epoch was
/// raised together with the attribute.
pub(crate) async fn access_narrowed(
    fs: &Arc<Fs>,
    actor: &mut Actor,
    inode: &Arc<Inode>,
) -> Result<(), NfsStatus> {
    if inode.placement.is_none() {
        return Ok(());
    }
    let epoch = Epoch::from_u64(fs.ns.fencing_epoch(inode));
    fs.layouts.writers.lock().forget(inode.id);
    // What the floor refers to must not be lost while data servers already enforce it.
    fs.durable(actor.observed).await?;
    fs.note_fence(inode, None, epoch);
    fs.deliver_fences();
    // Long enough for a data server that must first be given up: a repeated request would find nothing to narrow.
    let wait_ms = FENCE_WAIT_MS_MAX + u64::from(fs.cluster.ds_lease_ms());
    match fs.fences_settled(inode, wait_ms).await {
        true => Ok(()),
        false => Err(NfsStatus::Delay),
    }
}

/// A client is no more: it is fenced off what it held, and what it may have written is found out (R1, R5).
pub(crate) fn client_gone(fs: &Arc<Fs>, owner: &[u8], returned: Vec<Returned>) {
    let tag = ClientTag::of(fs.cluster.id(), owner);
    let items: Vec<(Returned, ClientTag)> = returned.into_iter().map(|r| (r, tag)).collect();
    take_away(fs, &items);
    let files: BTreeSet<u64> = items.iter().map(|(r, _)| r.file).collect();
    for file in files {
        removal::discard_if_unused(fs, FileId(file));
    }
}

/// Fences clients off files and starts the recovery of what writers left. Grants on these files wait for it by themselves.
fn take_away(fs: &Arc<Fs>, items: &[(Returned, ClientTag)]) {
    {
        // First of all: nobody may see a size, or get a layout, that does not know of the writes.
        let mut unknown = fs.layouts.unknown.lock();
        for (r, _) in items.iter().filter(|(r, _)| r.rw) {
            unknown.add_client(FileId(r.file), r.client.value);
        }
    }
    for (r, _) in items.iter().filter(|(r, _)| r.rw) {
        unread_mirrors(fs, FileId(r.file));
    }
    for (r, tag) in items {
        if let Err(status) = raise_epoch(fs, FileId(r.file), Some(*tag)) {
            // The store has failed: nothing is granted any more, and the next boot's floor covers it.
            tracing::error!(%status, file = r.file, "fence");
        }
    }
    fs.deliver_fences();
}

/// A writer of a file is lost, so its mirrors may differ: nobody is to read them by layouts.
fn unread_mirrors(fs: &Arc<Fs>, file: FileId) {
    if fs.foreign.is_empty() {
        return;
    }
    let cred = Cred::root();
    let inode = fs.ns.getattr(&mut Op::new(&cred, fs.now()), file);
    if let Ok(inode) = inode
        && inode.is_foreign()
    {
        recall(fs, &inode, IoModes::ANY, None);
    }
}

/// Fences clients whose recalls are overdue, then takes their layouts.
pub(crate) fn fence_overdue(fs: &Arc<Fs>) {
    let now_ms = fs.clients.now_ms();
    let overdue = fs.state().layouts.overdue(now_ms);
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
        let owner = fs.clients.lock().owner(recall.client).map(<[u8]>::to_vec);
        let tag = ClientTag::of(fs.cluster.id(), &owner.unwrap_or_default());
        let rw = fs
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
    take_away(fs, &items);
    for recall in &overdue {
        // Its mark stays until the size is taken.
        let _fenced = fs.state().layouts.revoke(&recall.stateid.other);
    }
    fs.cluster.changed().notify_waiters();
    for (r, _) in &items {
        removal::discard_if_unused(fs, FileId(r.file));
    }
}

/// Fences a client off a file and takes its layout, if it has one: it has lost its claim on the file otherwise.
pub(crate) fn fence_off(fs: &Arc<Fs>, client: ClientId, file: FileId) {
    let held = fs.state().layouts.held_by(client, file.0);
    let Some((other, rw)) = held else { return };
    let owner = fs.clients.lock().owner(client).map(<[u8]>::to_vec);
    let tag = ClientTag::of(fs.cluster.id(), &owner.unwrap_or_default());
    let held = Returned {
        client,
        file: file.0,
        rw,
        stateid: None,
    };
    take_away(fs, &[(held, tag)]);
    // Its mark stays until the size is taken.
    let _fenced = fs.state().layouts.revoke(&other);
    fs.cluster.changed().notify_waiters();
}

/// Recalls layouts of a file from all clients but `except`; returns at once.
pub(crate) fn recall(fs: &Arc<Fs>, inode: &Inode, modes: IoModes, except: Option<ClientId>) {
    let deadline_ms = fs.clients.now_ms().saturating_add(fs.lease_ms());
    let recalls = fs
        .state()
        .layouts
        .begin_recall(inode.id.0, modes, except, deadline_ms);
    for recall in recalls {
        start_recall(fs, inode, recall);
    }
}

fn start_recall(fs: &Arc<Fs>, inode: &Inode, recall: Recall) {
    let (fs, fh) = (Arc::clone(fs), fs.handle_of(inode));
    let sent = async move { send_recall(&fs, recall, &fh.0).await };
    tokio::spawn(CallId::carry(sent));
}

impl KeyUsers for Fs {
    fn oldest_key(&self) -> Option<u32> {
        self.state().layouts.oldest_key()
    }

    fn recall_layouts_of(self: Arc<Self>, key: u32, look_max: usize) {
        let after = *self.layouts.recall_after.lock();
        let next = recall_of_keys(&self, key, after, look_max);
        *self.layouts.recall_after.lock() = next;
    }
}

/// Recalls layouts with handles that keys up to `key` signed, as far as they are among `look_max` states after `after`.
/// Returns where to go on.
pub(crate) fn recall_of_keys(
    fs: &Arc<Fs>,
    key: u32,
    after: Option<Other>,
    look_max: usize,
) -> Option<Other> {
    let deadline_ms = fs.clients.now_ms().saturating_add(fs.lease_ms());
    let (recalls, next) =
        fs.state()
            .layouts
            .begin_recall_of_keys(key, after, look_max, deadline_ms);
    let cred = Cred::root();
    for recall in recalls {
        let mut op = Op::new(&cred, fs.now());
        // One of a file that is gone comes up as overdue.
        if let Ok(inode) = fs.ns.getattr(&mut op, FileId(recall.file)) {
            start_recall(fs, &inode, recall);
        }
    }
    next
}

/// Sends one CB_LAYOUTRECALL, again as long as the layout is out and its time is not over. The client may be cut off
/// for a while, or have a new session that knows nothing of it.
async fn send_recall(fs: &Arc<Fs>, mut recall: Recall, fh: &[u8]) {
    while fs.clients.now_ms() < recall.deadline_ms {
        let sent = send_once(fs, &recall, fh).await;
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
            let returned = fs.state().layouts.recall_answered(other, answer);
            settle_returned(fs, returned.into_iter().collect());
        }
        let pause_ms = match sent {
            Err(CallbackError::NoBackChannel | CallbackError::Lost) => AGAIN_MS,
            _ => fs.lease_ms() / RECALLS_PER_LEASE,
        };
        match wait_for_return(fs, &recall, pause_ms).await {
            Some(again) => recall = again,
            None => return,
        }
    }
}

/// One try, once there is a place for it.
async fn send_once(fs: &Arc<Fs>, recall: &Recall, fh: &[u8]) -> Result<(), CallbackError> {
    let permits = Arc::clone(&fs.layouts.recalls);
    let permit = permits.acquire_owned().await;
    let _permit = permit.map_err(|_| CallbackError::NoBackChannel)?;
    let iomode = if recall.modes == IoModes::READ {
        nfs4::IoMode::Read
    } else if recall.modes == IoModes::RW {
        nfs4::IoMode::Rw
    } else {
        nfs4::IoMode::Any
    };
    fs.clients
        .callback(recall.client, &|b| {
            b.push(&CbLayoutRecallArgs {
                layout_type: recall.layout_type,
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
async fn wait_for_return(fs: &Arc<Fs>, recall: &Recall, pause_ms: u64) -> Option<Recall> {
    let pause_until = Instant::now() + Duration::from_millis(pause_ms);
    loop {
        let changed = fs.cluster.changed().notified();
        tokio::pin!(changed);
        changed.as_mut().enable();
        if !fs.state().layouts.is_due(recall) || fs.clients.now_ms() >= recall.deadline_ms {
            return None;
        }
        if Instant::now() >= pause_until && fs.clients.can_call_back(recall.client) {
            return fs.state().layouts.recall_again(recall);
        }
        let _either = tokio::time::timeout(Duration::from_millis(AGAIN_MS), changed).await;
    }
}
