//! Mirrors of files that clients have reported, until they are marked or were looked at.
//!
//! Owns the table. Calls nothing.

use namespace::FileId;
use std::collections::BTreeMap;

/// Most files at one time. A client whose report found no room reports again.
const FILES_MAX: usize = 1024;

/// Bits of mirrors, by file.
#[derive(Default)]
pub(crate) struct MirrorReports(BTreeMap<FileId, u32>);

impl MirrorReports {
    /// Adds mirrors of a file. Returns whether a task is to begin: none is at this file, and there is room.
    pub(crate) fn add(&mut self, file: FileId, mirrors: u32) -> bool {
        if let Some(known) = self.0.get_mut(&file) {
            *known |= mirrors;
            return false;
        }
        if self.0.len() >= FILES_MAX {
            return false;
        }
        self.0.insert(file, mirrors);
        true
    }

    /// The reported mirrors of a file.
    pub(crate) fn of(&self, file: FileId) -> u32 {
        self.0.get(&file).copied().unwrap_or(0)
    }

    /// The task of a file has ended.
    pub(crate) fn done(&mut self, file: FileId) {
        self.0.remove(&file);
    }
}

#[cfg(test)]
mod tests {
    //! Goal: one task for each file, and a bound.
    use super::*;

    #[test]
    fn a_file_has_one_task_and_the_table_a_bound() {
        let mut reports = MirrorReports::default();
        assert!(reports.add(FileId(1), 1));
        assert!(!reports.add(FileId(1), 4));
        assert_eq!(reports.of(FileId(1)), 5);
        for file in 2..=FILES_MAX as u64 {
            assert!(reports.add(FileId(file), 1));
        }
        assert!(!reports.add(FileId(0), 1));
        reports.done(FileId(1));
        assert!(reports.add(FileId(0), 1));
        assert_eq!(reports.of(FileId(1)), 0);
    }
}
