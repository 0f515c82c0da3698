//! Clocks: whether this machine's is set by others, and whether those of data servers differ.
//!
//! Servers tell each other no time. What a data server says of its last scrub shows a clock that is ahead, and nothing shows one that
//! is behind.

use super::outside;
use super::row::Row;
use crate::status::DataServerRow;
use crate::times::now_s;
use std::path::Path;

/// The name of its row.
pub(super) const CHECK: &str = "clock";
/// systemd-timesyncd makes this when it has set the clock.
const TIMESYNCD: &str = "/run/systemd/timesync/synchronized";
/// A clock that is ahead by less does no harm that anybody sees.
const AHEAD_SECONDS_MAX: i64 = 5;

/// The clock of this machine.
pub(super) fn of_machine() -> Row {
    if Path::new(TIMESYNCD).exists() {
        return judge(Some(true));
    }
    // It asks the kernel (adjtimex), whoever sets the clock.
    let said = outside::ask(
        "timedatectl",
        &["show", "--property=NTPSynchronized", "--value"],
    );
    judge(match said.as_deref().map(str::trim) {
        Some("yes") => Some(true),
        Some("no") => Some(false),
        _ => None,
    })
}

fn judge(synchronized: Option<bool>) -> Row {
    match synchronized {
        Some(true) => Row::ok(CHECK, "the clock is set by a time server"),
        Some(false) => Row::warning(
            CHECK,
            "no time server sets the clock: file times and certificates depend on it",
            "run systemd-timesyncd or chrony on all machines of the cluster",
        ),
        None => Row::unknown(
            CHECK,
            "whether a time server sets the clock cannot be told here (no timedatectl)",
        ),
    }
}

/// The clocks of data servers that are ahead of this one.
pub(super) fn of_data_servers(all: &[DataServerRow]) -> Vec<Row> {
    ahead(all, now_s())
}

fn ahead(all: &[DataServerRow], now: i64) -> Vec<Row> {
    let ahead = all
        .iter()
        .map(|ds| (ds.id, ds.scrub.scrubbed_at.saturating_sub(now)));
    let ahead = ahead.filter(|(_, seconds)| *seconds > AHEAD_SECONDS_MAX);
    ahead
        .map(|(id, seconds)| {
            Row::warning(
                CHECK,
                format!("the clock of data server {id} is ahead of this machine's by {seconds} s at least"),
                "have a time server set both clocks",
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    //! Goal: a clock that nobody sets, and one that is ahead, are named.
    use super::*;
    use crate::doctor::row::Verdict;
    use crate::status::ScrubRow;

    #[test]
    fn clocks_have_their_verdicts() {
        let verdicts = [Some(true), Some(false), None].map(|s| judge(s).verdict);
        assert_eq!(verdicts, [Verdict::Ok, Verdict::Warning, Verdict::Unknown]);
        let ds = |scrubbed_at| DataServerRow {
            scrub: ScrubRow {
                scrubbed_at,
                ..ScrubRow::default()
            },
            ..DataServerRow::default()
        };
        for (scrubbed_at, count) in [
            (0, 0),
            (900, 0),
            (1005, 0),
            (1006, 1),
            (i64::MAX, 1),
            (i64::MIN, 0),
        ] {
            assert_eq!(
                ahead(&[ds(scrubbed_at)], 1000).len(),
                count,
                "{scrubbed_at}"
            );
        }
    }
}
