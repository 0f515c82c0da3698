//! `sequential`: throughput of the whole cluster by data servers and clients, each client with a file of its own, write and then read.

use super::io;
use crate::net::MTU_DEFAULT;
use crate::runner::Metric;
use crate::suite::options::BOTH;
use crate::suite::plan::{Cell, Figure, Plan, Server, Setting, X};
use crate::suite::published::Name;
use crate::suite::spec::Store;

const FILE_BYTES: u64 = 512 << 20;
const FILE_BYTES_QUICK: u64 = 8 << 20;
const RECORD_BYTES: u32 = 32 << 10;
const CLIENTS: &[u32] = &[1, 2, 4, 8];
const CLIENTS_QUICK: &[u32] = &[1, 2];
const DS_COUNTS: &[u16] = &[1, 2, 3, 4, 5, 6, 7, 8];
const DS_COUNTS_QUICK: &[u16] = &[1, 4];
/// MTUs of the links, where there are links: Ethernet's, and those of IP over InfiniBand, datagram and connected.
const MTUS: [u32; 3] = [MTU_DEFAULT, 2044, 65520];

pub(super) fn plan(setting: &Setting) -> Plan {
    let servers = setting.servers(DS_COUNTS, DS_COUNTS_QUICK, Store::Memory);
    let clients = setting.pick(CLIENTS, CLIENTS_QUICK);
    let mut cells = Vec::new();
    for server in &servers {
        for count in clients {
            // Of a given server the data servers are not known.
            let (x, series) = if setting.own {
                let plural = if *count == 1 { "" } else { "s" };
                (server.x(), format!("{count} client{plural}"))
            } else {
                (X::count(u64::from(*count)), String::new())
            };
            for (server, series) in setting.over(BOTH, *server, &series) {
                cells.push(cell(setting, "ds", (x.clone(), series), server, *count));
            }
        }
    }
    let mut figures = vec![
        figure(setting, "write", "ds", io::WRITE, "Sequential write"),
        figure(setting, "read", "ds", io::READ, "Sequential read"),
    ];
    if setting.link.is_some() {
        let most = clients[clients.len() - 1];
        for mtu in MTUS {
            for server in &servers {
                let server = server.with_mtu(mtu);
                let series = format!("MTU {mtu}");
                for (server, series) in setting.over(BOTH, server, &series) {
                    cells.push(cell(setting, "mtu", (server.x(), series), server, most));
                }
            }
        }
        let title = |what| format!("Sequential {what} of {most} clients by MTU");
        figures.push(figure(
            setting,
            "mtu-write",
            "mtu",
            io::WRITE,
            &title("write"),
        ));
        figures.push(figure(setting, "mtu-read", "mtu", io::READ, &title("read")));
    }
    Plan {
        name: "sequential",
        title: "Sequential: throughput of the cluster, 32 KiB records",
        notes: notes(setting),
        cells,
        figures,
    }
}

fn cell(
    setting: &Setting,
    group: &'static str,
    (x, series): (X, String),
    server: Server,
    clients: u32,
) -> Cell {
    let sizes = (setting.pick(FILE_BYTES, FILE_BYTES_QUICK), RECORD_BYTES);
    let cell = io::streams(group, x, series, server, clients, sizes);
    io::with(cell, |work| {
        work.window = io::window(server, RECORD_BYTES);
        work.limit_ms = setting.limit_ms();
    })
}

fn figure(
    setting: &Setting,
    id: &'static str,
    group: &'static str,
    phases: &'static [&'static str],
    title: &str,
) -> Figure {
    let published = match phases {
        io::WRITE => Name::SequentialWrite,
        _ => Name::SequentialRead,
    };
    Figure {
        id,
        title: title.to_owned(),
        group,
        x_label: if setting.own { "data servers" } else { "clients" },
        metric: Metric::MegabytesPerSecond,
        phases,
        published: published.load(),
        beside: setting.beside(),
        remark: setting.own.then_some(
            "The series name what carries NFS between clients and servers; the control path between metadata server and data servers is TLS on TCP always.",
        ),
        share_of: None,
    }
}

fn notes(setting: &Setting) -> Vec<String> {
    let window = match setting.link {
        None => format!("{} records in flight", io::WINDOW),
        Some(_) => {
            "a stripe of every data server in flight, as a kernel reads ahead and writes behind"
                .to_owned()
        }
    };
    let mut notes = vec![
        format!("Each client is a process with {window}."),
        "Writing ends when the data are durable at the data servers.".to_owned(),
    ];
    notes.extend(setting.link.map(io::link_note));
    notes
}
