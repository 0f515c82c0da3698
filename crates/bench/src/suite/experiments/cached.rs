//! `cached`: 64 KiB reads from the server's cache by clients and threads, from a cold disk, and from the bare local disk.

use super::io;
use crate::runner::Metric;
use crate::suite::work::{Access, Workers};

use crate::suite::plan::{Cell, Figure, Plan, Server, Setting, X};
use crate::suite::published::Name;
use crate::suite::spec::Store;

/// Clients and threads of each.
const SHAPES: &[(u32, u32)] = &[(1, 1), (1, 2), (1, 4), (2, 1), (2, 2), (4, 1)];
const SHAPES_QUICK: &[(u32, u32)] = &[(1, 1), (2, 2)];
const RECORD_BYTES: u32 = 64 << 10;
const FILE_BYTES: u64 = 128 << 20;
const FILE_BYTES_QUICK: u64 = 4 << 20;
/// What is measured of reads that a cache answers.
const TIME_MS: u64 = 5_000;

pub(super) fn plan(setting: &Setting) -> Plan {
    let mut cells = Vec::new();
    let own = setting.server(1, Store::Disk);
    for (place, shape) in setting.pick(SHAPES, SHAPES_QUICK).iter().enumerate() {
        for (server, series) in setting.sides(own, "server's cache") {
            // Again and again until the time is over.
            let cached = cell(setting, &series, server, place, *shape);
            cells.push(io::with(cached, |work| {
                work.requests_count = Some(u64::MAX);
                work.limit_ms = Some(setting.time_ms(TIME_MS));
            }));
        }
        if setting.own {
            for (server, series) in setting.sides(own, "cold disk of the server") {
                // Once: the second time would come from a cache.
                let mut cold = cell(setting, &series, server, place, *shape);
                cold.cold = true;
                cells.push(cold);
            }
            let local = Server::LocalDisk;
            cells.push(cell(setting, "bare local disk", local, place, *shape));
        }
    }
    Plan {
        name: "cached",
        title: "Cached: 64 KiB reads from the server's cache, a cold disk, and the bare disk",
        notes: vec![
            "`2x1` is two clients, each a process, with one thread each; every thread has a file of its own.".to_owned(),
            match setting.own {
                true => "Of a cold disk the page cache of this machine has been emptied; what disks and hosts below it cache is not known.",
                false => "Only reads that the server's cache can answer: a given server's disk is not made cold from here.",
            }
            .to_owned(),
        ],
        cells,
        figures: vec![Figure {
            id: "read",
            title: "64 KiB reads".to_owned(),
            group: "cached",
            x_label: "clients x threads",
            metric: Metric::MegabytesPerSecond,
            phases: io::READ,
            published: Name::Cached.load(),
            beside: setting.beside(),
            remark: None,
            share_of: None,
        }],
    }
}

#[allow(clippy::cast_precision_loss, reason = "shapes are few")]
fn cell(
    setting: &Setting,
    series: &str,
    server: Server,
    place: usize,
    (clients, threads): (u32, u32),
) -> Cell {
    let x = X::named(place as f64, &format!("{clients}x{threads}"));
    let sizes = (setting.pick(FILE_BYTES, FILE_BYTES_QUICK), RECORD_BYTES);
    let mut cell = io::streams("cached", x, series.to_owned(), server, clients, sizes);
    cell.workers = Workers {
        tasks_count: threads,
        ..Workers::processes(clients)
    };
    io::with(cell, |work| {
        work.phases = vec![Access::Read];
        work.limit_ms = setting.limit_ms();
    })
}
