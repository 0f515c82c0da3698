//! Which clients hold, or ever held, a handle for writing to a file under its present epoch.
//!
//! A truncation must stop the late writes of others (rule R3). That takes a new epoch, which also ends the caller's own
//! layout in the middle of its work: Linux then writes through the MDS and fetches a new one. If no other client was given
//! a handle that is still valid, there is no one to stop.
//!
//! # Ownership
//! Entered under the file's grant lock with each layout for writing; forgotten when the epoch rises for all. Handles of earlier
//! boots are below the cluster floor, so an empty table is right at start.
//!
//! # Failure
//! A full table forgets its oldest file, the one with the lowest number, for a newer one. From then on it answers
//! "others" for files that it does not know, up to the newest that it has forgotten. What was made later is known, or
//! nobody has a handle of it.

use layout::ClientTag;
use namespace::FileId;
use std::collections::BTreeMap;

/// Most files that are remembered, about 40 bytes each.
const FILES_MAX: usize = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holders {
    One(ClientTag),
    Many,
}

/// Holders of handles for writing, by file.
#[derive(Debug)]
pub(crate) struct WriterSet {
    files: BTreeMap<FileId, Holders>,
    files_max: usize,
    /// The newest file that there was no room for.
    dropped: Option<FileId>,
}

impl Default for WriterSet {
    fn default() -> Self {
        Self::with_room(FILES_MAX)
    }
}

impl WriterSet {
    fn with_room(files_max: usize) -> Self {
        Self {
            files: BTreeMap::new(),
            files_max,
            dropped: None,
        }
    }

    /// A handle for writing is about to be given out.
    pub(crate) fn add(&mut self, file: FileId, client: ClientTag) {
        let alone = self.only(file, client);
        let holders = match alone {
            true => Holders::One(client),
            false => Holders::Many,
        };
        self.files.insert(file, holders);
        if self.files.len() > self.files_max {
            let oldest = self.files.pop_first().map(|(file, _)| file);
            self.dropped = self.dropped.max(oldest);
        }
    }

    /// Whether only `client`, or nobody, can have a handle for writing that still holds.
    pub(crate) fn only(&self, file: FileId, client: ClientTag) -> bool {
        match self.files.get(&file) {
            Some(holders) => *holders == Holders::One(client),
            None => self.dropped < Some(file),
        }
    }

    /// Whether `client` was given a handle for writing that still holds, and nobody else was.
    pub(crate) fn is_held_by_only(&self, file: FileId, client: ClientTag) -> bool {
        self.files.get(&file) == Some(&Holders::One(client))
    }

    /// The epoch rose for everybody, or the file is gone.
    pub(crate) fn forget(&mut self, file: FileId) {
        // If older than what was dropped, it is now taken for one that others may have handles of.
        self.files.remove(&file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ClientTag = ClientTag::from_bytes([1; 12]);
    const B: ClientTag = ClientTag::from_bytes([2; 12]);

    #[test]
    fn only_the_first_holder_is_alone_until_the_epoch_rises() {
        let mut writers = WriterSet::default();
        let file = FileId(7);
        assert!(writers.only(file, A));
        writers.add(file, A);
        writers.add(file, A);
        assert!(writers.only(file, A) && !writers.only(file, B));
        assert!(writers.is_held_by_only(file, A) && !writers.is_held_by_only(file, B));
        writers.add(file, B);
        writers.add(file, A);
        assert!(!writers.only(file, A) && !writers.only(file, B));
        writers.forget(file);
        assert!(writers.only(file, B) && !writers.is_held_by_only(file, B));
    }

    /// As on a server that has made more files than it remembers: those that are made now are known all the same.
    #[test]
    fn a_full_table_knows_the_newest_files_and_doubts_the_others() {
        let mut writers = WriterSet::with_room(2);
        for file in 1..=5 {
            assert!(writers.only(FileId(file), A), "nobody has a handle yet");
            writers.add(FileId(file), A);
            assert!(writers.only(FileId(file), A) && !writers.only(FileId(file), B));
        }
        assert!(writers.files.len() == 2);
        for old in 1..=3 {
            assert!(!writers.only(FileId(old), A) && !writers.only(FileId(old), B));
        }
        // An old one that is opened again has no room, and takes none from newer ones.
        writers.add(FileId(2), B);
        assert!(!writers.only(FileId(2), B) && writers.only(FileId(4), A));
        // Nor does one for which there is room again make its old holders forgotten.
        writers.forget(FileId(5));
        writers.add(FileId(2), B);
        assert!(!writers.only(FileId(2), B) && !writers.is_held_by_only(FileId(2), B));
        writers.forget(FileId(2));
        assert!(writers.only(FileId(6), B) && writers.only(FileId(5), B));
    }
}
