//! The host's part of `foreign`: an NFSv3 server of others is killed in the middle of a write, and started again.
//!
//! `vm/host/foreign.sh` runs beside the cluster, and does what it is asked for by files. The host waits for what the
//! metadata server says of the servers. Entry points: [`foreign`], [`stripes`],
//! [`knfsd`].

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::cluster::{Cluster, await_state};
use super::error::{Context, Result};
use super::hosted::{Finding, Stage, await_cluster};

/// Servers that the script starts and adds.
const SERVERS: usize = 2;
/// What the guest's own server exports.
const GUEST_EXPORT: &str = "192.0.2.10:/srv/far";

/// Kills the first server while the guest writes, starts it again, and waits until no mirror is bad.
pub(crate) fn foreign(stage: &mut Stage<'_>) -> Result<Finding> {
    let cluster = await_added(stage)?;
    if !stage.guest.await_signal("writing")? {
        return Ok(None);
    }
    order(&cluster, "kill-1")?;
    await_state("a killed server of others is not down", || {
        Ok(up(&cluster.mds()?) < SERVERS)
    })?;
    stage.guest.signal("killed")?;
    if !stage.guest.await_signal("written")? {
        return Ok(None);
    }
    order(&cluster, "start-1")?;
    await_level(stage, &cluster, SERVERS)
}

/// Adds the server of the guest's kernel, and waits until no mirror is bad once the guest has stopped and started it.
pub(crate) fn knfsd(stage: &mut Stage<'_>) -> Result<Finding> {
    if !stage.guest.await_signal("exported")? {
        return Ok(None);
    }
    let cluster = stage.cluster()?;
    await_cluster(&cluster)?;
    let request = json!({
        "target": GUEST_EXPORT,
        "port": null,
        "mount_port": null,
        "client_addresses": [],
    });
    let mut said = String::new();
    let added = await_state("the guest's server was not added", || {
        Ok(
            match cluster.ask("mds", "POST /nfs3-servers", Some(&request)) {
                Ok(_) => true,
                Err(why) => {
                    said = why.to_string();
                    up(&cluster.mds()?) > SERVERS
                }
            },
        )
    });
    if added.is_err() {
        return Ok(Some(said));
    }
    await_state("the servers of others are not up", || {
        Ok(up(&cluster.mds()?) > SERVERS)
    })?;
    stage.guest.signal("added")?;
    if !stage.guest.await_signal("written")? {
        return Ok(None);
    }
    await_level(stage, &cluster, SERVERS + 1)
}

/// Waits until so many servers are up and all mirrors are good, and tells the guest.
fn await_level(stage: &mut Stage<'_>, cluster: &Cluster, servers: usize) -> Result<Finding> {
    let mut last = Value::Null;
    let level = await_state("files have bad mirrors, or fences wait", || {
        last = cluster.mds()?;
        let waits = ["bad_mirror_files", "foreign_fences_waiting"];
        Ok(up(&last) >= servers && waits.iter().all(|name| last[*name] == 0))
    });
    if let Err(why) = level {
        return Ok(Some(format!("{why}: {}", last["foreign_servers"])));
    }
    stage.guest.signal("level")?;
    Ok(None)
}

/// Tells the guest when both servers are there.
pub(crate) fn stripes(stage: &mut Stage<'_>) -> Result<Finding> {
    await_added(stage)?;
    Ok(None)
}

/// Waits until both servers are added, and tells the guest.
fn await_added(stage: &mut Stage<'_>) -> Result<Cluster> {
    let cluster = stage.cluster()?;
    await_cluster(&cluster)?;
    await_state("the servers of others were not added", || {
        Ok(up(&cluster.mds()?) >= SERVERS)
    })?;
    stage.guest.signal("added")?;
    Ok(cluster)
}

/// How many servers of others are up.
fn up(mds: &Value) -> usize {
    let servers = mds["foreign_servers"].as_array();
    let up = |servers: &Vec<Value>| servers.iter().filter(|s| s["up"] == true).count();
    servers.map_or(0, up)
}

/// Asks the script for something, and waits until it is done.
fn order(cluster: &Cluster, word: &str) -> Result<()> {
    let file = yard(cluster).join(word);
    fs::write(&file, "").context(|| format!("cannot write {}", file.display()))?;
    await_state("the script of the host does nothing", || Ok(!file.exists()))
}

/// Where the script keeps its things: beside the cluster, by its name.
fn yard(cluster: &Cluster) -> PathBuf {
    let mut name = cluster.dir().as_os_str().to_owned();
    name.push(YARD_SUFFIX);
    PathBuf::from(name)
}

/// What the name of the script's directory ends with, after that of the cluster.
pub(crate) const YARD_SUFFIX: &str = ".foreign";
