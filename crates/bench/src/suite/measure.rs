//! Runs plans: starts the clusters that cells need, lets teams work in them, and keeps every run.
//!
//! Cells of all plans that need the same cluster share one, started anew for each repeat. Every other repeat goes through clusters
//! and cells in the opposite order, so that a drift of the machine does not look like an effect. A cell begins when the data servers have
//! removed what the one before it had written. A cell that fails is left out of the other repeats and told of; the others go on, on a
//! cluster that is started anew.

use super::environment::{Environment, Started};
use super::files::Bypass;
use super::job::{Job, Place};
use super::plan::{Cell, Plan, Server};
use super::progress::Progress;
use super::worker_group::{self, Around, Phase, Process};
use crate::nfs::providers::Carriers;
use crate::process::{self, MachineTimes};
use crate::{BenchError, Sample, interrupt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The phase that counts as done when the data servers have removed everything too.
const CLEAN_AFTER: &str = "remove";
/// The phase before which a cold cell empties the caches of the servers.
const COLD_BEFORE: &str = "read";

/// One run of a cell.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    /// Which cell of the plan.
    pub(crate) cell: usize,
    /// Counted from 0.
    pub(crate) repeat: u16,
    /// Name and sample of each phase.
    pub(crate) phases: Vec<(String, Sample)>,
    /// How its reads were kept from the page cache of this machine, where that had to be.
    pub(crate) bypass: Option<Bypass>,
}

/// What a cell has done once.
#[derive(Debug)]
pub(crate) struct Done {
    /// Name and sample of each phase.
    pub(crate) phases: Vec<(String, Sample)>,
    /// How its reads were kept from the page cache of this machine, where that had to be.
    pub(crate) bypass: Option<Bypass>,
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
    /// Who carried requests.
    pub(crate) carriers: Carriers,
    /// Whether CPU time of servers is known.
    pub(crate) knows_server_cpu: bool,
    /// All runs.
    pub(crate) runs: Vec<Run>,
    /// Cells without complete runs.
    pub(crate) failures: Vec<Failed>,
    /// Runs of each cell.
    pub(crate) repeats: u16,
}

impl Results {
    /// Who carried requests to a server, in words; nothing for a directory, or where the server did not answer.
    pub(crate) fn provider(&self, server: Server) -> Option<String> {
        match (server, server.transport()) {
            (_, Some(transport)) => Some(self.carriers.own_rdma.provider(transport)),
            (Server::Given, None) => self.carriers.given.clone(),
            (_, None) => None,
        }
    }
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
            carriers: environment.carriers.clone(),
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
            let mut stand: Option<Stand> = None;
            for (plan, cell) in cells {
                let results = &mut results[plan];
                if results.failures.iter().any(|f| f.cell == cell) {
                    progress.step("");
                    continue;
                }
                let what = &results.plan.cells[cell];
                let ready = stand.take();
                let ready = ready.map_or_else(|| Stand::start(environment, server), Ok);
                progress.step(&format!("{}: {}", results.plan.name, what.text()));
                let number = format!("{}-{plan}-{cell}-{repeat}", std::process::id());
                interrupt::check()?;
                let result = ready.and_then(|there| {
                    let done = there.run(environment, what, &number)?;
                    // After a failure nobody knows what is left on it.
                    stand = Some(there);
                    Ok(done)
                });
                // A signal may have gone to all: what then failed says nothing.
                interrupt::check()?;
                match result {
                    Ok(Done { phases, bypass }) => results.runs.push(Run {
                        cell,
                        repeat,
                        phases,
                        bypass,
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
    for results in &mut results {
        let notes = bypass_notes(results);
        results.plan.notes.extend(notes);
    }
    Ok(results)
}

/// Which points were read around the page cache of this machine, and how.
fn bypass_notes(results: &Results) -> Vec<String> {
    let note = |bypass: Bypass| {
        let mut places: Vec<&str> = Vec::new();
        for (number, cell) in results.plan.cells.iter().enumerate() {
            let mut runs = results.runs.iter().filter(|run| run.cell == number);
            let label = cell.x.label.as_str();
            if runs.any(|run| run.bypass == Some(bypass)) && !places.contains(&label) {
                places.push(label);
            }
        }
        (!places.is_empty()).then(|| {
            format!(
                "What is read comes {} ({}).",
                bypass.text(),
                places.join(", "),
            )
        })
    };
    Bypass::ALL.into_iter().filter_map(note).collect()
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

/// What cells that need the same server run on, one after another.
struct Stand {
    started: Started,
    /// Memory that was free before.
    available_bytes: u64,
}

impl Stand {
    fn start(environment: &Environment, server: Server) -> Result<Self, BenchError> {
        let available_bytes = process::memory_available_bytes();
        let started = environment.start(server)?;
        Ok(Self {
            started,
            available_bytes,
        })
    }

    fn run(
        &self,
        environment: &Environment,
        cell: &Cell,
        number: &str,
    ) -> Result<Done, BenchError> {
        need_memory(cell, self.available_bytes)?;
        if let Started::Cluster(cluster) = &self.started {
            cluster.wait_until_clean(environment.program())?;
        }
        run_cell(environment, &self.started, cell, number)
    }
}

/// Refuses what would make the kernel kill processes.
fn need_memory(cell: &Cell, available_bytes: u64) -> Result<(), BenchError> {
    let needed_bytes = cell.memory_bytes();
    if needed_bytes > available_bytes {
        return Err(BenchError::Memory {
            needed_bytes,
            available_bytes,
        });
    }
    Ok(())
}

/// Runs a cell once on what was started for it.
pub(crate) fn run_cell(
    environment: &Environment,
    started: &Started,
    cell: &Cell,
    number: &str,
) -> Result<Done, BenchError> {
    let place = started.place();
    let space = |job: &Job| started.space(cell.workers.behind_link, job.worker as usize);
    let _left = Left::of(&place, number);
    let mut members = jobs(cell, &place, environment.scratch_dir().to_owned(), number)
        .iter()
        .map(|job| Process::start(environment.launcher(), job, space(job)))
        .collect::<Result<Vec<_>, _>>()?;
    let mut watch = Watch {
        started,
        cold: cell.cold,
        program: environment.program(),
        before: (Duration::ZERO, None),
        used: Vec::new(),
    };
    let phases = worker_group::lead(&mut members, &mut watch)?;
    let bypass = phases.iter().filter_map(|phase| phase.bypass).max();
    let samples = phases.into_iter().zip(watch.used);
    Ok(Done {
        phases: samples.map(|(phase, used)| sample(phase, used)).collect(),
        bypass,
    })
}

/// What workers leave in a directory of this machine when they fail. Clusters of our own take theirs with them.
struct Left(Option<PathBuf>);

impl Left {
    fn of(place: &Place, number: &str) -> Self {
        Self(match place {
            Place::Dir(dir) => Some(dir.join(folder(number))),
            Place::Url(_) | Place::Rpc(_) | Place::Bare(_) => None,
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

/// What a phase took of servers and machine.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Used {
    /// CPU time of the servers.
    pub(crate) server_cpu: Duration,
    /// Share of the machine that had nothing to do.
    pub(crate) machine_idle: Option<f64>,
}

/// A phase as a sample.
pub(crate) fn sample(phase: Phase, used: Used) -> (String, Sample) {
    let sample = Sample {
        requests_count: phase.tally.requests_count,
        payload_bytes: phase.tally.payload_bytes,
        elapsed: phase.elapsed,
        latency_ns: phase.tally.latency_ns,
        server_cpu: used.server_cpu,
        client_cpu: phase.client_cpu,
        machine_idle: used.machine_idle,
        rss_bytes_per_session: None,
    };
    (phase.name, sample)
}

/// Reads CPU times around phases, and waits for data servers to get rid of what was removed.
struct Watch<'a> {
    started: &'a Started,
    cold: bool,
    program: &'a Path,
    before: (Duration, Option<MachineTimes>),
    used: Vec<Used>,
}

impl Around for Watch<'_> {
    fn before(&mut self, phase: &str) -> Result<(), BenchError> {
        if self.cold && phase == COLD_BEFORE {
            self.started.forget_cached()?;
        }
        self.before = (self.started.cpu()?, MachineTimes::now());
        Ok(())
    }

    fn after(&mut self, phase: &str) -> Result<(), BenchError> {
        let machine = MachineTimes::now();
        if let (CLEAN_AFTER, Started::Cluster(cluster)) = (phase, self.started) {
            cluster.wait_until_clean(self.program)?;
        }
        let (cpu, machine_before) = self.before;
        self.used.push(Used {
            server_cpu: self.started.cpu()?.saturating_sub(cpu),
            machine_idle: MachineTimes::idle_share(machine_before, machine),
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    //! What has no room is not tried, and reports say how reads went around the page cache.
    use super::*;
    use crate::suite::experiment::Experiment;
    use crate::suite::plan::Setting;

    #[test]
    fn data_that_no_memory_is_left_for_are_refused() {
        let setting = Setting::full("store=memory");
        let cells = Experiment::Sequential.plan(&setting).cells;
        let most = cells.iter().max_by_key(|cell| cell.memory_bytes()).unwrap();
        // Eight clients with 512 MiB each.
        assert_eq!(most.memory_bytes(), 4 << 30);
        assert!(need_memory(most, 4 << 30).is_ok());
        let why = need_memory(most, 3 << 30).unwrap_err().to_string();
        assert!(why.contains("4.0 GiB") && why.contains("3.0 GiB"), "{why}");
        let on_disk = Setting::full("store=disk");
        let cells = Experiment::Sequential.plan(&on_disk).cells;
        assert!(cells.iter().all(|cell| cell.memory_bytes() == 0));
    }
    #[test]
    fn how_reads_went_around_the_page_cache_is_told_by_point() {
        let given = Setting {
            own: false,
            ..Setting::full("")
        };
        let plan = Experiment::Threads.plan(&given);
        let run = |cell, bypass| Run {
            cell,
            repeat: 0,
            phases: Vec::new(),
            bypass,
        };
        let (direct, dropped) = (Some(Bypass::Direct), Some(Bypass::Dropped));
        let mut results = Results {
            plan,
            subject: String::new(),
            carriers: Carriers::default(),
            knows_server_cpu: false,
            runs: vec![run(0, dropped), run(1, direct), run(2, direct)],
            failures: Vec::new(),
            repeats: 1,
        };
        let notes = bypass_notes(&results);
        assert_eq!(notes.len(), 2);
        assert!(notes[0].ends_with("by O_DIRECT (8 KiB, 128 KiB)."));
        assert!(notes[1].contains("posix_fadvise") && notes[1].ends_with("(2 KiB)."));
        let tmpfs = |run: &mut Run| run.bypass = Some(Bypass::Tmpfs);
        results.runs.iter_mut().for_each(tmpfs);
        let notes = bypass_notes(&results);
        assert_eq!(notes.len(), 1);
        assert!(notes[0].starts_with("What is read comes from the page cache (tmpfs)"));
        results.runs.iter_mut().for_each(|run| run.bypass = None);
        assert!(bypass_notes(&results).is_empty());
    }
}
