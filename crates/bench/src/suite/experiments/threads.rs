//! `threads`: records of 2 KiB, 8 KiB and 128 KiB at random places of one file, 16 threads of one process, a store in memory.

use super::io;
use crate::runner::Metric;
use crate::suite::work::Order;

use crate::suite::plan::{Figure, Plan, Server, Setting, X};
use crate::suite::published::Name;
use crate::suite::spec::Store;

const THREADS: u32 = 16;
const FILE_BYTES: u64 = 256 << 20;
const FILE_BYTES_QUICK: u64 = 16 << 20;
const RECORDS: [u32; 3] = [2 << 10, 8 << 10, 128 << 10];
/// What is measured in each phase.
const TIME_MS: u64 = 5_000;

pub(super) fn plan(setting: &Setting) -> Plan {
    let file_bytes = setting.pick(FILE_BYTES, FILE_BYTES_QUICK);
    let server = setting.server(1, Store::Memory);
    let cell = |(server, series): (Server, String), record_bytes: u32| {
        let x = X::size(u64::from(record_bytes));
        let sizes = (file_bytes, record_bytes);
        let mut cell = io::streams("threads", x, series, server, 1, sizes);
        cell.workers.tasks_count = THREADS;
        io::with(cell, |work| {
            work.order = Order::Random;
            work.one_file = true;
            work.requests_count = Some(u64::MAX);
            work.limit_ms = Some(setting.time_ms(TIME_MS));
        })
    };
    let sides = setting.sides(server, "");
    let cells = sides
        .iter()
        .flat_map(|side| RECORDS.map(|bytes| cell(side.clone(), bytes)));
    let figure = |id, title: &str, metric, published: Name| Figure {
        id,
        title: title.to_owned(),
        group: "threads",
        x_label: "record",
        metric,
        phases: io::WRITE_READ,
        published: published.load(),
        beside: setting.beside(),
        remark: None,
        share_of: None,
    };
    Plan {
        name: "threads",
        title: "Threads: 2 KiB, 8 KiB and 128 KiB, 16 threads",
        notes: vec![
            "The threads share one client and one file; records are at random places.".to_owned(),
        ],
        cells: cells.collect(),
        figures: vec![
            figure(
                "operations",
                "Operations by record size",
                Metric::RequestsPerSecond,
                Name::ThreadsOps,
            ),
            figure(
                "bandwidth",
                "Bandwidth by record size",
                Metric::MegabytesPerSecond,
                Name::Threads,
            ),
        ],
    }
}
