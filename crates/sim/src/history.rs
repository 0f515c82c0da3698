//! What clients did and were promised, for the checkers that judge a run at its end.

use crate::check::data::{File, NEVER, What};
use crate::check::delegations::Use;
use crate::check::guarded::Access;
use crate::check::linear::{Moment, Timed};
use crate::check::locks::Hold;
use crate::check::names::{ModeOp, NameOp};
use crate::check::shares::ShareHold;
use crate::disk::Ailment;
use crate::trace::Trace;
use nfs4::NfsStatus;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How long after a disk is well again a client may still be told that it was not: an item whose refusal was lost holds up
/// its lane for 15 s, and is sent again then.
const AFTER_DISK: Duration = Duration::from_secs(20);
/// The same of I/O errors: an object whose sync failed answers so until another member is in sync, or a restart.
const AFTER_FAILURE: Duration = Duration::from_secs(120);

/// The histories of a run.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    /// Operations on names.
    pub names: Vec<Timed<NameOp>>,
    /// Modes set and seen, by file.
    pub modes: BTreeMap<u64, Vec<Timed<ModeOp>>>,
    /// Locks held.
    pub holds: Vec<Hold>,
    /// Opens with what they deny.
    pub shares: Vec<ShareHold>,
    /// Reads and writes under locks.
    pub accesses: Vec<Access>,
    /// Opens and delegations.
    pub uses: Vec<Use>,
    /// Data, by file.
    pub files: BTreeMap<u64, File>,
    tags: u32,
    /// Executions of WRITEs of NFSv3 by their tags: when each was over, or [`NEVER`].
    executions: BTreeMap<u32, Vec<Moment>>,
    /// When the metadata server lost its power, ascending.
    cuts: Vec<Moment>,
    /// What ailed disks, and until when.
    ailments: Vec<(Ailment, Instant)>,
}

/// The histories. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct History {
    lists: Arc<Mutex<Lists>>,
    trace: Trace,
}

impl History {
    /// Empty histories.
    #[must_use]
    pub(crate) fn new(trace: Trace) -> Self {
        Self {
            lists: Arc::default(),
            trace,
        }
    }

    /// This moment; no two are the same.
    #[must_use]
    pub(crate) fn now(&self) -> Moment {
        (self.trace.now_ms(), self.trace.tick())
    }

    /// An operation on names ended.
    pub(crate) fn name(&self, op: Timed<NameOp>) {
        let Timed { who, op: what, .. } = &op;
        self.trace.tell(who, format_args!("= {what:?}"));
        self.lists.lock().names.push(op);
    }

    /// A mode was set or seen.
    pub(crate) fn mode(&self, file: u64, op: Timed<ModeOp>) {
        self.lists.lock().modes.entry(file).or_default().push(op);
    }

    /// A lock is no longer held.
    pub(crate) fn hold(&self, hold: Hold) {
        self.trace.tell(&hold.who, format_args!("= held {hold:?}"));
        self.lists.lock().holds.push(hold);
    }

    /// An open with what it denies is over.
    pub(crate) fn share(&self, share: ShareHold) {
        self.trace.tell(&share.who, format_args!("= had {share:?}"));
        self.lists.lock().shares.push(share);
    }

    /// Data were read or written under a lock.
    pub(crate) fn accessed(&self, access: Access) {
        self.trace.tell(&access.who, format_args!("= {access:?}"));
        self.lists.lock().accesses.push(access);
    }

    /// A file is no longer open or delegated.
    pub(crate) fn used(&self, used: Use) {
        self.trace.tell(&used.who, format_args!("= used {used:?}"));
        self.lists.lock().uses.push(used);
    }

    /// The metadata server has lost its power.
    pub(crate) fn mds_is_cut(&self) {
        let now = self.now();
        let mut lists = self.lists.lock();
        lists.cuts.push(now);
        // What it was doing is over.
        let executions = lists.executions.values_mut().flatten();
        for end in executions.filter(|end| **end == NEVER) {
            *end = now;
        }
    }

    /// When the metadata server lost its power between two moments.
    #[must_use]
    pub(crate) fn cuts_within(&self, start: Moment, end: Moment) -> Vec<Moment> {
        let lists = self.lists.lock();
        let cuts = lists.cuts.iter().copied();
        cuts.filter(|cut| start < *cut && *cut < end).collect()
    }

    /// The metadata server begins to execute a WRITE of NFSv3 with this tag; returns its number among those.
    pub(crate) fn write_begins(&self, tag: u32) -> usize {
        let mut lists = self.lists.lock();
        let ends = lists.executions.entry(tag).or_default();
        ends.push(NEVER);
        ends.len() - 1
    }

    /// It has executed it.
    pub(crate) fn write_ends(&self, tag: u32, at: usize) {
        let now = self.now();
        let mut lists = self.lists.lock();
        let ends = lists.executions.get_mut(&tag);
        // A server without power executes nothing, and ended then.
        if let Some(end) = ends.and_then(|ends| ends.get_mut(at))
            && *end == NEVER
        {
            *end = now;
        }
    }

    /// When the metadata server first lost its power after `since`.
    #[must_use]
    pub(crate) fn next_cut(&self, since: Moment) -> Option<Moment> {
        let lists = self.lists.lock();
        lists.cuts.iter().copied().find(|cut| *cut > since)
    }

    /// When the metadata server last lost its power.
    #[must_use]
    pub(crate) fn last_cut(&self) -> Option<Moment> {
        self.lists.lock().cuts.last().copied()
    }

    /// The disk of a data server is in trouble for some time.
    pub(crate) fn disk_ails(&self, ailment: Ailment, how_long: Duration) {
        let until = Instant::now() + how_long;
        self.lists.lock().ailments.push((ailment, until));
    }

    /// All disks are well from now on: nothing is explained by them any more.
    pub(crate) fn disks_are_well(&self) {
        self.lists.lock().ailments.clear();
    }

    /// Whether the trouble of some disk explains that a client is told this of what it began `since`.
    pub(crate) fn disk_explains(&self, status: NfsStatus, since: Instant) -> bool {
        let lists = self.lists.lock();
        let ailments = lists.ailments.iter();
        let after = match status {
            NfsStatus::Io => AFTER_FAILURE,
            _ => AFTER_DISK,
        };
        let mut lately = ailments.filter(|(_, until)| since < *until + after);
        lately.any(|(ailment, _)| ailment.answer() == Some(status))
    }

    /// A tag for a write; no two are the same.
    pub(crate) fn next_tag(&self) -> u32 {
        let mut lists = self.lists.lock();
        lists.tags += 1;
        lists.tags
    }

    /// Works on the history of a file.
    pub(crate) fn file<T>(&self, id: u64, work: impl FnOnce(&mut File) -> T) -> T {
        work(self.lists.lock().files.entry(id).or_default())
    }

    /// Takes the lists out.
    #[must_use]
    pub(crate) fn take(&self) -> Lists {
        let mut lists = std::mem::take(&mut *self.lists.lock());
        let changes = lists.files.values_mut().flat_map(|file| &mut file.changes);
        for change in changes {
            if let What::Write(.., tag) = change.what
                && let Some(last) = lists
                    .executions
                    .get(&tag)
                    .and_then(|ends| ends.iter().max())
            {
                change.last_done = *last;
            }
        }
        for access in lists.accesses.iter_mut().filter(|a| a.is_write) {
            let ends = access.tag.and_then(|tag| lists.executions.get(&tag));
            if let Some(last) = ends.and_then(|ends| ends.iter().max()) {
                access.end = access.end.max(*last);
            }
        }
        lists
    }
}
