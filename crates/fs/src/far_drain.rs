//! Foreign servers that are drained: files move away from them, and one that has none may go.
//!
//! # Ordering
//! A pass looks at all inodes: first it counts, then it moves.
//!
//! # Failure
//! A file that cannot move stays where it is, and the next pass tries again. So does one whose turn never came.
//!
//! May call: `restripe`, `ahead`, `foreign`, the name space.

use crate::ahead;
use crate::fs::Fs;
use crate::restripe::{self, NotRenewed};
use foreign::{ChangeError, is_foreign};
use namespace::{Cred, FileId, NsError, Op, PAGE_MAX};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Inodes that are looked at before others have their turn.
const PAGE: usize = 256;
/// Files that move at one time: some restripings are left for others.
const MOVES_MAX: usize = 3;
/// Pause between two looks at whether another file may move.
const POLL: Duration = Duration::from_millis(100);
/// How often a file is tried in one pass.
const TRIES_MAX: u32 = 600;
/// Least pause between two passes, and how many times as long as a pass it is.
const PAUSE: (Duration, u32) = (Duration::from_secs(15), 4);
/// How long a server must have had no new files before it goes: files that were placed there have been made by then.
const SETTLED: Duration = Duration::from_secs(10);
/// Inodes that an order to remove a server looks at.
const LOOK_MAX: u64 = 16_000_000;

/// Why a foreign server is not removed.
#[derive(Debug)]
pub enum NotRemoved {
    /// It was not drained before.
    NotDrained,
    /// It was drained a moment ago, or a file is on its way to it: ask again soon.
    NotYet,
    /// So many files lie on it.
    Files(u64),
    /// There are too many files to look at them all.
    TooManyFiles,
    /// The metadata store failed.
    Store(NsError),
    /// It is unknown, or the metadata store failed.
    Change(ChangeError),
}

impl std::fmt::Display for NotRemoved {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotDrained => f.write_str("it is not drained"),
            Self::NotYet => f.write_str("files may be on their way to it"),
            Self::Files(count) => write!(f, "{count} files lie on it"),
            Self::TooManyFiles => write!(f, "there are more than {LOOK_MAX} files to look at"),
            Self::Store(error) => write!(f, "{error}"),
            Self::Change(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for NotRemoved {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Store(error) => Some(error),
            Self::Change(error) => Some(error),
            _ => None,
        }
    }
}

/// Files that are left on a server that is drained; `None` before they were counted.
pub fn files_left_on(fs: &Fs, server: u32) -> Option<u64> {
    fs.far_drain.lock().left.get(&server).copied()
}

/// Begins to move files away from servers that are drained, unless that goes on. To be called about every second.
pub(crate) fn start(fs: &Arc<Fs>) {
    let servers = fs.foreign.draining();
    {
        let mut drain = fs.far_drain.lock();
        drain.left.retain(|server, _| servers.contains(server));
        let is_due = |(at, of): &(Instant, Vec<u32>)| *of != servers || Instant::now() >= *at;
        if servers.is_empty() || !drain.next.as_ref().is_none_or(is_due) {
            return;
        }
    }
    fs.jobs.far_drain.start(|| {
        let fs = Arc::clone(fs);
        async move {
            let begun = Instant::now();
            if let Err(error) = pass(&fs, &servers).await {
                tracing::error!(%error, "files on drained servers");
            }
            let pause = PAUSE.0.max(begun.elapsed() * PAUSE.1);
            fs.far_drain.lock().next = Some((Instant::now() + pause, servers));
        }
    });
}

/// Counts the files on servers, and then moves each.
async fn pass(fs: &Arc<Fs>, servers: &[u32]) -> Result<(), NsError> {
    let names = |server: u32| fs.foreign.groups_of(server);
    ahead::take_back(fs, &servers.iter().copied().flat_map(names).collect())?;
    let mut left: BTreeMap<u32, u64> = servers.iter().map(|server| (*server, 0)).collect();
    let mut files = Files::default();
    while let Some(placed) = files.next(fs).await? {
        for (_, group) in placed {
            for server in servers_of(fs, group) {
                left.entry(server).and_modify(|count| *count += 1);
            }
        }
    }
    let is_done = left.values().all(|count| *count == 0);
    fs.far_drain.lock().left = left;
    let mut files = Files::default();
    while !is_done && let Some(placed) = files.next(fs).await? {
        for (file, group) in placed {
            let on = servers_of(fs, group);
            if !servers.iter().any(|server| on.contains(server)) {
                continue;
            }
            if fs.foreign.draining() != servers {
                return Ok(());
            }
            if move_away(fs, file).await {
                let mut drain = fs.far_drain.lock();
                for server in &on {
                    let count = drain.left.entry(*server);
                    count.and_modify(|count| *count = count.saturating_sub(1));
                }
            }
        }
    }
    Ok(())
}

/// Begins to give a file objects elsewhere. Returns whether it has begun.
async fn move_away(fs: &Arc<Fs>, file: FileId) -> bool {
    for _ in 0..TRIES_MAX {
        let cred = Cred::root();
        let inode = fs.ns.getattr(&mut Op::new(&cred, fs.now()), file);
        // One without a name goes with its last close, or is the copy of another file.
        let Ok(inode) = inode.map_err(drop) else {
            return true;
        };
        if inode.nlink == 0 || fs.restripes.is_nameless(file) {
            return false;
        }
        if fs.restripes.len() < MOVES_MAX {
            match restripe::renew(fs, &inode) {
                Ok(()) => return true,
                Err(NotRenewed::Servers(count)) => {
                    tracing::debug!(file = file.0, count, "too few servers to move a file");
                    return false;
                }
                Err(NotRenewed::NotNow(_)) => {}
            }
        }
        tokio::time::sleep(POLL).await;
    }
    false
}

/// The servers that a group names, each once; none for one of the cluster's own.
fn servers_of(fs: &Fs, group: u32) -> BTreeSet<u32> {
    let group = is_foreign(group).then(|| fs.foreign.group(group)).flatten();
    group
        .iter()
        .flat_map(|group| &group.servers)
        .copied()
        .collect()
}

/// A walk over all files that lie on data servers.
#[derive(Default)]
struct Files {
    after: Option<FileId>,
    seen: u64,
    is_over: bool,
}

impl Files {
    /// The next of them, with their groups; `None` at the end.
    async fn next(&mut self, fs: &Fs) -> Result<Option<Vec<(FileId, u32)>>, NsError> {
        if self.is_over {
            return Ok(None);
        }
        tokio::task::yield_now().await;
        let cred = Cred::root();
        let mut op = Op::new(&cred, fs.now());
        let after = self.after.unwrap_or(FileId(0));
        let page = fs.ns.placed_files(&mut op, (after, PAGE))?;
        self.seen += PAGE as u64;
        self.is_over = page.last.is_none();
        self.after = page.last;
        Ok(Some(page.placed))
    }
}

/// Ends the use of a foreign server that is drained and has no file, durably. Objects that were made ahead there are removed, and
/// groups that name it end. With `is_forced` none of that is looked at, and what files have there alone is lost.
///
/// # Errors
/// [`NotRemoved`].
pub async fn remove_far_server(fs: &Arc<Fs>, id: u32, is_forced: bool) -> Result<(), NotRemoved> {
    let groups: BTreeSet<u32> = fs.foreign.groups_of(id).into_iter().collect();
    if !is_forced && !groups.is_empty() {
        let drained_for = fs.foreign.drained_for(id).ok_or(NotRemoved::NotDrained)?;
        let is_target = |group: &u32| groups.contains(group);
        if drained_for < SETTLED || fs.restripes.targets().iter().any(is_target) {
            return Err(NotRemoved::NotYet);
        }
        let taken = ahead::take_back(fs, &groups);
        taken.map_err(NotRemoved::Store)?;
        check_unused(fs, id).await?;
    }
    let removed = fs.foreign.remove_server(id, true).await;
    removed.map_err(NotRemoved::Change)?;
    if !is_forced {
        end_groups(fs, groups).map_err(NotRemoved::Store)?;
    }
    Ok(())
}

async fn check_unused(fs: &Fs, id: u32) -> Result<(), NotRemoved> {
    let (mut count, mut files) = (0, Files::default());
    while let Some(placed) = files.next(fs).await.map_err(NotRemoved::Store)? {
        let on_it = |(_, group): &&(FileId, u32)| servers_of(fs, *group).contains(&id);
        count += placed.iter().filter(on_it).count() as u64;
        if files.seen > LOOK_MAX {
            return Err(NotRemoved::TooManyFiles);
        }
    }
    match count {
        0 => Ok(()),
        count => Err(NotRemoved::Files(count)),
    }
}

/// Ends groups without files, apart from those that the queue of removals still needs.
fn end_groups(fs: &Fs, mut groups: BTreeSet<u32>) -> Result<(), NsError> {
    let cred = Cred::root();
    let mut after = 0;
    loop {
        let mut op = Op::new(&cred, fs.now());
        let page = fs.ns.removal_batch(&mut op, after, PAGE_MAX)?;
        for removal in &page {
            groups.remove(&removal.placement.group);
        }
        match page.last() {
            Some(last) if page.len() == PAGE_MAX => after = last.seq,
            _ => break,
        }
    }
    let ended: Vec<u32> = groups.into_iter().collect();
    // They cost nothing but their place in the table.
    if let Err(error) = fs.foreign.end_groups(&ended) {
        tracing::error!(%error, "groups of a foreign server");
    }
    Ok(())
}
