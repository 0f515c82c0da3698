//! What was measured, as the cells and runs of an experiment, and the figures that show them.

use super::ScaleWork;
use crate::Sample;
use crate::load::Tally;
use crate::runner::Metric;
use crate::suite::job::Work;
use crate::suite::measure::Run;
use crate::suite::plan::{Cell, Figure, Own, Server, X};
use crate::suite::published::Name;
use crate::suite::spec::{Create, Store, Transport};
use crate::suite::work::Workers;
use std::time::Duration;

/// Cells and their runs so far.
#[derive(Debug, Default)]
pub(super) struct Recorder {
    /// Which repeat this is.
    pub(super) repeat: u16,
    /// The cells.
    pub(super) cells: Vec<Cell>,
    /// The runs.
    pub(super) runs: Vec<Run>,
}

/// A cluster with one data server that has data, whatever else lives at it.
pub(super) const fn one_server(store: Store) -> Own {
    Own {
        ds_count: 1,
        copies: 1,
        store,
        transport: Transport::Tcp,
        create: Create::Lazy,
        link: None,
        clients: None,
        nfs3: false,
    }
}

/// Where a phase is entered.
#[derive(Debug, Clone)]
pub(super) struct Place {
    /// The group of figures.
    pub(super) group: &'static str,
    /// Where it stands.
    pub(super) x: X,
    /// The cluster.
    pub(super) work: ScaleWork,
    /// Where it keeps metadata.
    pub(super) store: Store,
    /// Connections that ask at the same time.
    pub(super) connections_count: u32,
}

impl Place {
    /// A point of a cluster in memory to which nobody asks anything.
    pub(super) fn idle(group: &'static str, x: X, work: ScaleWork) -> Self {
        Self {
            group,
            x,
            work,
            store: Store::Memory,
            connections_count: 0,
        }
    }
}

impl Recorder {
    /// Enters what a phase has measured.
    pub(super) fn enter(&mut self, place: Place, phase: &str, sample: Sample) {
        let found = self
            .cells
            .iter()
            .position(|cell| cell.group == place.group && cell.x == place.x);
        let cell = found.unwrap_or_else(|| {
            self.cells.push(cell(place));
            self.cells.len() - 1
        });
        let repeat = self.repeat;
        let phase = (phase.to_owned(), sample);
        let run = self
            .runs
            .iter_mut()
            .find(|run| run.cell == cell && run.repeat == repeat);
        match run {
            Some(run) => run.phases.push(phase),
            None => self.runs.push(Run {
                cell,
                repeat,
                phases: vec![phase],
                bypass: None,
            }),
        }
    }
}

fn cell(place: Place) -> Cell {
    Cell {
        group: place.group,
        x: place.x,
        series: String::new(),
        server: Server::Own(one_server(place.store)),
        workers: Workers {
            processes_count: 1,
            tasks_count: place.connections_count,
            behind_link: false,
        },
        work: Work::Scale(place.work),
        cold: false,
    }
}

/// A phase in which so many things took so many bytes.
pub(super) fn gauge(count: u64, bytes: u64, elapsed: Duration) -> Sample {
    sample(&Tally::new(), elapsed, Duration::ZERO, (count, bytes))
}

/// A phase whose requests a tally counted.
pub(super) fn counted(tally: &Tally, elapsed: Duration, server_cpu: Duration) -> Sample {
    let counts = (tally.requests_count, tally.payload_bytes);
    sample(tally, elapsed, server_cpu, counts)
}

fn sample(
    tally: &Tally,
    elapsed: Duration,
    server_cpu: Duration,
    (requests_count, payload_bytes): (u64, u64),
) -> Sample {
    Sample {
        requests_count,
        payload_bytes,
        elapsed,
        latency_ns: tally.latency_ns.clone(),
        server_cpu,
        client_cpu: Duration::ZERO,
        machine_idle: None,
        rss_bytes_per_session: None,
    }
}

/// Part of file names, title, group, horizontal axis, what the vertical axis shows, phases.
type Row = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    Metric,
    &'static [&'static str],
);

const ROWS: [Row; 9] = [
    (
        "ds-memory",
        "Memory of the metadata server for each data server",
        "ds",
        "data servers",
        Metric::BytesPerRequest,
        &["joined"],
    ),
    (
        "heartbeat-cpu",
        "CPU of the metadata server for a heartbeat",
        "ds",
        "data servers",
        Metric::CpuUsPerRequest,
        &["heartbeats"],
    ),
    (
        "heartbeat-rate",
        "Heartbeats",
        "ds",
        "data servers",
        Metric::RequestsPerSecond,
        &["heartbeats"],
    ),
    (
        "heartbeat-latency",
        "Latency of a heartbeat",
        "ds",
        "data servers",
        Metric::LatencyP50Us,
        &["heartbeats"],
    ),
    (
        "session-memory",
        "Memory of the metadata server for each session",
        "sessions",
        "sessions",
        Metric::BytesPerRequest,
        &["opened"],
    ),
    (
        "renewal-cpu",
        "CPU of the metadata server for the renewal of a lease",
        "sessions",
        "sessions",
        Metric::CpuUsPerRequest,
        &["renewals"],
    ),
    (
        "layout-bytes",
        "Size of the reply",
        "layout",
        "data servers of a file",
        Metric::BytesPerRequest,
        &["LAYOUTGET", "GETDEVICEINFO"],
    ),
    (
        "layout-latency",
        "Latency, one request at a time",
        "layout",
        "data servers of a file",
        Metric::LatencyP50Us,
        &["LAYOUTGET", "GETDEVICEINFO"],
    ),
    (
        "operation-cpu",
        "CPU of the metadata server for an operation, with all data servers and sessions",
        "operations",
        "operation",
        Metric::CpuUsPerRequest,
        &["requests"],
    ),
];

/// The figures of the experiment.
pub(super) fn figures() -> Vec<Figure> {
    let figure = |(id, title, group, x_label, metric, phases): Row| Figure {
        id,
        title: title.to_owned(),
        group,
        x_label,
        metric,
        phases,
        published: Name::Scale.load(),
        beside: &[],
        remark: None,
        share_of: None,
    };
    ROWS.into_iter().map(figure).collect()
}
