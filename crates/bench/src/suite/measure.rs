//! Runs plans: starts the clusters that cells need, lets teams work in them, and keeps every run.
//!
//! Cells of all plans that need the same cluster share one, started anew for each repeat. Every other repeat goes through clusters
//! and cells in the opposite order, so that a drift of the machine does not look like an effect. A cell that fails is left out of the
//! other repeats and told of; the others go on.

use super::job::{Job, Place};
use super::options::Options;
use super::plan::{Cell, Plan, Server};
use super::progress::Progress;
use super::spec::{Store, Transport};
use super::team::{self, Around, Phase, Process};
use crate::nfs::cluster::{Cluster, ClusterOptions};
use crate::process::{Launcher, ServerProcess};
use crate::{BenchError, Sample, interrupt};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// The phase that counts as done when the data servers have removed everything too.
const CLEAN_AFTER: &str = "remove";
/// The phase before which a cold cell empties the caches of the servers.
const COLD_BEFORE: &str = "read";

/// Where and with what is measured.
#[derive(Debug)]
pub(crate) struct Environment {
    /// What the user named, unless clusters are our own.
    pub(crate) given: Option<Place>,
    program: PathBuf,
    memory_dir: PathBuf,
    disk_dir: PathBuf,
    launcher: Launcher,
    /// Shared by the workers of a run.
    scratch: TempDir,
}

impl Environment {
    pub(crate) fn new(options: &Options, launcher: &Launcher) -> Result<Self, BenchError> {
        let given = match (&options.target, &options.mounted) {
            (Some(url), _) => Some(Place::Url(url.trim_end_matches('/').to_owned())),
            (None, Some(dir)) => Some(Place::Dir(
                dir.canonicalize()
                    .map_err(BenchError::io("find the mounted directory"))?,
            )),
            (None, None) => None,
        };
        let scratch = tempfile::Builder::new()
            .prefix("ropewalk-bench-")
            .tempdir_in(&options.dir)
            .map_err(BenchError::io("make a folder in memory"))?;
        let program = options.ropewalk.clone();
        Ok(Self {
            given,
            program: program.unwrap_or_else(|| launcher.program.clone()),
            memory_dir: options.dir.clone(),
            disk_dir: options.disk_dir.clone(),
            launcher: launcher.clone(),
            scratch,
        })
    }

    /// In words, for reports.
    pub(crate) fn text(&self) -> String {
        match &self.given {
            Some(Place::Url(url)) => format!("the server of {url}"),
            Some(Place::Dir(dir)) => format!("the mounted directory {}", dir.display()),
            Some(Place::Rpc(server)) => format!("the bare RPC program at {}", server.address),
            None => "clusters of this program on this machine, over its loopback".to_owned(),
        }
    }

    /// A cluster of our own.
    pub(crate) fn cluster(
        &self,
        ds_count: u16,
        store: Store,
        transport: Transport,
    ) -> ClusterOptions {
        let in_memory = store == Store::Memory;
        let dir = if in_memory {
            &self.memory_dir
        } else {
            &self.disk_dir
        };
        ClusterOptions {
            program: self.program.clone(),
            dir: dir.clone(),
            ds_count,
            in_memory,
            transport,
            rdma_crc: true,
        }
    }

    /// How children are started.
    pub(crate) fn launcher(&self) -> &Launcher {
        &self.launcher
    }

    fn start(&self, server: Server) -> Result<Started, BenchError> {
        let (ds_count, store, transport) = match server {
            Server::Own {
                ds_count,
                store,
                transport,
            } => (ds_count, store, transport),
            Server::Given => {
                return self.given.clone().map(Started::Place).ok_or({
                    BenchError::Setting {
                        name: "the server of a cell",
                        must_be: "a cluster, or given",
                    }
                });
            }
            Server::LocalDisk => return Ok(Started::Place(Place::Dir(self.disk_dir.clone()))),
            Server::BareRpc { transport } => {
                let transport_name = format!("--transport={}", transport.name());
                let arguments = ["rpc-echo".into(), transport_name.into()];
                let server = ServerProcess::start(&self.launcher, &arguments)?;
                return Ok(Started::BareRpc(server, transport));
            }
        };
        let options = self.cluster(ds_count, store, transport);
        Cluster::start(&options).map(Started::Cluster)
    }
}

/// What a cell runs against, while it runs.
#[derive(Debug)]
enum Started {
    /// A cluster of our own.
    Cluster(Cluster),
    /// The bare RPC program.
    BareRpc(ServerProcess, Transport),
    /// What is there in any case.
    Place(Place),
}

impl Started {
    fn place(&self) -> Place {
        match self {
            Self::Cluster(cluster) => Place::Url(cluster.server().url()),
            Self::BareRpc(server, transport) => Place::Rpc(crate::nfs::server::Server {
                transport: *transport,
                address: server.address(),
                rdma_crc: true,
            }),
            Self::Place(place) => place.clone(),
        }
    }

    /// CPU time of its processes; nothing where they are not ours.
    fn cpu(&self) -> Result<Duration, BenchError> {
        match self {
            Self::Cluster(cluster) => cluster.cpu(),
            Self::BareRpc(server, _) => server.cpu(),
            Self::Place(_) => Ok(Duration::ZERO),
        }
    }
}

/// One run of a cell.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    /// Which cell of the plan.
    pub(crate) cell: usize,
    /// Counted from 0.
    pub(crate) repeat: u16,
    /// Name and sample of each phase.
    pub(crate) phases: Vec<(String, Sample)>,
}

/// A cell that could not be measured.
#[derive(Debug, Clone)]
pub(crate) struct Failed {
    /// Which cell of the plan.
    pub(crate) cell: usize,
    /// Why.
    pub(crate) why: String,
}

/// What came out of a plan.
#[derive(Debug, Clone)]
pub(crate) struct Results {
    /// The plan.
    pub(crate) plan: Plan,
    /// What was measured, in words.
    pub(crate) subject: String,
    /// Whether CPU time of servers is known.
    pub(crate) knows_server_cpu: bool,
    /// All runs.
    pub(crate) runs: Vec<Run>,
    /// Cells without complete runs.
    pub(crate) failures: Vec<Failed>,
    /// Runs of each cell.
    pub(crate) repeats: u16,
}

/// Runs all cells of all plans.
pub(crate) fn measure(
    plans: Vec<Plan>,
    environment: &Environment,
    repeats: u16,
) -> Result<Vec<Results>, BenchError> {
    let mut results: Vec<Results> = plans
        .into_iter()
        .map(|plan| Results {
            plan,
            subject: environment.text(),
            knows_server_cpu: environment.given.is_none(),
            runs: Vec::new(),
            failures: Vec::new(),
            repeats,
        })
        .collect();
    let cells_count = results.iter().map(|r| r.plan.cells.len()).sum::<usize>();
    let mut progress = Progress::new(cells_count as u64 * u64::from(repeats));
    for repeat in 0..repeats {
        for (server, cells) in by_server(&results, repeat % 2 == 1) {
            interrupt::check()?;
            progress.say(&format!("starting {}", server.text()));
            let started = environment.start(server)?;
            for (plan, cell) in cells {
                let results = &mut results[plan];
                if results.failures.iter().any(|f| f.cell == cell) {
                    progress.step("");
                    continue;
                }
                let what = &results.plan.cells[cell];
                progress.step(&format!("{}: {}", results.plan.name, what.text()));
                let number = format!("{}-{plan}-{cell}-{repeat}", std::process::id());
                interrupt::check()?;
                let result = run_cell(environment, &started, what, &number);
                // A signal may have gone to all: what then failed says nothing.
                interrupt::check()?;
                match result {
                    Ok(phases) => results.runs.push(Run {
                        cell,
                        repeat,
                        phases,
                    }),
                    Err(why) => {
                        let why = why.to_string();
                        progress.say(&format!("{} failed: {why}", what.text()));
                        results.runs.retain(|run| run.cell != cell);
                        results.failures.push(Failed { cell, why });
                    }
                }
            }
        }
    }
    progress.end();
    Ok(results)
}

/// Plan and number of cells, by the server that they need, in the order of their first need or the reverse.
type ByServer = Vec<(Server, Vec<(usize, usize)>)>;

fn by_server(results: &[Results], reverse: bool) -> ByServer {
    let mut groups: ByServer = Vec::new();
    for (plan, results) in results.iter().enumerate() {
        for (number, cell) in results.plan.cells.iter().enumerate() {
            match groups.iter_mut().find(|(server, _)| *server == cell.server) {
                Some((_, cells)) => cells.push((plan, number)),
                None => groups.push((cell.server, vec![(plan, number)])),
            }
        }
    }
    if reverse {
        groups.reverse();
        groups.iter_mut().for_each(|(_, cells)| cells.reverse());
    }
    groups
}

fn run_cell(
    environment: &Environment,
    started: &Started,
    cell: &Cell,
    number: &str,
) -> Result<Vec<(String, Sample)>, BenchError> {
    let place = started.place();
    let _left = Left::of(&place, number);
    let mut members = jobs(cell, &place, environment.scratch.path().to_owned(), number)
        .iter()
        .map(|job| Process::start(&environment.launcher, job))
        .collect::<Result<Vec<_>, _>>()?;
    let mut watch = Watch {
        started,
        cold: cell.cold,
        program: &environment.program,
        before: Duration::ZERO,
        server_cpu: Vec::new(),
    };
    let phases = team::lead(&mut members, &mut watch)?;
    let samples = phases.into_iter().zip(watch.server_cpu);
    Ok(samples.map(|(phase, cpu)| sample(phase, cpu)).collect())
}

/// What workers leave in a directory of this machine when they fail. Clusters of our own take theirs with them.
struct Left(Option<PathBuf>);

impl Left {
    fn of(place: &Place, number: &str) -> Self {
        Self(match place {
            Place::Dir(dir) => Some(dir.join(folder(number))),
            Place::Url(_) | Place::Rpc(_) => None,
        })
    }
}

impl Drop for Left {
    fn drop(&mut self) {
        if let Some(folder) = &self.0 {
            // As a rule it is gone.
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

/// Name of the folder of a run.
fn folder(number: &str) -> String {
    format!("ropewalk-bench-{number}")
}

/// The jobs of a cell's workers.
pub(crate) fn jobs(cell: &Cell, place: &Place, scratch: PathBuf, number: &str) -> Vec<Job> {
    let workers_count = cell.workers.processes_count;
    (0..workers_count)
        .map(|worker| Job {
            place: place.clone(),
            folder: folder(number),
            scratch: scratch.clone(),
            worker,
            workers_count,
            tasks_count: cell.workers.tasks_count,
            work: cell.work.clone(),
        })
        .collect()
}

/// A phase as a sample.
pub(crate) fn sample(phase: Phase, server_cpu: Duration) -> (String, Sample) {
    let sample = Sample {
        requests_count: phase.tally.requests_count,
        payload_bytes: phase.tally.payload_bytes,
        elapsed: phase.elapsed,
        latency_ns: phase.tally.latency_ns,
        server_cpu,
        client_cpu: phase.client_cpu,
    };
    (phase.name, sample)
}

/// Reads the servers' CPU time around phases, and waits for data servers to get rid of what was removed.
struct Watch<'a> {
    started: &'a Started,
    cold: bool,
    program: &'a Path,
    before: Duration,
    server_cpu: Vec<Duration>,
}

impl Around for Watch<'_> {
    fn before(&mut self, phase: &str) -> Result<(), BenchError> {
        if let (true, COLD_BEFORE, Started::Cluster(cluster)) = (self.cold, phase, self.started) {
            cluster.forget_cached()?;
        }
        self.before = self.started.cpu()?;
        Ok(())
    }

    fn after(&mut self, phase: &str) -> Result<(), BenchError> {
        if let (CLEAN_AFTER, Started::Cluster(cluster)) = (phase, self.started) {
            cluster.wait_until_clean(self.program)?;
        }
        let cpu = self.started.cpu()?.saturating_sub(self.before);
        self.server_cpu.push(cpu);
        Ok(())
    }
}
