//! The histograms of how long requests take.

use crate::status::latency::LatencyRow;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use std::fmt::Error;

/// One histogram for each operation and transport that was used: both are fixed lists.
pub(super) fn of_operations(
    page: &mut DescriptorEncoder<'_>,
    rows: &[LatencyRow],
) -> Result<(), Error> {
    let name = "operation_seconds";
    let help = "Time of requests by the operation that they are for, until the reply goes to the transport";
    let mut metric = page.encode_descriptor(name, help, None, MetricType::Histogram)?;
    for row in rows {
        let labels = [
            ("operation", row.operation.as_str()),
            ("transport", row.transport.as_str()),
        ];
        let sum = std::time::Duration::from_micros(row.sum_us).as_secs_f64();
        let mut one = metric.encode_family(&labels)?;
        one.encode_histogram::<NoLabelSet>(sum, row.count(), &row.with_bounds(), None)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::page::page;
    use super::*;
    use crate::status::{DsStatus, ServerStatus};

    #[test]
    fn buckets_of_the_page_add_up_and_have_seconds() {
        let mut buckets = vec![0; server::LATENCY_BUCKETS];
        (buckets[0], buckets[4], buckets[12]) = (3, 2, 1);
        let row = LatencyRow {
            operation: "Read".to_owned(),
            transport: "rdma".to_owned(),
            buckets,
            sum_us: 1_500_000,
        };
        let ds = DsStatus {
            latency: vec![row],
            ..DsStatus::default()
        };
        let text = page(ServerStatus::Ds(Box::new(ds))).unwrap();
        for line in [
            "# TYPE ropewalk_operation_seconds histogram",
            "ropewalk_operation_seconds_sum{operation=\"Read\",transport=\"rdma\"} 1.5",
            "ropewalk_operation_seconds_count{operation=\"Read\",transport=\"rdma\"} 6",
            "ropewalk_operation_seconds_bucket{le=\"0.00005\",operation=\"Read\",transport=\"rdma\"} 3",
            "ropewalk_operation_seconds_bucket{le=\"0.0015\",operation=\"Read\",transport=\"rdma\"} 3",
            "ropewalk_operation_seconds_bucket{le=\"10.0\",operation=\"Read\",transport=\"rdma\"} 5",
            "ropewalk_operation_seconds_bucket{le=\"+Inf\",operation=\"Read\",transport=\"rdma\"} 6",
        ] {
            assert!(text.lines().any(|l| l == line), "{line}: {text}");
        }
    }
}
