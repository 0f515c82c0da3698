//! Files whose data may take up something else than their inodes say.

use crate::hint::{Facts, SOME};
use namespace::FileId;
use std::collections::{BTreeMap, BTreeSet};

/// Most files that are remembered.
const FILES_MAX: usize = 65_536;
/// Files of one request to the data servers.
const BATCH: usize = control::BATCH_MAX as usize;

/// Files whose data may take up something else than their inodes say.
#[derive(Debug, Default)]
pub(crate) struct SpaceNotes {
    /// With the number of the note.
    pub(crate) files: BTreeMap<FileId, u64>,
    /// Files that were measured since the last tick, and since the one before: a report may be under way of what a data
    /// server has counted already.
    measured: [BTreeSet<FileId>; 2],
    count: u64,
}

impl Facts for SpaceNotes {
    fn facts(&self) -> u8 {
        if self.files.is_empty() { 0 } else { SOME }
    }
}

impl SpaceNotes {
    pub(crate) fn add(&mut self, file: FileId) {
        if self.files.len() < FILES_MAX || self.files.contains_key(&file) {
            self.count += 1;
            self.files.insert(file, self.count);
        }
    }

    pub(crate) fn done(&mut self, file: FileId, note: u64) {
        let has_room = self.measured[0].len() < FILES_MAX;
        if self.files.get(&file) == Some(&note) && has_room {
            self.files.remove(&file);
            self.measured[0].insert(file);
        }
    }

    /// Whether the number of the inode is right, and no report can be late.
    pub(crate) fn is_settled(&self, file: FileId) -> bool {
        let is_recent = self.measured.iter().any(|files| files.contains(&file));
        !is_recent && !self.files.contains_key(&file)
    }

    /// A tick has come: reports of before the last one have arrived.
    pub(crate) fn tick(&mut self) {
        self.measured[1] = std::mem::take(&mut self.measured[0]);
    }

    /// The first files after `after`.
    pub(crate) fn page(&self, after: FileId) -> Vec<(FileId, u64)> {
        let behind = self
            .files
            .range((std::ops::Bound::Excluded(after), std::ops::Bound::Unbounded));
        behind.take(BATCH).map(|(f, n)| (*f, *n)).collect()
    }
}
