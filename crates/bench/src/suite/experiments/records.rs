//! `records`: sequential records of 1 to 64 KiB in four streams.

use super::io;
use crate::runner::Metric;
use crate::suite::plan::{Figure, Plan, Setting, X};
use crate::suite::published::Name;
use crate::suite::spec::Store;

const STREAMS: u32 = 4;
const FILE_BYTES: u64 = 64 << 20;
const FILE_BYTES_QUICK: u64 = 8 << 20;
const RECORDS: &[u32] = &[
    1 << 10,
    2 << 10,
    4 << 10,
    8 << 10,
    16 << 10,
    32 << 10,
    64 << 10,
];
const RECORDS_QUICK: &[u32] = &[1 << 10, 8 << 10, 64 << 10];
/// The longest that a phase may take: small records need long for a whole file.
const LIMIT_MS: u64 = 10_000;

pub(super) fn plan(setting: &Setting) -> Plan {
    let file_bytes = setting.pick(FILE_BYTES, FILE_BYTES_QUICK);
    let server = setting.server(1, Store::Memory);
    let cell = |record_bytes: &u32| {
        let x = X::size(u64::from(*record_bytes));
        let sizes = (file_bytes, *record_bytes);
        let cell = io::streams("records", x, String::new(), server, STREAMS, sizes);
        io::with(cell, |work| work.limit_ms = Some(setting.time_ms(LIMIT_MS)))
    };
    let figure = |id, title: &str, metric, published: Name| Figure {
        id,
        title: title.to_owned(),
        group: "records",
        x_label: "record",
        metric,
        phases: io::WRITE_READ,
        published: published.load(),
    };
    let records = setting.pick(RECORDS, RECORDS_QUICK);
    Plan {
        name: "records",
        title: "Records: sequential, 1 to 64 KiB, four streams",
        notes: vec![
            "Each stream is a process with a file of its own and one record in flight.".to_owned(),
        ],
        cells: records.iter().map(cell).collect(),
        figures: vec![
            figure(
                "bandwidth",
                "Bandwidth by record size",
                Metric::MegabytesPerSecond,
                Name::Records,
            ),
            figure(
                "operations",
                "Operations by record size",
                Metric::RequestsPerSecond,
                Name::RecordsOps,
            ),
        ],
    }
}
