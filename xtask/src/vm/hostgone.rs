//! The host's part of `hostgone`: the machine of a data server of a cluster with two copies goes away without a word.
//!
//! The data server listens on a network of its own ([`RAILS`](super::net::RAILS)), which is cut when its processes are stopped.
//! No connection of a client ends, and none gets an answer. Entry point: [`host_gone`].

use std::time::Instant;

use super::cluster::Cluster;
use super::error::Result;
use super::failover::{await_level, await_two_copies, opened_later};
use super::hosted::{Finding, Stage};
use super::multipath::listen;
use super::process::signal;

/// The network of the data server that goes away.
const RAIL: usize = 0;
/// The only step, as the program in the guest counts them.
const STEP: usize = 0;

/// Gives a data server an address of its own, lets it go away, and puts everything back.
pub(crate) fn host_gone(stage: &mut Stage<'_>) -> Result<Finding> {
    if !stage.guest.await_signal("booted")? {
        return Ok(None);
    }
    let cluster = stage.cluster()?;
    await_two_copies(&cluster)?;
    let name = &cluster.ds_names()[0];
    let listen = listen(&cluster, name, RAIL + 1)?;
    let before = cluster.configure(name, &[("listen", &listen)])?;
    await_level(&cluster)?;
    stage.guest.signal("ready")?;
    let played = play(stage, &cluster, name);
    stage.net.set_rail(RAIL, true)?;
    cluster.restart_with(name, &before)?;
    await_level(&cluster)?;
    stage.guest.signal(&word("back"))?;
    played
}

fn play(stage: &mut Stage<'_>, cluster: &Cluster, name: &str) -> Result<Finding> {
    if stage.guest.await_any(&[word("step"), word("stuck")])? != Some(0) {
        return Ok(None);
    }
    let (before, since) = (cluster.proxied()?, Instant::now());
    stage.net.set_rail(RAIL, false)?;
    let stopped = cluster.freeze(name)?;
    let found = while_gone(stage, cluster, name, before);
    signal(&stopped, "CONT");
    let gone = since.elapsed().as_secs_f64();
    println!("    # {name} was gone for {gone:.1} s");
    found
}

/// The guest's turn. `proxied` is what the MDS counted before.
fn while_gone(
    stage: &mut Stage<'_>,
    cluster: &Cluster,
    name: &str,
    proxied: u64,
) -> Result<Finding> {
    stage.guest.signal(&word("down"))?;
    let went = stage.guest.await_any(&[word("went"), word("stuck")])? == Some(0);
    let proxied = (cluster.proxied()? - proxied) >> 10;
    println!("    # {name} is gone: {proxied} KiB through the MDS while all did a turn");
    match went {
        true => opened_later(stage.guest, cluster, STEP, name),
        false => Ok(None),
    }
}

/// What host and guest say to each other.
fn word(what: &str) -> String {
    format!("{what}{STEP}")
}
