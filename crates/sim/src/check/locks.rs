//! Two conflicting byte-range locks are never held at one time, restarts and reclaims included.
//!
//! A hold counts from the reply that granted it to the request that gave it up. When it was lost, it counts to the last
//! request that renewed the lease.

use super::Findings;
use super::linear::Moment;

/// A lock as its holder could rely on it.
#[derive(Debug, Clone)]
pub(crate) struct Hold {
    /// Who.
    pub who: String,
    /// The file.
    pub file: u64,
    /// First byte and the one after the last.
    pub range: (u64, u64),
    /// Whether it excludes all others.
    pub is_exclusive: bool,
    /// When the holder knew of it.
    pub from: Moment,
    /// Until when the holder could rely on it.
    pub to: Moment,
}

impl Hold {
    fn conflicts(&self, other: &Self) -> bool {
        self.file == other.file
            && self.who != other.who
            && (self.is_exclusive || other.is_exclusive)
            && self.range.0 < other.range.1
            && other.range.0 < self.range.1
            && self.from < other.to
            && other.from < self.to
    }
}

/// Judges all holds of a run.
pub(crate) fn check(holds: &[Hold], findings: &Findings) {
    for (index, a) in holds.iter().enumerate() {
        for b in &holds[..index] {
            if a.conflicts(b) {
                findings.add(format!("locks held at one time: {a:?} and {b:?}"));
            }
        }
    }
}
