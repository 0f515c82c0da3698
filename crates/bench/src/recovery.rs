//! How long clients wait for a metadata server that was killed. Counted from SIGKILL under load to the first new file,
//! and to the first durable write of a living client.
//!
//! For each round [`run`] starts a cluster, lets clients work, and kills the metadata server, which its supervisor starts again.
//! It prints the times of the first and of the last client. Only what began after the kill counts. With `--gone` one more
//! client, which holds a file open for writing, vanishes at the same moment.

use crate::nfs::cluster::{Cluster, ClusterOptions};
use crate::process::Launcher;
use crate::report::{self, Machine};
use crate::suite::files::Files;
use crate::suite::files::remote::Remote;
use crate::{BenchError, interrupt, load};
use bytes::Bytes;
use clap::Args;
use futures_util::future::{try_join, try_join_all};
use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Bytes of each write.
const WRITE_BYTES: usize = 4096;
/// Load before the kill.
const WARM_UP: Duration = Duration::from_secs(1);
/// The goal, beyond the lease where a client is gone.
const GOAL: Duration = Duration::from_secs(5);
/// A round that takes longer than this and two leases has failed.
const ROUND_MAX: Duration = Duration::from_secs(60);

/// What to measure.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// The program under test [default: the one beside this program]
    #[arg(long, value_name = "PATH")]
    pub ropewalk: Option<PathBuf>,
    /// Folder of the clusters
    #[arg(long, default_value = "/var/tmp")]
    pub dir: PathBuf,
    /// Data servers
    #[arg(long, default_value_t = 2)]
    pub ds: u16,
    /// Clients at work
    #[arg(long, default_value_t = 4)]
    pub clients: u32,
    /// One more client vanishes with the metadata server
    #[arg(long)]
    pub gone: bool,
    /// Clusters, and so kills
    #[arg(long, default_value_t = 5)]
    pub rounds: usize,
    /// Write all rounds to this file as JSON
    #[arg(long)]
    pub json: Option<PathBuf>,
}

/// What one client met: times after the kill.
#[derive(Debug, Clone, Copy)]
struct Waited {
    open: Duration,
    write: Duration,
}

/// One kill.
#[derive(Debug, Clone)]
struct Round {
    /// The first client first.
    opens: Vec<Duration>,
    writes: Vec<Duration>,
    lease: Duration,
}

impl Round {
    fn new(waited: &[Waited], lease: Duration) -> Self {
        let sorted = |of: fn(&Waited) -> Duration| {
            let mut all: Vec<_> = waited.iter().map(of).collect();
            all.sort_unstable();
            all
        };
        Self {
            opens: sorted(|w| w.open),
            writes: sorted(|w| w.write),
            lease,
        }
    }

    /// What the slowest client waited.
    fn longest(&self) -> Duration {
        let ends = self.opens.last().into_iter().chain(self.writes.last());
        ends.copied().max().unwrap_or_default()
    }

    fn cells(&self, number: usize) -> Vec<String> {
        let cell = |time: Option<&Duration>| {
            let seconds = time.map(|time| format!("{:.2}", time.as_secs_f64()));
            seconds.unwrap_or_else(|| "-".to_owned())
        };
        vec![
            number.to_string(),
            cell(self.opens.first()),
            cell(self.opens.last()),
            cell(self.writes.first()),
            cell(self.writes.last()),
        ]
    }

    fn json(&self) -> Value {
        let seconds =
            |times: &[Duration]| -> Vec<f64> { times.iter().map(Duration::as_secs_f64).collect() };
        json!({ "open_s": seconds(&self.opens), "write_s": seconds(&self.writes) })
    }
}

const COLUMNS: [&str; 5] = [
    "round",
    "first OPEN s",
    "last OPEN s",
    "first WRITE s",
    "last WRITE s",
];

/// Measures and writes the table to `out`.
///
/// # Errors
/// Whatever kept a round from being measured; an error that a client met is one.
pub fn run(options: &Options, launcher: &Launcher, out: &mut dyn Write) -> Result<(), BenchError> {
    let program = &launcher.ropewalk(options.ropewalk.as_ref())?;
    let cluster = ClusterOptions {
        ds_count: options.ds,
        in_memory: false,
        ..ClusterOptions::new(program.clone(), options.dir.clone())
    };
    let mut rounds = Vec::new();
    for number in 1..=options.rounds {
        eprintln!("round {number} of {}", options.rounds);
        rounds.push(round(&cluster, options)?);
    }
    let machine = Machine::here(program, launcher);
    let lease = rounds.first().map(|round| round.lease).unwrap_or_default();
    let goal = GOAL + if options.gone { lease } else { Duration::ZERO };
    let is_met = rounds.iter().all(|round| round.longest() < goal);
    let mut text = options.title(lease, &machine);
    let mut table = vec![COLUMNS.map(String::from).to_vec()];
    table.extend(
        (1..)
            .zip(&rounds)
            .map(|(number, round)| round.cells(number)),
    );
    report::align(&mut text, &table);
    let verdict = if is_met { "met" } else { "missed" };
    let _ = writeln!(text, "goal: all below {} s: {verdict}", goal.as_secs());
    out.write_all(text.as_bytes())
        .map_err(BenchError::io("write the table"))?;
    let Some(path) = &options.json else {
        return Ok(());
    };
    let value = json!({
        "cluster": cluster.settings(),
        "machine": machine.json(),
        "clients": options.clients,
        "gone": options.gone,
        "lease_s": lease.as_secs(),
        "goal_s": goal.as_secs(),
        "is_met": is_met,
        "rounds": rounds.iter().map(Round::json).collect::<Vec<_>>(),
    });
    report::write_json(path, &value)
}

impl Options {
    fn title(&self, lease: Duration, machine: &Machine) -> String {
        format!(
            "From SIGKILL of the metadata server to what clients do next: {} at work{}, {} data servers, lease {} s\n{}\n",
            self.clients,
            if self.gone { ", one gone" } else { "" },
            self.ds,
            lease.as_secs(),
            machine.line(),
        )
    }
}

/// A client that vanishes, in a runtime of its own, so that its connections vanish too.
struct Gone {
    runtime: tokio::runtime::Runtime,
    kept: (Remote, client::File),
}

impl Gone {
    fn start(url: &str) -> Result<Self, BenchError> {
        let runtime = load::runtime()?;
        let kept = runtime.block_on(async {
            let remote = Remote::connect(url).await?;
            let file = remote.create("gone").await?;
            let data = Bytes::from_static(&[7; WRITE_BYTES]);
            remote.write(&file, 0, data).await?;
            Ok::<_, BenchError>((remote, file))
        })?;
        Ok(Self { runtime, kept })
    }

    /// As a process that dies: nothing is closed.
    fn vanish(self) {
        std::mem::forget(self.kept);
        self.runtime.shutdown_background();
    }
}

fn round(options: &ClusterOptions, how: &Options) -> Result<Round, BenchError> {
    let cluster = Cluster::start(options)?;
    let url = cluster.server().url();
    let gone = how.gone.then(|| Gone::start(&url)).transpose()?;
    let mds = cluster.mds_pid()?;
    load::runtime()?.block_on(async {
        let (kill_told, killed) = watch::channel(None);
        let clients = try_join_all((0..how.clients).map(|_| Remote::connect(&url))).await?;
        let lease = clients.first().map(Remote::lease).unwrap_or_default();
        let work = clients.iter().enumerate();
        let work = try_join_all(work.map(|(number, client)| live(client, number, &killed)));
        let kill = async {
            tokio::time::sleep(WARM_UP).await;
            if let Some(gone) = gone {
                gone.vanish();
            }
            // Fails only when it has gone by itself, which the times would show.
            let _ = kill_process(mds, Signal::KILL);
            kill_told.send_replace(Some(Instant::now()));
        };
        let both = async { tokio::join!(work, kill).0 };
        let late = |_| BenchError::Cluster("clients do not get on after the kill".to_owned());
        let waited = tokio::select! {
            waited = tokio::time::timeout(ROUND_MAX + 2 * lease, both) => waited.map_err(late)?,
            () = interrupt::came() => Err(BenchError::Interrupted),
        };
        // A signal may have gone to the servers too: what then failed says nothing.
        interrupt::check()?;
        Ok(Round::new(&waited?, lease))
    })
}

/// One client: makes files, and writes to one that it had made before, until it has done both again after the kill.
async fn live(
    client: &Remote,
    number: usize,
    killed: &watch::Receiver<Option<Instant>>,
) -> Result<Waited, BenchError> {
    let file = client.create(&format!("kept-{number}")).await?;
    let open = first_after(killed, async |turn| {
        let made = client.create(&format!("new-{number}-{turn}")).await?;
        let done = Instant::now();
        client.close(made).await?;
        Ok(done)
    });
    let write = first_after(killed, async |turn| {
        let offset = turn * WRITE_BYTES as u64;
        let data = Bytes::from_static(&[1; WRITE_BYTES]);
        client.write(&file, offset, data).await?;
        client.sync(&file).await?;
        Ok(Instant::now())
    });
    let (open, write) = try_join(open, write).await?;
    client.close(file).await?;
    Ok(Waited { open, write })
}

/// Repeats until one that began after the kill has succeeded; how long after the kill that was.
async fn first_after(
    killed: &watch::Receiver<Option<Instant>>,
    mut act: impl AsyncFnMut(u64) -> Result<Instant, BenchError>,
) -> Result<Duration, BenchError> {
    let mut turn = 0;
    loop {
        let began_after = *killed.borrow();
        let done = act(turn).await?;
        if let Some(killed) = began_after {
            return Ok(done.saturating_duration_since(killed));
        }
        turn += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_client_counts() {
        let waited = |open, write| Waited {
            open: Duration::from_secs(open),
            write: Duration::from_secs(write),
        };
        let round = Round::new(&[waited(3, 1), waited(2, 4)], Duration::ZERO);
        assert_eq!(round.longest(), Duration::from_secs(4));
        assert_eq!(round.cells(7), ["7", "2.00", "3.00", "1.00", "4.00"]);
    }
}
