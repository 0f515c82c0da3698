//! Metrics of pairs of data servers: how far one is behind in what another one passes on to it.

use crate::status::lag::LagRow;
use crate::status::{MdsStatus, STATE_EXPELLED};
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use std::fmt::Error;

/// Microseconds as seconds.
fn seconds(us: u64) -> f64 {
    std::time::Duration::from_micros(us).as_secs_f64()
}

/// What heartbeats have told of the time of syncs, and of pairs.
pub(super) fn of_pairs(page: &mut DescriptorEncoder<'_>, mds: &MdsStatus) -> Result<(), Error> {
    let name = "data_server_sync_seconds";
    let help = "Mean time of its own last syncs, 0 when there was none lately";
    let mut metric = page.encode_descriptor(name, help, None, MetricType::Gauge)?;
    let members = mds.data_servers.iter();
    for ds in members.filter(|ds| ds.state != STATE_EXPELLED) {
        let labels = [("ds", ds.id.to_string())];
        let one = metric.encode_family(&labels)?;
        ConstGauge::new(seconds(ds.sync_us.into())).encode(one)?;
    }
    let lags = &mds.lags;
    pairs(
        page,
        "lag_bytes",
        "Bytes that the primary has passed on and the member has not acknowledged",
        lags,
        |lag, one| ConstGauge::new(lag.queued_bytes).encode(one),
    )?;
    pairs(
        page,
        "lag_seconds",
        "How long the oldest of what the member has not acknowledged waits",
        lags,
        |lag, one| ConstGauge::new(seconds(u64::from(lag.oldest_ms) * 1000)).encode(one),
    )?;
    pairs(
        page,
        "lag_sync_seconds",
        "Mean time of the member's last syncs as the primary sees it, 0 when there was none lately",
        lags,
        |lag, one| ConstGauge::new(seconds(lag.sync_us.into())).encode(one),
    )
}

fn pairs(
    page: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    lags: &[LagRow],
    value: impl Fn(&LagRow, MetricEncoder<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut metric = page.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for lag in lags {
        let labels = [
            ("primary", lag.primary.to_string()),
            ("member", lag.member.to_string()),
        ];
        value(lag, metric.encode_family(&labels)?)?;
    }
    Ok(())
}
