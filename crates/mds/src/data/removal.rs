//! Removal: objects of files without names, taken off the data servers in batches (rule R4).
//!
//! # Ordering
//! The inode and its entry of the queue change places in one transaction; data servers are told only of what is durable;
//! an entry goes when each data server of the group has a durable tombstone, which no late write passes. So nobody waits
//! for layouts of a removed file: the tombstone fences them.
//!
//! # Failure
//! A data server that is away keeps its entries in the queue. REMOVE may be repeated.

use super::call::{DsError, call};
use crate::Mds;
use crate::cx::{Cx, ns};
use control::{BATCH_MAX, RemoveArgs, RemoveItem, Status};
use layout::Epoch;
use namespace::{Cred, FileId, Inode, NsError, Op, PAGE_MAX, Removal};
use nfs4::NfsStatus;
use server::Nfsd;
use state::IoModes;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Most batches of one pass; the next tick goes on.
const BATCHES_MAX: usize = 16;
/// Where [`removals_waiting`] ends.
pub const REMOVALS_COUNTED_MAX: usize = 10_000;

/// Entries of the removal queue, counted up to [`REMOVALS_COUNTED_MAX`]. 0 when the store fails.
pub fn removals_waiting(nfsd: &Nfsd<Mds>) -> usize {
    let cred = Cred::root();
    let (mut after, mut counted) = (0, 0);
    while counted < REMOVALS_COUNTED_MAX {
        let mut op = Op::new(&cred, nfsd.role().now());
        let page = nfsd.role().namespace();
        let page = page.removal_batch(&mut op, after, PAGE_MAX);
        let Some((last, len)) = page.ok().and_then(|p| p.last().map(|r| (r.seq, p.len()))) else {
            break;
        };
        (after, counted) = (last, counted + len);
    }
    counted.min(REMOVALS_COUNTED_MAX)
}

/// A file lost its last name and is not open; its inode is gone. Layouts that are still out mean nothing any more.
pub(crate) async fn file_removed(
    nfsd: &Nfsd<Mds>,
    _cx: &mut Cx<'_>,
    inode: &Arc<Inode>,
) -> Result<(), NfsStatus> {
    forget_layouts(nfsd, inode.id);
    Ok(())
}

/// Drops all layouts of a file whose tombstone is in the queue.
fn forget_layouts(nfsd: &Nfsd<Mds>, file: FileId) {
    nfsd.role().data().writers.lock().forget(file);
    let mut state = nfsd.role().state();
    if !state.layouts.is_held(file.0, IoModes::ANY, None) {
        return;
    }
    // Those under recall already come up as overdue, and find the file gone.
    for recall in state.layouts.begin_recall(file.0, IoModes::ANY, None, 0) {
        let _gone = state.layouts.revoke(&recall.stateid.other);
    }
}

/// The last open of a file was closed.
pub(crate) async fn last_close(
    nfsd: &Nfsd<Mds>,
    cx: &mut Cx<'_>,
    file: FileId,
) -> Result<(), NfsStatus> {
    let mds = nfsd.role();
    let inode = match ns(mds, cx, |ns, op| ns.getattr(op, file)) {
        // It went with its last layout, which came back with this close.
        Err(NfsStatus::Stale) => return Ok(()),
        found => found?,
    };
    if inode.nlink == 0 && mds.state().open_count(file.0) == 0 {
        ns(mds, cx, |ns, op| ns.orphan_closed(op, file))?;
        forget_layouts(nfsd, file);
    }
    Ok(())
}

/// As [`last_close`], when a client that is no more had it open.
pub(crate) async fn orphan_closed(nfsd: &Nfsd<Mds>, file: FileId) {
    discard_if_unused(nfsd, file).await;
}

/// Ends the life of a file without names that nobody has open.
pub(super) async fn discard_if_unused(nfsd: &Nfsd<Mds>, file: FileId) {
    let mds = nfsd.role();
    let cred = Cred::root();
    let mut op = Op::new(&cred, mds.now());
    let orphan = matches!(mds.namespace().getattr(&mut op, file), Ok(inode) if inode.nlink == 0);
    if !orphan || nfsd.clients().in_grace() || mds.state().open_count(file.0) > 0 {
        return;
    }
    match mds.namespace().orphan_closed(&mut op, file) {
        Ok(_) => forget_layouts(nfsd, file),
        Err(error) => tracing::error!(%error, file = file.0, "orphan"),
    }
}

/// The grace period is over: orphans that nobody reclaimed go.
pub(crate) async fn grace_over(nfsd: &Nfsd<Mds>) {
    sweep(nfsd).await;
}

/// Looks at all orphans once after the grace period.
pub(super) async fn sweep(nfsd: &Nfsd<Mds>) {
    let mds = nfsd.role();
    if nfsd.clients().in_grace() {
        return;
    }
    let cred = Cred::root();
    let mut after = FileId(0);
    loop {
        let mut op = Op::new(&cred, mds.now());
        let page = match mds.namespace().orphans(&mut op, after, PAGE_MAX) {
            Ok(page) => page,
            Err(error) => {
                tracing::error!(%error, "orphans");
                return;
            }
        };
        for file in &page {
            discard_if_unused(nfsd, *file).await;
        }
        match page.last() {
            Some(file) if page.len() == PAGE_MAX => after = *file,
            _ => break,
        }
    }
    mds.data().jobs.orphans_swept.store(true, Relaxed);
}

/// Works off the head of the queue.
pub(super) async fn drain(nfsd: &Nfsd<Mds>) {
    let mds = nfsd.role();
    let cred = Cred::root();
    let mut after = 0;
    for _ in 0..BATCHES_MAX {
        let mut op = Op::new(&cred, mds.now());
        let batch = match mds
            .namespace()
            .removal_batch(&mut op, after, BATCH_MAX as usize)
        {
            Ok(batch) => batch,
            Err(error) => {
                tracing::error!(%error, "removal queue");
                return;
            }
        };
        let Some(last) = batch.last().map(|r| r.seq) else {
            return;
        };
        if mds.durable(op.observed()).await.is_err() {
            return;
        }
        remove_batch(nfsd, &batch).await;
        after = last;
    }
}

async fn remove_batch(nfsd: &Nfsd<Mds>, batch: &[Removal]) {
    let mds = nfsd.role();
    let data = mds.data();
    let mut by_server: BTreeMap<u32, Vec<&Removal>> = BTreeMap::new();
    for removal in batch {
        let ids = data.group_servers(removal.placement.group);
        let members = data.servers.lock().members_of(&ids);
        let lacks = |ds: &u32| removal.acked.0.binary_search(ds).is_err();
        if !members.iter().any(lacks) {
            // The others were expelled: nobody has the objects any more.
            acked(nfsd, removal, 0, &members);
        }
        for ds in members.into_iter().filter(lacks) {
            by_server.entry(ds).or_default().push(removal);
        }
    }
    for (ds, removals) in by_server {
        match tell(nfsd, ds, &removals).await {
            Ok(()) | Err(DsError::Down) => {}
            Err(error) => tracing::warn!(ds, %error, "removal"),
        }
    }
}

async fn tell(nfsd: &Nfsd<Mds>, ds: u32, removals: &[&Removal]) -> Result<(), DsError> {
    let data = nfsd.role().data();
    let conn = data.servers.lock().live_conn(ds).ok_or(DsError::Down)?;
    let through_key = data.keys.lock().ring().newest_id();
    let item = |r: &&Removal| RemoveItem {
        file_id: r.file.0,
        generation: r.generation.saturating_add(1),
        floor: Epoch::from_u64(r.floor),
        through_key,
    };
    let items: Vec<RemoveItem> = removals.iter().map(item).collect();
    let answer = call(
        &conn,
        &RemoveArgs {
            items: items.into(),
        },
    )
    .await?;
    if answer.0.len() != removals.len() {
        return Err(DsError::Malformed);
    }
    for (removal, status) in removals.iter().zip(&answer.0) {
        match status {
            Status::Ok | Status::NotFound | Status::Removed => {
                let ids = data.group_servers(removal.placement.group);
                let members = data.servers.lock().members_of(&ids);
                acked(nfsd, removal, ds, &members);
            }
            status => tracing::warn!(ds, file = removal.file.0, ?status, "removal"),
        }
    }
    Ok(())
}

fn acked(nfsd: &Nfsd<Mds>, removal: &Removal, ds: u32, members: &[u32]) {
    let mds = nfsd.role();
    let cred = Cred::root();
    let mut op = Op::new(&cred, mds.now());
    let result: Result<_, NsError> =
        mds.namespace()
            .removal_acked(&mut op, removal.seq, ds, members);
    if let Err(error) = result {
        tracing::error!(%error, "removal queue");
    }
}
