//! `sweep`: a grid of file and record sizes, as `iozone -a` makes one.

use super::io;
use crate::runner::Metric;
use crate::suite::plan::{Figure, Plan, Setting, X};
use crate::suite::published::Name;
use crate::suite::spec::Store;

const FILES: &[u64] = &[64 << 10, 1 << 20, 16 << 20, 256 << 20];
const FILES_QUICK: &[u64] = &[64 << 10, 4 << 20];
const RECORDS: &[u32] = &[
    4 << 10,
    16 << 10,
    64 << 10,
    256 << 10,
    1 << 20,
    4 << 20,
    16 << 20,
];
const RECORDS_QUICK: &[u32] = &[4 << 10, 64 << 10];
const DS_COUNT: u16 = 4;

pub(super) fn plan(setting: &Setting) -> Plan {
    let server = setting.server(DS_COUNT, Store::Memory);
    let mut cells = Vec::new();
    for file_bytes in setting.pick(FILES, FILES_QUICK) {
        for record_bytes in setting.pick(RECORDS, RECORDS_QUICK) {
            if u64::from(*record_bytes) > *file_bytes {
                continue;
            }
            let x = X::size(u64::from(*record_bytes));
            let series = format!("file of {}", X::size(*file_bytes).label);
            let sizes = (*file_bytes, *record_bytes);
            let cell = io::streams("grid", x, series, server, 1, sizes);
            cells.push(io::with(cell, |work| work.limit_ms = setting.limit_ms()));
        }
    }
    let figure = |id, title: &str, phases| Figure {
        id,
        title: title.to_owned(),
        group: "grid",
        x_label: "record",
        metric: Metric::MegabytesPerSecond,
        phases,
        published: Name::Sweep.load(),
        beside: setting.beside(),
        share_of: None,
    };
    Plan {
        name: "sweep",
        title: "Sweep: file sizes by record sizes",
        notes: vec!["One process, one record in flight.".to_owned()],
        cells,
        figures: vec![
            figure("write", "Write by file and record", io::WRITE),
            figure("read", "Read by file and record", io::READ),
        ],
    }
}
