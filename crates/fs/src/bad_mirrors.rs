//! Mirrors of files that fail, and what brings them back (RFC 8435 §8).
//!
//! # Ownership
//! The inode says which mirrors do not count. One that does not is never read, written or given to a client.
//!
//! # Ordering
//! 1. No layout is granted, and all that are out come back: nobody reads the mirror any more.
//! 2. The mark is durable. Only then is a write answered that is not on that mirror.
//! 3. A restriping gives the file new objects at servers that are up, all mirrors of them good ([`crate::resync`]).
//!
//! # Failure
//! The last good mirror is never marked: what fails there fails for the caller. A client that does not return its layout is fenced
//! at the good mirrors, and whatever it does at the bad one has no effect.
//!
//! Linux since 7 reports all mirrors when one server dies. So a report alone never leaves a file to servers that do not answer:
//! of the reported mirrors one that answers is spared ([`worst_of`]). The client sends again what it has not written at all of them.
//!
//! May call: `foreign`, the name space, `layouts`.

use crate::actor::Actor;
use crate::foreign_files::{MirrorSeen, file_at, good_mirrors, look_at_mirror};
use crate::fs::Fs;
use crate::quiesce::{LayoutHold, unread};
use foreign::{FileAt, ForeignGroup};
use layout::Epoch;
use namespace::FileId;
use nfs4::NfsStatus;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Pause between two tries.
const POLL: Duration = Duration::from_millis(100);
/// Fences at servers that are down that one tick looks at.
const UNFENCED_MAX: usize = 256;
/// How often a report is acted on before it is given up: the client reports again.
const TRIES_MAX: u32 = 60;

/// Mirrors of a file have failed: they do not count any more when this returns.
///
/// # Errors
/// `Delay` while somebody has a layout, which goes on after this, or when no other mirror is good.
pub(crate) async fn lose(fs: &Arc<Fs>, file: FileId, mirrors: u32) -> Result<(), NfsStatus> {
    match mark(fs, file, mirrors).await {
        Err(NotMarked::Yet) => {
            // Whoever asked may never ask again, and what it wrote is at some of them.
            begin(fs, file, mirrors);
            Err(NfsStatus::Delay)
        }
        Err(NotMarked::Last) => Err(NfsStatus::Delay),
        Err(NotMarked::Failed(status)) => Err(status),
        Ok(()) => Ok(()),
    }
}

/// Why mirrors are not marked.
enum NotMarked {
    /// Somebody has a layout, or the file has other objects now.
    Yet,
    /// No other mirror is good.
    Last,
    Failed(NfsStatus),
}

impl From<NfsStatus> for NotMarked {
    fn from(status: NfsStatus) -> Self {
        match status {
            NfsStatus::Delay => Self::Yet,
            status => Self::Failed(status),
        }
    }
}

async fn mark(fs: &Arc<Fs>, file: FileId, mirrors: u32) -> Result<(), NotMarked> {
    if mirrors == 0 {
        return Ok(());
    }
    let _hold = LayoutHold::new(fs, file);
    let mut actor = Actor::root();
    let inode = actor.ns(fs, |ns, op| ns.getattr(op, file))?;
    let at = file_at(fs, &inode).ok_or(NotMarked::Last)?;
    if at.bad_mirrors & mirrors == mirrors {
        return Ok(());
    }
    let group = fs.foreign.group(at.group).ok_or(NfsStatus::ServerFault)?;
    if good_mirrors(&group, &at) & !mirrors == 0 {
        tracing::error!(file = file.0, "the last good mirror of a file fails");
        return Err(NotMarked::Last);
    }
    // Size recovery may need this to end, so it is not waited for.
    unread(fs, &inode).await?;
    let of = (mirrors, group.all_mirrors());
    let after = actor.ns(fs, |ns, op| ns.mark_bad_mirrors(op, &inode, of))?;
    fs.durable(actor.observed).await?;
    tracing::warn!(
        file = file.0,
        mirrors,
        "mirrors of a file do not count any more"
    );
    // Fences at a mirror that does not count need not be waited for.
    if fs.is_fencing(&after) {
        let epoch = Epoch::from_u64(fs.ns.fencing_epoch(&after));
        fs.note_fence(&after, None, epoch);
        fs.deliver_fences();
    }
    fs.cluster.changed().notify_waiters();
    Ok(())
}

/// The mirrors that have something on a server.
pub(crate) fn mirrors_at(group: &ForeignGroup, server: u32) -> u32 {
    let has =
        |mirror: &u32| (0..group.width).any(|stripe| group.server(*mirror, stripe) == Some(server));
    (0..group.mirrors)
        .filter(has)
        .fold(0, |all, m| all | 1 << m)
}

/// Mirrors that a fence waits for at servers that are down do not count any more, soon: whoever is to be kept off a file cannot be
/// kept off there. To be called about every second.
pub(crate) fn lose_unfenced(fs: &Arc<Fs>) {
    let mut lost: BTreeMap<FileId, (u32, u32)> = BTreeMap::new();
    for (server, number, generation) in fs.foreign.fences_at_lost_servers(UNFENCED_MAX) {
        let inode = Actor::root().ns(fs, |ns, op| ns.resolve_data(op, FileId(number), generation));
        let Ok(inode) = inode else { continue };
        let Some(at) = file_at(fs, &inode) else {
            continue;
        };
        if let Some(group) = fs.foreign.group(at.group) {
            let good = good_mirrors(&group, &at);
            let (mirrors, _) = lost.entry(inode.id).or_insert((0, good));
            *mirrors |= mirrors_at(&group, server) & good;
        }
    }
    for (file, (mirrors, good)) in lost {
        if mirrors != 0 && good & !mirrors != 0 {
            begin(fs, file, mirrors);
        }
    }
}

/// Marks mirrors in a task, unless one is at it.
pub(crate) fn begin(fs: &Arc<Fs>, file: FileId, mirrors: u32) {
    if !fs.mirror_reports.lock().add(file, mirrors) {
        return;
    }
    let fs = Arc::clone(fs);
    tokio::spawn(async move {
        let _hold = LayoutHold::new(&fs, file);
        for left in (0..TRIES_MAX).rev() {
            let reported = fs.mirror_reports.lock().of(file);
            let marked = match worst_of(&fs, file, reported, left == 0).await {
                Ok(mirrors) => mark(&fs, file, mirrors).await,
                Err(not) => Err(not),
            };
            match marked {
                Err(NotMarked::Yet) => tokio::time::sleep(POLL).await,
                Ok(()) if fs.mirror_reports.lock().of(file) != reported => {}
                _ => break,
            }
        }
        fs.mirror_reports.lock().done(file);
    });
}

/// Those of the reported mirrors that are to be marked: all of them, while another good one answers. Else one that answers is
/// spared. One that was not reported and does not answer may have the newest bytes, and is waited for until `is_last`.
async fn worst_of(
    fs: &Arc<Fs>,
    file: FileId,
    reported: u32,
    is_last: bool,
) -> Result<u32, NotMarked> {
    let inode = Actor::root().ns(fs, |ns, op| ns.getattr(op, file))?;
    let at = file_at(fs, &inode).ok_or(NotMarked::Last)?;
    let group = fs.foreign.group(at.group).ok_or(NfsStatus::ServerFault)?;
    let good = good_mirrors(&group, &at);
    let (reported, others) = (good & reported, good & !reported);
    if reported == 0 || first_answering(fs, &at, others).await.is_some() {
        return Ok(reported);
    }
    match first_answering(fs, &at, reported).await {
        Some(spared) if others == 0 => Ok(reported & !spared),
        Some(_) if !is_last => Err(NotMarked::Yet),
        _ => Ok(reported),
    }
}

/// The first of some mirrors at which all of a file is, by what its servers say now: one bit.
async fn first_answering(fs: &Arc<Fs>, at: &FileAt, mirrors: u32) -> Option<u32> {
    for mirror in (0..u32::BITS).map(|mirror| 1 << mirror) {
        if mirrors & mirror == 0 {
            continue;
        }
        if look_at_mirror(fs, at, mirror.trailing_zeros()).await == MirrorSeen::Whole {
            return Some(mirror);
        }
    }
    None
}
