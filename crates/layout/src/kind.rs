//! Kinds of layouts (RFC 8881 §3.3.13).

use nfs4::layout::{LAYOUT_FLEX_FILES, LAYOUT_NFSV4_1_FILES};

/// A kind of layout that the metadata server grants. Each match on it names every kind, so that a further one fails to
/// compile wherever it needs an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LayoutKind {
    /// `LAYOUT4_NFSV4_1_FILES` (RFC 8881 §13).
    Files,
    /// `LAYOUT4_FLEX_FILES` (RFC 8435): files at NFSv3 servers of others.
    FlexFiles,
}

impl LayoutKind {
    /// All kinds.
    pub const ALL: [Self; 2] = [Self::Files, Self::FlexFiles];

    /// The number of the kind on the wire.
    #[must_use]
    pub const fn number(self) -> u32 {
        match self {
            Self::Files => LAYOUT_NFSV4_1_FILES,
            Self::FlexFiles => LAYOUT_FLEX_FILES,
        }
    }

    /// The kind of a number; `None` for one that is not granted.
    #[must_use]
    pub fn of(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.number() == number)
    }
}
