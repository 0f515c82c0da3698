//! The recovery of sizes: what a client may have written under a layout without telling the MDS (rule R1).
//!
//! # Ownership
//! A file in the table belongs to the recovery: its attributes, layouts and I/O wait with `NFS4ERR_DELAY`.
//!
//! # Ordering
//! At start all marked files are entered before anything is served. A file's size is taken only when every data server of
//! its group serves (so has the cluster floor) and no fence on it is pending: nothing can grow it any more behind our
//! back but writers that are still known. The size is durable before the mark goes, the mark before the file is served.
//!
//! # Failure
//! A data server that is away delays its files only; one that was expelled counts as empty. An object that is lost has the
//! size that the data server's index has durably; one that cannot be read just now delays its file: it may be as long as
//! any. What fails is done again at the next tick.

use super::call::{DsError, call};
use super::truncate;
use crate::Mds;
use crate::cx::{self, Cx};
use crate::glance::{Facts, SOME};
use control::{BATCH_MAX, ObjectRef, StatArgs, StatItem, Status};
use futures_util::future::try_join_all;
use layout::Striping;
use namespace::{Cred, FileId, Inode, Namespace, NsError, Op, PAGE_MAX, SizeCommit, Time};
use nfs4::{NfsStatus, NfsTime};
use server::Nfsd;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use transport::ConnHandle;

/// How long an operation waits for the recovery of a file that it needs. A few round trips and syncs are enough where all servers serve.
const WAIT: Duration = Duration::from_millis(500);
/// How often a recovery is tried again that somebody waits for.
const POLL: Duration = Duration::from_millis(100);
/// Most files whose size is unknown of which a recovery begins for those that wait.
const SOON_MAX: usize = BATCH_MAX as usize;

/// The object of an expelled data server.
const LOST: StatItem = StatItem {
    status: Status::NotFound,
    size_bytes: 0,
    durable_bytes: 0,
    space_bytes: 0,
    modified: NfsTime {
        seconds: 0,
        nanoseconds: 0,
    },
};

/// Whose writes a file's size may lack.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Writers {
    /// Those of every client that an earlier boot knew.
    all: bool,
    clients: BTreeSet<u64>,
}

/// Files whose size is not known.
#[derive(Debug, Default)]
pub(crate) struct Unknown {
    files: BTreeMap<FileId, Writers>,
}

impl Facts for Unknown {
    fn facts(&self) -> u8 {
        if self.files.is_empty() { 0 } else { SOME }
    }
}

impl Unknown {
    pub(crate) fn add_client(&mut self, file: FileId, client: u64) {
        self.files.entry(file).or_default().clients.insert(client);
    }

    pub(crate) fn len(&self) -> usize {
        self.files.len()
    }

    /// Takes off what was recovered; who was added meanwhile stays.
    fn done(&mut self, file: FileId, writers: &Writers) {
        let Some(entry) = self.files.get_mut(&file) else {
            return;
        };
        entry.all &= !writers.all;
        entry.clients.retain(|c| !writers.clients.contains(c));
        if !entry.all && entry.clients.is_empty() {
            self.files.remove(&file);
        }
    }
}

/// Marked files and truncations under way, as the previous run left them.
pub(super) fn load(ns: &Namespace) -> Result<(Unknown, BTreeMap<FileId, NfsStatus>), NsError> {
    let cred = Cred::root();
    let mut op = Op::new(&cred, Time::default());
    let mut unknown = Unknown::default();
    let mut after = FileId(0);
    loop {
        let page = ns.rw_out_files(&mut op, after, PAGE_MAX)?;
        for (file, _) in &page {
            unknown.files.entry(*file).or_default().all = true;
        }
        match page.last() {
            Some((file, _)) if page.len() == PAGE_MAX => after = *file,
            _ => break,
        }
    }
    let truncating = truncate::intents(ns, &mut op)?
        .iter()
        .map(|i| (i.file, NfsStatus::Delay))
        .collect();
    Ok((unknown, truncating))
}

/// Whether size and times of a file are known; `Delay` while they are being recovered.
pub(crate) fn ready(nfsd: &Nfsd<Mds>, file: FileId) -> Result<(), NfsStatus> {
    let unknown = &nfsd.role().data().unknown;
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
pub(crate) async fn until_ready(nfsd: &Nfsd<Mds>, file: FileId) -> Result<bool, NfsStatus> {
    if ready(nfsd, file).is_ok() {
        return Ok(false);
    }
    let data = nfsd.role().data();
    let deadline = Instant::now() + WAIT;
    loop {
        let changed = data.changed.notified();
        tokio::pin!(changed);
        changed.as_mut().enable();
        if ready(nfsd, file).is_ok() {
            return Ok(true);
        }
        if Instant::now() >= deadline {
            return Err(NfsStatus::Delay);
        }
        // What a restart leaves is taken up by ticks: one pass looks at all files.
        if let Some(me) = data
            .service()
            .filter(|_| data.unknown.lock().len() <= SOON_MAX)
        {
            data.recover_sizes(&me);
        }
        let _either = tokio::time::timeout(POLL, changed).await;
    }
}

/// The current file, once its size and times are known: as [`until_ready`].
pub(crate) async fn current(nfsd: &Nfsd<Mds>, cx: &mut Cx<'_>) -> Result<Arc<Inode>, NfsStatus> {
    let inode = cx::current(nfsd.role(), cx)?;
    if until_ready(nfsd, inode.id).await? {
        return cx::current(nfsd.role(), cx);
    }
    Ok(inode)
}

/// As [`current`], for OPEN by handle: reclaims are let through, since grace would end without them.
pub(crate) async fn current_to_open(
    nfsd: &Nfsd<Mds>,
    cx: &mut Cx<'_>,
) -> Result<Arc<Inode>, NfsStatus> {
    if nfsd.clients().in_grace() {
        return cx::current(nfsd.role(), cx);
    }
    current(nfsd, cx).await
}

/// A file to recover.
struct Item {
    inode: Arc<Inode>,
    writers: Writers,
}

/// One pass over all files whose size is unknown.
pub(super) async fn recover(nfsd: &Nfsd<Mds>) {
    let data = nfsd.role().data();
    let files: Vec<(FileId, Writers)> = data
        .unknown
        .lock()
        .files
        .iter()
        .map(|(f, w)| (*f, w.clone()))
        .collect();
    let mut by_group: BTreeMap<u32, Vec<Item>> = BTreeMap::new();
    for (file, writers) in files {
        if let Some((group, item)) = prepare(nfsd, file, writers) {
            by_group.entry(group).or_default().push(item);
        }
    }
    for (group, items) in by_group {
        let ids = data.group_servers(group);
        for batch in items.chunks(BATCH_MAX as usize) {
            let Some(conns) = data.servers.lock().conns_but_expelled(&ids) else {
                break;
            };
            if let Err(error) = recover_batch(nfsd, &ids, &conns, batch).await {
                tracing::warn!(group, error, "recovery of sizes");
                break;
            }
        }
    }
}

/// What must be asked about a file, if it can be asked now.
fn prepare(nfsd: &Nfsd<Mds>, file: FileId, writers: Writers) -> Option<(u32, Item)> {
    let mds = nfsd.role();
    let data = mds.data();
    if data.cutting(file).is_err() {
        // The cut comes first: what lies beyond it does not count.
        return None;
    }
    let cred = Cred::root();
    let mut op = Op::new(&cred, mds.now());
    let found = mds.namespace().getattr(&mut op, file);
    let placed = match &found {
        Ok(inode) => inode.placement.map(|p| (p.group, Arc::clone(inode))),
        Err(NsError::Stale) => None,
        Err(error) => {
            tracing::error!(%error, "recovery of sizes");
            return None;
        }
    };
    let Some((group, inode)) = placed else {
        data.unknown.lock().done(file, &writers);
        return None;
    };
    (!data.is_fencing(group, file)).then_some((group, Item { inode, writers }))
}

async fn recover_batch(
    nfsd: &Nfsd<Mds>,
    ids: &[u32],
    conns: &[Option<ConnHandle>],
    batch: &[Item],
) -> Result<(), String> {
    let mds = nfsd.role();
    let data = mds.data();
    let objects: Vec<ObjectRef> = batch.iter().map(|item| object_of(&item.inode)).collect();
    let stats = stat_all(ids, conns, &objects).await?;
    let cred = Cred::root();
    let mut op = Op::new(&cred, mds.now());
    let mut known = Vec::with_capacity(batch.len());
    for (index, item) in batch.iter().enumerate() {
        let of_file: Vec<&StatItem> = stats.iter().filter_map(|s| s.get(index)).collect();
        if let Some(unread) = of_file.iter().find(|s| !tells_size(s)) {
            let (file, status) = (item.inode.id.0, unread.status);
            tracing::error!(file, ?status, "an object cannot be read: its file waits");
            continue;
        }
        let stamps = mark_stamps(mds.namespace(), &mut op, item.inode.id);
        let stamps = stamps.map_err(|e| e.to_string())?;
        commit(mds.namespace(), &mut op, &item.inode, &of_file, &stamps)
            .map_err(|e| e.to_string())?;
        known.push(item);
    }
    if known.is_empty() {
        return Ok(());
    }
    mds.durable(op.observed())
        .await
        .map_err(|e| e.to_string())?;
    let mut op = Op::new(&cred, mds.now());
    for item in &known {
        let file = item.inode.id;
        let _order = data.grant_lock(file).lock();
        let clear = |op: &mut Op<'_>, client| mds.namespace().clear_rw_out(op, file, client);
        if item.writers.all {
            clear(&mut op, None).map_err(|e| e.to_string())?;
        }
        for client in &item.writers.clients {
            clear(&mut op, Some(*client)).map_err(|e| e.to_string())?;
        }
        data.unknown.lock().done(file, &item.writers);
    }
    data.changed.notify_waiters();
    tracing::info!(files = known.len(), "sizes recovered");
    Ok(())
}

/// When the data servers of a file have last written its objects, each by its own clock, if that may matter: an explicitly set
/// modification time stands while none of these has risen. To be asked for before a layout for writing is granted.
///
/// # Errors
/// `LayoutTryLater` when a data server does not say.
pub(crate) async fn stamps(nfsd: &Nfsd<Mds>, inode: &Arc<Inode>) -> Result<Vec<Time>, NfsStatus> {
    // A write moves both times together.
    let Some(placement) = inode.placement.filter(|_| inode.mtime != inode.ctime) else {
        return Ok(Vec::new());
    };
    let data = nfsd.role().data();
    let ids = data.group_servers(placement.group);
    let conns = data.servers.lock().conns_but_expelled(&ids);
    let conns = conns.ok_or(NfsStatus::LayoutTryLater)?;
    let stats = stat_all(&ids, &conns, &[object_of(inode)]).await;
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

/// When an object was last written.
fn modified(item: &StatItem) -> Time {
    Time {
        secs: item.modified.seconds,
        nanos: item.modified.nanoseconds,
    }
}

/// The end of a file by what all of its data servers have of it now.
pub(super) async fn measure(nfsd: &Nfsd<Mds>, inode: &Arc<Inode>) -> Result<u64, NfsStatus> {
    let Some(placement) = inode.placement else {
        return Ok(0);
    };
    let data = nfsd.role().data();
    let ids = data.group_servers(placement.group);
    let conns = data.servers.lock().conns_but_expelled(&ids);
    let conns = conns.ok_or(NfsStatus::Delay)?;
    let all = stat_all(&ids, &conns, &[object_of(inode)]).await;
    let all = all.map_err(|error| {
        tracing::warn!(error, "size of a file");
        NfsStatus::Delay
    })?;
    let mut sizes = Vec::new();
    for (ds, stats) in ids.iter().zip(all) {
        if let Some(unread) = stats.iter().find(|s| !tells_size(s)) {
            let (file, status) = (inode.id.0, unread.status);
            tracing::error!(ds, file, ?status, "an object cannot be read");
            return Err(NfsStatus::Delay);
        }
        sizes.extend(stats.iter().map(|s| s.size_bytes.max(s.durable_bytes)));
    }
    Ok(striping_of(inode, sizes.len()).map_or(0, |s| s.file_size(&sizes)))
}

/// Bytes that the objects of files of one group take up; nothing of a file whose objects cannot be read.
pub(super) async fn space_of(
    nfsd: &Nfsd<Mds>,
    group: u32,
    files: &[Arc<Inode>],
) -> Result<Vec<Option<u64>>, String> {
    let data = nfsd.role().data();
    let ids = data.group_servers(group);
    let conns = data.servers.lock().conns_but_expelled(&ids);
    let mut used = vec![Some(0_u64); files.len()];
    let conns = conns.ok_or("a data server is away")?;
    let objects: Vec<ObjectRef> = files.iter().map(|inode| object_of(inode)).collect();
    for items in stat_all(&ids, &conns, &objects).await? {
        for (used, item) in used.iter_mut().zip(items) {
            let more = used.and_then(|used| used.checked_add(item.space_bytes));
            *used = more.filter(|_| tells_size(&item));
        }
    }
    Ok(used)
}

/// What data servers have of objects, asked at the same time. One that was expelled, and so has no connection, has nothing
/// any more.
async fn stat_all(
    ids: &[u32],
    conns: &[Option<ConnHandle>],
    objects: &[ObjectRef],
) -> Result<Vec<Vec<StatItem>>, String> {
    let asks = ids.iter().zip(conns).map(|(ds, conn)| async move {
        let stats = stat(conn.as_ref(), objects.to_vec()).await;
        stats.map_err(|error| format!("data server {ds}: {error}"))
    });
    try_join_all(asks).await
}

async fn stat(
    conn: Option<&ConnHandle>,
    objects: Vec<ObjectRef>,
) -> Result<Vec<StatItem>, DsError> {
    let count = objects.len();
    let Some(conn) = conn else {
        return Ok(vec![LOST; count]);
    };
    let objects = objects.into();
    let answer = call(conn, &StatArgs { objects }).await?;
    if answer.items.0.len() == count {
        Ok(answer.items.0)
    } else {
        Err(DsError::Malformed)
    }
}

/// Whether a data server knows how long an object is.
fn tells_size(item: &StatItem) -> bool {
    matches!(item.status, Status::Ok | Status::NotFound | Status::Removed)
}

/// The object of a file, the same at every data server.
pub(super) fn object_of(inode: &Inode) -> ObjectRef {
    ObjectRef {
        file_id: inode.id.0,
        generation: inode.generation,
        mirror: 0,
    }
}

/// How a file lies on a group of `width` data servers.
pub(super) fn striping_of(inode: &Inode, width: usize) -> Option<Striping> {
    let placement = inode.placement?;
    let width = u32::try_from(width).ok()?;
    Striping::new(placement.stripe_unit, width, placement.first_index).ok()
}

/// What the mark of a file says of its objects.
fn mark_stamps(ns: &Namespace, op: &mut Op<'_>, file: FileId) -> Result<Vec<Time>, NsError> {
    let before = FileId(file.0.saturating_sub(1));
    let page = ns.rw_out_files(op, before, 1)?;
    let mark = page.into_iter().find(|(marked, _)| *marked == file);
    Ok(mark.map(|(_, mark)| mark.stamps.0).unwrap_or_default())
}

/// Takes in what the data servers have of a file. The file may only grow: a hole at its end is known to the MDS alone.
/// The change attribute always rises: an overwrite leaves no other trace (R12). A modification time that was set stands
/// unless a data server has written since, which it says itself: clocks of two machines are not compared.
fn commit(
    ns: &Namespace,
    op: &mut Op<'_>,
    inode: &Inode,
    stats: &[&StatItem],
    stamps: &[Time],
) -> Result<(), NsError> {
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
    let mtime = match written {
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
    };
    match ns.commit_size(op, inode.id, commit) {
        Ok(_) | Err(NsError::Stale) => Ok(()),
        Err(e) => Err(e),
    }
}
