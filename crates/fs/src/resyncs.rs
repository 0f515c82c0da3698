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
    /// How many servers a file needs, and when one was last seen to wait for them.
    waiting: Option<(u32, Instant)>,
}

impl Default for Resyncs {
    fn default() -> Self {
        Self {
            after: FileId(0),
            begun: BTreeMap::new(),
            waiting: None,
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

impl Resyncs {
    /// A file waits until so many servers are up and have room.
    pub(crate) fn note_waiting(&mut self, servers: u32, now: Instant) {
        let known = self.servers_waited_for(now);
        if servers >= known {
            self.waiting = Some((servers, now));
        }
    }

    /// The most servers that a file has waited for of late.
    pub(crate) fn servers_waited_for(&self, now: Instant) -> u32 {
        let recent = self
            .waiting
            .filter(|(_, at)| now.duration_since(*at) < AGAIN_AFTER);
        recent.map_or(0, |(servers, _)| servers)
    }
}

#[cfg(test)]
mod tests {
    //! Goal: a file that was begun waits, and the table has a bound.
    use super::*;

    #[test]
    fn the_most_servers_that_are_waited_for_are_told_for_a_while() {
        let (mut all, now) = (Resyncs::default(), Instant::now());
        assert_eq!(all.servers_waited_for(now), 0);
        all.note_waiting(4, now);
        all.note_waiting(2, now + AGAIN_AFTER / 2);
        assert_eq!(all.servers_waited_for(now + AGAIN_AFTER / 2), 4);
        assert_eq!(all.servers_waited_for(now + AGAIN_AFTER), 0);
        all.note_waiting(2, now + AGAIN_AFTER);
        assert_eq!(all.servers_waited_for(now + AGAIN_AFTER), 2);
    }

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
