//! What a rebalance has to move, about: from the rows of data servers alone.

use super::{DataServerRow, STATE_SERVING};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Fills that differ by less, in thousandths, are those of one disk, which all share.
const ONE_DISK_PERMILLE: u64 = 10;

/// What is to be moved until data servers are level, about; of those that take new files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct ToLevel {
    /// Bytes: servers fill their disks to the same share.
    pub bytes: u64,
    /// Places: servers have as many.
    pub places: u64,
    /// Whether the disks are filled alike, as one disk that all share: places tell more than bytes then.
    pub one_disk: bool,
}

impl ToLevel {
    /// By what the metadata server knows of its data servers.
    pub(crate) fn of(rows: &[DataServerRow]) -> Self {
        let serving = || rows.iter().filter(|row| row.state == STATE_SERVING);
        // What is above this share of a whole.
        let above = |is: fn(&DataServerRow) -> u64, of: fn(&DataServerRow) -> u64| {
            let all = serving().map(|row| u128::from(is(row))).sum::<u128>();
            let whole = serving().map(|row| u128::from(of(row))).sum::<u128>();
            let share = |row| (u128::from(of(row)) * all).div_ceil(whole.max(1));
            let above = serving().map(|row| u128::from(is(row)).saturating_sub(share(row)));
            u64::try_from(above.sum::<u128>()).unwrap_or(u64::MAX)
        };
        let fills = || serving().map(|row| permille(row.used_bytes(), row.total_bytes));
        Self {
            bytes: above(DataServerRow::used_bytes, |row| row.total_bytes),
            places: above(|row| row.places, |_| 1),
            one_disk: fills().max().unwrap_or(0) < fills().min().unwrap_or(0) + ONE_DISK_PERMILLE,
        }
    }
}

fn permille(part: u64, whole: u64) -> u64 {
    let permille = u128::from(part) * 1000 / u128::from(whole.max(1));
    u64::try_from(permille).unwrap_or(1000)
}

#[cfg(test)]
mod tests {
    //! Goal: what is to be moved is told by what a rebalance makes level.

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
    fn what_is_above_an_even_share_is_to_be_moved() {
        let (nobody, one_disk) = (
            vec![],
            vec![
                row(STATE_SERVING, (1000, 400), 16),
                row(STATE_SERVING, (1000, 401), 16),
                row(STATE_SERVING, (1000, 400), 10),
            ],
        );
        let own_disks = vec![
            row(STATE_SERVING, (3000, 1200), 8),
            row(STATE_SERVING, (3000, 3000), 0),
            row(STATE_EXPELLED, (1000, 1000), 0),
        ];
        for (rows, bytes, places, one_disk) in [
            (nobody, 0, 0, true),
            (one_disk, 0, 4, true),
            (own_disks, 900, 4, false),
        ] {
            let expected = ToLevel {
                bytes,
                places,
                one_disk,
            };
            assert_eq!(ToLevel::of(&rows), expected);
        }
    }
}
