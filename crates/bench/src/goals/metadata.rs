//! GETATTR against the ping-pong, and metadata operations on a disk beside nfs-ganesha, with one request outstanding beside the bare servers.
//!
//! All servers of the second stand on one file system, a [`LoopDisk`] where it can be made. Ours answers a create or a remove
//! when it is durable. So the peer has two forms. The one that counts is on a folder whose changes ext4 writes at once. In the
//! other, as it comes, a power cut takes away what was answered.

use super::creates::bare_creates;
use super::table::{Denominator, Protocol, Shape};
use super::trial::{Ground, Look, Trial, place};
use super::{Planning, Row};
use crate::BenchError;
use crate::bare::ping_pong::{Form as PingPongForm, PingPong};
use crate::disk::LoopDisk;
use crate::nfs::Form;
use crate::nfs::cluster::Carrier;
use crate::nfs::host::Host;
use crate::nfs::metadata::{Metadata, Operation};
use crate::peer::Fsal;
use crate::runner::Metric;
use clap::ValueEnum;
use std::path::Path;

/// Requests that wait at the same time.
const OUTSTANDING: [usize; 3] = [1, 16, 64];

/// A file system of its own below `dir`; none when that cannot be.
pub(super) fn disk(dir: &Path) -> Result<Option<LoopDisk>, BenchError> {
    match LoopDisk::make(dir) {
        Ok(disk) => Ok(Some(disk)),
        Err(BenchError::Disk(why)) => {
            eprintln!(
                "no file system of its own ({why}): all stand on {}, and what nfs-ganesha creates and removes is not durable",
                place(dir)
            );
            Ok(None)
        }
        Err(e) => Err(e),
    }
}

/// Ours, over TCP.
fn ours(
    operation: Operation,
    form: Form,
    in_memory_too: bool,
) -> impl FnOnce(&super::trial::Stage<'_>) -> Result<Metadata, BenchError> {
    move |stage| {
        let cluster = if in_memory_too {
            stage.any_cluster(1, Carrier::Tcp)
        } else {
            stage.cluster(1, Carrier::Tcp)
        };
        Ok(Metadata {
            host: Host::Ropewalk(cluster),
            form,
            operation,
        })
    }
}

/// A ping-pong of the sizes of an operation.
pub(super) fn add_ping_pong(
    trial: &mut Trial,
    operation: Operation,
    form: PingPongForm,
    in_memory_too: bool,
) -> usize {
    trial.add(move |stage| {
        let find = || ours(operation, Form::Wire, in_memory_too)(stage)?.sizes();
        Ok(PingPong {
            launcher: stage.launcher(),
            form,
            sizes: stage.sizes(find)?,
        })
    })
}

pub(super) fn getattr(planning: &Planning<'_>) -> Vec<Trial> {
    let operation = Operation::Getattr;
    let trial = |shape: &Shape| {
        let mut trial = Trial::new(shape.text(), Ground::Tmpfs, shape.connections);
        let [thread, tokio] = [PingPongForm::Thread, PingPongForm::Tokio]
            .map(|form| add_ping_pong(&mut trial, operation, form, true));
        let ours = trial.add(ours(operation, Form::Wire, true));
        let metric = match shape.connections {
            1 => Metric::LatencyP50Us,
            _ => Metric::RequestsPerSecond,
        };
        for to in [
            (Denominator::PingPong, thread),
            (Denominator::PingPongTokio, tokio),
        ] {
            trial.claim(shape, ours, to, metric);
        }
        trial
    };
    let shapes = planning.table.shapes(Row::Getattr);
    shapes.iter().map(trial).collect()
}

pub(super) fn on_a_disk(planning: &Planning<'_>) -> Vec<Trial> {
    let operations = match planning.options.operation.as_slice() {
        [] => Operation::value_variants(),
        some => some,
    };
    let counts = match planning.options.outstanding.as_slice() {
        [] => &OUTSTANDING,
        some => some,
    };
    let both = |operation: &Operation| {
        let operation = *operation;
        counts
            .iter()
            .map(move |count| one_on_a_disk(planning, operation, *count))
    };
    operations.iter().flat_map(both).collect()
}

fn one_on_a_disk(planning: &Planning<'_>, operation: Operation, count: usize) -> Trial {
    let shape = Shape {
        operation: operation.name().to_owned(),
        size_bytes: None,
        connections: count,
        data_servers: 1,
        carrier: Carrier::Tcp,
        protocol: Protocol::Nfs4,
    };
    let form = match count {
        1 => Form::Wire,
        _ => Form::Session,
    };
    let mut trial = Trial::new(shape.text(), Ground::Disk, count);
    trial.look = Look::Servers;
    let ours = trial.add(ours(operation, form, false));
    let peers = &planning.peers;
    // Where nothing is to be durable there is one form of the peer; where nothing can be, the other.
    let is_durable = peers.on_own_disk && operation.is_durable();
    if let Some(host) = peers.host(Fsal::Vfs { is_durable }) {
        let peer = trial.add(move |stage| {
            Ok(Metadata {
                host: host(stage),
                form,
                operation,
            })
        });
        let to = (Denominator::GaneshaDisk, peer);
        trial.claim(&shape, ours, to, Metric::RequestsPerSecond);
    }
    if let Some(host) = peers
        .host(Fsal::Vfs { is_durable: false })
        .filter(|_| is_durable)
    {
        trial.add(move |stage| {
            Ok(Metadata {
                host: host(stage),
                form,
                operation,
            })
        });
    }
    let has_floor = !matches!(operation, Operation::Readdir | Operation::Lock);
    if count == 1 && has_floor {
        let p50 = Metric::LatencyP50Us;
        let thread = PingPongForm::Thread;
        let ping_pong = add_ping_pong(&mut trial, operation, thread, false);
        if operation.is_durable() {
            let store = trial.add(bare_creates);
            let to = (Denominator::PingPongAndStore, ping_pong);
            trial.claim(&shape, ours, to, p50).bases.push(store);
        } else {
            trial.claim(&shape, ours, (Denominator::PingPong, ping_pong), p50);
        }
    }
    trial
}
