//! Two readings of the servers, and what they did between them.
//!
//! Owns rates and quantiles. Pure: may not ask a server, look at a clock or draw.

use crate::busiest::{TopClient, TopDirectory, TopPage};
use crate::clients::{ClientPage, ClientRow};
use crate::failure::Outcome;
use crate::status::latency::LatencyRow;
use crate::status::{MdsStatus, STATE_EXPELLED, ServerStatus};
use serde::Serialize;
use server::{LATENCY_BOUNDS_US, LATENCY_BUCKETS};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What servers say at one moment, by the names of their directories.
#[derive(Debug, Default)]
pub(super) struct Reading {
    pub(super) servers: BTreeMap<String, Outcome<ServerStatus>>,
    pub(super) clients: ClientPage,
    pub(super) busiest: TopPage,
}

/// One server.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(super) struct ServerRates {
    pub(super) name: String,
    pub(super) state: String,
    pub(super) read_bytes_per_s: f64,
    pub(super) written_bytes_per_s: f64,
    /// None of a data server that only the metadata server speaks of.
    pub(super) requests_per_s: Option<f64>,
}

/// One operation over one transport, at all servers.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(super) struct OperationRates {
    pub(super) operation: String,
    pub(super) transport: String,
    pub(super) per_s: f64,
    pub(super) p50_us: u64,
    pub(super) p99_us: u64,
}

/// What happened in an interval.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Sample {
    pub(super) interval_seconds: f64,
    pub(super) servers: Vec<ServerRates>,
    /// The most frequent first; those that were not asked for are left out.
    pub(super) operations: Vec<OperationRates>,
    /// The first page of the clients of the metadata server.
    pub(super) clients: Vec<ClientRow>,
    /// Directories with the most operations, of `busiest_seconds` and not of the interval.
    pub(super) directories: Vec<TopDirectory>,
    /// Clients with the most operations, of that time too.
    pub(super) busiest_clients: Vec<TopClient>,
    /// Seconds that rates of directories and of the busiest clients are means of.
    pub(super) busiest_seconds: f64,
}

/// Counts of one server: bytes read, bytes written, requests.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    read: u64,
    written: u64,
    requests: Option<u64>,
}

/// A count that went back is one of a server that was started again.
#[expect(clippy::cast_precision_loss, reason = "a rate for people")]
fn rate(before: u64, after: u64, took: Duration) -> f64 {
    let seconds = took.as_secs_f64();
    if seconds <= 0.0 {
        return 0.0;
    }
    after.saturating_sub(before) as f64 / seconds
}

/// What happened between two readings.
pub(super) fn rates(before: &Reading, after: &Reading, took: Duration) -> Sample {
    let old: BTreeMap<_, _> = (rows(before).into_iter())
        .map(|(name, _, counts)| (name, counts))
        .collect();
    let servers = rows(after).into_iter().map(|(name, state, new)| {
        // A server that was not there is at its beginning.
        let old = old.get(&name).copied().unwrap_or(new);
        let requests = old.requests.zip(new.requests);
        ServerRates {
            read_bytes_per_s: rate(old.read, new.read, took),
            written_bytes_per_s: rate(old.written, new.written, took),
            requests_per_s: requests.map(|(old, new)| rate(old, new, took)),
            name,
            state,
        }
    });
    Sample {
        interval_seconds: took.as_secs_f64(),
        servers: servers.collect(),
        operations: operations(before, after, took),
        clients: after.clients.clients.clone(),
        directories: after.busiest.directories.clone(),
        busiest_clients: after.busiest.clients.clone(),
        busiest_seconds: after.busiest.seconds,
    }
}

/// Name, state and counts of each server, numbers after names.
fn rows(reading: &Reading) -> Vec<(String, String, Counts)> {
    let mut rows = Vec::new();
    let mut ids = BTreeSet::new();
    for (name, answer) in &reading.servers {
        let (state, counts) = match answer {
            Err(why) => (why.to_string(), Counts::default()),
            Ok(ServerStatus::Mds(mds)) => {
                let state = if mds.in_grace { "grace" } else { "serving" };
                let (read, written) = (mds.proxy_read_bytes, mds.proxy_written_bytes);
                let requests = Some(requests(&mds.latency));
                let counts = Counts {
                    read,
                    written,
                    requests,
                };
                (state.to_owned(), counts)
            }
            Ok(ServerStatus::Ds(ds)) => {
                ids.extend(ds.ds_id);
                let counts = Counts {
                    read: ds.client_read_bytes.saturating_add(ds.proxy_read_bytes),
                    written: ds
                        .client_written_bytes
                        .saturating_add(ds.proxy_written_bytes),
                    requests: Some(requests(&ds.latency)),
                };
                (ds.state.clone(), counts)
            }
        };
        rows.push((name.clone(), state, counts));
    }
    for answer in reading.servers.values().flatten() {
        if let ServerStatus::Mds(mds) = answer {
            rows.extend(elsewhere(mds, &ids));
        }
    }
    rows.sort_by(|a, b| (a.0.len(), &a.0).cmp(&(b.0.len(), &b.0)));
    rows
}

/// Data servers of which only the metadata server speaks, as of their last heartbeats.
fn elsewhere(mds: &MdsStatus, ids: &BTreeSet<u32>) -> Vec<(String, String, Counts)> {
    let others = mds.data_servers.iter();
    let others = others.filter(|ds| ds.state != STATE_EXPELLED && !ids.contains(&ds.id));
    let row = |ds: &crate::status::DataServerRow| {
        let counts = Counts {
            read: ds.client_read_bytes.saturating_add(ds.proxy_read_bytes),
            written: ds
                .client_written_bytes
                .saturating_add(ds.proxy_written_bytes),
            requests: None,
        };
        (format!("ds {}", ds.id), ds.state.clone(), counts)
    };
    others.map(row).collect()
}

fn requests(rows: &[LatencyRow]) -> u64 {
    rows.iter()
        .map(LatencyRow::count)
        .fold(0, u64::saturating_add)
}

type Buckets = [u64; LATENCY_BUCKETS];

/// The histograms of a reading, by server, operation and transport. Those with other buckets are of another version, and left out.
fn histograms(reading: &Reading) -> BTreeMap<(&str, &str, &str), Buckets> {
    let mut all = BTreeMap::new();
    for (name, answer) in &reading.servers {
        let rows = match answer {
            Ok(ServerStatus::Mds(mds)) => &mds.latency,
            Ok(ServerStatus::Ds(ds)) => &ds.latency,
            Err(_) => continue,
        };
        for row in rows {
            if let Ok(buckets) = Buckets::try_from(&row.buckets[..]) {
                let key = (
                    name.as_str(),
                    row.operation.as_str(),
                    row.transport.as_str(),
                );
                all.insert(key, buckets);
            }
        }
    }
    all
}

fn operations(before: &Reading, after: &Reading, took: Duration) -> Vec<OperationRates> {
    let old = histograms(before);
    let mut sums: BTreeMap<(&str, &str), Buckets> = BTreeMap::new();
    for (key, new) in histograms(after) {
        // An operation that a server had not been asked for is not in what it said before; a server that did not answer
        // has none at all, and then what it has now is no news.
        if !matches!(before.servers.get(key.0), Some(Ok(_))) {
            continue;
        }
        let old = old.get(&key).copied().unwrap_or_default();
        let sum = sums.entry((key.1, key.2)).or_default();
        for (sum, (old, new)) in sum.iter_mut().zip(old.iter().zip(new)) {
            *sum = sum.saturating_add(new.saturating_sub(*old));
        }
    }
    let rows = sums.into_iter().map(|((operation, transport), buckets)| {
        let count = buckets.iter().fold(0, |sum: u64, n| sum.saturating_add(*n));
        OperationRates {
            operation: operation.to_owned(),
            transport: transport.to_owned(),
            per_s: rate(0, count, took),
            p50_us: quantile(&buckets, 50),
            p99_us: quantile(&buckets, 99),
        }
    });
    let mut rows: Vec<_> = rows.filter(|row| row.per_s > 0.0).collect();
    rows.sort_by(|a, b| b.per_s.total_cmp(&a.per_s));
    rows
}

/// The time below which so many per cent are, as Prometheus guesses it: evenly within a bucket. What is above all bounds counts
/// as the last bound.
fn quantile(buckets: &Buckets, percent: u64) -> u64 {
    let count: u128 = buckets.iter().map(|n| u128::from(*n)).sum();
    // In hundredths of a request.
    let wanted = count * u128::from(percent);
    let mut below = 0;
    let mut low_us = 0;
    for (n, high_us) in buckets.iter().zip(LATENCY_BOUNDS_US) {
        let here = u128::from(*n) * 100;
        if here > 0 && below + here >= wanted {
            let part = u128::from(high_us - low_us) * (wanted - below) / here;
            return low_us + u64::try_from(part).unwrap_or(0);
        }
        below += here;
        low_us = high_us;
    }
    if count == 0 { 0 } else { low_us }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::failed;
    use crate::status::{DataServerRow, DsStatus};

    fn buckets(of: &[(usize, u64)]) -> Buckets {
        let mut all = [0; LATENCY_BUCKETS];
        of.iter().for_each(|(at, n)| all[*at] = *n);
        all
    }

    #[test]
    fn quantiles_lie_within_their_bucket() {
        for (of, percent, us) in [
            (&[][..], 50, 0),
            (&[(0, 100)], 50, 25),
            (&[(2, 2)], 50, 325),
            (&[(0, 98), (4, 2)], 99, 3_250),
            (&[(12, 1)], 50, 10_000_000),
        ] {
            assert_eq!(quantile(&buckets(of), percent), us, "{of:?} {percent}");
        }
    }

    fn reading(read: u64, reads: u64) -> Reading {
        let row = LatencyRow {
            operation: "Read".to_owned(),
            transport: "tcp".to_owned(),
            buckets: buckets(&[(0, reads)]).to_vec(),
            sum_us: 0,
        };
        let ds = DsStatus {
            ds_id: Some(1),
            state: "serving".to_owned(),
            client_read_bytes: read,
            latency: vec![row],
            ..DsStatus::default()
        };
        let row = |id| DataServerRow {
            id,
            client_written_bytes: read,
            state: "away".to_owned(),
            ..DataServerRow::default()
        };
        let mds = MdsStatus {
            data_servers: vec![row(1), row(2)],
            ..MdsStatus::default()
        };
        let servers = [
            ("ds-1".to_owned(), Ok(ServerStatus::Ds(Box::new(ds)))),
            ("ds-3".to_owned(), Err(failed("it hangs"))),
            ("mds".to_owned(), Ok(ServerStatus::Mds(Box::new(mds)))),
        ];
        Reading {
            servers: servers.into(),
            ..Reading::default()
        }
    }

    #[test]
    fn rates_are_differences_by_seconds_and_a_restart_is_none() {
        let sample = rates(&reading(100, 10), &reading(300, 50), Duration::from_secs(2));
        let of = |name: &str| sample.servers.iter().find(|s| s.name == name).unwrap();
        assert_eq!(of("ds-1").read_bytes_per_s, 100.0);
        assert_eq!(of("ds-1").requests_per_s, Some(20.0));
        assert_eq!(of("ds-3").state, "it hangs");
        assert_eq!(of("ds 2").written_bytes_per_s, 100.0);
        assert_eq!(of("ds 2").requests_per_s, None);
        assert!(
            !sample.servers.iter().any(|s| s.name == "ds 1"),
            "told twice"
        );
        assert_eq!(sample.operations.len(), 1);
        assert_eq!(sample.operations[0].per_s, 20.0);
        let back = rates(&reading(300, 50), &reading(0, 0), Duration::from_secs(1));
        assert!(back.servers.iter().all(|s| s.read_bytes_per_s == 0.0));
        assert!(back.operations.is_empty());
    }
}
