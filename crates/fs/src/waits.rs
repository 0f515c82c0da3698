//! Clients that wait for delegations of a file to come back, for an administrator to see.
//!
//! Owns notes, and nothing that anybody relies on. A client that is told to ask again counts as waiting for [`KEPT_MS`] more.

use namespace::FileId;
use nfs4::ClientId;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use tracing_mutex::parkinglot::Mutex;

/// Most notes; beyond it further ones are left out.
const WAITS_MAX: usize = 4096;
/// How long after its last try a client counts as waiting: Linux asks again after 15 s at most.
const KEPT_MS: u64 = 20_000;

#[derive(Debug, Clone, Copy)]
struct Wait {
    since_ms: u64,
    last_ms: u64,
}

/// The notes.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    notes: Mutex<BTreeMap<(FileId, ClientId), Wait>>,
    /// How many there are: requests that find none take no lock.
    len: AtomicUsize,
}

/// A client that waits for others to give a file back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecallWait {
    /// Which file.
    pub file: u64,
    /// The client that waits.
    pub client: ClientId,
    /// Since when, by the clock of leases.
    pub since_ms: u64,
}

impl Waits {
    /// The client waits.
    pub(crate) fn note(&self, file: FileId, client: ClientId, now_ms: u64) {
        let mut notes = self.notes.lock();
        if notes.len() >= WAITS_MAX {
            notes.retain(|_, wait| wait.is_current(now_ms));
        }
        let fresh = Wait {
            since_ms: now_ms,
            last_ms: now_ms,
        };
        if let Some(wait) = notes.get_mut(&(file, client)) {
            let since_ms = match wait.is_current(now_ms) {
                true => wait.since_ms,
                false => now_ms,
            };
            *wait = Wait { since_ms, ..fresh };
        } else if notes.len() < WAITS_MAX {
            notes.insert((file, client), fresh);
        }
        self.len.store(notes.len(), Relaxed);
    }

    /// The client waits no more.
    pub(crate) fn over(&self, file: FileId, client: ClientId) {
        if self.len.load(Relaxed) == 0 {
            return;
        }
        let mut notes = self.notes.lock();
        notes.remove(&(file, client));
        self.len.store(notes.len(), Relaxed);
    }

    /// At most `max` of those who wait, in the order of files.
    pub(crate) fn current(&self, now_ms: u64, max: usize) -> Vec<RecallWait> {
        let notes = self.notes.lock();
        let current = notes.iter().filter(|(_, wait)| wait.is_current(now_ms));
        let waiting = current.map(|((file, client), wait)| RecallWait {
            file: file.0,
            client: *client,
            since_ms: wait.since_ms,
        });
        waiting.take(max).collect()
    }
}

impl Wait {
    fn is_current(&self, now_ms: u64) -> bool {
        now_ms.saturating_sub(self.last_ms) < KEPT_MS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ClientId = ClientId { value: 1 };

    fn since(waits: &Waits, now_ms: u64) -> Vec<u64> {
        let current = waits.current(now_ms, 10);
        current.iter().map(|w| w.since_ms).collect()
    }

    #[test]
    fn a_wait_begins_with_the_first_try_and_ends_with_success_or_silence() {
        let waits = Waits::default();
        waits.note(FileId(7), A, 100);
        waits.note(FileId(7), A, 100 + KEPT_MS - 1);
        assert_eq!(since(&waits, 100 + KEPT_MS), [100]);
        assert_eq!(since(&waits, 99 + 2 * KEPT_MS), [], "silent");
        waits.note(FileId(7), A, 100 + 3 * KEPT_MS);
        assert_eq!(since(&waits, 100 + 3 * KEPT_MS), [100 + 3 * KEPT_MS]);
        waits.over(FileId(7), A);
        assert_eq!(since(&waits, 100 + 3 * KEPT_MS), []);
    }

    #[test]
    fn notes_are_bounded_and_old_ones_make_room() {
        let waits = Waits::default();
        for n in 0..2 * WAITS_MAX as u64 {
            waits.note(FileId(n), A, 0);
        }
        assert_eq!(waits.current(0, usize::MAX).len(), WAITS_MAX);
        waits.note(FileId(1 << 40), A, KEPT_MS);
        assert_eq!(since(&waits, KEPT_MS), [KEPT_MS]);
    }
}
