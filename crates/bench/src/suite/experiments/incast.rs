//! `incast`: one client that reads from all data servers at once: throughput, and the latency of the slowest reads.

use super::io;
use crate::runner::Metric;
use crate::suite::work::Access;

use crate::suite::plan::{Cell, Figure, ONE, Plan, Server, Setting};
use crate::suite::published::Name;
use crate::suite::spec::Store;

const DS_COUNTS: &[u16] = &[1, 2, 4, 8, 16];
const DS_COUNTS_QUICK: &[u16] = &[1, 4];
/// A read from a server whose data servers are not known.
const GIVEN_READ_BYTES: u32 = 8 << 20;
const TIME_MS: u64 = 5_000;
/// Reads that the file is long.
const READS_OF_FILE: u64 = 8;
const READS_OF_FILE_QUICK: u64 = 2;

pub(super) fn plan(setting: &Setting) -> Plan {
    // Whether the client is behind a link, by the name of the series.
    let series: &[(&str, bool)] = match setting.link {
        None => &[("one client", false)],
        Some(_) => &[
            ("one client without a cap", false),
            ("one client behind such a link", true),
        ],
    };
    let mut cells = Vec::new();
    for server in setting.servers(DS_COUNTS, DS_COUNTS_QUICK, Store::Memory) {
        for (name, behind_link) in series {
            for (server, series) in setting.over(ONE, server, name) {
                cells.push(cell(setting, server, &series, *behind_link));
            }
        }
    }
    let figure = |id, title: &str, metric| Figure {
        id,
        title: title.to_owned(),
        group: "ds",
        x_label: "data servers",
        metric,
        phases: io::READ,
        published: Name::Incast.load(),
        beside: setting.beside(),
        remark: None,
        share_of: None,
    };
    let links = match setting.link {
        None => "Links are those of this machine, without a cap: see --link.".to_owned(),
        Some(rate) => io::link_note(rate),
    };
    Plan {
        name: "incast",
        title: "Incast: one client reads from all data servers at once",
        notes: vec![
            "Each read spans one stripe of every data server.".to_owned(),
            links,
        ],
        cells,
        figures: vec![
            figure(
                "throughput",
                "Throughput of one client",
                Metric::MegabytesPerSecond,
            ),
            figure("tail", "Slowest reads", Metric::LatencyP99Us),
        ],
    }
}

fn cell(setting: &Setting, server: Server, series: &str, behind_link: bool) -> Cell {
    let record_bytes = match server {
        // A read of this asks each of them once.
        Server::Own(own) => io::STRIPE_UNIT_BYTES * u32::from(own.ds_count),
        _ => GIVEN_READ_BYTES,
    };
    let reads = setting.pick(READS_OF_FILE, READS_OF_FILE_QUICK);
    let sizes = (u64::from(record_bytes) * reads, record_bytes);
    let cell = io::streams("ds", server.x(), series.to_owned(), server, 1, sizes);
    let mut cell = io::with(cell, |work| {
        work.phases = vec![Access::Read];
        work.requests_count = Some(u64::MAX);
        work.limit_ms = Some(setting.time_ms(TIME_MS));
    });
    cell.workers.behind_link = behind_link;
    cell
}
