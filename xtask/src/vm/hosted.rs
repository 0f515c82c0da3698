//! Scenarios in which the host has a part: it kills servers while a guest works, or looks at what they count.
//!
//! Such a scenario has a guest of its own. Guest and host take turns by signals: the guest's script says where it is,
//! the host does its part and answers. The caller says what "kill" and "bring back" mean ([`Victim`]). What needs more,
//! such as a kill of one data server, needs a Ropewalk cluster ([`Cluster`]).

use std::thread;
use std::time::{Duration, Instant};

use super::cluster::{Cluster, Traffic, await_state};
use super::error::{Failure, Result};
use super::guest::{Guest, GuestBuilder, GuestExit, GuestRun};
use super::net::Net;
use super::prepare::Tools;
use super::process::{POLL, signal};
use super::scenario::{Needs, Outcome, Scenario, Settings, judge_single, with_finding};

/// What the caller does with its server.
pub(crate) trait Victim {
    /// kill -9: when this returns the process is gone.
    fn kill(&mut self) -> Result<()>;
    /// Brings the server back, or waits until whoever supervises it has.
    fn revive(&mut self) -> Result<()>;
    /// The cluster behind the server, when it is known to be one of Ropewalk.
    fn cluster(&self) -> Option<Cluster>;
    /// What it wrote on its standard output and error.
    fn words(&self) -> String;
}

/// What the host's part of a scenario has to do with.
pub(crate) struct Stage<'a> {
    /// The guest; it runs.
    pub(crate) guest: &'a mut Guest,
    /// The server.
    pub(crate) victim: &'a mut dyn Victim,
    /// Where both live.
    pub(crate) net: &'a Net,
    /// What the harness has, and where it keeps things.
    pub(crate) tools: &'a Tools,
    /// What the guest was told.
    pub(crate) settings: &'a Settings,
    /// The minor version that it mounts with.
    pub(crate) vers: &'a str,
}

/// What the host found wrong, if anything. A guest that ends before its turn is no finding: it says itself why.
pub(crate) type Finding = Option<String>;

/// The host's part.
pub(crate) type HostPart = fn(&mut Stage<'_>) -> Result<Finding>;

impl<'a> Stage<'a> {
    /// A second guest, which runs a script of the scenario as `ROLE=1`.
    pub(crate) fn second(&self, script: &str) -> GuestBuilder<'a> {
        (self.settings.guest(self.net, self.tools, self.vers))
            .script(script)
            .env("ROLE", 1)
            .slot(1)
            .timeout(self.settings.scenario_limit)
    }

    pub(crate) fn cluster(&self) -> Result<Cluster> {
        let cluster = self.victim.cluster();
        cluster.ok_or_else(|| Failure::new("this scenario needs --cluster-dir"))
    }
}

/// Runs a scenario in a guest of its own with one version.
pub(crate) fn run(
    net: &Net,
    tools: &Tools,
    settings: &Settings,
    vers: &str,
    scenario: &Scenario,
    part: HostPart,
    victim: &mut dyn Victim,
) -> Result<Outcome> {
    let started = Instant::now();
    let mut guest = settings
        .guest(net, tools, vers)
        .script(format!("scenarios/{}.sh", scenario.name))
        .env("SCENARIO_LIMIT_S", settings.scenario_limit.as_secs())
        .on_rails(matches!(
            scenario.needs,
            Needs::Rails | Needs::CopiesOnRails
        ))
        .timeout(settings.scenario_limit)
        .spawn()?;
    let found = part(&mut Stage {
        guest: &mut guest,
        victim,
        net,
        tools,
        settings,
        vers,
    });
    let found = found.unwrap_or_else(|error| Some(error.to_string()));
    // A guest whose host has given up would wait for it.
    let run = if found.is_some() {
        guest.stop()?
    } else {
        guest.wait()?
    };
    let mut outcome = judge_single(&run, vers, scenario.name, started.elapsed());
    outcome.failure = with_finding(found, &run, outcome.failure);
    Ok(outcome)
}

/// Waits for the end of another guest, or ends it when something is wrong. `who` is what it is called.
pub(crate) fn end_other(other: Guest, found: Result<Finding>, who: &str) -> Result<Finding> {
    let run = if matches!(found, Ok(None)) {
        other.wait()?
    } else {
        other.stop()?
    };
    let failed = judge_other(&run, who);
    Ok(found?.or(failed))
}

/// Prints what another guest of a scenario has noted, and says why it failed, if it did. `who` is what it is called.
pub(crate) fn judge_other(run: &GuestRun, who: &str) -> Finding {
    let lines: Vec<&str> = run.output.lines().collect();
    for line in lines.iter().filter(|line| line.starts_with("# ")) {
        println!("    {line}");
    }
    (run.rc != GuestExit::Status(0)).then(|| format!("{who}: {}", run.last_words(&lines)))
}

/// kill -9 of the server (of a cluster: of its MDS) once.
pub(crate) fn crash(stage: &mut Stage<'_>) -> Result<Finding> {
    if stage.guest.await_signal("step1")? {
        stage.victim.kill()?;
        stage.guest.signal("go")?;
        stage.victim.revive()?;
    }
    Ok(None)
}

/// kill -9 of one data server after the other, then of two at once. Then one is stopped for a while.
pub(crate) fn ds_crash(stage: &mut Stage<'_>) -> Result<Finding> {
    let cluster = stage.cluster()?;
    let names = cluster.ds_names();
    let [first, second, ..] = &names[..] else {
        return Err(Failure::new("this scenario needs two data servers"));
    };
    let rounds = [vec![first], vec![second], vec![first, second]];
    for (round, victims) in rounds.iter().enumerate() {
        if !stage.guest.await_signal(&format!("step{round}"))? {
            return Ok(None);
        }
        let mut killed = Vec::new();
        for name in victims {
            killed.push(cluster.signal(name, "KILL")?);
        }
        for (name, old) in victims.iter().zip(killed) {
            cluster.await_restart(name, old)?;
        }
        stage.guest.signal(&format!("back{round}"))?;
    }
    if stage.guest.await_signal("freeze")? {
        let id = cluster.ds_id(first)?;
        let both = cluster.freeze(first)?;
        let written = while_stopped(stage, &cluster, id);
        signal(&both, "CONT");
        written?;
        cluster.await_ds_state(id, "serving")?;
        stage.guest.signal("thawed")?;
    }
    Ok(None)
}

/// The guest's turn while the data server `id` is stopped, which the MDS has noticed.
fn while_stopped(stage: &mut Stage<'_>, cluster: &Cluster, id: u64) -> Result<()> {
    cluster.await_ds_state(id, "away")?;
    stage.guest.signal("frozen")?;
    stage.guest.await_signal("written").map(drop)
}

/// Attempts to have all bytes at the data servers while they still serve without the MDS.
const FSYNC_ATTEMPTS: u32 = 8;

/// How long a data server serves at least after it last heard of the MDS: its lease without a heartbeat's time.
const FSYNC_WINDOW: Duration = Duration::from_millis(4_000);

/// kill -9 of the MDS when the data servers have the data of a write and the MDS has not heard of it. It is stopped
/// before the guest's fsync begins. It is killed when the data servers count the bytes and have been told to COMMIT.
pub(crate) fn fsync_crash(stage: &mut Stage<'_>) -> Result<Finding> {
    let cluster = stage.cluster()?;
    for attempt in 0..FSYNC_ATTEMPTS {
        if !stage.guest.await_signal(&format!("begin{attempt}"))? {
            return Ok(None);
        }
        let before = cluster.data_traffic()?;
        stage.guest.signal(&format!("counted{attempt}"))?;
        if !stage.guest.await_signal(&format!("ready{attempt}"))? {
            return Ok(None);
        }
        let pid = cluster.signal("mds", "STOP")?;
        stage.guest.signal(&format!("go{attempt}"))?;
        let arrived = fsync_arrived(&cluster, before);
        if !matches!(arrived, Ok(true)) {
            signal(&[pid], "CONT");
            stage.guest.signal(&format!("again{attempt}"))?;
            arrived?;
            continue;
        }
        stage.guest.signal("killed")?;
        signal(&[pid], "KILL");
        cluster.await_restart("mds", pid)?;
        return Ok(None);
    }
    Ok(Some(
        "the data servers never had all bytes while they served without the MDS".to_owned(),
    ))
}

/// Bytes that the guest of `fsynccrash` writes while the MDS is stopped, MiB; the script reads it from here.
pub(crate) const FSYNC_MIB: u64 = 12;

/// Whether all bytes and a COMMIT to each data server come in time.
fn fsync_arrived(cluster: &Cluster, before: Traffic) -> Result<bool> {
    let servers = cluster.ds_names().len() as u64;
    let deadline = Instant::now() + FSYNC_WINDOW;
    loop {
        let now = cluster.data_traffic()?;
        let written = now.ds_written - before.ds_written;
        if written >= FSYNC_MIB << 20 && now.commits - before.commits >= servers {
            return Ok(true);
        }
        if Instant::now() >= deadline {
            return Ok(false);
        }
        thread::sleep(POLL);
    }
}

/// The servers' own counts of what the guest wrote and read: all of it at the data servers, nothing by the MDS.
pub(crate) fn pnfs(stage: &mut Stage<'_>) -> Result<Finding> {
    let Some(cluster) = stage.victim.cluster() else {
        return Ok(None);
    };
    let before = cluster.traffic()?;
    if !stage.guest.await_signal("compared")? {
        return Ok(None);
    }
    let now = cluster.traffic()?;
    stage.guest.signal("counted")?;
    let bytes = PNFS_MIB << 20;
    let (written, read) = (
        now.ds_written - before.ds_written,
        now.ds_read - before.ds_read,
    );
    let proxied = now.proxied - before.proxied;
    // A page may be written or read twice; a tenth more than the file is too much.
    let sensible = bytes..bytes + bytes / 10;
    Ok(
        match (
            sensible.contains(&written),
            sensible.contains(&read),
            proxied,
        ) {
            (true, true, 0) => None,
            _ => Some(format!(
                "of {bytes} bytes the data servers count {written} written and {read} read by clients, and {proxied} went through the MDS"
            )),
        },
    )
}

/// The size of the file of `pnfs`, MiB, and a bit; the script reads it from here.
pub(crate) const PNFS_MIB: u64 = 64;

/// What the servers count of small files and of large ones that begin with nothing. The metadata store has all of the small
/// ones, and no data server any of them. Of the large ones nothing goes through the MDS.
pub(crate) fn small(stage: &mut Stage<'_>) -> Result<Finding> {
    let Some(cluster) = stage.victim.cluster() else {
        return Ok(None);
    };
    let before = cluster.traffic()?;
    if !stage.guest.await_signal("small")? {
        return Ok(None);
    }
    let small = cluster.traffic()?;
    stage.guest.signal("large")?;
    if !stage.guest.await_signal("written")? {
        return Ok(None);
    }
    let large = cluster.traffic()?;
    stage.guest.signal("counted")?;
    let inline = small.inline - before.inline;
    let elsewhere = small.proxied + small.ds_written - before.proxied - before.ds_written;
    let (proxied, written) = (
        large.proxied - small.proxied,
        large.ds_written - small.ds_written,
    );
    if inline != SMALL_FILES * SMALL_BYTES || elsewhere > 0 {
        return Ok(Some(format!(
            "of {SMALL_FILES} files of {SMALL_BYTES} bytes {inline} bytes lie in the metadata store, and data servers were \
             given {elsewhere}"
        )));
    }
    if proxied > 0 || written < 3 * (LARGE_MIB << 20) {
        return Ok(Some(format!(
            "of three files of {LARGE_MIB} MiB the data servers were written {written} bytes by clients, and {proxied} went through the MDS"
        )));
    }
    Ok(None)
}

/// What the guest of `small` makes: so many files of so many bytes, and three of so many MiB.
pub(crate) const SMALL_FILES: u64 = 300;
pub(crate) const SMALL_BYTES: u64 = 4096;
pub(crate) const LARGE_MIB: u64 = 8;

/// Waits until all data servers of the cluster serve.
pub(crate) fn await_cluster(cluster: &Cluster) -> Result<()> {
    let wanted = cluster.ds_names().len();
    await_state("the cluster did not serve", || {
        Ok(cluster.mds().is_ok_and(|mds| {
            let all = mds["data_servers"]
                .as_array()
                .map_or(&[][..], Vec::as_slice);
            all.iter().filter(|ds| ds["state"] == "serving").count() == wanted
        }))
    })
}
