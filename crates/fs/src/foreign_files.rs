//! Files whose data lie on NFSv3 servers of others: what `foreign` is told of them, and which of the two kinds is asked.
//!
//! May call: `foreign`, `stripes`, `cluster`, the name space.

use crate::actor::Actor;
use crate::fs::Fs;
use control::{StatItem, Status};
use foreign::{FileAt, ForeignGroup, is_foreign};
use futures_util::future::join_all;
use layout::{ClientTag, Epoch};
use namespace::{Cred, DataName, FileId, Inode, Op};
use nfs4::NfsStatus;
use state::IoModes;
use std::sync::Arc;
use std::time::Duration;

/// What is asked of foreign servers at one time, in files.
const STATS_AT_ONCE: usize = 16;
/// How long a mirror may take to tell of a file before it counts as out of reach, here.
const ANSWER_MAX: Duration = Duration::from_secs(1);

/// A file as foreign servers know it; `None` for one at data servers of the cluster, or without a place.
pub(crate) fn file_at(fs: &Fs, inode: &Inode) -> Option<FileAt> {
    let placement = inode.placement.filter(|p| is_foreign(p.group))?;
    let data = inode.data();
    Some(FileAt {
        number: data.file.0,
        generation: data.generation,
        group: placement.group,
        stripe_unit: placement.stripe_unit,
        epoch: fs.ns.fencing_epoch(inode),
        bad_mirrors: inode.bad_mirrors(),
        has_objects: inode.has_objects(),
    })
}

/// Notes that all objects of a foreign file that count were made, unless that is known. It is durable with what `actor` observes.
///
/// # Errors
/// `Delay` when the file has other objects by now.
pub(crate) fn note_objects(
    fs: &Fs,
    actor: &mut Actor,
    file: FileId,
    at: &FileAt,
) -> Result<(), NfsStatus> {
    if at.has_objects {
        return Ok(());
    }
    let data = DataName {
        file: FileId(at.number),
        generation: at.generation,
    };
    let what = (data, at.group);
    actor.ns(fs, |ns, op| ns.note_objects(op, file, what, at.bad_mirrors))
}

/// Whether a foreign file has lost bytes, or objects that it needs for the next ones, at all mirrors. One whose servers do not say
/// so now has not.
pub async fn is_lost(fs: &Fs, inode: &Inode) -> bool {
    if is_stranded(fs, inode) {
        return true;
    }
    let Some(at) = file_at(fs, inode).filter(|at| at.has_objects) else {
        return false;
    };
    let told = tokio::time::timeout(ANSWER_MAX, fs.foreign.stat(&at)).await;
    let is_gone = |item: &StatItem| item.status != Status::Ok;
    told.is_ok_and(|told| told.is_ok_and(|items| items.iter().any(is_gone)))
}

/// Whether the servers of a foreign file were removed, so that no mirror can be whole again.
pub(crate) fn is_stranded(fs: &Fs, inode: &Inode) -> bool {
    file_at(fs, inode).is_some_and(|at| fs.foreign.is_stranded(&at))
}

/// The bits of the good mirrors of a file.
pub(crate) fn good_mirrors(group: &ForeignGroup, at: &FileAt) -> u32 {
    group.all_mirrors() & !at.bad_mirrors
}

/// A writer is lost, or this server has restarted: its mirrors may differ. One of them counts from now on, at which nobody writes by
/// a layout any more. Returns the file then, once its size may be taken from the servers.
///
/// A restart notes no fences, and layouts of before it still write. So the ids are seen to here.
pub(crate) async fn choose_one(fs: &Arc<Fs>, inode: &Arc<Inode>) -> Option<Arc<Inode>> {
    let fenced = |inode: &Arc<Inode>| (!fs.is_fencing(inode)).then(|| Arc::clone(inode));
    let Some(at) = file_at(fs, inode) else {
        return fenced(inode);
    };
    fence_now(fs, inode);
    let group = fs.foreign.group(at.group)?;
    let good = good_mirrors(&group, &at);
    if good.count_ones() <= 1 {
        return fenced(inode);
    }
    if fs.state().layouts.is_held(inode.id.0, IoModes::ANY, None) {
        // They were recalled as the writer was lost.
        return None;
    }
    let chosen = fit_mirror(fs, &group, inode.id, &at).await?;
    let cred = Cred::root();
    let mut op = Op::new(&cred, fs.now());
    let others = good & !(1 << chosen);
    let marked = (fs.ns).mark_bad_mirrors(&mut op, inode, (others, group.all_mirrors()));
    match marked {
        Ok(after) => {
            // The others need not be waited for.
            fence_now(fs, &after);
            fenced(&after)
        }
        Err(error) => {
            tracing::error!(%error, file = inode.id.0, "mirrors of a file");
            None
        }
    }
}

/// What a mirror says of a file now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MirrorSeen {
    /// It has all of its objects.
    Whole,
    /// It lacks some, or cannot tell of them. Of a file that may lack objects that need not be a loss.
    Lacking,
    /// It does not answer.
    Unknown,
}

/// Asks the servers of one mirror for its objects.
pub(crate) async fn look_at_mirror(fs: &Fs, at: &FileAt, mirror: u32) -> MirrorSeen {
    let only = FileAt {
        bad_mirrors: !(1 << mirror),
        ..*at
    };
    let told = tokio::time::timeout(ANSWER_MAX, fs.foreign.stat(&only)).await;
    let has = |item: &StatItem| item.status == Status::Ok;
    match told {
        Ok(Ok(items)) if items.iter().all(has) => MirrorSeen::Whole,
        Ok(Ok(_)) => MirrorSeen::Lacking,
        Ok(Err(error)) if error.status == NfsStatus::Io => MirrorSeen::Lacking,
        Ok(Err(_)) | Err(_) => MirrorSeen::Unknown,
    }
}

/// A good mirror that may count alone: its servers are up, nobody writes it by an older layout, and it has not lost the file. One that
/// is about to be marked lacks a write, so it comes last. Where those that are fit have lost the file, the others are waited for.
pub(crate) async fn fit_mirror(
    fs: &Fs,
    group: &ForeignGroup,
    file: FileId,
    at: &FileAt,
) -> Option<u32> {
    // One that is being fenced may be at a server that is dead.
    let is_fit = |mirror: &u32| {
        let stripes = 0..group.width;
        let mut servers = stripes.filter_map(|stripe| group.server(*mirror, stripe));
        servers.all(|server| {
            let is_fenced = !(fs.foreign).is_fencing_at(server, at.number, at.generation);
            is_fenced && fs.foreign.is_up(server)
        })
    };
    let of = |bits: u32| (0..group.mirrors).filter(move |mirror| bits & (1 << mirror) != 0);
    let (good, failing) = (good_mirrors(group, at), fs.mirror_reports.lock().of(file));
    let mirrors = of(good & !failing).chain(of(good & failing));
    let fit: Vec<u32> = mirrors.filter(is_fit).collect();
    if !at.has_objects {
        return fit.first().copied();
    }
    let mut may_be_elsewhere = fit.len() < good.count_ones() as usize;
    for mirror in &fit {
        match look_at_mirror(fs, at, *mirror).await {
            MirrorSeen::Whole => return Some(*mirror),
            MirrorSeen::Lacking => {}
            MirrorSeen::Unknown => may_be_elsewhere = true,
        }
    }
    fit.first().copied().filter(|_| !may_be_elsewhere)
}

/// Sees to it that the mirrors of a foreign file that count get the ids of its epoch, unless they have them.
fn fence_now(fs: &Arc<Fs>, inode: &Inode) {
    let epoch = Epoch::from_u64(fs.ns.fencing_epoch(inode));
    if fs.note_fence(inode, None, epoch) && fs.is_fencing(inode) {
        fs.deliver_fences();
    }
}

impl Fs {
    /// Whether something that data servers are still to be told keeps layouts of the file back: fences, or rows.
    pub(crate) fn is_settling(&self, inode: &Inode) -> bool {
        let Some(group) = inode.placement.map(|p| p.group) else {
            return false;
        };
        let rows_are_told = is_foreign(group) || self.cluster.are_rows_told(group);
        self.is_fencing(inode) || !rows_are_told
    }

    /// Whether a pending fence on the file may still matter at a data server.
    pub(crate) fn is_fencing(&self, inode: &Inode) -> bool {
        let Some(group) = inode.placement.map(|p| p.group) else {
            return false;
        };
        let number = inode.data().file.0;
        match is_foreign(group) {
            true => self.foreign.is_fencing(group, number),
            false => self.cluster.is_fencing(group, number),
        }
    }

    /// Notes that handles of a file below an epoch are refused from now on: those of a client, or all.
    /// Returns false for a file without a place. Foreign servers know no clients: there it is all.
    pub(crate) fn note_fence(
        &self,
        inode: &Inode,
        client: Option<ClientTag>,
        epoch: Epoch,
    ) -> bool {
        let Some(placement) = inode.placement else {
            return false;
        };
        let data = inode.data();
        if is_foreign(placement.group) {
            let bad = inode.bad_mirrors();
            self.foreign.note_fence(
                placement.group,
                data.file.0,
                data.generation,
                epoch.as_u64(),
                bad,
            );
        } else {
            self.cluster
                .note_fence(placement.group, data.file.0, client, epoch);
        }
        true
    }

    /// Tells data servers of all fences that wait.
    pub(crate) fn deliver_fences(&self) {
        self.cluster.deliver_fences();
        self.foreign.deliver_fences();
    }

    /// Waits until no fence on a file is pending. Returns whether it is so.
    pub(crate) async fn fences_settled(&self, inode: &Inode, wait_ms: u64) -> bool {
        let Some(group) = inode.placement.map(|p| p.group) else {
            return true;
        };
        let number = inode.data().file.0;
        match is_foreign(group) {
            true => self.foreign.fences_settled(group, number, wait_ms).await,
            false => self.cluster.fences_settled(group, number, wait_ms).await,
        }
    }
}

/// What the data servers of a group have of files, by place.
///
/// # Errors
/// A sentence, when a data server is away or does not answer.
pub(crate) async fn stat_group(
    fs: &Arc<Fs>,
    group: u32,
    files: &[&Inode],
) -> Result<Vec<Vec<StatItem>>, String> {
    if !is_foreign(group) {
        return stripes::stat_group(&fs.cluster, group, files).await;
    }
    let width = fs.foreign.group(group).map_or(0, |g| g.width as usize);
    let mut by_place = vec![Vec::with_capacity(files.len()); width];
    for some in files.chunks(STATS_AT_ONCE) {
        let asked = some.iter().map(|inode| async {
            let at = file_at(fs, inode).ok_or("a file without a place")?;
            let items = fs.foreign.stat(&at).await;
            items.map_err(|error| format!("foreign servers: {error}"))
        });
        for items in join_all(asked).await {
            let items = items?;
            if items.len() != width {
                return Err("a file with another width".to_owned());
            }
            for (place, item) in by_place.iter_mut().zip(items) {
                place.push(item);
            }
        }
    }
    Ok(by_place)
}
