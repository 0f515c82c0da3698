//! Files whose mirrors are brought back: where the search for them is, and which were begun a short while ago.
//!
//! Owns the table. Calls nothing.

use namespace::FileId;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// How long a file waits after it was begun, if it is over sooner and has bad mirrors still.
const AGAIN_AFTER: Duration = Duration::from_secs(60);
/// Most files of which that is remembered.
const BEGUN_MAX: usize = 1024;

/// Where the search is.
pub(crate) struct Resyncs {
    /// After which file it goes on.
    pub(crate) after: FileId,
    begun: BTreeMap<FileId, Instant>,
}

impl Default for Resyncs {
    fn default() -> Self {
        Self {
            after: FileId(0),
            begun: BTreeMap::new(),
        }
    }
}

impl Resyncs {
    /// Whether a file was begun a short while ago.
    pub(crate) fn is_recent(&mut self, file: FileId, now: Instant) -> bool {
        self.begun
            .retain(|_, at| now.duration_since(*at) < AGAIN_AFTER);
        self.begun.contains_key(&file)
    }

    pub(crate) fn note_begun(&mut self, file: FileId, now: Instant) {
        if self.begun.len() < BEGUN_MAX {
            self.begun.insert(file, now);
        }
    }
}

#[cfg(test)]
mod tests {
    //! Goal: a file that was begun waits, and the table has a bound.
    use super::*;

    #[test]
    fn a_file_that_was_begun_waits_and_the_table_has_a_bound() {
        let (mut all, now) = (Resyncs::default(), Instant::now());
        for file in 0..=BEGUN_MAX as u64 {
            all.note_begun(FileId(file), now);
        }
        assert!(all.is_recent(FileId(0), now));
        assert!(!all.is_recent(FileId(BEGUN_MAX as u64), now), "no room");
        assert!(!all.is_recent(FileId(0), now + AGAIN_AFTER));
    }
}
