//! `sequential`: throughput of the whole cluster by data servers and clients, each client with a file of its own, write and then read.

use super::io;
use crate::runner::Metric;
use crate::suite::plan::{Figure, Plan, Setting};
use crate::suite::published::Name;
use crate::suite::spec::Store;

const FILE_BYTES: u64 = 512 << 20;
const FILE_BYTES_QUICK: u64 = 8 << 20;
const RECORD_BYTES: u32 = 32 << 10;
const CLIENTS: &[u32] = &[1, 2, 4, 8];
const CLIENTS_QUICK: &[u32] = &[1, 2];
const DS_COUNTS: &[u16] = &[1, 2, 4, 8];
const DS_COUNTS_QUICK: &[u16] = &[1, 4];

pub(super) fn plan(setting: &Setting) -> Plan {
    let sizes = (setting.pick(FILE_BYTES, FILE_BYTES_QUICK), RECORD_BYTES);
    let mut cells = Vec::new();
    for server in setting.servers(DS_COUNTS, DS_COUNTS_QUICK, Store::Memory) {
        for clients in setting.pick(CLIENTS, CLIENTS_QUICK) {
            let series = format!("{clients} client{}", if *clients == 1 { "" } else { "s" });
            let cell = io::streams("ds", server.x(), series, server, *clients, sizes);
            cells.push(io::with(cell, |work| {
                work.window = io::WINDOW;
                work.limit_ms = setting.limit_ms();
            }));
        }
    }
    let figure = |id, title: &str, phases, published: Name| Figure {
        id,
        title: title.to_owned(),
        group: "ds",
        x_label: "data servers",
        metric: Metric::MegabytesPerSecond,
        phases,
        published: published.load(),
    };
    Plan {
        name: "sequential",
        title: "Sequential: throughput of the cluster, 32 KiB records",
        notes: vec![
            format!(
                "Each client is a process with {} records in flight.",
                io::WINDOW
            ),
            "Writing ends when the data are durable at the data servers.".to_owned(),
        ],
        cells,
        figures: vec![
            figure(
                "write",
                "Sequential write",
                io::WRITE,
                Name::SequentialWrite,
            ),
            figure("read", "Sequential read", io::READ, Name::SequentialRead),
        ],
    }
}
