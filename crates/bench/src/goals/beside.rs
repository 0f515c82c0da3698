//! Rows with one server of each side: ours with one data server, and nfs-ganesha's FSAL_VFS on the same storage.

use super::table::{Denominator, Shape};
use super::trial::{Ground, Look, Trial};
use super::{Planning, Row};
use crate::Subject;
use crate::nfs::cluster::Carrier;
use crate::nfs::host::Host;
use crate::peer::Fsal;
use crate::runner::Metric;

/// Trials of a row with one server of each side, on a disk and on a tmpfs. One connection claims its latency, several claim
/// their rate. `subject` says what is asked of a host, of those shapes that the row knows.
pub(super) fn beside_ganesha<S, F>(
    planning: &Planning<'_>,
    row: Row,
    subject: impl Fn(&Shape) -> Option<F>,
) -> Vec<Trial>
where
    S: Subject + 'static,
    F: Fn(Host) -> S + Copy + 'static,
{
    let grounds = [
        (Ground::Disk, Denominator::GaneshaDisk),
        (Ground::Tmpfs, Denominator::GaneshaTmpfs),
    ];
    let trial = |(shape, (ground, to)): (&Shape, (Ground, Denominator))| {
        let subject = subject(shape)?;
        let mut trial = Trial::new(shape.text(), ground, shape.connections);
        trial.look = Look::Servers;
        let ours = trial.add(move |stage| {
            let cluster = stage.cluster(1, Carrier::Tcp);
            Ok(subject(Host::Ropewalk(cluster)))
        });
        if let Some(host) = planning.peers.host(Fsal::Vfs { is_durable: false }) {
            let peer = trial.add(move |stage| Ok(subject(host(stage))));
            let metric = match shape.connections {
                1 => Metric::LatencyP50Us,
                _ => Metric::RequestsPerSecond,
            };
            trial.claim(shape, ours, (to, peer), metric);
        }
        Some(trial)
    };
    let shapes = planning.table.shapes(row);
    let each = |shape| grounds.map(|ground| (shape, ground));
    shapes.iter().flat_map(each).filter_map(trial).collect()
}
