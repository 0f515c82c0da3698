//! Sums of what clients say that they moved to and from servers by layouts (LAYOUTSTATS, RFC 7862 §15.7).
//!
//! Owns the sums. A report has the sums of one layout at one server since the layout's first I/O, so only what it adds to the report
//! before counts. Nothing depends on these numbers, since clients may say anything.

use std::collections::BTreeMap;
use tracing_mutex::parkinglot::Mutex;

/// Most layouts whose last report is remembered; the lowest name goes first, and its next report counts as a first one.
const REPORTS_MAX: usize = 16_384;

/// A layout (`other` of its stateid) at a server.
type ReportKey = ([u8; 12], u32);

/// Bytes that clients have moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClientBytes {
    /// Read from a server.
    pub read: u64,
    /// Written to it.
    pub written: u64,
}

#[derive(Default)]
struct Table {
    last: BTreeMap<ReportKey, ClientBytes>,
    sums: BTreeMap<u32, ClientBytes>,
}

/// The sums of all servers.
#[derive(Default)]
pub(crate) struct ClientSums(Mutex<Table>);

impl ClientSums {
    pub(crate) fn note(&self, key: ReportKey, told: ClientBytes) {
        let table = &mut *self.0.lock();
        let before = table.last.insert(key, told).unwrap_or_default();
        if table.last.len() > REPORTS_MAX {
            table.last.pop_first();
        }
        let sum = table.sums.entry(key.1).or_default();
        let add = |sum: u64, now: u64, before: u64| sum.saturating_add(now.saturating_sub(before));
        sum.read = add(sum.read, told.read, before.read);
        sum.written = add(sum.written, told.written, before.written);
    }

    pub(crate) fn of(&self, server: u32) -> ClientBytes {
        self.0.lock().sums.get(&server).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    //! Goal: what is told twice counts once, and lies break nothing.
    use super::*;

    #[test]
    fn only_what_a_report_adds_counts() {
        let io = ClientSums::default();
        let told = |layout: u8, read, written| {
            io.note(([layout; 12], 1), ClientBytes { read, written });
            let sum = io.of(1);
            (sum.read, sum.written)
        };
        assert_eq!(told(1, 10, 0), (10, 0));
        assert_eq!(told(1, 10, 5), (10, 5));
        assert_eq!(told(2, 7, 7), (17, 12));
        assert_eq!(told(1, 3, 6), (17, 13), "one that takes back");
        assert_eq!(told(3, u64::MAX, 0), (u64::MAX, 13));
        assert_eq!(io.of(2), ClientBytes::default());
    }

    #[test]
    fn reports_are_bounded() {
        let io = ClientSums::default();
        for n in 0..=REPORTS_MAX as u64 {
            let mut layout = [0; 12];
            layout[4..].copy_from_slice(&n.to_be_bytes());
            io.note(
                (layout, 1),
                ClientBytes {
                    read: 1,
                    written: 0,
                },
            );
        }
        assert_eq!(io.0.lock().last.len(), REPORTS_MAX);
        assert_eq!(io.of(1).read, REPORTS_MAX as u64 + 1);
    }
}
