//! The rows over RDMA, each but `rdma-idle` beside the same over TCP in one comparison. The provider is software iWARP: a protocol, not hardware.

use super::creates::bare_creates;
use super::table::{Denominator, Shape};
use super::trial::{Ground, Trial};
use super::{Planning, Row};
use crate::Subject;
use crate::nfs::Form;
use crate::nfs::cluster::{Carrier, ClusterOptions};
use crate::nfs::create::Creates;
use crate::nfs::host::Host;
use crate::nfs::idle::{Beside, Paper, REQUESTS_PER_CLIENT};
use crate::nfs::io::{Access, FileIo, Order};
use crate::nfs::metadata::{Metadata, Operation};
use crate::nfs::reconnect::Reconnects;
use crate::runner::Metric;

/// Both forms of software iWARP.
const IWARP: [Carrier; 2] = [Carrier::Iwarp, Carrier::IwarpWithoutCrc];

/// Idle sessions of both sides of `rdma-idle`, and those of `--quick`.
const IDLE: [usize; 2] = [100, 10_000];
const IDLE_QUICK: [usize; 2] = [20, 400];

/// What a row has goals for, over whichever carrier, each once.
fn shapes(planning: &Planning<'_>, row: Row) -> Vec<Shape> {
    let mut shapes: Vec<Shape> = Vec::new();
    for mut shape in planning.table.shapes(row) {
        shape.carrier = Carrier::Tcp;
        if !shapes.contains(&shape) {
            shapes.push(shape);
        }
    }
    shapes
}

fn over(shape: &Shape, carrier: Carrier) -> Shape {
    Shape {
        carrier,
        ..shape.clone()
    }
}

pub(super) fn read(planning: &Planning<'_>) -> Vec<Trial> {
    let trial = |shape: &Shape| {
        let file_bytes = planning.file_bytes();
        let io_bytes = shape.size_bytes.unwrap_or(1 << 20);
        let title = format!("{}, software iWARP and TCP", shape.text());
        let mut trial = Trial::new(title, Ground::Tmpfs, shape.connections);
        let mut reads = |carrier, form| {
            trial.add(move |stage| {
                Ok(FileIo {
                    host: Host::Ropewalk(stage.cluster(1, carrier)),
                    form,
                    access: Access::Read,
                    order: Order::Walk,
                    own_files: false,
                    file_bytes,
                    io_bytes,
                    is_inline: false,
                })
            })
        };
        let tcp = reads(Carrier::Tcp, Form::Session);
        let iwarp = IWARP.map(|carrier| reads(carrier, Form::Session));
        let sockets = reads(Carrier::Tcp, Form::Wire);
        for to in [(Denominator::Tcp, tcp), (Denominator::TcpSockets, sockets)] {
            for (carrier, ours) in IWARP.into_iter().zip(iwarp) {
                let metric = Metric::RequestsPerSecond;
                trial.claim(&over(shape, carrier), ours, to, metric);
            }
        }
        trial
    };
    let shapes = shapes(planning, Row::RdmaRead);
    shapes.iter().map(trial).collect()
}

/// The median latency of a subject over both forms of software iWARP, to that over TCP.
fn latencies<S: Subject + 'static>(
    planning: &Planning<'_>,
    row: Row,
    make: fn(ClusterOptions) -> S,
) -> Vec<Trial> {
    let trial = |shape: &Shape| {
        let title = format!("{}, software iWARP and TCP", shape.text());
        let mut trial = Trial::new(title, Ground::Tmpfs, shape.connections);
        let mut asks = |carrier| trial.add(move |stage| Ok(make(stage.any_cluster(1, carrier))));
        let tcp = asks(Carrier::Tcp);
        let iwarp = IWARP.map(asks);
        for (carrier, ours) in IWARP.into_iter().zip(iwarp) {
            let to = (Denominator::Tcp, tcp);
            trial.claim(&over(shape, carrier), ours, to, Metric::LatencyP50Us);
        }
        trial
    };
    let shapes = shapes(planning, row);
    shapes.iter().map(trial).collect()
}

pub(super) fn getattr(planning: &Planning<'_>) -> Vec<Trial> {
    latencies(planning, Row::RdmaGetattr, |cluster| Metadata {
        host: Host::Ropewalk(cluster),
        form: Form::Session,
        operation: Operation::Getattr,
    })
}

pub(super) fn reconnect(planning: &Planning<'_>) -> Vec<Trial> {
    latencies(planning, Row::RdmaReconnect, |cluster| Reconnects {
        cluster,
    })
}

pub(super) fn idle(planning: &Planning<'_>) -> Vec<Trial> {
    let [few, many] = planning.pick(IDLE, IDLE_QUICK);
    let trial = |shape: &Shape| {
        let title = format!(
            "SEQUENCE, {} clients with {REQUESTS_PER_CLIENT} requests each, beside idle sessions, software iWARP",
            shape.connections / REQUESTS_PER_CLIENT
        );
        let mut trial = Trial::new(title, Ground::Tmpfs, shape.connections);
        let [beside_few, beside_many] = [few, many].map(|idle_count| {
            trial.add(move |stage| {
                Ok(Beside {
                    cluster: stage.any_cluster(1, Carrier::Iwarp),
                    idle_count,
                    uncounted: few,
                })
            })
        });
        let paper = trial.add(|_| Ok(Paper));
        let to = (Denominator::FewIdle, beside_few);
        trial.claim(shape, beside_many, to, Metric::RequestsPerSecond);
        let to = (Denominator::Paper, paper);
        trial.claim(shape, beside_many, to, Metric::RssBytesPerSession);
        trial
    };
    let shapes = planning.table.shapes(Row::RdmaIdle);
    shapes.iter().map(trial).collect()
}

pub(super) fn create(planning: &Planning<'_>) -> Vec<Trial> {
    let trial = |shape: &Shape| {
        let title = "Durable creates, software iWARP and TCP";
        let mut trial = Trial::new(title, Ground::Disk, shape.connections);
        let bare = trial.add(bare_creates);
        let [tcp, iwarp] = [Carrier::Tcp, Carrier::Iwarp].map(|carrier| {
            trial.add(move |stage| {
                Ok(Creates {
                    cluster: stage.cluster(1, carrier),
                })
            })
        });
        for to in [(Denominator::BareStore, bare), (Denominator::Tcp, tcp)] {
            let shape = over(shape, Carrier::Iwarp);
            trial.claim(&shape, iwarp, to, Metric::RequestsPerSecond);
        }
        trial
    };
    let shapes = shapes(planning, Row::RdmaCreate);
    shapes.iter().map(trial).collect()
}
