//! `records`: sequential records of 1 to 64 KiB in four streams, beside bare streams: as bandwidth, as a share of the line, and as operations.

use super::io;
use crate::runner::Metric;
use crate::suite::job::Work;
use crate::suite::work::{BareWork, Workers};

use crate::suite::plan::{Cell, Figure, Plan, Server, Setting, X};
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
/// The series of the bare servers: its largest value is the line.
const BARE: &str = "bare stream";

pub(super) fn plan(setting: &Setting) -> Plan {
    let server = setting.server(1, Store::Memory);
    let mut cells = Vec::new();
    for record_bytes in setting.pick(RECORDS, RECORDS_QUICK) {
        // Beside bare streams ours has its name in any case.
        let series = match (setting.own, setting.peer) {
            (true, None) => "ropewalk",
            _ => "",
        };
        for (server, series) in setting.sides(server, series) {
            cells.push(own(setting, server, series, *record_bytes));
        }
        if setting.own {
            cells.push(bare(setting, *record_bytes));
        }
    }
    Plan {
        name: "records",
        title: "Records: sequential, 1 to 64 KiB, four streams",
        notes: notes(setting),
        cells,
        figures: figures(setting),
    }
}

fn own(setting: &Setting, server: Server, series: String, record_bytes: u32) -> Cell {
    let x = X::size(u64::from(record_bytes));
    let sizes = (setting.pick(FILE_BYTES, FILE_BYTES_QUICK), record_bytes);
    let cell = io::streams("records", x, series, server, STREAMS, sizes);
    io::with(cell, |work| work.limit_ms = Some(setting.time_ms(LIMIT_MS)))
}

fn bare(setting: &Setting, record_bytes: u32) -> Cell {
    let file_bytes = setting.pick(FILE_BYTES, FILE_BYTES_QUICK);
    Cell {
        group: "records",
        x: X::size(u64::from(record_bytes)),
        series: BARE.to_owned(),
        server: Server::BareStream {
            link: setting.link(),
        },
        workers: Workers::processes(STREAMS),
        work: Work::Bare(BareWork {
            payload_bytes: record_bytes,
            requests_count: file_bytes / u64::from(record_bytes),
            limit_ms: Some(setting.time_ms(LIMIT_MS)),
        }),
        cold: false,
    }
}

fn notes(setting: &Setting) -> Vec<String> {
    let mut notes = vec![
        "Each stream is a process with a file of its own and one record in flight.".to_owned(),
    ];
    if setting.own {
        let line = "The line is what a bare stream carries at its best record size, measured in the same run: sendfile, and recv and pwrite, over plain sockets.";
        notes.push(line.to_owned());
    }
    notes.extend(setting.link.map(io::link_note));
    notes
}

fn figures(setting: &Setting) -> Vec<Figure> {
    let figure = |id, title: &str, metric, published: Name, share_of| Figure {
        id,
        title: title.to_owned(),
        group: "records",
        x_label: "record",
        metric,
        phases: io::WRITE_READ,
        published: published.load(),
        beside: setting.beside(),
        remark: None,
        share_of,
    };
    let bandwidth = Metric::MegabytesPerSecond;
    let mut figures = vec![
        figure(
            "bandwidth",
            "Bandwidth by record size",
            bandwidth,
            Name::Records,
            None,
        ),
        figure(
            "operations",
            "Operations by record size",
            Metric::RequestsPerSecond,
            Name::RecordsOps,
            None,
        ),
    ];
    if setting.own {
        let title = "Share of the line by record size";
        let share = figure("share", title, bandwidth, Name::Records, Some(BARE));
        figures.insert(1, share);
    }
    figures
}
