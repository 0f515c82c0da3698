//! `clients`: one to five clients with a file each, on one server and on a cluster.

use super::io;
use crate::runner::Metric;
use crate::suite::plan::{Figure, ONE, Plan, Server, Setting, X};
use crate::suite::published::Name;
use crate::suite::spec::Store;

const FILE_BYTES: u64 = 256 << 20;
const FILE_BYTES_QUICK: u64 = 8 << 20;
const RECORD_BYTES: u32 = 64 << 10;
const CLIENTS: &[u32] = &[1, 2, 3, 4, 5];
const CLIENTS_QUICK: &[u32] = &[1, 3];
const DS_COUNTS: &[u16] = &[1, 4];

pub(super) fn plan(setting: &Setting) -> Plan {
    let sizes = (setting.pick(FILE_BYTES, FILE_BYTES_QUICK), RECORD_BYTES);
    let mut cells = Vec::new();
    for server in setting.servers(DS_COUNTS, DS_COUNTS, Store::Memory) {
        for clients in setting.pick(CLIENTS, CLIENTS_QUICK) {
            // The peer is one server.
            let sides = match server {
                Server::Own(own) if own.ds_count == 1 => setting.sides(server, ""),
                _ => setting.over(ONE, server, ""),
            };
            for (server, _) in sides {
                let x = X::count(u64::from(*clients));
                let cell = io::streams("clients", x, server.text(), server, *clients, sizes);
                cells.push(io::with(cell, |work| {
                    work.window = io::window(server, RECORD_BYTES);
                    work.limit_ms = setting.limit_ms();
                }));
            }
        }
    }
    let figure = |id, title: &str, phases| Figure {
        id,
        title: title.to_owned(),
        group: "clients",
        x_label: "clients",
        metric: Metric::MegabytesPerSecond,
        phases,
        published: Name::Clients.load(),
        beside: setting.beside(),
        remark: None,
        share_of: None,
    };
    Plan {
        name: "clients",
        title: "Clients: one to five, a file each, one server and a cluster",
        notes: vec![
            "The published measurement used NFSv3. Here clusters of our own are asked by NFSv4.2, and a target by what its URL says: with ?vers=3 by NFSv3. `bench goals v3-clients` measures NFSv3 over links."
                .to_owned(),
            match setting.link {
                None => format!("64 KiB records, {} in flight for each client.", io::WINDOW),
                Some(_) => {
                    "64 KiB records, a stripe of every data server in flight for each client."
                        .to_owned()
                }
            },
        ],
        cells,
        figures: vec![
            figure("write", "Write by clients", io::WRITE),
            figure("read", "Read by clients", io::READ),
        ],
    }
}
