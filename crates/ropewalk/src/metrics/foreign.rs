//! Metrics of NFSv3 servers of others.

use crate::status::MdsStatus;
use crate::status::foreign::{ForeignServerRow, STATE_ACTIVE, STATE_DRAINING};
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use std::fmt::Error;

/// What the metadata server knows of them. There are at most `foreign::SERVERS_MAX`.
pub(super) fn of_servers(page: &mut DescriptorEncoder<'_>, mds: &MdsStatus) -> Result<(), Error> {
    let used = || mds.foreign_servers.iter().filter(|s| s.is_used());
    let states = [STATE_ACTIVE, STATE_DRAINING].map(|state| {
        let count = used().filter(|s| s.state == state).count();
        (state.to_owned(), u64::try_from(count).unwrap_or(u64::MAX))
    });
    family(
        page,
        "foreign_servers",
        "NFSv3 servers of others",
        "state",
        states,
    )?;
    type Of = fn(&ForeignServerRow) -> u64;
    let gauges: [(&str, &str, Of); 3] = [
        ("up", "1 when the NFSv3 server of others answers", |s| {
            s.up.into()
        }),
        ("total_bytes", "Size of its file system", |s| s.total_bytes),
        ("free_bytes", "What is left of its file system", |s| {
            s.free_bytes
        }),
    ];
    for (name, help, of) in gauges {
        let values = used().map(|s| (s.id.clone(), of(s)));
        let name = format!("foreign_server_{name}");
        family(page, &name, help, "server", values)?;
    }
    let counters: [(&str, &str, Of); 2] = [
        (
            "read",
            "Bytes that clients say they read there by layouts",
            |s| s.client_read_bytes,
        ),
        (
            "written",
            "Bytes that clients say they wrote there by layouts",
            |s| s.client_written_bytes,
        ),
    ];
    for (name, help, of) in counters {
        let name = format!("foreign_server_client_{name}_bytes");
        let mut metric = page.encode_descriptor(&name, help, None, MetricType::Counter)?;
        for server in used() {
            let labels = [("server", server.id.clone())];
            ConstCounter::new(of(server)).encode(metric.encode_family(&labels)?)?;
        }
    }
    for (name, help, n) in [
        (
            "foreign_fences_waiting",
            "Files whose fences wait for NFSv3 servers of others",
            mds.foreign_fences_waiting,
        ),
        (
            "bad_mirror_files",
            "Files with mirrors that do not count, up to the most that are counted",
            mds.bad_mirror_files,
        ),
    ] {
        let metric = page.encode_descriptor(name, help, None, MetricType::Gauge)?;
        ConstGauge::new(n).encode(metric)?;
    }
    Ok(())
}

fn family(
    page: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    label: &str,
    values: impl IntoIterator<Item = (String, u64)>,
) -> Result<(), Error> {
    let mut metric = page.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (value, n) in values {
        let labels = [(label, value)];
        ConstGauge::new(n).encode(metric.encode_family(&labels)?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::page::page;
    use super::*;
    use crate::status::ServerStatus;
    use crate::status::foreign::STATE_REMOVED;

    #[test]
    fn servers_that_are_used_are_counted_and_named() {
        let row = |id: &str, state: &str, up| ForeignServerRow {
            id: id.to_owned(),
            state: state.to_owned(),
            up,
            free_bytes: 7,
            ..ForeignServerRow::default()
        };
        let mds = MdsStatus {
            foreign_servers: vec![
                row("f1", STATE_ACTIVE, true),
                row("f2", STATE_DRAINING, false),
                row("f3", STATE_REMOVED, false),
            ],
            foreign_fences_waiting: 5,
            bad_mirror_files: 6,
            ..MdsStatus::default()
        };
        let text = page(ServerStatus::Mds(Box::new(mds))).unwrap();
        for line in [
            "ropewalk_foreign_servers{state=\"active\"} 1\n",
            "ropewalk_foreign_servers{state=\"draining\"} 1\n",
            "ropewalk_foreign_server_up{server=\"f1\"} 1\n",
            "ropewalk_foreign_server_up{server=\"f2\"} 0\n",
            "ropewalk_foreign_server_free_bytes{server=\"f1\"} 7\n",
            "ropewalk_foreign_fences_waiting 5\n",
            "ropewalk_bad_mirror_files 6\n",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
        assert!(!text.contains("f3"), "{text}");
    }
}
