//! How long requests take, by operation and transport, for the histograms of the metrics.
//!
//! Owns the counts of buckets. May call the clock of `tokio`, which tests stop. May not lock or allocate for a request.
//!
//! # Cost
//! A request reads the clock twice and adds to two relaxed atomics: one bucket and one sum. All threads share them, as
//! they share the other counters. The memory is fixed when the server starts, about 200 bytes for each operation.

use nfs4::OpNum;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use tokio::time::Instant;
use transport::TransportKind;

/// Upper bounds of the buckets in microseconds. One more bucket has what took longer.
pub const LATENCY_BOUNDS_US: [u64; 12] = [
    50, 150, 500, 1_500, 5_000, 15_000, 50_000, 150_000, 500_000, 1_500_000, 5_000_000, 10_000_000,
];
/// Buckets of one histogram.
pub const LATENCY_BUCKETS: usize = LATENCY_BOUNDS_US.len() + 1;
/// Transports that are told apart.
const TRANSPORTS: [LatencyTransport; 2] = [LatencyTransport::Tcp, LatencyTransport::Rdma];

/// What a request came over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LatencyTransport {
    /// TCP, with TLS or without. Connections within the process count here, too.
    Tcp,
    /// RPC-over-RDMA.
    Rdma,
}

impl LatencyTransport {
    /// Its label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Rdma => "rdma",
        }
    }

    pub(crate) const fn of(kind: TransportKind) -> Self {
        match kind {
            TransportKind::Rdma => Self::Rdma,
            TransportKind::Tcp
            | TransportKind::Tls
            | TransportKind::Tunnel
            | TransportKind::Memory => Self::Tcp,
        }
    }
}

/// Requests of one operation over one transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LatencyRow {
    /// The number of the operation or procedure.
    pub number: usize,
    /// What the requests came over.
    pub transport: LatencyTransport,
    /// Requests by bucket, each in one bucket only.
    pub buckets: [u64; LATENCY_BUCKETS],
    /// Microseconds of all together.
    pub sum_us: u64,
}

#[derive(Debug, Default)]
struct Cell {
    buckets: [AtomicU64; LATENCY_BUCKETS],
    sum_us: AtomicU64,
}

/// Histograms of the operations of one program.
#[derive(Debug)]
pub struct Latencies {
    /// One of each transport for each number.
    cells: Box<[[Cell; TRANSPORTS.len()]]>,
}

impl Latencies {
    /// Histograms for operations of numbers below `count`.
    pub(crate) fn new(count: usize) -> Self {
        Self {
            cells: (0..count).map(|_| Default::default()).collect(),
        }
    }

    /// A request that began then ends now. A number that the program does not have is not counted.
    pub fn ended(&self, number: usize, kind: TransportKind, began: Instant) {
        let took_us = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        let Some(cells) = self.cells.get(number) else {
            return;
        };
        let cell = &cells[LatencyTransport::of(kind) as usize];
        let at = LATENCY_BOUNDS_US.partition_point(|bound| *bound < took_us);
        cell.buckets[at].fetch_add(1, Relaxed);
        cell.sum_us.fetch_add(took_us, Relaxed);
    }

    /// The histograms, empty ones left out. Requests that end meanwhile may be in a bucket and not in the sum yet.
    pub fn rows(&self) -> impl Iterator<Item = LatencyRow> + '_ {
        let cells = self.cells.iter().enumerate();
        let cells =
            cells.flat_map(|(number, of)| TRANSPORTS.iter().zip(of).map(move |c| (number, c)));
        let rows = cells.map(|(number, (transport, cell))| LatencyRow {
            number,
            transport: *transport,
            buckets: cell.buckets.each_ref().map(|n| n.load(Relaxed)),
            sum_us: cell.sum_us.load(Relaxed),
        });
        rows.filter(|row| row.buckets.iter().any(|n| *n > 0))
    }
}

/// How much an operation says of what its COMPOUND is for. The last one of the highest rank names the request.
const fn rank(op: OpNum) -> u8 {
    match op {
        OpNum::Sequence
        | OpNum::PutFh
        | OpNum::PutRootFh
        | OpNum::PutPubFh
        | OpNum::GetFh
        | OpNum::SaveFh
        | OpNum::RestoreFh => 0,
        OpNum::GetAttr | OpNum::Verify | OpNum::NVerify => 1,
        OpNum::Access => 2,
        _ => 3,
    }
}

/// The operation that names a COMPOUND which was named by `known` and goes on with `next`.
pub(crate) const fn main_op(known: Option<OpNum>, next: OpNum) -> OpNum {
    match known {
        Some(known) if rank(known) > rank(next) => known,
        _ => next,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn a_request_is_in_the_bucket_of_its_time_and_of_its_transport() {
        for (took_us, at) in [(0, 0), (50, 0), (51, 1), (10_000_000, 11), (10_000_001, 12)] {
            let latencies = Latencies::new(3);
            let began = Instant::now();
            tokio::time::advance(Duration::from_micros(took_us)).await;
            latencies.ended(2, TransportKind::Rdma, began);
            latencies.ended(3, TransportKind::Rdma, began);
            let rows: Vec<_> = latencies.rows().collect();
            let mut buckets = [0; LATENCY_BUCKETS];
            buckets[at] = 1;
            let row = LatencyRow {
                number: 2,
                transport: LatencyTransport::Rdma,
                buckets,
                sum_us: took_us,
            };
            assert_eq!(rows, [row], "{took_us}");
        }
    }

    #[test]
    fn tls_counts_as_tcp() {
        let latencies = Latencies::new(1);
        for kind in [TransportKind::Tcp, TransportKind::Tls] {
            latencies.ended(0, kind, Instant::now());
        }
        let rows: Vec<_> = latencies.rows().collect();
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0].transport.as_str(), "tcp");
        assert_eq!(rows[0].buckets.iter().sum::<u64>(), 2);
    }

    #[test]
    fn a_compound_is_named_by_the_last_operation_that_says_what_it_is_for() {
        use OpNum::*;
        for (ops, name) in [
            (&[Sequence][..], Sequence),
            (&[Sequence, PutFh, GetAttr], GetAttr),
            (&[Sequence, PutFh, Access, GetAttr], Access),
            (&[Sequence, PutFh, Open, GetFh, Access, GetAttr], Open),
            (&[Sequence, PutFh, Open, GetFh, LayoutGet], LayoutGet),
            (&[Sequence, PutFh, SaveFh, PutFh, Rename], Rename),
            (&[Sequence, PutFh, Write, GetAttr], Write),
        ] {
            let named = ops.iter().fold(None, |known, op| Some(main_op(known, *op)));
            assert_eq!(named, Some(name), "{ops:?}");
        }
    }
}
