//! What it costs to be watched, and how long a scrape takes with many clients.

use super::table::{Denominator, Shape};
use super::trial::{Ground, Stage, Trial};
use super::{Planning, Row};
use crate::nfs::Form;
use crate::nfs::cluster::{Carrier, ClusterOptions};
use crate::nfs::failover::Second;
use crate::nfs::host::Host;
use crate::nfs::metadata::{Metadata, Operation};
use crate::nfs::scrape::Scrape;
use crate::runner::Metric;

/// Clients that hold sessions during a scrape, and those of `--quick`.
const CLIENTS: usize = 1000;
const CLIENTS_QUICK: usize = 50;

pub(super) fn trials(planning: &Planning<'_>) -> Vec<Trial> {
    let shapes = planning.table.shapes(Row::Watched);
    let trial = |shape: &Shape| match shape.operation.as_str() {
        "GETATTR" => Some(cost(shape)),
        "scrape with 1,000 clients" => Some(scrape(planning, shape)),
        _ => None,
    };
    shapes.iter().filter_map(trial).collect()
}

fn cluster(stage: &Stage<'_>, is_watched: bool) -> ClusterOptions {
    ClusterOptions {
        is_watched,
        ..stage.cluster(1, Carrier::Tcp)
    }
}

fn cost(shape: &Shape) -> Trial {
    let mut trial = Trial::new(shape.text(), Ground::Tmpfs, shape.connections);
    let [watched, alone] = [true, false].map(|is_watched| {
        trial.add(move |stage| {
            Ok(Metadata {
                host: Host::Ropewalk(cluster(stage, is_watched)),
                form: Form::Wire,
                operation: Operation::Getattr,
            })
        })
    });
    let to = (Denominator::Unwatched, alone);
    trial.claim(shape, watched, to, Metric::RequestsPerSecond);
    trial
}

fn scrape(planning: &Planning<'_>, shape: &Shape) -> Trial {
    let clients_count = planning.pick(CLIENTS, CLIENTS_QUICK);
    let mut trial = Trial::new(shape.text(), Ground::Tmpfs, shape.connections);
    let ours = trial.add(move |stage| {
        let cluster = cluster(stage, true);
        Ok(Scrape {
            cluster,
            clients_count,
        })
    });
    let second = trial.add(|_| Ok(Second));
    let to = (Denominator::Second, second);
    trial.claim(shape, ours, to, Metric::LongestSeconds);
    trial
}
