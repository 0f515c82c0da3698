//! Delegations: offered with an OPEN, recalled for others, asked for sizes, taken away (RFC 8881 §10.2, §10.4).
//!
//! # Ownership
//! The state table says who holds what. An operation that cannot bear a delegation keeps an [`Excluded`] until its work
//! is done: nobody is granted one meanwhile.
//!
//! # Ordering
//! Hold, recall, wait until it is gone, work. OPEN does without the hold: it looks for delegations and takes its share
//! under one lock. The caller waits a little and is then told DELAY, so that no slot is blocked for long; the recall
//! goes on without him.
//!
//! # Failure
//! Nothing here is durable: after a restart clients reclaim. A delegation that does not come back in a lease is revoked: a
//! note of that is made durable, so that its client does not reclaim it (§10.2.1), then it is fenced off the file, then others
//! go on. What CB_GETATTR says of times and the change attribute is made durable like any other change (R7).

use crate::cx::{self, Cx, ns};
use crate::ops::client_record;
use crate::{Mds, attrs, data};
use namespace::{Cred, FileId, Inode, Op, SizeCommit};
use nfs4::attr::{ARCHIVE, Attrs, CHANGE, SIZE, SPACE_USED, TIME_METADATA, TIME_MODIFY};
use nfs4::cb::{
    CbGetAttrArgs, CbGetAttrRes, CbRecallAnyArgs, CbRecallArgs, RCA_RDATA_DLG, RCA_WDATA_DLG,
};
use nfs4::{Bitmap, CbCompoundReply, ClientId, NfsStatus, OpError};
use server::{CallbackError, Nfsd};
use state::{DelegationEnded, DelegationRecall, InTheWay, WriteHolder};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// How long an operation waits for delegations to come back before its caller is told to ask again.
const WAIT_MS: u64 = 2_000;
/// Pause between two looks at what is out.
const POLL_MS: u64 = 100;
/// How long a holder may take to tell the size.
const GETATTR_WAIT_MS: u64 = 2_000;
/// How often in its time a recall is sent that a client has taken note of: its session may have been replaced since.
const RECALLS_PER_LEASE: u64 = 4;
/// Pause before a recall is sent again that did not arrive.
const AGAIN_MS: u64 = 1_000;
/// How often a client must say that it knows nothing of a delegation: at first it may be about to take note of it.
const UNKNOWN_MAX: u32 = 2;
/// Callbacks under way at one time.
const CALLBACKS_MAX: usize = 256;

/// Attributes that a holder for writing may know better.
const HOLDERS: Bitmap = Bitmap::of(&[
    CHANGE,
    SIZE,
    ARCHIVE,
    SPACE_USED,
    TIME_METADATA,
    TIME_MODIFY,
]);

/// What the metadata server has for delegations beside the state table.
pub(crate) struct Delegating {
    /// Whether any are granted.
    pub(crate) enabled: bool,
    /// Told when one came back or was revoked.
    changed: Notify,
    callbacks: Arc<Semaphore>,
    revoking: AtomicBool,
    counts: Counts,
}

/// What happened since the start.
#[derive(Default)]
struct Counts {
    granted: AtomicU64,
    recalled: AtomicU64,
    revoked: AtomicU64,
}

/// Delegations, for whoever watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DelegationCounts {
    /// Held now.
    pub held: usize,
    /// Granted since the start.
    pub granted: u64,
    /// Recalls since the start.
    pub recalled: u64,
    /// Revoked since the start.
    pub revoked: u64,
}

impl Delegating {
    pub(crate) fn new(enabled: bool) -> Self {
        Self {
            enabled,
            changed: Notify::new(),
            callbacks: Arc::new(Semaphore::new(CALLBACKS_MAX)),
            revoking: AtomicBool::new(false),
            counts: Counts::default(),
        }
    }

    pub(crate) fn note_granted(&self) {
        self.counts.granted.fetch_add(1, Relaxed);
    }
}

impl Mds {
    /// Delegations, for metrics.
    pub fn delegation_counts(&self) -> DelegationCounts {
        let counts = &self.delegating().counts;
        DelegationCounts {
            held: self.state().delegations.len(),
            granted: counts.granted.load(Relaxed),
            recalled: counts.recalled.load(Relaxed),
            revoked: counts.revoked.load(Relaxed),
        }
    }
}

/// No delegation is granted on the file while this lives.
pub(crate) struct Excluded<'a> {
    mds: &'a Mds,
    file: FileId,
}

impl<'a> Excluded<'a> {
    /// Of those granted already nothing is said.
    pub(crate) fn new(mds: &'a Mds, file: FileId) -> Self {
        mds.state().delegations.hold(file.0);
        Self { mds, file }
    }
}

impl Drop for Excluded<'_> {
    fn drop(&mut self) {
        self.mds.state().delegations.release(self.file.0);
    }
}

/// As [`Excluded`], for a task that goes on behind the answer.
pub(crate) struct ExcludedForTask {
    nfsd: Arc<Nfsd<Mds>>,
    file: FileId,
}

impl ExcludedForTask {
    /// Of those granted already nothing is said.
    pub(crate) fn new(nfsd: &Arc<Nfsd<Mds>>, file: FileId) -> Self {
        nfsd.role().state().delegations.hold(file.0);
        Self {
            nfsd: Arc::clone(nfsd),
            file,
        }
    }
}

impl Drop for ExcludedForTask {
    fn drop(&mut self) {
        self.nfsd.role().state().delegations.release(self.file.0);
    }
}

/// What an operation wants out of its way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clearing {
    pub(crate) against: InTheWay,
    /// The file is about to lose all its data: holders need not write theirs.
    pub(crate) truncates: bool,
}

impl Clearing {
    pub(crate) const READ: Self = Self::of(InTheWay::Writers);
    pub(crate) const CHANGE: Self = Self::of(InTheWay::All);

    pub(crate) const fn of(against: InTheWay) -> Self {
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
pub(crate) async fn exclude<'a>(
    nfsd: &'a Nfsd<Mds>,
    cx: &Cx<'_>,
    inode: &Inode,
    clearing: Clearing,
) -> Result<Excluded<'a>, NfsStatus> {
    let client = cx.client()?;
    let guard = Excluded::new(nfsd.role(), inode.id);
    clear(nfsd, inode, client, clearing).await?;
    Ok(guard)
}

/// Recalls what other clients hold and waits a little until it is gone.
pub(crate) async fn clear(
    nfsd: &Nfsd<Mds>,
    inode: &Inode,
    client: ClientId,
    clearing: Clearing,
) -> Result<(), NfsStatus> {
    let mds = nfsd.role();
    let deadline = Instant::now() + Duration::from_millis(WAIT_MS);
    loop {
        let changed = mds.delegating().changed.notified();
        tokio::pin!(changed);
        changed.as_mut().enable();
        let holders = mds
            .state()
            .delegations
            .conflicts(inode.id.0, clearing.against, Some(client));
        if holders.is_empty() {
            return Ok(());
        }
        if revoke_lapsed(nfsd, inode.id, &holders).await {
            continue;
        }
        recall(nfsd, inode, Some(client), clearing);
        if Instant::now() >= deadline {
            return Err(NfsStatus::Delay);
        }
        let _either = tokio::time::timeout(Duration::from_millis(POLL_MS), changed).await;
    }
}

/// Clients whose lease is over lose their delegations of the file, and nothing else. Returns whether there was one.
async fn revoke_lapsed(nfsd: &Nfsd<Mds>, file: FileId, holders: &[ClientId]) -> bool {
    let now_ms = nfsd.now_ms();
    let mut any = false;
    for holder in holders {
        let lapsed = nfsd.clients().lapsed(*holder, now_ms);
        let held = nfsd.role().state().delegations.of_holder(*holder, file.0);
        if let Some(held) = held.filter(|_| lapsed) {
            any |= revoke(nfsd, &held).await;
        }
    }
    any
}

/// Sends the recalls that are not under way yet; returns at once.
pub(crate) fn recall(
    nfsd: &Nfsd<Mds>,
    inode: &Inode,
    except: Option<ClientId>,
    clearing: Clearing,
) {
    let mds = nfsd.role();
    let times = (nfsd.now_ms(), mds.lease_ms());
    let recalls = mds
        .state()
        .delegations
        .begin_recall(inode.id.0, clearing.against, except, times);
    let Some(me) = mds.data().service() else {
        return;
    };
    for recall in recalls {
        mds.delegating().counts.recalled.fetch_add(1, Relaxed);
        let (me, fh) = (Arc::clone(&me), cx::handle_of(mds, inode));
        tokio::spawn(async move { send_recall(&me, recall, &fh.0, clearing.truncates).await });
    }
}

/// Sends one CB_RECALL, again as long as the delegation is out and its time is not over.
async fn send_recall(nfsd: &Nfsd<Mds>, recall: DelegationRecall, fh: &[u8], truncate: bool) {
    let mds = nfsd.role();
    let callbacks = Arc::clone(&mds.delegating().callbacks);
    let other = recall.stateid.other;
    let mut unknown_count = 0;
    while mds.state().delegations.is_out(&other) && nfsd.now_ms() < recall.deadline_ms {
        let Ok(permit) = Arc::clone(&callbacks).acquire_owned().await else {
            return;
        };
        let sent = nfsd
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
            Ok(()) => mds.lease_ms() / RECALLS_PER_LEASE,
            Err(CallbackError::Status(NfsStatus::BadStateid | NfsStatus::BadHandle))
                if nfsd.reply_was_received(&recall.origin) =>
            {
                unknown_count += 1;
                if unknown_count == UNKNOWN_MAX {
                    // It has the reply that granted it, and holds nothing: it never took it, or gave it up.
                    let ended = mds.state().end_delegation(&other);
                    settle_ended(nfsd, ended).await;
                    return;
                }
                AGAIN_MS
            }
            Err(error) => {
                tracing::debug!(?error, client = recall.client.value, "delegation recall");
                AGAIN_MS
            }
        };
        wait_for_return(mds, &recall, pause_ms).await;
    }
}

/// Waits until a delegation is back, or for `pause_ms`.
async fn wait_for_return(mds: &Mds, recall: &DelegationRecall, pause_ms: u64) {
    let until = Instant::now() + Duration::from_millis(pause_ms.max(POLL_MS));
    loop {
        let changed = mds.delegating().changed.notified();
        tokio::pin!(changed);
        changed.as_mut().enable();
        let out = mds.state().delegations.is_out(&recall.stateid.other);
        if !out || tokio::time::timeout_at(until, changed).await.is_err() {
            return;
        }
    }
}

/// A delegation is no more: whoever waits goes on, a layout that it kept is back, an unlinked file may go.
pub(crate) async fn settle_ended(nfsd: &Nfsd<Mds>, ended: Option<DelegationEnded>) {
    let Some(ended) = ended else { return };
    if let Some(layout) = ended.layout {
        data::settle_returned(nfsd, vec![layout]).await;
    }
    nfsd.role().delegating().changed.notify_waiters();
    if ended.last_of_file {
        data::orphan_closed(nfsd, FileId(ended.file)).await;
    }
}

/// Whoever waits for delegations looks again: a client is gone.
pub(crate) fn client_gone(nfsd: &Nfsd<Mds>) {
    nfsd.role().delegating().changed.notify_waiters();
}

/// What time brings: recalls that are overdue, and a table that gets full. To be called about every second.
pub(crate) fn tick(me: &Arc<Nfsd<Mds>>) {
    let mds = me.role();
    let now_ms = me.now_ms();
    let overdue = mds.state().delegations.overdue(now_ms);
    if !overdue.is_empty() && !mds.delegating().revoking.swap(true, Relaxed) {
        let me = Arc::clone(me);
        tokio::spawn(async move {
            let _done = Revoking(Arc::clone(&me));
            for recall in &overdue {
                revoke(&me, recall).await;
            }
        });
    }
    let crowded = mds.state().delegations.crowded(now_ms);
    for any in crowded {
        let me = Arc::clone(me);
        tokio::spawn(async move {
            let build = move |b: &mut nfs4::CbCompoundBuilder| {
                b.push(&CbRecallAnyArgs {
                    objects_to_keep: any.keep,
                    type_mask: Bitmap::of(&[RCA_RDATA_DLG, RCA_WDATA_DLG]),
                });
            };
            if let Err(error) = me.callback(any.client, &build).await {
                tracing::debug!(?error, client = any.client.value, "recall of any");
            }
        });
    }
}

/// Lets the next round begin when this one ends, however that is.
struct Revoking(Arc<Nfsd<Mds>>);

impl Drop for Revoking {
    fn drop(&mut self) {
        self.0.role().delegating().revoking.store(false, Relaxed);
    }
}

/// Takes a delegation whose time, or whose holder's, is over. One whose note cannot be made durable stays, and with it all who
/// wait. Returns whether it is gone.
async fn revoke(nfsd: &Nfsd<Mds>, recall: &DelegationRecall) -> bool {
    let mds = nfsd.role();
    let other = recall.stateid.other;
    let (client, file) = (recall.client.value, recall.file);
    if !mds.state().delegations.is_out(&other) {
        return true;
    }
    if let Err(status) = client_record::note_revoked(nfsd, recall.client).await {
        tracing::error!(client, file, %status, "a delegation cannot be revoked");
        return false;
    }
    tracing::warn!(client, file, "delegation not returned");
    data::fence_off(nfsd, recall.client, FileId(file)).await;
    let ended = mds.state().revoke_delegation(&other);
    mds.delegating().counts.revoked.fetch_add(1, Relaxed);
    settle_ended(nfsd, ended).await;
    true
}

/// A file's attributes for somebody who does not hold it for writing.
pub(crate) struct Fresh {
    pub(crate) inode: Arc<Inode>,
    /// The size as its holder sees it.
    pub(crate) size: Option<u64>,
}

impl Fresh {
    /// The values of attributes, as far as `mask` names them.
    pub(crate) fn attrs(&self, mds: &Mds, mask: &Bitmap, minor_version: u32) -> Attrs {
        let mut values = attrs::of(mds, &self.inode, mask, minor_version);
        if let Some(size) = self.size {
            values.size = Some(size);
        }
        values
    }
}

/// Whether somebody else may know the asked attributes better than this server.
pub(crate) fn better_known(
    mds: &Mds,
    file: FileId,
    client: Option<ClientId>,
    mask: &Bitmap,
) -> Option<WriteHolder> {
    if !mds.has_delegations() || mask.intersection(&HOLDERS).is_empty() {
        return None;
    }
    let holder = mds.state().delegations.write_holder(file.0);
    holder.filter(|holder| Some(holder.client) != client)
}

/// Attributes with what the holder for writing says (RFC 8881 §10.4.3): CB_GETATTR, and a new change attribute if it has
/// modified the file.
///
/// # Errors
/// `Delay` when it does not answer: then it is recalled.
pub(crate) async fn fresh(
    nfsd: &Nfsd<Mds>,
    cx: &mut Cx<'_>,
    inode: &Arc<Inode>,
    mask: &Bitmap,
) -> Result<Fresh, NfsStatus> {
    let mds = nfsd.role();
    let client = cx.session.as_ref().map(|s| s.client);
    let Some(holder) = better_known(mds, inode.id, client, mask) else {
        return Ok(Fresh {
            inode: Arc::clone(inode),
            size: None,
        });
    };
    let answer = ask_holder(nfsd, inode, &holder).await;
    heed_holder(nfsd, cx, inode, &holder, answer)
}

/// As [`fresh`] for the entries of a directory, all at the same time: those of `inodes` that others hold for writing.
pub(crate) async fn fresh_entries(
    nfsd: &Nfsd<Mds>,
    cx: &mut Cx<'_>,
    inodes: &[Arc<Inode>],
    mask: &Bitmap,
) -> BTreeMap<FileId, Result<Fresh, NfsStatus>> {
    let client = cx.session.as_ref().map(|s| s.client);
    let mut asked = JoinSet::new();
    for inode in inodes {
        let holder = better_known(nfsd.role(), inode.id, client, mask);
        let (Some(holder), Some(me)) = (holder, nfsd.role().data().service()) else {
            continue;
        };
        let inode = Arc::clone(inode);
        asked.spawn(async move {
            let answer = ask_holder(&me, &inode, &holder).await;
            (inode, holder, answer)
        });
    }
    let mut out = BTreeMap::new();
    while let Some(done) = asked.join_next().await {
        if let Ok((inode, holder, answer)) = done {
            let fresh = heed_holder(nfsd, cx, &inode, &holder, answer);
            out.insert(inode.id, fresh);
        }
    }
    out
}

/// What a holder's answer, change and size, means for the attributes.
fn heed_holder(
    nfsd: &Nfsd<Mds>,
    cx: &mut Cx<'_>,
    inode: &Inode,
    holder: &WriteHolder,
    answer: Option<(u64, u64)>,
) -> Result<Fresh, NfsStatus> {
    let mds = nfsd.role();
    let Some((change, size)) = answer else {
        let client = cx.session.as_ref().map(|s| s.client);
        recall(nfsd, inode, client, Clearing::READ);
        return Err(NfsStatus::Delay);
    };
    let now = ns(mds, cx, |ns, op| ns.getattr(op, inode.id))?;
    if !holder.modified && change == holder.change && size == now.size {
        return Ok(Fresh {
            inode: now,
            size: None,
        });
    }
    mds.state().delegations.note_modified(&holder.other);
    let inode = touch(mds, cx, inode.id)?;
    Ok(Fresh {
        inode,
        size: Some(size),
    })
}

/// A modification that the server has not seen: times and the change attribute move. As root: the bits that a write by
/// another user takes from the mode go when his write comes.
fn touch(mds: &Mds, cx: &mut Cx<'_>, file: FileId) -> Result<Arc<Inode>, NfsStatus> {
    let cred = Cred::root();
    let mut op = Op::new(&cred, mds.now());
    let touched = mds
        .namespace()
        .commit_size(&mut op, file, SizeCommit::default());
    cx.observe(op.observed().0);
    touched.map_err(|e| cx::status(&e))
}

/// CB_GETATTR: change and size as the holder sees them, unless it does not say.
async fn ask_holder(nfsd: &Nfsd<Mds>, inode: &Inode, holder: &WriteHolder) -> Option<(u64, u64)> {
    let me = nfsd.role().data().service()?;
    let fh = cx::handle_of(nfsd.role(), inode);
    let build = move |b: &mut nfs4::CbCompoundBuilder| {
        b.push(&CbGetAttrArgs {
            fh: xdr::Opaque(&fh.0),
            attr_request: Bitmap::of(&[CHANGE, SIZE]),
        });
    };
    let asked = me.callback_within(holder.client, GETATTR_WAIT_MS, build, read_holder);
    asked.await.ok()
}

fn read_holder(reply: &mut CbCompoundReply<'_>) -> Result<(u64, u64), OpError> {
    let res = reply.take::<CbGetAttrRes<'_>>()?;
    let attrs = res.attributes.attrs().ok();
    let both = attrs.and_then(|a| Some((a.change?, a.size?)));
    both.ok_or(OpError::Status {
        op: None,
        status: NfsStatus::Inval,
    })
}

/// The regular file behind a name, if there is one that the caller may look up: what a change of names must exclude.
pub(crate) fn file_of_name(
    mds: &Mds,
    cx: &mut Cx<'_>,
    dir: FileId,
    name: &[u8],
) -> Option<Arc<Inode>> {
    let found = ns(mds, cx, |ns, op| ns.lookup(op, dir, name)).ok();
    found.filter(|inode| inode.is_regular())
}

/// A change of names hit another file than the one that was excluded: a rename was faster. Its holders are told.
pub(crate) fn missed(nfsd: &Nfsd<Mds>, cx: &Cx<'_>, excluded: Option<FileId>, hit: &Inode) {
    if hit.is_regular() && excluded != Some(hit.id) {
        let client = cx.session.as_ref().map(|s| s.client);
        recall(nfsd, hit, client, Clearing::CHANGE);
    }
}
