//! The mirrored foreign files that this server itself writes, or has written a short while ago.
//!
//! Owns the table of what [`crate::own_writing`] knows of them. Calls nothing.

use crate::restripes::Ranges;
use meta::Seq;
use namespace::FileId;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// Most files at one time. Writes of more wait until one of them is level.
const FILES_MAX: usize = 16_384;
/// How long nobody has written a file before its mark goes.
const QUIET: Duration = Duration::from_secs(5);

struct Entry {
    /// When the mark is durable.
    marked: Seq,
    /// Writes under way.
    writing: u32,
    /// Writes that ever began.
    begun: u64,
    last: Instant,
    /// A server may have bytes that it has not committed.
    is_unstable: bool,
    /// Where mirrors may differ: a write failed, and none has gone over it since.
    uneven: Ranges,
}

/// What is known of a file that nobody writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Quiet {
    pub(crate) file: FileId,
    /// Writes that had begun. If it is another number later, somebody writes again.
    pub(crate) begun: u64,
    pub(crate) is_unstable: bool,
    pub(crate) is_uneven: bool,
}

/// How a write ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// All mirrors that count have it, durably.
    Durable,
    /// They have it.
    Unstable,
    /// Some may have it.
    Unknown,
    /// No mirror has any of it.
    Untouched,
}

/// The table.
#[derive(Default)]
pub(crate) struct OwnWrites(BTreeMap<FileId, Entry>);

impl OwnWrites {
    /// A write begins. Returns when the mark of the file is durable; `None` when it has none yet.
    pub(crate) fn join(&mut self, file: FileId) -> Option<Seq> {
        let entry = self.0.get_mut(&file)?;
        entry.writing += 1;
        entry.begun += 1;
        Some(entry.marked)
    }

    pub(crate) fn is_full(&self) -> bool {
        self.0.len() >= FILES_MAX
    }

    /// The first write to a file begins; its mark is made.
    pub(crate) fn enter(&mut self, file: FileId, marked: Seq, now: Instant) {
        let entry = Entry {
            marked,
            writing: 1,
            begun: 1,
            last: now,
            is_unstable: false,
            uneven: Ranges::default(),
        };
        self.0.insert(file, entry);
    }

    /// A write of this range is over.
    pub(crate) fn end(&mut self, file: FileId, range: (u64, u64), ended: Ended, now: Instant) {
        let Some(entry) = self.0.get_mut(&file) else {
            return;
        };
        entry.writing = entry.writing.saturating_sub(1);
        entry.last = now;
        entry.is_unstable |= matches!(ended, Ended::Unstable | Ended::Unknown);
        match ended {
            Ended::Unknown => entry.uneven.add(range.0, range.1),
            Ended::Durable | Ended::Unstable => entry.uneven.remove(range.0, range.1),
            Ended::Untouched => {}
        }
    }

    /// Writes to a file that have ever begun, if none is under way.
    pub(crate) fn idle(&self, file: FileId) -> Option<u64> {
        let entry = self.0.get(&file)?;
        (entry.writing == 0).then_some(entry.begun)
    }

    /// All mirrors have committed what was written by so many writes.
    pub(crate) fn committed(&mut self, file: FileId, begun: u64) {
        if let Some(entry) = self.0.get_mut(&file)
            && entry.begun == begun
        {
            entry.is_unstable = false;
        }
    }

    /// One mirror counts, after so many writes.
    pub(crate) fn evened(&mut self, file: FileId, begun: u64) {
        if let Some(entry) = self.0.get_mut(&file)
            && entry.begun == begun
        {
            entry.uneven = Ranges::default();
        }
    }

    /// Forgets a file.
    pub(crate) fn leave(&mut self, file: FileId) {
        self.0.remove(&file);
    }

    /// The files that nobody has written for a while.
    pub(crate) fn quiet(&self, now: Instant) -> Vec<Quiet> {
        let all = self.0.iter();
        let quiet = all.filter(|(_, entry)| {
            entry.writing == 0 && now.saturating_duration_since(entry.last) >= QUIET
        });
        let of = |(file, entry): (&FileId, &Entry)| Quiet {
            file: *file,
            begun: entry.begun,
            is_unstable: entry.is_unstable,
            is_uneven: entry.uneven.bytes() > 0,
        };
        quiet.map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    //! Goal: a burst has one mark, and a file is quiet only when nobody writes and what is not level is told.
    use super::*;

    #[test]
    fn a_file_is_quiet_a_while_after_its_last_write_and_tells_what_is_not_level() {
        let (mut all, now, file) = (OwnWrites::default(), Instant::now(), FileId(7));
        assert_eq!(all.join(file), None);
        all.enter(file, Seq::default(), now);
        assert_eq!(all.join(file), Some(Seq::default()));
        all.end(file, (0, 10), Ended::Unknown, now);
        assert_eq!(all.quiet(now + QUIET), [], "one is under way");
        assert_eq!(all.idle(file), None);
        all.end(file, (20, 30), Ended::Durable, now);
        assert_eq!(all.quiet(now), []);
        let mut seen = Quiet {
            file,
            begun: 2,
            is_unstable: true,
            is_uneven: true,
        };
        assert_eq!(all.quiet(now + QUIET), [seen]);
        all.join(file);
        all.committed(file, 2);
        all.end(file, (0, 10), Ended::Durable, now);
        (seen.begun, seen.is_uneven) = (3, false);
        assert_eq!(all.quiet(now + QUIET), [seen], "it was written over");
        assert_eq!(all.idle(file), Some(3));
        all.committed(file, 3);
        seen.is_unstable = false;
        assert_eq!(all.quiet(now + QUIET), [seen]);
        all.join(file);
        all.end(file, (0, 10), Ended::Unknown, now);
        all.evened(file, 3);
        assert!(all.quiet(now + QUIET)[0].is_uneven, "of an earlier write");
        all.evened(file, 4);
        assert!(!all.quiet(now + QUIET)[0].is_uneven);
        all.leave(file);
        assert_eq!(all.join(file), None);
    }

    #[test]
    fn the_table_has_a_bound() {
        let (mut all, now) = (OwnWrites::default(), Instant::now());
        for file in 1..=FILES_MAX as u64 {
            assert!(!all.is_full());
            all.enter(FileId(file), Seq::default(), now);
        }
        assert!(all.is_full());
    }
}
