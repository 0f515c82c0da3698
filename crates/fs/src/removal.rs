//! Removal: objects of files without names, taken off the data servers in batches (rule R4).
//!
//! # Ordering
//! The inode and its entry of the queue change places in one transaction. Data servers are told only of what is
//! durable. An entry goes when each data server of the group has a durable tombstone, which no late write passes. So
//! nobody waits for layouts of a removed file: the tombstone fences them.
//!
//! # Failure
//! A data server that is away keeps its entries in the queue. REMOVE may be repeated.

use crate::actor::Actor;
use crate::fs::Fs;
use cluster::DsError;
use control::{BATCH_MAX, RemoveItem};
use foreign::is_foreign;
use futures_util::future::{join, join_all};
use layout::Epoch;
use namespace::{Cred, FileId, Inode, NsError, Op, PAGE_MAX, Removal, RemovalAck};
use nfs4::{ClientId, NfsStatus};
use state::{IoModes, Other};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use stripes::remove;
use tokio::task::JoinSet;

/// Files whose objects foreign servers remove at one time.
const FOREIGN_AT_ONCE: usize = 16;
/// Most batches of one pass; the next tick goes on.
const BATCHES_MAX: usize = 16;
/// Where [`removals_waiting`] ends.
pub const REMOVALS_COUNTED_MAX: usize = 10_000;

/// Entries of the removal queue, counted up to [`REMOVALS_COUNTED_MAX`]. 0 when the store fails.
pub fn removals_waiting(fs: &Fs) -> usize {
    let cred = Cred::root();
    let (mut after, mut counted) = (0, 0);
    while counted < REMOVALS_COUNTED_MAX {
        let mut op = Op::new(&cred, fs.now());
        let page = &fs.ns;
        let page = page.removal_batch(&mut op, after, PAGE_MAX);
        let Some((last, len)) = page.ok().and_then(|p| p.last().map(|r| (r.seq, p.len()))) else {
            break;
        };
        (after, counted) = (last, counted + len);
    }
    counted.min(REMOVALS_COUNTED_MAX)
}

/// A file lost its last name and is not open; its inode is gone. Layouts that are still out mean nothing any more.
pub(crate) fn file_removed(fs: &Fs, inode: &Inode) {
    forget_layouts(fs, inode.id);
}

/// Drops all layouts of a file whose tombstone is in the queue.
fn forget_layouts(fs: &Fs, file: FileId) {
    fs.layouts.writers.lock().forget(file);
    let mut state = fs.state();
    if !state.layouts.is_held(file.0, IoModes::ANY, None) {
        return;
    }
    // Those under recall already come up as overdue, and find the file gone.
    for recall in state.layouts.begin_recall(file.0, IoModes::ANY, None, 0) {
        let _gone = state.layouts.revoke(&recall.stateid.other);
    }
}

/// The last open of a file was closed.
pub fn last_close(fs: &Fs, actor: &mut Actor, file: FileId) -> Result<(), NfsStatus> {
    let inode = match actor.ns(fs, |ns, op| ns.getattr(op, file)) {
        // It went with its last layout, which came back with this close.
        Err(NfsStatus::Stale) => return Ok(()),
        found => found?,
    };
    if inode.nlink == 0 && fs.state().open_count(file.0) == 0 {
        actor.ns(fs, |ns, op| ns.orphan_closed(op, file))?;
        forget_layouts(fs, file);
    }
    Ok(())
}

/// Closes an open of NFSv4.0 that its client never confirmed. Nothing was locked under it.
pub fn abandon_open(fs: &Fs, client: ClientId, open: &Other) {
    if let Some(file) = fs.state().abandon_open(client, open) {
        discard_if_unused(fs, FileId(file));
    }
}

/// Ends the life of a file without names that nobody has open.
pub(crate) fn discard_if_unused(fs: &Fs, file: FileId) {
    let cred = Cred::root();
    let mut op = Op::new(&cred, fs.now());
    let orphan = matches!(fs.ns.getattr(&mut op, file), Ok(inode) if inode.nlink == 0);
    if !orphan || fs.clients.lock().in_grace() || fs.state().open_count(file.0) > 0 {
        return;
    }
    match fs.ns.orphan_closed(&mut op, file) {
        Ok(_) => forget_layouts(fs, file),
        Err(error) => tracing::error!(%error, file = file.0, "orphan"),
    }
}

/// Looks at all orphans once after the grace period.
pub(crate) fn sweep(fs: &Fs) {
    if fs.clients.lock().in_grace() {
        return;
    }
    let cred = Cred::root();
    let mut after = FileId(0);
    loop {
        let mut op = Op::new(&cred, fs.now());
        let page = match fs.ns.orphans(&mut op, after, PAGE_MAX) {
            Ok(page) => page,
            Err(error) => {
                tracing::error!(%error, "orphans");
                return;
            }
        };
        for file in &page {
            discard_if_unused(fs, *file);
        }
        match page.last() {
            Some(file) if page.len() == PAGE_MAX => after = *file,
            _ => break,
        }
    }
    fs.jobs.orphans_swept.store(true, Relaxed);
}

/// Works off the head of the queue, and tells the cluster which data servers have not removed all of it yet.
pub(crate) async fn drain(fs: &Fs) {
    let lacking = drain_head(fs).await;
    fs.cluster.note_removals(lacking);
}

/// Returns the data servers that lack a removal; `None` when not all of the queue was looked at.
async fn drain_head(fs: &Fs) -> Option<BTreeSet<u32>> {
    let cred = Cred::root();
    let mut lacking = BTreeSet::new();
    let mut after = 0;
    for _ in 0..BATCHES_MAX {
        let mut op = Op::new(&cred, fs.now());
        let batch = match fs.ns.removal_batch(&mut op, after, BATCH_MAX as usize) {
            Ok(batch) => batch,
            Err(error) => {
                tracing::error!(%error, "removal queue");
                return None;
            }
        };
        let Some(last) = batch.last().map(|r| r.seq) else {
            return Some(lacking);
        };
        fs.durable(op.observed()).await.ok()?;
        lacking.extend(remove_batch(fs, &batch).await);
        after = last;
    }
    None
}

/// Returns the data servers that lack some of it still.
async fn remove_batch(fs: &Fs, batch: &[Removal]) -> BTreeSet<u32> {
    let (foreign, own): (Vec<_>, Vec<_>) = batch
        .iter()
        .partition(|removal| is_foreign(removal.placement.group));
    join(remove_foreign(fs, &foreign), remove_own(fs, &own))
        .await
        .1
}

/// Removes objects at NFSv3 servers of others. What fails stays in the queue.
async fn remove_foreign(fs: &Fs, batch: &[&Removal]) {
    for some in batch.chunks(FOREIGN_AT_ONCE) {
        join_all(some.iter().map(|removal| remove_one_foreign(fs, removal))).await;
    }
}

async fn remove_one_foreign(fs: &Fs, removal: &Removal) {
    let group = fs.foreign.group(removal.placement.group);
    let mut members = group.map_or_else(Vec::new, |group| group.servers.clone());
    members.retain(|server| fs.foreign.is_used(*server));
    members.sort_unstable();
    members.dedup();
    let lacks = |server: &&u32| removal.acked.0.binary_search(server).is_err();
    let lacking: Vec<u32> = members.iter().filter(lacks).copied().collect();
    if lacking.is_empty() {
        // The others are not used any more.
        acked(fs, 0, &[ack(removal, members.clone())]);
    }
    for server in lacking {
        let (number, generation) = (removal.file.0, removal.generation);
        match fs.foreign.remove(server, number, generation).await {
            Ok(()) => acked(fs, server, &[ack(removal, members.clone())]),
            Err(error) => tracing::debug!(server, number, %error, "removal"),
        }
    }
}

async fn remove_own(fs: &Fs, batch: &[&Removal]) -> BTreeSet<u32> {
    let mut by_server: BTreeMap<u32, Vec<&Removal>> = BTreeMap::new();
    let mut done = Vec::new();
    for removal in batch.iter().copied() {
        let ids = fs.cluster.group_members(removal.placement.group);
        let members = fs.cluster.members_of(&ids);
        let lacks = |ds: &u32| removal.acked.0.binary_search(ds).is_err();
        for ds in members.iter().copied().filter(lacks) {
            by_server.entry(ds).or_default().push(removal);
        }
        if !members.iter().any(lacks) {
            // The others were expelled: nobody has the objects any more.
            done.push(ack(removal, members));
        }
    }
    acked(fs, 0, &done);
    let mut lacking: BTreeSet<u32> = by_server.keys().copied().collect();
    // Before anybody is told: an answer may take long.
    fs.cluster.add_removals(&lacking);
    // The files of a batch lie on the same data servers as a rule: all are told at the same time.
    let mut tasks = JoinSet::new();
    for (ds, removals) in &by_server {
        let through_key = fs.cluster.newest_key_id();
        let items = removals
            .iter()
            .map(|r| item(fs, *ds, r, through_key))
            .collect();
        let (ds, cluster) = (*ds, Arc::clone(&fs.cluster));
        tasks.spawn(async move { (ds, remove(&cluster, ds, items).await) });
    }
    while let Some(done) = tasks.join_next().await {
        match done {
            Ok((ds, Ok(gone))) => {
                note_gone(fs, ds, &by_server[&ds], &gone);
                if gone.iter().all(|gone| *gone) {
                    lacking.remove(&ds);
                }
            }
            Ok((_, Err(DsError::Down))) | Err(_) => {}
            Ok((ds, Err(error))) => tracing::warn!(ds, %error, "removal"),
        }
    }
    lacking
}

fn item(fs: &Fs, ds: u32, removal: &Removal, through_key: u32) -> RemoveItem {
    let group = fs.cluster.group(removal.placement.group);
    RemoveItem {
        places: group.map_or(0, |group| group.object_places(ds)),
        file_id: removal.file.0,
        generation: removal.generation.saturating_add(1),
        floor: Epoch::from_u64(removal.floor),
        through_key,
    }
}

/// Takes in which objects a data server has durable tombstones of: one transaction for its answer.
fn note_gone(fs: &Fs, ds: u32, removals: &[&Removal], gone: &[bool]) {
    let gone = removals.iter().zip(gone).filter(|(_, gone)| **gone);
    let acks: Vec<RemovalAck> = gone
        .map(|(removal, _)| {
            let ids = fs.cluster.group_members(removal.placement.group);
            ack(removal, fs.cluster.members_of(&ids))
        })
        .collect();
    acked(fs, ds, &acks);
}

fn ack(removal: &Removal, members: Vec<u32>) -> RemovalAck {
    RemovalAck {
        seq: removal.seq,
        members,
    }
}

fn acked(fs: &Fs, ds: u32, acks: &[RemovalAck]) {
    if acks.is_empty() {
        return;
    }
    let cred = Cred::root();
    let mut op = Op::new(&cred, fs.now());
    let result: Result<_, NsError> = fs.ns.removals_acked(&mut op, ds, acks);
    if let Err(error) = result {
        tracing::error!(%error, "removal queue");
    }
}
