//! The recovery of sizes: what a client may have written under a layout without telling the MDS (rule R1).
//!
//! # Ownership
//! A file in the table belongs to the recovery: its attributes, layouts and I/O wait with `NFS4ERR_DELAY`.
//!
//! # Ordering
//! At start all marked files are entered before anything is served. A file's size is taken when two conditions hold.
//! Every data server of its group serves, and so has the cluster floor. No fence on the file is pending. Then only
//! known writers can still grow it. The size is durable before the mark goes, and the mark is gone before the file is
//! served.
//!
//! # Failure
//! A data server that is away delays its files only; one that was expelled counts as empty. An object that is lost has
//! the size that the data server's index has durably. An object that cannot be read just now delays its file: it may be
//! as long as any. What fails is done again at the next tick.

use crate::foreign_files::{choose_one, stat_group};
use crate::fs::Fs;
use crate::hint::SOME;
use crate::unknown_sizes::LostWriters;
use control::{BATCH_MAX, StatItem, Status};
use futures_util::StreamExt;
use namespace::{Cred, FileId, Inode, Namespace, NsError, Op, SizeCommit, Time};
use nfs4::NfsStatus;
use state::IoModes;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use stripes::{modified, striping_of, tells_size};
use tokio::time::Instant;

/// How long an operation waits for the recovery of a file that it needs. A few round trips and syncs are enough where all servers serve.
const WAIT: Duration = Duration::from_millis(500);
/// How often a recovery is tried again that somebody waits for.
const POLL: Duration = Duration::from_millis(100);
/// Files that are looked at at one time: a mirror is asked for its objects.
const PREPARED_AT_ONCE: usize = 16;
/// Most files whose size is unknown of which a recovery begins for those that wait.
const SOON_MAX: usize = BATCH_MAX as usize;

/// Whether size and times of a file are known; `Delay` while they are being recovered.
pub fn ready(fs: &Arc<Fs>, file: FileId) -> Result<(), NfsStatus> {
    let unknown = &fs.layouts.unknown;
    if unknown.has(SOME) && unknown.lock().files.contains_key(&file) {
        Err(NfsStatus::Delay)
    } else {
        Ok(())
    }
}

/// Has size and times of a file recovered now, and waits for that for [`WAIT`] at most. Returns whether it waited: what was found of
/// the file before is old then.
///
/// # Errors
/// `Delay` while they are still being recovered.
pub async fn until_ready(fs: &Arc<Fs>, file: FileId) -> Result<bool, NfsStatus> {
    if ready(fs, file).is_ok() {
        return Ok(false);
    }
    let deadline = Instant::now() + WAIT;
    loop {
        let changed = fs.cluster.changed().notified();
        tokio::pin!(changed);
        changed.as_mut().enable();
        if ready(fs, file).is_ok() {
            return Ok(true);
        }
        if Instant::now() >= deadline {
            return Err(NfsStatus::Delay);
        }
        // What a restart leaves is taken up by ticks: one pass looks at all files.
        if fs.layouts.unknown.lock().len() <= SOON_MAX {
            start(fs);
        }
        let _either = tokio::time::timeout(POLL, changed).await;
    }
}

/// Whether a file may be longer than its inode says: somebody has a layout to write it.
pub(crate) fn may_be_longer(fs: &Fs, inode: &Inode) -> bool {
    let state = fs.state();
    state.layouts.is_held(inode.id.0, IoModes::RW, None)
}

/// Starts one pass over all files whose size is unknown, unless one is running.
pub(crate) fn start(fs: &Arc<Fs>) {
    fs.jobs.sizes.start(|| {
        let fs = Arc::clone(fs);
        async move { recover(&fs).await }
    });
}

/// A file to recover.
struct Item {
    inode: Arc<Inode>,
    writers: LostWriters,
}

/// One pass over all files whose size is unknown.
pub(crate) async fn recover(fs: &Arc<Fs>) {
    let files: Vec<(FileId, LostWriters)> = fs
        .layouts
        .unknown
        .lock()
        .files
        .iter()
        .map(|(f, w)| (*f, w.clone()))
        .collect();
    let mut by_group: BTreeMap<u32, Vec<Item>> = BTreeMap::new();
    let files = files.into_iter();
    let prepared = files.map(|(file, writers)| prepare(fs, file, writers));
    let mut prepared = futures_util::stream::iter(prepared).buffered(PREPARED_AT_ONCE);
    while let Some(prepared) = prepared.next().await {
        if let Some((group, item)) = prepared {
            by_group.entry(group).or_default().push(item);
        }
    }
    for (group, items) in by_group {
        let ids = fs.cluster.group_servers(group);
        for batch in items.chunks(BATCH_MAX as usize) {
            if fs.cluster.conns_but_expelled(&ids).is_none() {
                break;
            }
            if let Err(error) = recover_batch(fs, group, batch).await {
                tracing::warn!(group, error, "recovery of sizes");
                break;
            }
        }
    }
}

/// What must be asked about a file, if it can be asked now.
async fn prepare(fs: &Arc<Fs>, file: FileId, writers: LostWriters) -> Option<(u32, Item)> {
    if fs.check_not_truncating(file).is_err() {
        // The cut comes first: what lies beyond it does not count.
        return None;
    }
    let cred = Cred::root();
    let mut op = Op::new(&cred, fs.now());
    let found = fs.ns.getattr(&mut op, file);
    let placed = match &found {
        Ok(inode) => inode.placement.map(|p| (p.group, Arc::clone(inode))),
        Err(NsError::Stale) => None,
        Err(error) => {
            tracing::error!(%error, "recovery of sizes");
            return None;
        }
    };
    let Some((group, inode)) = placed else {
        fs.layouts.unknown.lock().done(file, &writers);
        return None;
    };
    let inode = choose_one(fs, &inode).await?;
    Some((group, Item { inode, writers }))
}

async fn recover_batch(fs: &Arc<Fs>, group: u32, batch: &[Item]) -> Result<(), String> {
    let files: Vec<&Inode> = batch.iter().map(|item| &*item.inode).collect();
    let stats = stat_group(fs, group, &files).await?;
    let cred = Cred::root();
    let mut op = Op::new(&cred, fs.now());
    let mut known = Vec::with_capacity(batch.len());
    for (index, item) in batch.iter().enumerate() {
        let of_file: Vec<&StatItem> = stats.iter().filter_map(|s| s.get(index)).collect();
        if let Some(unread) = of_file.iter().find(|s| !tells_size(s)) {
            let (file, status) = (item.inode.id.0, unread.status);
            tracing::error!(file, ?status, "an object cannot be read: its file waits");
            continue;
        }
        let times = mark_times(&fs.ns, &mut op, item.inode.id);
        let times = times.map_err(|e| e.to_string())?;
        // An earlier boot may have shown changes that were never durable.
        let change_from = item.writers.all.then(|| fs.ns.recovered_change());
        let taken = commit(
            &fs.ns,
            &mut op,
            (&item.inode, change_from),
            &of_file,
            &times,
        );
        taken.map_err(|e| e.to_string())?;
        known.push(item);
    }
    if known.is_empty() {
        return Ok(());
    }
    fs.durable(op.observed()).await.map_err(|e| e.to_string())?;
    let mut op = Op::new(&cred, fs.now());
    for item in &known {
        let file = item.inode.id;
        let _order = fs.layouts.grant_lock(file).lock();
        let clear = |op: &mut Op<'_>, client| fs.ns.clear_rw_out(op, file, client);
        if item.writers.all {
            clear(&mut op, None).map_err(|e| e.to_string())?;
        }
        for client in &item.writers.clients {
            clear(&mut op, Some(*client)).map_err(|e| e.to_string())?;
        }
        fs.layouts.unknown.lock().done(file, &item.writers);
    }
    fs.cluster.changed().notify_waiters();
    tracing::info!(files = known.len(), "sizes recovered");
    Ok(())
}

/// When the data servers of a file have last written its objects, each by its own clock, if that may matter. An
/// explicitly set modification time stands while none of these has risen. To be asked for before a layout for writing
/// is granted.
///
/// # Errors
/// `LayoutTryLater` when a data server does not say.
pub async fn stamps(fs: &Arc<Fs>, inode: &Arc<Inode>) -> Result<Vec<Time>, NfsStatus> {
    // A write moves both times together. Objects that were copied are newer than what they have.
    let may_matter = inode.mtime != inode.ctime || inode.moved_data().is_some();
    let Some(placement) = inode.placement.filter(|_| may_matter) else {
        return Ok(Vec::new());
    };
    let stats = stat_group(fs, placement.group, &[inode]).await;
    let stats = stats.map_err(|error| {
        tracing::warn!(error, "times of a file's objects");
        NfsStatus::LayoutTryLater
    })?;
    let stats = stats.iter().flatten();
    if !stats.clone().all(tells_size) {
        return Err(NfsStatus::LayoutTryLater);
    }
    Ok(stats.map(modified).collect())
}

/// The end of a file by what all of its data servers have of it now.
pub(crate) async fn measure(fs: &Arc<Fs>, inode: &Arc<Inode>) -> Result<u64, NfsStatus> {
    let Some(placement) = inode.placement else {
        return Ok(0);
    };
    let all = stat_group(fs, placement.group, &[inode]).await;
    let all = all.map_err(|error| {
        tracing::warn!(error, "size of a file");
        NfsStatus::Delay
    })?;
    let mut sizes = Vec::new();
    for (place, stats) in all.into_iter().enumerate() {
        if let Some(unread) = stats.iter().find(|s| !tells_size(s)) {
            let (file, status) = (inode.id.0, unread.status);
            tracing::error!(place, file, ?status, "an object cannot be read");
            return Err(NfsStatus::Delay);
        }
        sizes.extend(stats.iter().map(|s| s.size_bytes.max(s.durable_bytes)));
    }
    Ok(striping_of(inode, sizes.len()).map_or(0, |s| s.file_size(&sizes)))
}

/// Bytes that the objects of files of one group take up; nothing of a file whose objects cannot be read.
pub(crate) async fn space_of(
    fs: &Arc<Fs>,
    group: u32,
    files: &[Arc<Inode>],
) -> Result<Vec<Option<u64>>, String> {
    let mut used = vec![Some(0_u64); files.len()];
    let files: Vec<&Inode> = files.iter().map(|inode| &**inode).collect();
    for items in stat_group(fs, group, &files).await? {
        for (used, item) in used.iter_mut().zip(items) {
            let more = used.and_then(|used| used.checked_add(item.space_bytes));
            *used = more.filter(|_| tells_size(&item));
        }
    }
    Ok(used)
}

/// What the mark of a file says of its times.
enum MarkedTimes {
    /// This server alone has written the file, and has noted the time of each write.
    Known,
    /// Clients may have written since its data servers had these times.
    Since(Vec<Time>),
}

fn mark_times(ns: &Namespace, op: &mut Op<'_>, file: FileId) -> Result<MarkedTimes, NsError> {
    let before = FileId(file.0.saturating_sub(1));
    let page = ns.rw_out_files(op, before, 1)?;
    let mark = page.into_iter().find(|(marked, _)| *marked == file);
    Ok(match mark {
        Some((_, mark)) if !mark.has_layouts() => MarkedTimes::Known,
        mark => MarkedTimes::Since(mark.map(|(_, mark)| mark.stamps.0).unwrap_or_default()),
    })
}

/// Takes in what the data servers have of a file. The file may only grow: a hole at its end is known to the MDS alone.
/// The change attribute always rises: an overwrite leaves no other trace (R12). A modification time that was set stands
/// unless a data server has written since, which it says itself: clocks of two machines are not compared.
fn commit(
    ns: &Namespace,
    op: &mut Op<'_>,
    (inode, change_from): (&Inode, Option<u64>),
    stats: &[&StatItem],
    times: &MarkedTimes,
) -> Result<(), NsError> {
    let stamps = match times {
        MarkedTimes::Known => &[][..],
        MarkedTimes::Since(stamps) => stamps,
    };
    let mut sizes = Vec::with_capacity(stats.len());
    let mut written = None;
    let mut space = 0_u64;
    for (index, item) in stats.iter().enumerate() {
        if item.status == Status::Ok {
            if stamps.get(index).is_none_or(|s| modified(item) > *s) {
                written = written.max(Some(modified(item)));
            }
            space = space.saturating_add(item.space_bytes);
        }
        sizes.push(item.size_bytes.max(item.durable_bytes));
    }
    let mtime = match written.filter(|_| matches!(times, MarkedTimes::Since(_))) {
        // Reported already, or never set.
        Some(time) if stamps.is_empty() || inode.mtime == inode.ctime => inode.mtime.max(time),
        Some(time) => time,
        None => inode.mtime,
    };
    let size = striping_of(inode, stats.len()).map_or(0, |s| s.file_size(&sizes));
    let commit = SizeCommit {
        new_end: Some(size),
        mtime: Some(mtime),
        space_used: Some(space),
        taken_bytes: None,
        change_from,
    };
    match ns.commit_size(op, inode.id, commit) {
        Ok(_) | Err(NsError::Stale) => Ok(()),
        Err(e) => Err(e),
    }
}
