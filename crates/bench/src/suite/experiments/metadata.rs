//! `metadata`: the operations of mdtest by number of tasks, in one directory and in many.

use crate::runner::Metric;
use crate::suite::job::Work;
use crate::suite::loads::metadata::MetadataWork;
use crate::suite::plan::{Cell, Figure, Plan, Setting, Workers, X};
use crate::suite::published::Name;
use crate::suite::spec::Store;

const FILES: u64 = 1000;
const FILES_QUICK: u64 = 32;
const TASKS: &[u32] = &[1, 2, 4, 8, 16, 32, 64];
const TASKS_QUICK: &[u32] = &[1, 4];
const DS_COUNT: u16 = 4;
const PHASES: &[&str] = &["create", "stat", "readdir", "rename", "remove"];

pub(super) fn plan(setting: &Setting) -> Plan {
    let server = setting.server(DS_COUNT, Store::Memory);
    let mut cells = Vec::new();
    for (group, one_directory) in [("one", true), ("many", false)] {
        for tasks in setting.pick(TASKS, TASKS_QUICK) {
            cells.push(Cell {
                group,
                x: X::count(u64::from(*tasks)),
                series: String::new(),
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
    let figure = |id, title: &str, group| Figure {
        id,
        title: title.to_owned(),
        group,
        x_label: "tasks",
        metric: Metric::RequestsPerSecond,
        phases: PHASES,
        published: Name::Metadata.load(),
        beside: setting.beside(),
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
        figures: vec![
            figure("one", "All tasks in one directory", "one"),
            figure("many", "A directory for each task", "many"),
        ],
    }
}
