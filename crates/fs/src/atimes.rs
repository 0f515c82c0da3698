//! Access times that reads have moved and that are not stored yet.
//!
//! Owns the table of such files. A read notes its time here and is answered; GETATTR shows it at once; a tick stores all of
//! them in one go. To store each at once would let the GETATTR that follows a READ wait for a sync (rule R7). A crash loses
//! the last second of them, as it does on a local file system.
//!
//! May call the name space. May not be called by it.

use crate::hint::{Facts, Hinted, SOME};
use namespace::{AtimeMove, Cred, FileId, Inode, Namespace, Op, Time};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

/// Most files in the table. A read of a further file is noted by the first read after the next tick.
const FILES_MAX: usize = 65_536;
/// Most files of one transaction.
const BATCH_MAX: usize = 1024;

#[derive(Debug, Default)]
struct Reads(BTreeMap<FileId, AtimeMove>);

impl Facts for Reads {
    fn facts(&self) -> u8 {
        if self.0.is_empty() { 0 } else { SOME }
    }
}

/// Access times to be stored by the next tick.
#[derive(Debug)]
pub struct Atimes {
    reads: Hinted<Reads>,
    /// Seconds of the last tick: whether an access time is a day old is told without reading the clock.
    tick_s: AtomicI64,
}

impl Atimes {
    pub(crate) fn new(now: Time) -> Self {
        Self {
            reads: Hinted::default(),
            tick_s: AtomicI64::new(now.secs),
        }
    }

    /// The access time of an inode, with what was read since it was stored.
    pub fn of(&self, inode: &Inode) -> Time {
        if !self.reads.has(SOME) {
            return inode.atime;
        }
        self.reads.lock().of(inode)
    }

    /// The access time was set: what was read before counts no more.
    pub fn was_set(&self, file: FileId) {
        if self.reads.has(SOME) {
            self.reads.lock().0.remove(&file);
        }
    }

    pub(crate) fn note(&self, inode: &Inode, now: impl FnOnce() -> Time) {
        let tick_s = self.tick_s.load(Relaxed);
        if !inode.is_atime_due(inode.atime, tick_s) {
            return;
        }
        let mut reads = self.reads.lock();
        if !inode.is_atime_due(reads.of(inode), tick_s) {
            return;
        }
        let read = AtimeMove {
            file: inode.id,
            before: inode.atime,
            after: now(),
        };
        let is_new = !reads.0.contains_key(&inode.id);
        if read.after > inode.atime && !(is_new && reads.0.len() >= FILES_MAX) {
            reads.0.insert(inode.id, read);
        }
    }

    /// Stores what was noted. What cannot be stored stays for the next tick.
    pub(crate) fn store(&self, ns: &Namespace, now: Time) {
        self.tick_s.store(now.secs, Relaxed);
        if !self.reads.has(SOME) {
            return;
        }
        let noted: Vec<_> = self.reads.lock().0.values().copied().collect();
        let cred = Cred::root();
        for batch in noted.chunks(BATCH_MAX) {
            let stored = ns.set_atimes(&mut Op::new(&cred, now), batch);
            if let Err(error) = stored {
                tracing::debug!(%error, "access times of files");
                return;
            }
            let mut reads = self.reads.lock();
            for read in batch {
                if reads.0.get(&read.file) == Some(read) {
                    reads.0.remove(&read.file);
                }
            }
        }
    }
}

impl Reads {
    fn of(&self, inode: &Inode) -> Time {
        match self.0.get(&inode.id) {
            Some(read) if read.before == inode.atime => read.after,
            _ => inode.atime,
        }
    }
}
