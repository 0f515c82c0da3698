//! The host's part of `failover`: data servers of a cluster with two copies fail, each in another way.
//!
//! The guest says when it is under way, and how long each of its workers took. The host lets the server fail, counts what
//! went through the MDS, and waits until all copies are level again. A second guest works all the time, and each reads what
//! the other wrote. Entry point: [`failover`].

use std::time::Instant;

use serde_json::Value;

use super::cluster::{Cluster, await_state};
use super::error::{Failure, Result};
use super::guest::Guest;
use super::hosted::{Finding, Stage, await_cluster, end_other};
use super::process::signal;

/// Bytes that are written and read of each kind of files while a data server is gone, MiB; the script reads it from here.
pub(crate) const FAILOVER_MIB: u64 = 16;

/// How a data server fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Blow {
    /// SIGKILL of the server; its watcher starts another.
    Killed,
    /// SIGTERM of the watcher, which stops both; `ropewalk up` starts them again.
    Terminated,
    /// SIGSTOP of the server; its watcher kills it.
    Stopped,
    /// SIGKILL of watcher and server, while `ropewalk up` is stopped.
    Gone,
}

/// In this order, again in each round; the program in the guest has the same order.
const BLOWS: [Blow; 4] = [Blow::Killed, Blow::Terminated, Blow::Stopped, Blow::Gone];

/// What the guest opens while a data server is gone, after a first word that it is quiet. The kinds are new files, those that
/// were closed before, and those that were open when the server went. Only the first two are promised to bypass the MDS.
const KINDS: [(&str, bool); 4] = [
    ("no", false),
    ("new", true),
    ("closed", true),
    ("opened", false),
];

/// Lets one data server after the other fail until the guest has enough. A second kernel works all the time.
pub(crate) fn failover(stage: &mut Stage<'_>) -> Result<Finding> {
    let cluster = stage.cluster()?;
    await_two_copies(&cluster)?;
    if !stage.guest.await_signal("shared")? {
        return Ok(None);
    }
    let mut second = Second(stage.second("scenarios/failover.sh").spawn()?);
    let found = play(stage.guest, &mut second, &cluster);
    let found = end_other(second.0, found, "the second kernel");
    stage.guest.signal("second")?;
    found
}

/// Waits until the cluster serves; it must be one with two copies.
pub(super) fn await_two_copies(cluster: &Cluster) -> Result<()> {
    await_cluster(cluster)?;
    if cluster.mds()?["copies"].as_u64().unwrap_or(0) < 2 {
        let why = "this scenario needs two copies of each stripe: ropewalk up --copies 2";
        return Err(Failure::new(why));
    }
    Ok(())
}

fn play(guest: &mut Guest, second: &mut Second, cluster: &Cluster) -> Result<Finding> {
    let names = cluster.ds_names();
    let mut first = None;
    for number in 0.. {
        let (round, blow) = (number / BLOWS.len(), BLOWS[number % BLOWS.len()]);
        let step = Step {
            number,
            blow,
            // In each round a server fails in another way than in the one before.
            name: &names[(number + round) % names.len()],
        };
        let words = [step.word("step"), step.word("stuck"), "over".to_owned()];
        match guest.await_any(&words)? {
            Some(0) => await_level(cluster)?,
            // It does not get as far as that, and says why when it is answered.
            Some(1) => return guest.signal(&step.word("back")).map(|()| first),
            _ => break,
        }
        if number % BLOWS.len() == 0 && !second.says("working", round)? {
            break;
        }
        // The guest goes on: what else it finds helps to find out why.
        first = first.or(step.play(guest, second, cluster)?);
    }
    Ok(first)
}

/// A second kernel, which writes, reads and compares files of its own meanwhile, and reads one of the first.
struct Second(Guest);

impl Second {
    /// Waits until it says the word of this round. Otherwise it does not get as far, and says why when it is answered.
    fn says(&mut self, word: &str, round: usize) -> Result<bool> {
        let words = [format!("{word}{round}"), format!("stuck{round}")];
        let said = self.0.await_any(&words)?;
        if said == Some(1) {
            self.0.signal(&format!("back{round}"))?;
        }
        Ok(said == Some(0))
    }

    /// Has it compare its files of this round, and be quiet then.
    fn rest(&mut self, round: usize) -> Result<bool> {
        self.0.signal(&format!("rest{round}"))?;
        self.says("rested", round)
    }
}

/// One failure.
struct Step<'a> {
    number: usize,
    blow: Blow,
    name: &'a str,
}

impl Step<'_> {
    fn play(&self, guest: &mut Guest, second: &mut Second, cluster: &Cluster) -> Result<Finding> {
        let [up, watcher, server] = cluster.processes(self.name)?;
        let before = cluster.proxied()?;
        let since = Instant::now();
        match self.blow {
            Blow::Killed => signal(&[server], "KILL"),
            Blow::Terminated => signal(&[watcher], "TERM"),
            Blow::Stopped => signal(&[server], "STOP"),
            Blow::Gone => {
                signal(&[up], "STOP");
                signal(&[watcher, server], "KILL");
            }
        }
        let played = self.while_down(guest, second, (cluster, before));
        // It is harmless where `up` runs.
        signal(&[up], "CONT");
        cluster.await_restart(self.name, server)?;
        let serving = since.elapsed().as_secs_f64();
        await_level(cluster)?;
        let level = since.elapsed().as_secs_f64();
        let (number, name) = (self.number, self.name);
        println!(
            "    # step {number}: {name} served after {serving:.1} s, copies were level after {level:.1} s"
        );
        guest.signal(&self.word("back"))?;
        played
    }

    /// The guest's turn. `proxied` is what the MDS counted before.
    fn while_down(
        &self,
        guest: &mut Guest,
        second: &mut Second,
        (cluster, proxied): (&Cluster, u64),
    ) -> Result<Finding> {
        guest.signal(&self.word("down"))?;
        let words = [self.word("went"), self.word("stuck")];
        let went = guest.await_any(&words)? == Some(0);
        let (number, name, blow) = (self.number, self.name, self.blow);
        let proxied = (cluster.proxied()? - proxied) >> 10;
        println!(
            "    # step {number}: {name} {blow:?}: {proxied} KiB through the MDS while all did a turn"
        );
        if blow != Blow::Gone {
            return Ok(None);
        }
        // What it has open may go through the MDS.
        let rests = second.rest(number / BLOWS.len())?;
        if went && rests {
            opened_later(guest, cluster, number, name)
        } else {
            Ok(None)
        }
    }

    /// What host and guest say to each other in this step.
    fn word(&self, what: &str) -> String {
        format!("{what}{}", self.number)
    }
}

/// Which servers carry the bytes of files that are opened while the data server `gone` is away, in the step of this number.
pub(super) fn opened_later(
    guest: &mut Guest,
    cluster: &Cluster,
    number: usize,
    gone: &str,
) -> Result<Finding> {
    let names = cluster.ds_names();
    let names = names.iter().map(String::as_str);
    let others: Vec<&str> = names.filter(|name| *name != gone).collect();
    let mut found = None;
    let mut before = None;
    for (kind, is_promised) in KINDS {
        let words = [kind, "stuck"].map(|word| format!("{word}{number}"));
        if guest.await_any(&words)? != Some(0) {
            break;
        }
        let now = Carried::now(cluster, &others)?;
        let carried = before.replace(now).map(|before| now.since(before));
        if let Some(carried) = carried {
            println!("    # step {number}: {kind} files: {carried}");
            if is_promised && !carried.is_direct() {
                found.get_or_insert(format!(
                    "of {FAILOVER_MIB} MiB in {kind} files while a data server was gone: {carried}"
                ));
            }
        }
        guest.signal(&format!("counted-{kind}{number}"))?;
    }
    Ok(found)
}

/// Bytes that clients moved.
#[derive(Debug, Clone, Copy)]
struct Carried {
    written: u64,
    read: u64,
    proxied: u64,
}

impl Carried {
    /// By these data servers, and by the MDS.
    fn now(cluster: &Cluster, names: &[&str]) -> Result<Self> {
        let traffic = cluster.traffic_of(names)?;
        Ok(Self {
            written: traffic.ds_written,
            read: traffic.ds_read,
            proxied: cluster.proxied()?,
        })
    }

    fn since(self, before: Self) -> Self {
        Self {
            written: self.written - before.written,
            read: self.read - before.read,
            proxied: self.proxied - before.proxied,
        }
    }

    /// Whether the data servers carried what the guest moves of one kind of files, and the MDS nothing.
    fn is_direct(self) -> bool {
        let bytes = FAILOVER_MIB << 20;
        self.written >= bytes && self.read >= bytes && self.proxied == 0
    }
}

impl std::fmt::Display for Carried {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [written, read, proxied] = [self.written, self.read, self.proxied].map(|n| n >> 10);
        write!(
            f,
            "{written} KiB written to data servers, {read} KiB read from them, {proxied} KiB through the MDS"
        )
    }
}

/// Waits until each place has all its copies, and none is behind.
pub(crate) fn await_level(cluster: &Cluster) -> Result<()> {
    await_state("copies were not level", || {
        Ok(cluster.mds().is_ok_and(|mds| is_level(&mds)))
    })
}

fn is_level(mds: &Value) -> bool {
    let groups = mds["groups"].as_array().map_or(&[][..], Vec::as_slice);
    let mut places = groups
        .iter()
        .filter_map(|group| group["places"].as_array())
        .flatten();
    let count = |place: &Value, state: &str| place[state].as_array().map_or(0, Vec::len) as u64;
    places.all(|place| {
        let behind = count(place, "filling") + count(place, "stale");
        let has_all = place["copies"].as_u64() <= Some(1 + count(place, "sync"));
        place["served"] == true && behind == 0 && has_all
    })
}

#[cfg(test)]
mod tests {
    //! When a cluster counts as whole.

    use super::*;

    #[test]
    fn copies_are_level_when_none_is_missing_or_behind() {
        let with = |place: Value| serde_json::json!({"groups": [{"places": [place]}]});
        let whole = serde_json::json!({"copies": 2, "served": true, "sync": [2], "filling": [], "stale": []});
        assert!(is_level(&with(whole.clone())));
        let changes = [
            ("served", serde_json::json!(false)),
            ("sync", serde_json::json!([])),
            ("filling", serde_json::json!([3])),
            ("stale", serde_json::json!([3])),
        ];
        for (name, value) in changes {
            let mut place = whole.clone();
            place[name] = value;
            assert!(!is_level(&with(place)), "{name}");
        }
    }
}
