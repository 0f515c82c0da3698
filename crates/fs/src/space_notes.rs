//! Files whose data may take up something else than their inodes say.

use crate::hint::{Facts, SOME};
use namespace::FileId;
use std::collections::BTreeMap;

/// Most files that are remembered.
const FILES_MAX: usize = 65_536;
/// Files of one request to the data servers.
const BATCH: usize = control::BATCH_MAX as usize;

/// Files whose data may take up something else than their inodes say.
#[derive(Debug, Default)]
pub(crate) struct SpaceNotes {
    /// With the number of the note.
    pub(crate) files: BTreeMap<FileId, u64>,
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
        if self.files.get(&file) == Some(&note) {
            self.files.remove(&file);
        }
    }

    /// The first files after `after`.
    pub(crate) fn page(&self, after: FileId) -> Vec<(FileId, u64)> {
        let behind = self
            .files
            .range((std::ops::Bound::Excluded(after), std::ops::Bound::Unbounded));
        behind.take(BATCH).map(|(f, n)| (*f, *n)).collect()
    }
}
