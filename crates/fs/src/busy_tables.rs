//! The directories and clients that are busiest lately.
//!
//! Owns a sketch of each, and the time that their counts are of. Counts are halved each [`HALVE_AFTER_MS`]: what they tell is the
//! last half minute to minute, and what was before weighs less and less. The time is halved with them, so that a
//! rate is a count by its time, from the first second on.

use crate::heavy_hitters::HeavyHitters;
use crate::sampling::SAMPLED_ONE_IN;
use nfs4::ClientId;
use std::net::IpAddr;
use tracing_mutex::parkinglot::Mutex;

/// Directories and clients that are counted at once, each.
pub const BUSY_COUNTERS_MAX: usize = 256;
/// Counts are halved after so long.
const HALVE_AFTER_MS: u64 = 30_000;

/// Whose operations are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BusyClient {
    /// A client of NFSv4.
    Known(ClientId),
    /// All that comes from an address without a client: NFSv3, and NFSv4.0 where an operation does not tell its client.
    Address(IpAddr),
}

/// One directory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BusyDirectory {
    /// Its file id.
    pub file: u64,
    /// Operations in it and on it a second, at least.
    pub operations_per_s: f64,
}

/// What one client does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BusyClientRates {
    /// Who.
    pub client: BusyClient,
    /// Operations a second, at least.
    pub operations_per_s: f64,
    /// Bytes a second that it reads through this server.
    pub read_bytes_per_s: f64,
    /// Bytes a second that it writes through this server.
    pub written_bytes_per_s: f64,
}

/// The busiest, each kind with the most operations first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Busiest {
    /// Seconds that the counts are of.
    pub seconds: f64,
    /// Directories.
    pub directories: Vec<BusyDirectory>,
    /// Clients.
    pub clients: Vec<BusyClientRates>,
}

/// Bytes of a client.
#[derive(Debug, Clone, Copy, Default)]
struct Moved {
    read: u64,
    written: u64,
}

#[derive(Debug)]
struct Tables {
    directories: HeavyHitters<u64, ()>,
    clients: HeavyHitters<BusyClient, Moved>,
    /// Since when counts are not halved.
    since_ms: u64,
    /// The time before that they are of.
    before_ms: u64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct BusyTables(Mutex<Tables>);

impl BusyTables {
    pub(crate) fn new(now_ms: u64) -> Self {
        Self(Mutex::new(Tables {
            directories: HeavyHitters::new(BUSY_COUNTERS_MAX),
            clients: HeavyHitters::new(BUSY_COUNTERS_MAX),
            since_ms: now_ms,
            before_ms: 0,
        }))
    }

    /// A sampled operation of a client, in these directories.
    pub(crate) fn note(&self, client: Option<BusyClient>, directories: [Option<u64>; 2]) {
        let weight = u64::from(SAMPLED_ONE_IN);
        let mut tables = self.0.lock();
        for directory in directories.into_iter().flatten() {
            tables.directories.note(directory, weight);
        }
        if let Some(client) = client {
            tables.clients.note(client, weight);
        }
    }

    /// A sampled READ or WRITE has moved bytes. They count for a client that has a counter.
    pub(crate) fn note_moved(&self, client: BusyClient, read: u64, written: u64) {
        let weight = u64::from(SAMPLED_ONE_IN);
        let mut tables = self.0.lock();
        if let Some(moved) = tables.clients.beside(client) {
            moved.read = moved.read.saturating_add(read.saturating_mul(weight));
            moved.written = moved.written.saturating_add(written.saturating_mul(weight));
        }
    }

    /// Halves the counts when it is time. To be called about every second.
    pub(crate) fn tick(&self, now_ms: u64) {
        let mut tables = self.0.lock();
        let elapsed_ms = now_ms.saturating_sub(tables.since_ms);
        if elapsed_ms < HALVE_AFTER_MS {
            return;
        }
        tables.since_ms = now_ms;
        tables.before_ms = tables.before_ms.saturating_add(elapsed_ms) / 2;
        tables.directories.halve(|()| {});
        tables.clients.halve(|moved| {
            moved.read /= 2;
            moved.written /= 2;
        });
    }

    /// At most `max` of each kind.
    pub(crate) fn busiest(&self, now_ms: u64, max: usize) -> Busiest {
        let tables = self.0.lock();
        let time_ms = now_ms.saturating_sub(tables.since_ms) + tables.before_ms;
        // Less than a second tells nothing of a second.
        let seconds = std::time::Duration::from_millis(time_ms.max(1000)).as_secs_f64();
        let rate = |count: u64| rate(count, seconds);
        let directories = tables.directories.top(max).into_iter();
        let directories = directories.map(|counter| BusyDirectory {
            file: counter.key,
            operations_per_s: rate(counter.at_least()),
        });
        let clients = tables.clients.top(max).into_iter();
        let clients = clients.map(|counter| BusyClientRates {
            client: counter.key,
            operations_per_s: rate(counter.at_least()),
            read_bytes_per_s: rate(counter.beside.read),
            written_bytes_per_s: rate(counter.beside.written),
        });
        Busiest {
            seconds,
            directories: directories.collect(),
            clients: clients.collect(),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a rate for people")]
fn rate(count: u64, seconds: f64) -> f64 {
    count as f64 / seconds
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: BusyClient = BusyClient::Known(ClientId { value: 1 });

    fn is_near(a: f64, b: f64) -> bool {
        (a - b).abs() < b / 100.0
    }

    /// Ticks each second; in each there are so many samples of a directory, with a client that reads.
    fn run(tables: &BusyTables, seconds: std::ops::Range<u64>, samples: u64) {
        for second in seconds {
            for _ in 0..samples {
                tables.note(Some(ONE), [Some(7), None]);
                tables.note_moved(ONE, 100, 0);
            }
            tables.tick((second + 1) * 1000);
        }
    }

    #[test]
    fn a_steady_rate_is_told_from_the_first_second_on() {
        let tables = BusyTables::new(0);
        let mut from = 0;
        for second in [1, 5, 29, 30, 31, 60, 300] {
            run(&tables, from..second, 5);
            from = second;
            let told = tables.busiest(second * 1000, 10);
            let wanted = 5.0 * f64::from(SAMPLED_ONE_IN);
            let (directory, client) = (told.directories[0], told.clients[0]);
            assert_eq!((directory.file, client.client), (7, ONE));
            assert!(is_near(directory.operations_per_s, wanted), "{told:?}");
            assert!(is_near(client.operations_per_s, wanted), "{told:?}");
            assert!(is_near(client.read_bytes_per_s, wanted * 100.0), "{told:?}");
            assert_eq!(client.written_bytes_per_s, 0.0);
            assert!(told.seconds <= 60.0, "{told:?}");
        }
    }

    #[test]
    fn what_has_ended_is_forgotten_within_minutes() {
        let tables = BusyTables::new(0);
        run(&tables, 0..60, 5);
        let before = tables.busiest(60_000, 10).directories[0].operations_per_s;
        run(&tables, 60..120, 0);
        let after = tables.busiest(120_000, 10).directories[0].operations_per_s;
        assert!(after < before / 3.0, "{before} {after}");
        run(&tables, 120..600, 0);
        let gone = tables.busiest(600_000, 10);
        assert!(gone.directories.is_empty() && gone.clients.is_empty());
    }

    #[test]
    fn bytes_of_a_client_without_a_counter_and_rows_beyond_the_most_are_left_out() {
        let tables = BusyTables::new(0);
        tables.note_moved(ONE, 100, 100);
        assert_eq!(tables.busiest(1000, 10).clients, []);
        for file in 0..10 {
            tables.note(None, [Some(file), Some(file + 100)]);
        }
        assert_eq!(tables.busiest(1000, 3).directories.len(), 3);
    }
}
