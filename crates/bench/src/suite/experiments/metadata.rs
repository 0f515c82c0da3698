//! `metadata`: the operations of mdtest by number of tasks, in one directory and in many.

use crate::runner::Metric;
use crate::suite::job::Work;
use crate::suite::work::{MetadataWork, Workers};

use crate::suite::plan::{Cell, Figure, Plan, Setting, X};
use crate::suite::published::Name;
use crate::suite::spec::Store;

const FILES: u64 = 1000;
const FILES_QUICK: u64 = 32;
const TASKS: &[u32] = &[1, 2, 4, 8, 16, 32, 64];
const TASKS_QUICK: &[u32] = &[1, 4];
const DS_COUNT: u16 = 4;
/// Group of all cells.
const GROUP: &str = "tasks";
/// The figures, a phase each: their values are too far apart for one.
const FIGURES: [(&[&str], &str); 5] = [
    (&["create"], "Create by tasks"),
    (&["stat"], "Stat by tasks"),
    (&["readdir"], "Readdir by tasks, entries"),
    (&["rename"], "Rename by tasks"),
    (&["remove"], "Remove by tasks"),
];

pub(super) fn plan(setting: &Setting) -> Plan {
    let server = setting.server(DS_COUNT, Store::Memory);
    let mut cells = Vec::new();
    for (series, one_directory) in [("one directory", true), ("a directory each", false)] {
        for tasks in setting.pick(TASKS, TASKS_QUICK) {
            for (server, series) in setting.sides(server, series) {
                cells.push(Cell {
                    group: GROUP,
                    x: X::count(u64::from(*tasks)),
                    series,
                    server,
                    workers: Workers::processes(*tasks),
                    work: Work::Metadata(MetadataWork {
                        files_count: setting.pick(FILES, FILES_QUICK),
                        one_directory,
                        limit_ms: setting.limit_ms(),
                    }),
                    cold: false,
                });
            }
        }
    }
    let figure = |(phases, title): (&'static [&'static str], &str)| Figure {
        id: phases[0],
        title: title.to_owned(),
        group: GROUP,
        x_label: "tasks",
        metric: Metric::RequestsPerSecond,
        phases,
        published: Name::Metadata.load(),
        beside: setting.beside(),
        remark: None,
        share_of: None,
    };
    Plan {
        name: "metadata",
        title: "Metadata: create, stat, readdir, rename, remove",
        notes: vec![
            "Every task is a process. Between create and stat one byte is written to each file (phase `write`).".to_owned(),
            "Readdir counts entries, with their attributes; its latency is that of a whole directory.".to_owned(),
            "With clusters of our own the time of remove ends when the data servers have removed everything too.".to_owned(),
        ],
        cells,
        figures: FIGURES.map(figure).into(),
    }
}
