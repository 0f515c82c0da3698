//! A delegation is never held while another client uses the file in a way that it excludes. What a client cached under
//! it is never stale (RFC 8881 §10.4).
//!
//! A use counts as a lock's hold does (see `locks`). The second half is judged by the client itself: the change value at
//! the grant is that at the return.

use super::Findings;
use super::linear::Moment;

/// How a file is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// Open for reading.
    Reads,
    /// Open for writing too.
    Writes,
    /// Changed at some moment, by a client of NFSv3, which opens nothing.
    Changes,
    /// Delegated for reading.
    ReadDelegation,
    /// Delegated for writing.
    WriteDelegation,
}

impl How {
    fn excludes(self, other: Self) -> bool {
        match self {
            Self::WriteDelegation => true,
            Self::ReadDelegation => {
                matches!(other, Self::Writes | Self::Changes | Self::WriteDelegation)
            }
            Self::Reads | Self::Writes | Self::Changes => false,
        }
    }
}

/// An open or a delegation as a client could rely on it.
#[derive(Debug, Clone)]
pub(crate) struct Use {
    /// Who.
    pub who: String,
    /// Which file.
    pub file: usize,
    /// How.
    pub how: How,
    /// When the client knew of it.
    pub from: Moment,
    /// Until when it could rely on it.
    pub to: Moment,
}

impl Use {
    /// Whether both were so at one time.
    fn meets(&self, other: &Self) -> bool {
        match (self.how, other.how) {
            // Nobody knows at which moment.
            (How::Changes, _) => other.from < self.from && self.to < other.to,
            (_, How::Changes) => self.from < other.from && other.to < self.to,
            _ => {
                let is_one = |used: &Self| used.from < used.to;
                is_one(self) && is_one(other) && self.from < other.to && other.from < self.to
            }
        }
    }

    fn contradicts(&self, other: &Self) -> bool {
        self.file == other.file
            && self.who != other.who
            && (self.how.excludes(other.how) || other.how.excludes(self.how))
            && self.meets(other)
    }
}

/// Judges all uses of a run.
pub(crate) fn check(uses: &[Use], findings: &Findings) {
    for (index, a) in uses.iter().enumerate() {
        for b in &uses[..index] {
            if a.contradicts(b) {
                findings.add(format!(
                    "a delegation and another's use at one time: {a:?} and {b:?}"
                ));
            }
        }
    }
}
