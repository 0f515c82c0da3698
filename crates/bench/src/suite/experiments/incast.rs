//! `incast`: one client that reads from all data servers at once: throughput, and the latency of the slowest reads.

use super::io;
use crate::runner::Metric;
use crate::suite::loads::stream::Access;
use crate::suite::plan::{Figure, Plan, Server, Setting};
use crate::suite::published::Name;
use crate::suite::spec::Store;

const DS_COUNTS: &[u16] = &[1, 2, 4, 8, 16];
const DS_COUNTS_QUICK: &[u16] = &[1, 4];
/// The stripe unit of `ropewalk up`: a read of this times the data servers asks each of them once.
const STRIPE_UNIT_BYTES: u32 = 1 << 20;
/// A read from a server whose data servers are not known.
const GIVEN_READ_BYTES: u32 = 8 << 20;
const TIME_MS: u64 = 5_000;
/// Reads that the file is long.
const READS_OF_FILE: u64 = 8;
const READS_OF_FILE_QUICK: u64 = 2;

pub(super) fn plan(setting: &Setting) -> Plan {
    let cell = |server: Server| {
        let record_bytes = match server {
            Server::Own { ds_count, .. } => STRIPE_UNIT_BYTES * u32::from(ds_count),
            _ => GIVEN_READ_BYTES,
        };
        let reads = setting.pick(READS_OF_FILE, READS_OF_FILE_QUICK);
        let sizes = (u64::from(record_bytes) * reads, record_bytes);
        let cell = io::streams("ds", server.x(), "one client".to_owned(), server, 1, sizes);
        io::with(cell, |work| {
            work.phases = vec![Access::Read];
            work.requests_count = Some(u64::MAX);
            work.limit_ms = Some(setting.time_ms(TIME_MS));
        })
    };
    let servers = setting.servers(DS_COUNTS, DS_COUNTS_QUICK, Store::Memory);
    let figure = |id, title: &str, metric| Figure {
        id,
        title: title.to_owned(),
        group: "ds",
        x_label: "data servers",
        metric,
        phases: io::READ,
        published: Name::Incast.load(),
    };
    Plan {
        name: "incast",
        title: "Incast: one client reads from all data servers at once",
        notes: vec![
            "Each read spans one stripe of every data server. Links are those of this machine, without a cap.".to_owned(),
        ],
        cells: servers.into_iter().map(cell).collect(),
        figures: vec![
            figure("throughput", "Throughput of one client", Metric::MegabytesPerSecond),
            figure("tail", "Slowest reads", Metric::LatencyP99Us),
        ],
    }
}
