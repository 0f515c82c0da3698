//! What a rebalance has to move, about: from the rows of `ropewalk ds list` alone.

use crate::status::{DataServerRow, STATE_SERVING};
use crate::table::bytes;
use serde::Serialize;
use std::fmt;

/// Fills that differ by less, in thousandths, are those of one disk, which all share.
const ONE_DISK_PERMILLE: u64 = 10;

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
    /// Of those that take new files; in bytes or places as `before`, if it is told.
    pub(super) fn of(rows: &[DataServerRow], before: Option<Self>) -> Self {
        let serving = || rows.iter().filter(|row| row.state == STATE_SERVING);
        // What is above this share of a whole.
        let above = |is: fn(&DataServerRow) -> u64, of: fn(&DataServerRow) -> u64| {
            let all = serving().map(|row| u128::from(is(row))).sum::<u128>();
            let whole = serving().map(|row| u128::from(of(row))).sum::<u128>();
            let share = |row| (u128::from(of(row)) * all).div_ceil(whole.max(1));
            let above = serving().map(|row| u128::from(is(row)).saturating_sub(share(row)));
            u64::try_from(above.sum::<u128>()).unwrap_or(u64::MAX)
        };
        let is_one_disk = || {
            let fills = || serving().map(|row| permille(used_bytes(row), row.total_bytes));
            fills().max().unwrap_or(0) < fills().min().unwrap_or(0) + ONE_DISK_PERMILLE
        };
        let counts_places = match before {
            Some(before) => matches!(before, Self::Places(_)),
            None => is_one_disk(),
        };
        match counts_places {
            true => Self::Places(above(|row| row.places, |_| 1)),
            false => Self::Bytes(above(used_bytes, |row| row.total_bytes)),
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

pub(super) fn used_bytes(row: &DataServerRow) -> u64 {
    row.total_bytes.saturating_sub(row.free_bytes)
}

fn permille(part: u64, whole: u64) -> u64 {
    let permille = u128::from(part) * 1000 / u128::from(whole.max(1));
    u64::try_from(permille).unwrap_or(1000)
}

#[cfg(test)]
mod tests {
    //! Goal: what a rebalance has left is told by what it makes level.

    use super::*;
    use crate::status::STATE_EXPELLED;

    fn row(state: &str, (total_bytes, free_bytes): (u64, u64), places: u64) -> DataServerRow {
        DataServerRow {
            state: state.to_owned(),
            total_bytes,
            free_bytes,
            places,
            ..DataServerRow::default()
        }
    }

    #[test]
    fn what_is_to_be_moved_is_told_in_bytes_and_on_one_disk_in_places() {
        let cases = [
            (vec![], Unevenness::Places(0), "about 0 places to move"),
            (
                vec![
                    row(STATE_SERVING, (1000, 400), 16),
                    row(STATE_SERVING, (1000, 401), 16),
                    row(STATE_SERVING, (1000, 400), 10),
                ],
                Unevenness::Places(4),
                "about 4 places to move",
            ),
            (
                vec![
                    row(STATE_SERVING, (3000, 1200), 8),
                    row(STATE_SERVING, (3000, 3000), 0),
                    row(STATE_EXPELLED, (1000, 1000), 0),
                ],
                Unevenness::Bytes(900),
                "about 900 B to move",
            ),
        ];
        for (rows, expected, text) in cases {
            let told = Unevenness::of(&rows, None);
            assert_eq!((told, told.to_string().as_str()), (expected, text));
            assert_eq!(Unevenness::of(&[], Some(told)).count(), 0, "level");
        }
    }
}
