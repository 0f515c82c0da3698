//! How long requests take: histograms by operation and transport, as a status has them.
//!
//! Owns their names and what is read out of them. May not ask a server.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use server::{Counters, LATENCY_BOUNDS_US, LatencyRow as Counted};

/// Requests of one operation over one transport.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct LatencyRow {
    /// The operation that names the request, or `Nfs3` and a procedure.
    pub operation: String,
    /// `tcp` or `rdma`.
    pub transport: String,
    /// Requests by bucket, each in one only; the last one has what is above all bounds of [`LATENCY_BOUNDS_US`].
    pub buckets: Vec<u64>,
    /// Microseconds of all together.
    pub sum_us: u64,
}

impl LatencyRow {
    fn of(prefix: &str, name: &impl std::fmt::Debug, row: &Counted) -> Self {
        Self {
            operation: format!("{prefix}{name:?}"),
            transport: row.transport.as_str().to_owned(),
            buckets: row.buckets.to_vec(),
            sum_us: row.sum_us,
        }
    }

    /// Requests.
    pub(crate) fn count(&self) -> u64 {
        self.buckets.iter().fold(0, |sum, n| sum.saturating_add(*n))
    }

    /// Its buckets for the page, with their upper bounds in seconds. The page adds them up.
    pub(crate) fn with_bounds(&self) -> Vec<(f64, u64)> {
        let seconds = |us: &u64| std::time::Duration::from_micros(*us).as_secs_f64();
        let bounds = LATENCY_BOUNDS_US.iter().map(seconds);
        let bounds = bounds.chain(std::iter::once(f64::INFINITY));
        bounds.zip(self.buckets.iter().copied()).collect()
    }
}

/// The histograms of a server: those of COMPOUNDs, then those of NFSv3.
pub(crate) fn rows(counters: &Counters) -> Vec<LatencyRow> {
    let compounds = counters.latencies.rows().filter_map(|row| {
        let number = u32::try_from(row.number).ok()?;
        let op = nfs4::OpNum::from_u32(number)?;
        Some(LatencyRow::of("", &op, &row))
    });
    let calls = counters.nfs3_latencies.rows().filter_map(|row| {
        let proc = nfs3::Proc::ALL
            .iter()
            .find(|p| **p as usize == row.number)?;
        Some(LatencyRow::of("Nfs3", proc, &row))
    });
    compounds.chain(calls).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use transport::TransportKind;

    #[test]
    fn operations_and_procedures_are_told_apart() {
        let counters = Counters::default();
        let began = tokio::time::Instant::now();
        let (read_4, read_3) = (nfs4::OpNum::Read as usize, nfs3::Proc::Read as usize);
        counters.latencies.ended(read_4, TransportKind::Rdma, began);
        (counters.nfs3_latencies).ended(read_3, TransportKind::Tcp, began);
        let rows = rows(&counters);
        let names = rows
            .iter()
            .map(|r| (r.operation.as_str(), r.transport.as_str()));
        let names: Vec<_> = names.collect();
        assert_eq!(names, [("Read", "rdma"), ("Nfs3Read", "tcp")]);
        assert!(rows.iter().all(|row| row.count() == 1));
    }
}
