//! What `ropewalk status` says of data servers that are behind in what others pass on to them.

use crate::table::bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::fmt::Write as _;

/// A pair is shown when the oldest item waits for so long, in milliseconds,
const OLDEST_MS: u32 = 1_000;
/// or syncs take so long, in microseconds,
const SYNC_US: u32 = 250_000;
/// or so many bytes wait.
const QUEUED_BYTES: u64 = 32 << 20;
/// Pairs that are shown.
const SHOWN_MAX: usize = 8;

/// How far a data server is behind in what another one passes on to it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct LagRow {
    /// The data server that passes on: primary of some of its places.
    pub primary: u32,
    /// The data server that it is passed on to.
    pub member: u32,
    /// Bytes that it has not acknowledged.
    pub queued_bytes: u64,
    /// Changes and syncs that it has not acknowledged.
    pub queued_items: u64,
    /// How long the oldest of these waits, in milliseconds; 0 for none.
    pub oldest_ms: u32,
    /// Mean time of its last syncs in microseconds, the way there and back included; 0 when there was none lately.
    pub sync_us: u32,
}

impl From<&::cluster::PairLag> for LagRow {
    fn from(pair: &::cluster::PairLag) -> Self {
        Self {
            primary: pair.primary,
            member: pair.lag.ds_id,
            queued_bytes: pair.lag.queued_bytes,
            queued_items: pair.lag.queued_items,
            oldest_ms: pair.lag.oldest_ms,
            sync_us: pair.lag.sync_us,
        }
    }
}

impl LagRow {
    fn is_shown(&self) -> bool {
        self.oldest_ms >= OLDEST_MS || self.sync_us >= SYNC_US || self.queued_bytes >= QUEUED_BYTES
    }

    /// The worst first.
    fn rank(&self) -> Reverse<(u32, u64)> {
        Reverse((self.oldest_ms.max(self.sync_us / 1000), self.queued_bytes))
    }
}

/// Seconds with one decimal.
pub(super) fn seconds(ms: u32) -> String {
    format!("{}.{} s", ms / 1000, ms % 1000 / 100)
}

/// A data server that the metadata server has found slow.
pub(super) struct SlowOne<'s> {
    pub(super) id: u32,
    pub(super) why: &'s str,
    pub(super) left_out: bool,
}

/// Those that are slow, why, and what is done about it.
pub(super) fn show_slow<'s>(text: &mut String, slow: impl Iterator<Item = SlowOne<'s>>) {
    for SlowOne { id, why, left_out } in slow {
        let done = match left_out {
            true => "it is left out of places, and is tried again later",
            false => "others are primary of its places where they can be",
        };
        let _ = writeln!(text, "data server {id} is slow: {why}; {done}");
    }
}

/// The pairs that are worth a look, the worst first; nothing when all is well.
pub(super) fn show(text: &mut String, lags: &[LagRow]) {
    let mut shown: Vec<_> = lags.iter().filter(|lag| lag.is_shown()).collect();
    shown.sort_by_key(|lag| lag.rank());
    for lag in shown.iter().take(SHOWN_MAX) {
        let _ = write!(
            text,
            "data server {} is behind {}:",
            lag.member, lag.primary
        );
        if lag.queued_items > 0 {
            let (items, oldest) = (lag.queued_items, seconds(lag.oldest_ms));
            let queued = bytes(lag.queued_bytes);
            let _ = write!(
                text,
                " {queued} in {items} items wait, the oldest for {oldest};"
            );
        }
        let _ = writeln!(text, " syncs take {}", seconds(lag.sync_us / 1000));
    }
    if shown.len() > SHOWN_MAX {
        let _ = writeln!(text, "{} further pairs are behind", shown.len() - SHOWN_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_ones_are_shown_with_the_reason() {
        let slow = |(id, left_out)| SlowOne {
            id,
            why: "2 others wait for it, up to 3.0 s",
            left_out,
        };
        let mut text = String::new();
        show_slow(&mut text, [(2, true), (3, false)].into_iter().map(slow));
        assert_eq!(
            text,
            "data server 2 is slow: 2 others wait for it, up to 3.0 s; it is left out of places, and is tried again later\n\
             data server 3 is slow: 2 others wait for it, up to 3.0 s; others are primary of its places where they can be\n"
        );
    }

    #[test]
    fn pairs_that_are_behind_are_shown_the_worst_first_and_others_are_not() {
        let lag = |member, oldest_ms, sync_us| LagRow {
            primary: 1,
            member,
            queued_bytes: 5 << 20,
            queued_items: 7,
            oldest_ms,
            sync_us,
        };
        let mut text = String::new();
        show(&mut text, &[lag(2, 999, 249_999)]);
        assert_eq!(text, "");
        show(&mut text, &[lag(2, 1_250, 9_000), lag(3, 0, 3_000_000)]);
        assert_eq!(
            text,
            "data server 3 is behind 1: 5.0 MiB in 7 items wait, the oldest for 0.0 s; syncs take 3.0 s\n\
             data server 2 is behind 1: 5.0 MiB in 7 items wait, the oldest for 1.2 s; syncs take 0.0 s\n"
        );
        let mut many = String::new();
        let all: Vec<_> = (1..=10).map(|member| lag(member, 2_000, 0)).collect();
        show(&mut many, &all);
        assert!(many.ends_with("2 further pairs are behind\n"), "{many}");
    }
}
