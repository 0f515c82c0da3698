//! Which clients hold, or ever held, a handle for writing to a file under its present epoch.
//!
//! A truncation must stop the late writes of others (rule R3), which takes a new epoch, and that makes the layout of the
//! caller himself useless in the middle of his work: Linux then writes through the MDS and fetches a new one. When
//! nobody but the caller was ever given a handle that still holds, there is no one to stop.
//!
//! # Ownership
//! Entered under the file's grant lock with each layout for writing; forgotten when the epoch rises for all. Handles of earlier
//! boots are below the cluster floor, so an empty table is right at start.
//!
//! # Failure
//! A full table answers "others" for every file that it does not know.

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
#[derive(Debug, Default)]
pub(super) struct Writers {
    files: BTreeMap<FileId, Holders>,
    overflowed: bool,
}

impl Writers {
    /// A handle for writing is about to be given out.
    pub(super) fn add(&mut self, file: FileId, client: ClientTag) {
        if let Some(holders) = self.files.get_mut(&file) {
            if *holders != Holders::One(client) {
                *holders = Holders::Many;
            }
        } else if self.files.len() < FILES_MAX {
            self.files.insert(file, Holders::One(client));
        } else {
            self.overflowed = true;
        }
    }

    /// Whether only `client`, or nobody, can have a handle for writing that still holds.
    pub(super) fn only(&self, file: FileId, client: ClientTag) -> bool {
        match self.files.get(&file) {
            Some(holders) => *holders == Holders::One(client),
            None => !self.overflowed,
        }
    }

    /// Whether `client` was given a handle for writing that still holds, and nobody else was.
    pub(super) fn is_held_by_only(&self, file: FileId, client: ClientTag) -> bool {
        self.files.get(&file) == Some(&Holders::One(client))
    }

    /// The epoch rose for everybody, or the file is gone.
    pub(super) fn forget(&mut self, file: FileId) {
        // After an overflow "unknown" means "others", so what is known to be nobody cannot be told apart any more.
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
        let mut writers = Writers::default();
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
}
