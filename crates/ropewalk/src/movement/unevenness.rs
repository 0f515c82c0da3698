//! What a rebalance has to move, in the one unit that says most.

use crate::status::to_level::ToLevel;
use crate::table::bytes;
use serde::Serialize;
use std::fmt;

/// What is to be moved until data servers are level, about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Unevenness {
    /// Bytes: servers fill their disks to the same share.
    Bytes(u64),
    /// Where all are on one disk.
    Places(u64),
}

impl Unevenness {
    /// In bytes or places as `before`, if it is told.
    pub(super) fn of(left: ToLevel, before: Option<Self>) -> Self {
        let counts_places = match before {
            Some(before) => matches!(before, Self::Places(_)),
            None => left.one_disk,
        };
        match counts_places {
            true => Self::Places(left.places),
            false => Self::Bytes(left.bytes),
        }
    }

    pub(super) fn count(self) -> u64 {
        match self {
            Self::Bytes(count) | Self::Places(count) => count,
        }
    }
}

impl fmt::Display for Unevenness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(count) => write!(f, "about {} to move", bytes(*count)),
            Self::Places(1) => write!(f, "about 1 place to move"),
            Self::Places(count) => write!(f, "about {count} places to move"),
        }
    }
}

#[cfg(test)]
mod tests {
    //! Goal: a rebalance is told in one unit, from its first look to its last.

    use super::*;

    #[test]
    fn what_is_to_be_moved_is_told_in_bytes_and_on_one_disk_in_places() {
        let left = |one_disk| ToLevel {
            bytes: 900,
            places: 4,
            one_disk,
        };
        for (one_disk, expected, text) in [
            (true, Unevenness::Places(4), "about 4 places to move"),
            (false, Unevenness::Bytes(900), "about 900 B to move"),
        ] {
            let told = Unevenness::of(left(one_disk), None);
            assert_eq!((told, told.to_string().as_str()), (expected, text));
            // Disks that have become alike meanwhile change no unit, and neither do others.
            assert_eq!(Unevenness::of(left(!one_disk), Some(told)), told);
        }
    }
}
