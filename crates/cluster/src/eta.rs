//! How long it takes until each place has its copies, from the progress of fillings. A guess: it holds as long as fillings
//! go on as they did.

use control::FillProgress;
use std::collections::BTreeMap;
use tokio::time::Instant;

/// Group, place and member of a filling.
pub(crate) type FillKey = (u32, u32, u32);

/// When fillings were first heard of.
#[derive(Debug, Default)]
pub(crate) struct FillTimes(BTreeMap<FillKey, Instant>);

fn key_of(filling: &FillProgress) -> FillKey {
    (filling.group, filling.place, filling.ds_id)
}

impl FillTimes {
    /// Takes in the fillings of a HEARTBEAT; those that it does not name have ended.
    pub(crate) fn note(&mut self, fillings: &[FillProgress], now: Instant) {
        let begun = |f: &FillProgress| self.0.get(&key_of(f)).copied().unwrap_or(now);
        self.0 = fillings.iter().map(|f| (key_of(f), begun(f))).collect();
    }

    /// For how many seconds a filling has been known.
    pub(crate) fn seconds(&self, filling: &FillProgress, now: Instant) -> u64 {
        let begun = self.0.get(&key_of(filling)).copied();
        begun.map_or(0, |at| now.saturating_duration_since(at).as_secs())
    }
}

/// Seconds until all copies are there: those that are made now, each with its seconds so far, and those of `waiting` places
/// after them. `None` while that cannot be known: nothing is made, or one of them shows no progress yet.
pub(crate) fn seconds_left(fillings: &[(FillProgress, u64)], waiting: u64) -> Option<u64> {
    let count = u64::try_from(fillings.len()).ok()?;
    if count == 0 {
        return (waiting == 0).then_some(0);
    }
    let (mut longest, mut whole) = (0_u64, 0_u64);
    for (filling, seconds) in fillings {
        if filling.parts == 0 {
            continue;
        }
        if filling.parts_done == 0 || *seconds == 0 {
            return None;
        }
        let all = u128::from(*seconds) * u128::from(filling.parts) / u128::from(filling.parts_done);
        let all = u64::try_from(all).unwrap_or(u64::MAX);
        longest = longest.max(all.saturating_sub(*seconds));
        whole = whole.saturating_add(all);
    }
    let each = whole / count;
    let later = u128::from(each) * u128::from(waiting) / u128::from(count);
    Some(longest.saturating_add(u64::try_from(later).unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_follows_from_progress_and_is_unknown_without() {
        let filling = |parts, parts_done| FillProgress {
            group: 1,
            place: 0,
            ds_id: 2,
            parts,
            parts_done,
            bytes_sent: 0,
        };
        let half = (filling(100, 50), 10);
        assert_eq!(seconds_left(&[], 0), Some(0));
        assert_eq!(seconds_left(&[], 1), None);
        assert_eq!(seconds_left(&[half], 0), Some(10));
        assert_eq!(seconds_left(&[half, half], 4), Some(10 + 40));
        assert_eq!(seconds_left(&[half, (filling(100, 0), 10)], 0), None);
        assert_eq!(seconds_left(&[(filling(0, 0), 0)], 0), Some(0));
    }
}
