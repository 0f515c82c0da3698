//! `small-ops`: latency of a small reply by its payload, at the RPC layer alone and through the whole client.

use super::io::READ;
use crate::runner::Metric;
use crate::suite::job::Work;
use crate::suite::work::{SmallWork, Workers};

use crate::suite::options::BOTH;
use crate::suite::plan::{Cell, Figure, Plan, Server, Setting, X};
use crate::suite::published::Name;
use crate::suite::spec::{Store, Transport};

const PAYLOADS: &[u32] = &[
    1,
    16,
    64,
    256,
    1 << 10,
    4 << 10,
    8 << 10,
    16 << 10,
    32 << 10,
];
const PAYLOADS_QUICK: &[u32] = &[1, 1 << 10, 32 << 10];
const REQUESTS: u64 = 20_000;
const REQUESTS_QUICK: u64 = 500;

pub(super) fn plan(setting: &Setting) -> Plan {
    let whole = ("whole client", setting.server(1, Store::Memory));
    let rpc = Server::BareRpc {
        transport: Transport::Tcp,
    };
    let mut lines = vec![whole];
    if setting.own {
        lines.push(("RPC layer", rpc));
    }
    let mut cells = Vec::new();
    for (layer, server) in lines {
        for (server, series) in setting.over(BOTH, server, layer) {
            let payloads = setting.pick(PAYLOADS, PAYLOADS_QUICK).iter();
            cells.extend(payloads.map(|bytes| cell(setting, server, &series, *bytes)));
        }
    }
    Plan {
        name: "small-ops",
        title: "Small operations: latency by payload of the reply",
        notes: vec![match setting.own {
            true => "`whole client` is a READ of the start of a file of 1 MiB, from a data server; `RPC layer` is a call of a program that does nothing else.",
            false => "`whole client` is a READ of the start of a file of 1 MiB.",
        }.to_owned()],
        cells,
        figures: vec![Figure {
            id: "latency",
            title: "Latency by payload".to_owned(),
            group: "payload",
            x_label: "payload",
            metric: Metric::LatencyMeanUs,
            phases: READ,
            published: Name::SmallOps.load(),
            beside: setting.beside(),
            remark: None,
            share_of: None,
        }],
    }
}

fn cell(setting: &Setting, server: Server, series: &str, payload_bytes: u32) -> Cell {
    Cell {
        group: "payload",
        x: X::size(u64::from(payload_bytes)),
        series: series.to_owned(),
        server,
        workers: Workers::processes(1),
        work: Work::Small(SmallWork {
            payload_bytes,
            requests_count: setting.pick(REQUESTS, REQUESTS_QUICK),
            limit_ms: setting.limit_ms(),
        }),
        cold: false,
    }
}
