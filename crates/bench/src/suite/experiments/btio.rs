//! `btio`: the I/O of NAS BT in its full mode, classes S, W and A, on square numbers of processes.

use super::io::{READ, WRITE};
use crate::runner::Metric;
use crate::suite::job::Work;
use crate::suite::work::{BtioWork, Workers};

use crate::suite::options::BOTH;
use crate::suite::plan::{Cell, Figure, Plan, Server, Setting, X};
use crate::suite::published::Name;
use crate::suite::spec::Store;

/// Name and points along an edge.
const CLASSES: &[(&str, u64)] = &[("S", 12), ("W", 24), ("A", 64)];
const CLASSES_QUICK: &[(&str, u64)] = &[("S", 12)];
const PROCESSES: &[u32] = &[1, 4, 16, 64, 256];
const PROCESSES_QUICK: &[u32] = &[1, 4];
const STEPS: u64 = 40;
const DS_COUNT: u16 = 4;

pub(super) fn plan(setting: &Setting) -> Plan {
    let server = setting.server(DS_COUNT, Store::Memory);
    let mut cells = Vec::new();
    for (class, points_count) in setting.pick(CLASSES, CLASSES_QUICK) {
        for processes in setting.pick(PROCESSES, PROCESSES_QUICK) {
            if u64::from(processes.isqrt()) > *points_count {
                continue;
            }
            let series = format!("class {class}");
            for (server, series) in setting.over(BOTH, server, &series) {
                cells.push(cell(server, series, *processes, *points_count));
            }
        }
    }
    let figure = |id, title: &str, phases| Figure {
        id,
        title: title.to_owned(),
        group: "processes",
        x_label: "processes",
        metric: Metric::MegabytesPerSecond,
        phases,
        published: Name::Btio.load(),
        beside: setting.beside(),
        remark: None,
        share_of: None,
    };
    Plan {
        name: "btio",
        title: "BT-IO: the solution of NAS BT, written 40 times by collective buffering",
        notes: vec![
            "The solver does not run: steps follow each other at once, so the time is that of I/O alone.".to_owned(),
            "Processes exchange their pieces through a file in memory; at most 8 of them write and read.".to_owned(),
            "Reading compares every byte at the process that owns it, and its time includes that.".to_owned(),
        ],
        cells,
        figures: vec![
            figure("write", "BT-IO, written", WRITE),
            figure("read", "BT-IO, read and verified", READ),
        ],
    }
}

fn cell(server: Server, series: String, processes: u32, points_count: u64) -> Cell {
    Cell {
        group: "processes",
        x: X::count(u64::from(processes)),
        series,
        server,
        workers: Workers::processes(processes),
        work: Work::Btio(BtioWork {
            points_count,
            steps_count: STEPS,
        }),
        cold: false,
    }
}
