//! `create`: the time of a new file by number of data servers and by number of processes, lazy and eager, over both transports.

use crate::runner::Metric;
use crate::suite::job::Work;
use crate::suite::work::{CreateWork, Workers};

use crate::suite::options::BOTH;
use crate::suite::plan::{Cell, Figure, Plan, Server, Setting, X};
use crate::suite::published::Name;
use crate::suite::spec::{Create, Store};

const ROUNDS: u64 = 1024;
const ROUNDS_QUICK: u64 = 64;
const DS_COUNTS: &[u16] = &[1, 2, 4, 8, 16];
const DS_COUNTS_QUICK: &[u16] = &[1, 4];
const PROCESSES: &[u32] = &[1, 2, 4, 8, 16, 32];
const PROCESSES_QUICK: &[u32] = &[1, 4];
const CONTROL_PATH: &str = "The series name what carries NFS between clients and servers, and what the metadata server asks its data servers over to make the objects of a file (eager). Removals go over TLS on TCP in every series.";

pub(super) fn plan(setting: &Setting) -> Plan {
    let servers = setting.servers(DS_COUNTS, DS_COUNTS_QUICK, Store::Memory);
    let processes = setting.pick(PROCESSES, PROCESSES_QUICK);
    let few = ("ds-few", processes[0]);
    let many = ("ds-many", processes[processes.len() / 2]);
    let mut cells = Vec::new();
    let mut figures = Vec::new();
    let groups = match setting.own {
        true => setting.pick(vec![few, many], vec![few]),
        // The data servers of a given server are not known.
        false => Vec::new(),
    };
    for (group, count) in groups {
        for server in &servers {
            cells.extend(beside(setting, group, &server.x(), *server, count));
        }
        figures.push(figure(setting, group, by_servers(count)));
    }
    let few = ("few", servers.first());
    let many = ("many", servers.get(1..).and_then(<[_]>::last));
    for (group, server) in setting.pick(vec![few, many], vec![few]) {
        let Some(server) = server else {
            continue;
        };
        for count in processes {
            let x = X::count(u64::from(*count));
            cells.extend(beside(setting, group, &x, *server, *count));
        }
        figures.push(figure(setting, group, by_processes(*server)));
    }
    Plan {
        name: "create",
        title: "Create: stat, open-create, chmod, close",
        notes: notes(setting),
        cells,
        figures,
    }
}

fn notes(setting: &Setting) -> Vec<String> {
    let mut notes = vec!["A request is one round: stat of a name that does not exist, open with create, chmod, close.".to_owned()];
    if setting.own {
        notes.push("Lazy: no data server is asked before the first write. Eager: the objects of a file are made on all of its data servers before open returns, as the published system does it.".to_owned());
    }
    notes
}

/// One point of all series: lazy and eager, over each transport.
fn beside(
    setting: &Setting,
    group: &'static str,
    x: &X,
    server: Server,
    processes: u32,
) -> Vec<Cell> {
    let creates = match (setting.own, &setting.spec.create) {
        (false, _) => &Create::ALL[..1],
        (true, Some(create)) => std::slice::from_ref(create),
        (true, None) => &Create::ALL[..],
    };
    let mut cells = Vec::new();
    for create in creates {
        let name = if setting.own { create.name() } else { "" };
        for (server, series) in setting.over(BOTH, server.creating(*create), name) {
            cells.push(Cell {
                group,
                x: x.clone(),
                series,
                server,
                workers: Workers::processes(processes),
                work: Work::Create(CreateWork {
                    rounds_count: setting.pick(ROUNDS, ROUNDS_QUICK),
                    limit_ms: setting.limit_ms(),
                }),
                cold: false,
            });
        }
    }
    cells
}

fn by_servers(processes: u32) -> (String, &'static str, Name) {
    let plural = if processes == 1 { "" } else { "es" };
    let title = format!("Create by data servers, {processes} process{plural}");
    (title, "data servers", Name::CreateDs)
}

fn by_processes(server: Server) -> (String, &'static str, Name) {
    let title = match server {
        Server::Own(own) if own.ds_count == 1 => "Create by processes, 1 data server".to_owned(),
        Server::Own(own) => format!("Create by processes, {} data servers", own.ds_count),
        _ => "Create by processes".to_owned(),
    };
    (title, "processes", Name::CreateProcesses)
}

fn figure(
    setting: &Setting,
    group: &'static str,
    (title, x_label, published): (String, &'static str, Name),
) -> Figure {
    Figure {
        id: group,
        title,
        group,
        x_label,
        metric: Metric::LatencyMeanUs,
        phases: &["create"],
        published: published.load(),
        beside: setting.beside(),
        remark: setting.own.then_some(CONTROL_PATH),
        share_of: None,
    }
}
