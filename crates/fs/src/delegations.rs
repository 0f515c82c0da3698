//! Delegations: offered with an OPEN, recalled for others, taken away (RFC 8881 §10.2, §10.4).
//!
//! # Ownership
//! The state table has the holders. An operation that cannot bear a delegation keeps an [`Excluded`] until its work
//! is done: nobody is granted one meanwhile.
//!
//! # Ordering
//! Hold, recall, wait until it is gone, work. OPEN does without the hold: it looks for delegations and takes its share
//! under one lock. The caller waits a little and then gets DELAY, so no slot is blocked for long. The recall continues.
//!
//! # Failure
//! Nothing here is durable: after a restart clients reclaim. A delegation that does not come back in a lease is revoked. A note of
//! that becomes durable first, so that its client does not reclaim it (§10.2.1). Then the client is fenced off the file, and
//! others go on.

use crate::actor::Actor;
use crate::client_record;
use crate::fs::Fs;
use crate::{layouts, removal};
use client_table::CallbackError;
use namespace::{FileId, Inode};
use nfs4::cb::{CbRecallAnyArgs, CbRecallArgs, RCA_RDATA_DLG, RCA_WDATA_DLG};
use nfs4::{Bitmap, ClientId, NfsStatus};
use state::{DelegationEnded, DelegationRecall, InTheWay};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::time::Instant;
use transport::CallId;

/// How long an operation waits for delegations to come back before its caller is told to ask again.
const WAIT_MS: u64 = 2_000;
/// Pause between two looks at what is out.
const POLL_MS: u64 = 100;
/// How often in its time a recall is sent that a client has taken note of: its session may have been replaced since.
const RECALLS_PER_LEASE: u64 = 4;
/// Pause before a recall is sent again that did not arrive.
const AGAIN_MS: u64 = 1_000;
/// How often a client must say that it knows nothing of a delegation: at first it may be about to take note of it.
const UNKNOWN_MAX: u32 = 2;
/// No delegation is granted on the file while this lives.
pub struct Excluded {
    fs: Arc<Fs>,
    file: FileId,
}

impl Excluded {
    /// Of those granted already nothing is said.
    pub fn new(fs: &Arc<Fs>, file: FileId) -> Self {
        fs.state().delegations.hold(file.0);
        Self {
            fs: Arc::clone(fs),
            file,
        }
    }
}

impl Drop for Excluded {
    fn drop(&mut self) {
        self.fs.state().delegations.release(self.file.0);
    }
}

/// What an operation wants out of its way.
#[derive(Debug, Clone, Copy)]
pub struct Clearing {
    /// Which delegations.
    pub against: InTheWay,
    /// The file is about to lose all its data: holders need not write theirs.
    pub truncates: bool,
}

impl Clearing {
    /// As a READ does.
    pub const READ: Self = Self::of(InTheWay::Writers);
    /// As a change of data, attributes or names does.
    pub const CHANGE: Self = Self::of(InTheWay::All);

    /// These, and the file keeps its data.
    #[must_use]
    pub const fn of(against: InTheWay) -> Self {
        Self {
            against,
            truncates: false,
        }
    }
}

/// Gets the delegations of other clients out of the way, and keeps new ones away until the guard is dropped.
///
/// # Errors
/// `Delay` while they are being recalled.
pub async fn exclude(
    fs: &Arc<Fs>,
    actor: &Actor,
    inode: &Inode,
    clearing: Clearing,
) -> Result<Excluded, NfsStatus> {
    let client = actor.client()?;
    let guard = Excluded::new(fs, inode.id);
    clear(fs, inode, client, clearing).await?;
    Ok(guard)
}

/// Recalls what other clients hold and waits a little until it is gone.
pub async fn clear(
    fs: &Arc<Fs>,
    inode: &Inode,
    client: ClientId,
    clearing: Clearing,
) -> Result<(), NfsStatus> {
    let deadline = Instant::now() + Duration::from_millis(WAIT_MS);
    loop {
        let changed = fs.delegating.changed.notified();
        tokio::pin!(changed);
        changed.as_mut().enable();
        let holders = fs
            .state()
            .delegations
            .conflicts(inode.id.0, clearing.against, Some(client));
        if holders.is_empty() {
            fs.delegating.waits.over(inode.id, client);
            return Ok(());
        }
        let now_ms = fs.clients.now_ms();
        fs.delegating.waits.note(inode.id, client, now_ms);
        if revoke_lapsed(fs, inode.id, &holders).await {
            continue;
        }
        recall(fs, inode, Some(client), clearing);
        if Instant::now() >= deadline {
            return Err(NfsStatus::Delay);
        }
        let _either = tokio::time::timeout(Duration::from_millis(POLL_MS), changed).await;
    }
}

/// Clients whose lease is over lose their delegations of the file, and nothing else. A client of NFSv4.0 is about to lose all: no flag
/// of a reply would tell it of one delegation, and EXPIRED tells it of all. Returns whether there was one.
async fn revoke_lapsed(fs: &Arc<Fs>, file: FileId, holders: &[ClientId]) -> bool {
    let now_ms = fs.clients.now_ms();
    let mut any = false;
    for holder in holders {
        let lapsed = fs.clients.lock().lapsed(*holder, now_ms);
        let held = fs.state().delegations.of_holder(*holder, file.0);
        if let Some(held) = held.filter(|_| lapsed) {
            fs.clients.lock().end_minor_0_soon(*holder);
            any |= revoke(fs, &held).await;
        }
    }
    any
}

/// Sends the recalls that are not under way yet; returns at once.
pub fn recall(fs: &Arc<Fs>, inode: &Inode, except: Option<ClientId>, clearing: Clearing) {
    let times = (fs.clients.now_ms(), fs.lease_ms());
    let recalls = fs
        .state()
        .delegations
        .begin_recall(inode.id.0, clearing.against, except, times);
    for recall in recalls {
        fs.delegating.counts.recalled.fetch_add(1, Relaxed);
        let (fs, fh) = (Arc::clone(fs), fs.handle_of(inode));
        let sent = async move { send_recall(&fs, recall, &fh.0, clearing.truncates).await };
        tokio::spawn(CallId::carry(sent));
    }
}

/// Sends one CB_RECALL, again as long as the delegation is out and its time is not over.
async fn send_recall(fs: &Arc<Fs>, recall: DelegationRecall, fh: &[u8], truncate: bool) {
    let callbacks = Arc::clone(&fs.delegating.callbacks);
    let other = recall.stateid.other;
    let mut unknown_count = 0;
    while fs.state().delegations.is_out(&other) && fs.clients.now_ms() < recall.deadline_ms {
        let Ok(permit) = Arc::clone(&callbacks).acquire_owned().await else {
            return;
        };
        let sent = fs
            .clients
            .callback_about(
                recall.client,
                Some(recall.origin),
                &|b| {
                    b.push(&CbRecallArgs {
                        stateid: recall.stateid,
                        truncate,
                        fh: xdr::Opaque(fh),
                    });
                },
                |reply| reply.take::<nfs4::cb::CbRecallRes>().map(drop),
            )
            .await;
        drop(permit);
        let pause_ms = match sent {
            Ok(()) => fs.lease_ms() / RECALLS_PER_LEASE,
            Err(CallbackError::Status(NfsStatus::BadStateid | NfsStatus::BadHandle))
                if fs.clients.reply_was_received(&recall.origin) =>
            {
                unknown_count += 1;
                if unknown_count == UNKNOWN_MAX {
                    // It has the reply that granted it, and holds nothing: it never took it, or gave it up.
                    let ended = fs.state().end_delegation(&other);
                    settle_ended(fs, ended);
                    return;
                }
                AGAIN_MS
            }
            Err(error) => {
                tracing::debug!(?error, client = recall.client.value, "delegation recall");
                AGAIN_MS
            }
        };
        wait_for_return(fs, &recall, pause_ms).await;
    }
}

/// Waits until a delegation is back, or for `pause_ms`.
async fn wait_for_return(fs: &Fs, recall: &DelegationRecall, pause_ms: u64) {
    let until = Instant::now() + Duration::from_millis(pause_ms.max(POLL_MS));
    loop {
        let changed = fs.delegating.changed.notified();
        tokio::pin!(changed);
        changed.as_mut().enable();
        let out = fs.state().delegations.is_out(&recall.stateid.other);
        if !out || tokio::time::timeout_at(until, changed).await.is_err() {
            return;
        }
    }
}

/// A delegation is no more: waiting tasks continue, a layout that it kept is back, an unlinked file may go.
pub fn settle_ended(fs: &Arc<Fs>, ended: Option<DelegationEnded>) {
    let Some(ended) = ended else { return };
    if let Some(layout) = ended.layout {
        layouts::settle_returned(fs, vec![layout]);
    }
    fs.delegating.changed.notify_waiters();
    if ended.last_of_file {
        removal::discard_if_unused(fs, FileId(ended.file));
    }
}

/// A client is gone: tasks that wait for delegations look again.
pub(crate) fn client_gone(fs: &Arc<Fs>) {
    fs.delegating.changed.notify_waiters();
}

/// A client of NFSv4.0 whose lease is over may not have heard of a recall: it is about to lose all, as in [`revoke_lapsed`].
fn end_if_silent(fs: &Fs, client: ClientId) {
    let now_ms = fs.clients.now_ms();
    let mut clients = fs.clients.lock();
    if clients.lapsed(client, now_ms) {
        clients.end_minor_0_soon(client);
    }
}

/// What time brings: recalls that are overdue, and a table that gets full. To be called about every second.
pub(crate) fn tick(fs: &Arc<Fs>) {
    let now_ms = fs.clients.now_ms();
    let overdue = fs.state().delegations.overdue(now_ms);
    if !overdue.is_empty() {
        fs.delegating.revoking.start(|| {
            let fs = Arc::clone(fs);
            async move {
                for recall in &overdue {
                    end_if_silent(&fs, recall.client);
                    revoke(&fs, recall).await;
                }
            }
        });
    }
    let crowded = fs.state().delegations.crowded(now_ms);
    for any in crowded {
        // NFSv4.0 has no CB_RECALL_ANY.
        if fs.clients.lock().is_minor_0(any.client) {
            continue;
        }
        let clients = Arc::clone(&fs.clients);
        tokio::spawn(async move {
            let build = move |b: &mut nfs4::CbCompoundBuilder| {
                b.push(&CbRecallAnyArgs {
                    objects_to_keep: any.keep,
                    type_mask: Bitmap::of(&[RCA_RDATA_DLG, RCA_WDATA_DLG]),
                });
            };
            if let Err(error) = clients.callback(any.client, &build).await {
                tracing::debug!(?error, client = any.client.value, "recall of any");
            }
        });
    }
}

/// Takes a delegation whose time, or whose holder's, is over. One whose note cannot be made durable stays, and with it all who
/// wait. Returns whether it is gone.
async fn revoke(fs: &Arc<Fs>, recall: &DelegationRecall) -> bool {
    let other = recall.stateid.other;
    let (client, file) = (recall.client.value, recall.file);
    if !fs.state().delegations.is_out(&other) {
        return true;
    }
    if let Err(status) = client_record::note_revoked(fs, recall.client).await {
        tracing::error!(client, file, %status, "a delegation cannot be revoked");
        return false;
    }
    tracing::warn!(client, file, "delegation not returned");
    layouts::fence_off(fs, recall.client, FileId(file));
    let ended = fs.state().revoke_delegation(&other);
    fs.delegating.counts.revoked.fetch_add(1, Relaxed);
    settle_ended(fs, ended);
    true
}

/// The regular file behind a name, if there is one that the caller may look up: what a change of names must exclude.
pub(crate) fn file_of_name(
    fs: &Fs,
    actor: &mut Actor,
    dir: FileId,
    name: &[u8],
) -> Option<Arc<Inode>> {
    let found = actor.ns(fs, |ns, op| ns.lookup(op, dir, name)).ok();
    found.filter(|inode| inode.is_regular())
}

/// A change of names hit another file than the one that was excluded: a rename was faster. Its holders are told.
pub(crate) fn missed(fs: &Arc<Fs>, actor: &Actor, excluded: Option<FileId>, hit: &Inode) {
    if hit.is_regular() && excluded != Some(hit.id) {
        let client = actor.client_id();
        recall(fs, hit, client, Clearing::CHANGE);
    }
}
