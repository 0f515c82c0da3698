//! The files that are being restriped: what was written to them meanwhile, how far they are, and how the last ones ended.
//!
//! # Ownership
//! An entry is its job's, and so is the nameless file that the new objects belong to. What a job leaves of it, because it panicked or
//! the store failed, is kept here until it is closed. Whoever changes bytes of a file notes the range here, while it has the gate of the file shared.
//!
//! # Ordering
//! A range is noted when the data servers have answered, not before: what is copied after the note has the new bytes.

use crate::offloads::Progress;
use namespace::FileId;
use nfs4::NfsStatus;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::time::Duration;
use tokio::time::Instant;
use tracing_mutex::parkinglot::Mutex;

/// Files that are restriped at one time.
const FILES_MAX: usize = 4;
/// Ranges that are remembered of one file; beyond them all between the first and the last counts as written.
const RANGES_MAX: usize = 1024;
/// Ends of jobs that are remembered.
const ENDS_MAX: usize = 1024;
/// Nameless files that could not be closed yet; with more no job begins.
const LEFTOVERS_MAX: usize = 1024;

/// How a file is to lie at data servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Bytes of a stripe unit.
    pub stripe_unit: u32,
    /// Data servers.
    pub width: u32,
    /// Copies of each stripe.
    pub copies: u32,
}

/// What is known of the restriping of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestripeState {
    /// It goes on: so many bytes are copied.
    Running(u64),
    /// The last one failed.
    Failed(NfsStatus),
}

/// Bytes that were written, merged.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    pub(crate) fn add(&mut self, mut start: u64, mut end: u64) {
        if start >= end {
            return;
        }
        while let Some((at, to)) = self.0.range(..=end).next_back().map(|(a, t)| (*a, *t)) {
            if to < start {
                break;
            }
            self.0.remove(&at);
            (start, end) = (start.min(at), end.max(to));
        }
        self.0.insert(start, end);
        if self.0.len() > RANGES_MAX {
            let first = self.0.first_key_value().map_or(start, |(at, _)| *at);
            let last = self.0.last_key_value().map_or(end, |(_, to)| *to);
            self.0 = BTreeMap::from([(first, last)]);
        }
    }

    pub(crate) fn remove(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        while let Some((at, to)) = self.0.range(..end).next_back().map(|(a, t)| (*a, *t)) {
            if to <= start {
                break;
            }
            self.0.remove(&at);
            if to > end {
                self.0.insert(end, to);
            }
            if at < start {
                self.0.insert(at, start);
            }
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.0.iter().map(|(at, to)| to - at).sum()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.0.iter().map(|(at, to)| (*at, *to))
    }
}

struct Entry {
    shape: Shape,
    /// The placement group of the new objects.
    target: u32,
    begun: Instant,
    written: Ranges,
    /// It was changed in a way that no copied range makes up for.
    is_overtaken: bool,
    progress: Arc<Progress>,
    /// The file that has the new objects.
    nameless: Option<FileId>,
}

#[derive(Default)]
struct Tables {
    files: BTreeMap<FileId, Entry>,
    /// Nameless files that no job has any more.
    leftovers: BTreeSet<FileId>,
    failed: BTreeMap<FileId, NfsStatus>,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Restripes {
    tables: Mutex<Tables>,
    /// Files in the table: most requests find none and take no mutex.
    count: AtomicUsize,
}

impl Restripes {
    /// Enters a file. Returns false if it is on the way to this shape already.
    ///
    /// # Errors
    /// `Delay` when there are too many, or the file is on the way to another shape.
    pub(crate) fn enter(
        &self,
        file: FileId,
        (shape, target): (Shape, u32),
    ) -> Result<bool, NfsStatus> {
        let mut tables = self.tables.lock();
        if let Some(entry) = tables.files.get(&file) {
            return if entry.shape == shape {
                Ok(false)
            } else {
                Err(NfsStatus::Delay)
            };
        }
        if tables.files.len() >= FILES_MAX || tables.leftovers.len() >= LEFTOVERS_MAX {
            return Err(NfsStatus::Delay);
        }
        tables.failed.remove(&file);
        let entry = Entry {
            shape,
            target,
            begun: Instant::now(),
            written: Ranges::default(),
            is_overtaken: false,
            progress: Arc::default(),
            nameless: None,
        };
        tables.files.insert(file, entry);
        self.count.store(tables.files.len(), SeqCst);
        Ok(true)
    }

    /// Another attempt begins: what was written before it does not count.
    pub(crate) fn again(&self, file: FileId) -> Arc<Progress> {
        let tables = &mut *self.tables.lock();
        let progress = Arc::<Progress>::default();
        if let Some(entry) = tables.files.get_mut(&file) {
            tables.leftovers.extend(entry.nameless.take());
            entry.written = Ranges::default();
            entry.is_overtaken = false;
            entry.progress = Arc::clone(&progress);
        }
        progress
    }

    /// New objects of a file belong to this nameless one.
    pub(crate) fn made(&self, file: FileId, nameless: FileId) {
        if let Some(entry) = self.tables.lock().files.get_mut(&file) {
            entry.nameless = Some(nameless);
        }
    }

    /// The nameless file of an attempt has no objects any more.
    pub(crate) fn closed(&self, file: FileId) {
        if let Some(entry) = self.tables.lock().files.get_mut(&file) {
            entry.nameless = None;
        }
    }

    /// Whether a file has the new objects of another one.
    pub(crate) fn is_nameless(&self, file: FileId) -> bool {
        let is_it = |entry: &Entry| entry.nameless == Some(file);
        self.count.load(SeqCst) > 0 && self.tables.lock().files.values().any(is_it)
    }

    /// Placement groups that files are on their way to.
    pub(crate) fn targets(&self) -> Vec<u32> {
        let tables = self.tables.lock();
        tables.files.values().map(|entry| entry.target).collect()
    }

    /// Nameless files that no job has any more.
    pub(crate) fn leftovers(&self) -> Vec<FileId> {
        self.tables.lock().leftovers.iter().copied().collect()
    }

    /// One of them is gone.
    pub(crate) fn leftover_closed(&self, nameless: FileId) {
        self.tables.lock().leftovers.remove(&nameless);
    }

    /// The job has ended.
    pub(crate) fn leave(&self, file: FileId, failure: Option<NfsStatus>) {
        let mut tables = self.tables.lock();
        let left = tables.files.remove(&file);
        let nameless = left.and_then(|entry| entry.nameless);
        tables.leftovers.extend(nameless);
        self.count.store(tables.files.len(), SeqCst);
        if let Some(status) = failure {
            tables.failed.insert(file, status);
            if tables.failed.len() > ENDS_MAX {
                tables.failed.pop_first();
            }
        }
    }

    /// Whether the file is being restriped: it is written through this server alone.
    pub(crate) fn has(&self, file: FileId) -> bool {
        self.count.load(SeqCst) > 0 && self.tables.lock().files.contains_key(&file)
    }

    /// How long ago the restriping of a file has begun.
    pub(crate) fn age(&self, file: FileId) -> Option<Duration> {
        let tables = self.tables.lock();
        tables.files.get(&file).map(|entry| entry.begun.elapsed())
    }

    /// Files that are being restriped.
    pub(crate) fn len(&self) -> usize {
        self.count.load(SeqCst)
    }

    pub(crate) fn state(&self, file: FileId) -> Option<RestripeState> {
        let tables = self.tables.lock();
        let running = tables.files.get(&file).map(|entry| {
            let copied = entry.progress.copied_bytes.load(Relaxed);
            RestripeState::Running(copied)
        });
        running.or_else(|| {
            tables
                .failed
                .get(&file)
                .map(|status| RestripeState::Failed(*status))
        })
    }

    /// Bytes of a file are about to change; they are noted when the guard is dropped.
    pub(crate) fn writing(&self, file: FileId, start: u64, end: u64) -> Writing<'_> {
        Writing {
            all: self,
            file,
            start,
            end,
        }
    }

    /// A file changes in a way that copied ranges do not make up for: what was copied is of no use.
    pub(crate) fn overtake(&self, file: FileId) {
        if self.count.load(SeqCst) == 0 {
            return;
        }
        if let Some(entry) = self.tables.lock().files.get_mut(&file) {
            entry.is_overtaken = true;
            entry.progress.is_cancelled.store(true, Relaxed);
        }
    }

    pub(crate) fn is_overtaken(&self, file: FileId) -> bool {
        let tables = self.tables.lock();
        tables
            .files
            .get(&file)
            .is_none_or(|entry| entry.is_overtaken)
    }

    /// What was written since it was asked for last.
    pub(crate) fn take(&self, file: FileId) -> Ranges {
        let mut tables = self.tables.lock();
        let entry = tables.files.get_mut(&file);
        entry
            .map(|entry| std::mem::take(&mut entry.written))
            .unwrap_or_default()
    }

    /// Ranges that are to be copied again.
    pub(crate) fn give_back(&self, file: FileId, ranges: &Ranges) {
        let mut tables = self.tables.lock();
        if let Some(entry) = tables.files.get_mut(&file) {
            ranges
                .iter()
                .for_each(|(start, end)| entry.written.add(start, end));
        }
    }
}

/// See [`Restripes::writing`].
pub(crate) struct Writing<'a> {
    all: &'a Restripes,
    file: FileId,
    start: u64,
    end: u64,
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        if self.all.count.load(SeqCst) == 0 {
            return;
        }
        if let Some(entry) = self.all.tables.lock().files.get_mut(&self.file) {
            entry.written.add(self.start, self.end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape {
        stripe_unit: 4096,
        width: 2,
        copies: 2,
    };

    #[test]
    fn ranges_are_merged_and_bounded() {
        let of = |pairs: &[(u64, u64)]| {
            let mut ranges = Ranges::default();
            pairs.iter().for_each(|(at, to)| ranges.add(*at, *to));
            ranges.iter().collect::<Vec<_>>()
        };
        assert_eq!(of(&[(5, 5)]), []);
        assert_eq!(of(&[(0, 2), (4, 6)]), [(0, 2), (4, 6)]);
        assert_eq!(of(&[(0, 2), (4, 6), (2, 4)]), [(0, 6)]);
        assert_eq!(of(&[(0, 9), (4, 6)]), [(0, 9)]);
        assert_eq!(of(&[(4, 6), (8, 9), (0, 20)]), [(0, 20)]);
        let many: Vec<_> = (0..=RANGES_MAX as u64)
            .map(|n| (2 * n, 2 * n + 1))
            .collect();
        assert_eq!(of(&many), [(0, 2 * RANGES_MAX as u64 + 1)]);
    }

    #[test]
    fn what_is_removed_is_cut_out_of_ranges() {
        let left = |from: u64, to: u64| {
            let mut ranges = Ranges(BTreeMap::from([(2, 4), (6, 9), (10, 12)]));
            ranges.remove(from, to);
            ranges.iter().collect::<Vec<_>>()
        };
        assert_eq!(left(4, 6), [(2, 4), (6, 9), (10, 12)]);
        assert_eq!(left(3, 3), [(2, 4), (6, 9), (10, 12)]);
        assert_eq!(left(7, 8), [(2, 4), (6, 7), (8, 9), (10, 12)]);
        assert_eq!(left(3, 11), [(2, 3), (11, 12)]);
        assert_eq!(left(0, 99), []);
    }

    #[test]
    fn files_are_bounded_and_a_write_is_noted_when_it_is_over() {
        let all = Restripes::default();
        let file = FileId(7);
        assert!(all.enter(file, (SHAPE, 1)).unwrap());
        assert!(!all.enter(file, (SHAPE, 1)).unwrap());
        let other = Shape { copies: 1, ..SHAPE };
        assert_eq!(all.enter(file, (other, 1)).err(), Some(NfsStatus::Delay));
        for more in 1..FILES_MAX as u64 {
            assert!(all.enter(FileId(100 + more), (SHAPE, 1)).unwrap());
        }
        assert_eq!(
            all.enter(FileId(8), (SHAPE, 1)).err(),
            Some(NfsStatus::Delay)
        );
        let writing = all.writing(file, 3, 5);
        assert_eq!(all.take(file).bytes(), 0);
        drop(writing);
        assert_eq!(all.take(file).bytes(), 2);
        assert_eq!(all.take(file).bytes(), 0);
        assert!(!all.is_overtaken(file));
        for left in [70, 71, 72] {
            all.again(file);
            all.made(file, FileId(left));
            assert!(!all.leftovers().contains(&FileId(left)));
        }
        all.closed(file);
        assert_eq!(all.leftovers(), [FileId(70), FileId(71)]);
        all.leftover_closed(FileId(70));
        all.made(file, FileId(73));
        all.overtake(file);
        assert!(all.is_overtaken(file));
        all.leave(file, Some(NfsStatus::NoSpc));
        assert_eq!(
            all.state(file),
            Some(RestripeState::Failed(NfsStatus::NoSpc))
        );
        assert_eq!(all.leftovers(), [FileId(71), FileId(73)]);
        assert!(!all.has(file) && all.enter(FileId(8), (SHAPE, 1)).is_ok());
    }
}
