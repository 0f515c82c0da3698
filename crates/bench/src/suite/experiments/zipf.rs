//! `zipf`: requests whose place and length follow Zipf's law, one thread, stores on a disk and in memory.

use super::io;
use crate::runner::Metric;
use crate::suite::work::{Order, StreamWork};

use crate::suite::options::BOTH;
use crate::suite::plan::{Figure, Plan, Setting};
use crate::suite::published::Name;
use crate::suite::spec::Store;

const ALPHA: f64 = 0.9;
const FILE_BYTES: u64 = 512 << 20;
const FILE_BYTES_QUICK: u64 = 16 << 20;
/// Requests begin at a multiple of this, and are 1 to [`UNITS_MAX`] times as long.
const UNIT_BYTES: u32 = 4 << 10;
const UNITS_MAX: u32 = 64;
const REQUESTS: u64 = 20_000;
const REQUESTS_QUICK: u64 = 500;
const DS_COUNTS: &[u16] = &[1, 2, 4, 8];
const DS_COUNTS_QUICK: &[u16] = &[1, 4];

pub(super) fn plan(setting: &Setting) -> Plan {
    let sizes = (setting.pick(FILE_BYTES, FILE_BYTES_QUICK), UNIT_BYTES);
    let mut cells = Vec::new();
    let mut stores = vec![("disk", Store::Disk), ("memory", Store::Memory)];
    if !setting.own {
        stores.truncate(1);
    } else if let Some(store) = setting.spec.store {
        stores.retain(|(_, s)| *s == store);
    }
    let figure_of = |group: &'static str, published: Name| Figure {
        id: group,
        title: match (setting.own, group) {
            (false, _) => "Requests by Zipf's law".to_owned(),
            (true, store) => format!("Requests by Zipf's law, {store}"),
        },
        group,
        x_label: "data servers",
        metric: Metric::MegabytesPerSecond,
        phases: io::WRITE_READ,
        published: published.load(),
        beside: setting.beside(),
        remark: None,
        share_of: None,
    };
    let mut figures = Vec::new();
    for (group, store) in stores {
        for server in setting.servers(DS_COUNTS, DS_COUNTS_QUICK, store) {
            for (server, series) in setting.over(BOTH, server, "") {
                let cell = io::streams(group, server.x(), series, server, 1, sizes);
                cells.push(io::with(cell, |work| zipf(setting, work)));
            }
        }
        let published = match store {
            Store::Disk => Name::ZipfDisk,
            Store::Memory => Name::ZipfMemory,
        };
        figures.push(figure_of(group, published));
    }
    Plan {
        name: "zipf",
        title: "Zipf: place and length of requests by Zipf's law, alpha 0.9",
        notes: vec![
            format!(
                "Places are multiples of {} KiB in shuffled order, lengths 1 to {UNITS_MAX} times as much.",
                UNIT_BYTES >> 10
            ),
            "The store on a disk answers from the page cache where it can, as any server does."
                .to_owned(),
        ],
        cells,
        figures,
    }
}

fn zipf(setting: &Setting, work: &mut StreamWork) {
    work.order = Order::Zipf {
        alpha: ALPHA,
        units_max: UNITS_MAX,
    };
    work.requests_count = Some(setting.pick(REQUESTS, REQUESTS_QUICK));
    work.limit_ms = setting.limit_ms();
}
