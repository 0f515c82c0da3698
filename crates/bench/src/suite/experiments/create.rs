//! `create`: the time of a new file by number of data servers and by number of processes.

use crate::runner::Metric;
use crate::suite::job::Work;
use crate::suite::loads::create::CreateWork;
use crate::suite::plan::{Cell, Figure, Plan, Setting, Workers, X};
use crate::suite::published::Name;
use crate::suite::spec::Store;

const ROUNDS: u64 = 1024;
const ROUNDS_QUICK: u64 = 64;
const DS_COUNTS: &[u16] = &[1, 2, 4, 8, 16];
const DS_COUNTS_QUICK: &[u16] = &[1, 4];
const PROCESSES: &[u32] = &[1, 2, 4, 8, 16, 32];
const PROCESSES_QUICK: &[u32] = &[1, 4];

pub(super) fn plan(setting: &Setting) -> Plan {
    let work = || {
        Work::Create(CreateWork {
            rounds_count: setting.pick(ROUNDS, ROUNDS_QUICK),
            limit_ms: setting.limit_ms(),
        })
    };
    let cell = |group, x, series: String, server, processes| Cell {
        group,
        x,
        series,
        server,
        workers: Workers::processes(processes),
        work: work(),
        cold: false,
    };
    let servers = setting.servers(DS_COUNTS, DS_COUNTS_QUICK, Store::Memory);
    let processes = setting.pick(PROCESSES, PROCESSES_QUICK);
    let mut cells = Vec::new();
    let few_and_many = [processes[0], processes[processes.len() / 2]];
    for server in &servers {
        for count in few_and_many {
            let series = format!("{count} process{}", if count == 1 { "" } else { "es" });
            cells.push(cell("ds", server.x(), series, *server, count));
        }
    }
    let many = servers.last().filter(|_| servers.len() > 1);
    for server in [servers.first(), many].into_iter().flatten() {
        for count in processes {
            let x = X::count(u64::from(*count));
            cells.push(cell("processes", x, server.text(), *server, *count));
        }
    }
    let figure = |id, title: &str, group, x_label, published: Name| Figure {
        id,
        title: title.to_owned(),
        group,
        x_label,
        metric: Metric::LatencyMeanUs,
        phases: &["create"],
        published: published.load(),
        beside: setting.beside(),
        share_of: None,
    };
    Plan {
        name: "create",
        title: "Create: stat, open-create, chmod, close",
        notes: vec![
            "A request is one round: stat of a name that does not exist, open with create, chmod, close.".to_owned(),
            "Files are created lazily: no data server is asked before the first write.".to_owned(),
        ],
        cells,
        figures: vec![
            figure(
                "ds",
                "Create by data servers",
                "ds",
                "data servers",
                Name::CreateDs,
            ),
            figure(
                "processes",
                "Create by processes",
                "processes",
                "processes",
                Name::CreateProcesses,
            ),
        ],
    }
}
