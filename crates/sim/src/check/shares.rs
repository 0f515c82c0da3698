//! What an open denies to others is not open to another owner at one time, whatever the versions of the two.
//!
//! An open counts as a lock's hold does (see `locks`).

use super::Findings;
use super::linear::Moment;

/// An open as its holder could rely on it.
#[derive(Debug, Clone)]
pub(crate) struct ShareHold {
    /// Who.
    pub who: String,
    /// The file.
    pub file: u64,
    /// `SHARE_ACCESS_*`.
    pub access: u32,
    /// `SHARE_DENY_*`.
    pub deny: u32,
    /// When the holder knew of it.
    pub from: Moment,
    /// Until when the holder could rely on it.
    pub to: Moment,
}

impl ShareHold {
    fn conflicts(&self, other: &Self) -> bool {
        self.file == other.file
            && self.who != other.who
            && (self.access & other.deny != 0 || self.deny & other.access != 0)
            && self.from < other.to
            && other.from < self.to
    }
}

/// Judges all opens of a run.
pub(crate) fn check(holds: &[ShareHold], findings: &Findings) {
    for (index, a) in holds.iter().enumerate() {
        for b in &holds[..index] {
            if a.conflicts(b) {
                findings.add(format!("an open and what another denies: {a:?} and {b:?}"));
            }
        }
    }
}
