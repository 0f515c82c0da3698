//! The suite: the published experiments, rerun on a cluster of our own, on any NFS server, or on any mounted directory.
//!
//! An experiment is a [`plan`]: cells, each a point of a figure (a row and a series), and the figures that show them. [`measure`] runs
//! the cells: it starts the cluster that a cell needs, starts load-generator processes ([`worker_group`], [`worker`]), and lets them go
//! together. What a worker does is in [`work`]; it does it through [`files`], whose two adapters are our client library and a mounted
//! directory. [`scale`] is an experiment of another form: its load is that many live. [`report`] writes what came out as a table, CSV,
//! JSON, SVG, PNG and one HTML page, beside the published figure.
//!
//! Entry points: [`ExperimentCommand`], [`run`], [`worker::run`].

mod content;
pub(crate) mod environment;
mod experiment;
mod experiments;
pub(crate) mod files;
mod job;
mod link;
pub(crate) mod loads;
mod measure;
mod options;
pub(crate) mod plan;
pub(crate) mod progress;
mod published;
mod random;
pub(crate) mod report;
pub(crate) mod scale;
pub(crate) mod single_cell;
mod spec;
#[cfg(test)]
mod tests;
pub(crate) mod work;
pub(crate) mod worker;
mod worker_group;

pub use options::{ExperimentCommand, Options, Peer};
pub use spec::{ClusterSpec, Create, SpecError, Store, Transport};

use crate::BenchError;
use crate::process::Launcher;
use crate::report::Machine;
use environment::Environment;
use measure::Results;
use options::Asked;
use plan::{Plan, Setting};
use std::io::Write;
use std::time::{Duration, Instant};

/// Runs experiments, prints their tables to `out` and writes the reports.
///
/// # Errors
/// Whatever kept the experiments from being measured. When single cells failed, the reports of the others are written first.
pub fn run(
    command: ExperimentCommand,
    launcher: &Launcher,
    out: &mut dyn Write,
) -> Result<(), BenchError> {
    let begin = Instant::now();
    let Asked {
        experiments,
        scale,
        options,
    } = command.split();
    options.check()?;
    let setting = Setting::of(&options);
    let mut words = Vec::new();
    let scale = match scale::check(&setting) {
        Ok(()) => scale,
        Err(refused) if experiments.is_empty() => return Err(refused),
        Err(refused) => {
            words.extend(scale.then(|| format!("scale is left out: {refused}")));
            false
        }
    };
    words.iter().for_each(|word| eprintln!("{word}"));
    let plans: Vec<Plan> = experiments.iter().map(|e| e.plan(&setting)).collect();
    let environment = Environment::new(&options, launcher)?;
    let machine = Machine::here(environment.program(), launcher);
    report::folder(&options.out)?;
    let mut results = measure::measure(plans, &environment, options.repeats())?;
    // The reports of the others, and of its own repeats, are written before its failure is told.
    let scale = scale.then(|| scale::measure(&setting, &environment, options.repeats()));
    let scale_failed = match scale {
        Some(Ok(measured)) => {
            results.push(measured.results);
            measured.ended
        }
        Some(Err(e)) => Some(e),
        None => None,
    };
    words.push(time_text(&results, begin.elapsed()));
    report::write(&results, &machine, &options.out, &words, out)?;
    outcome(&results, scale_failed)
}

/// How long all of it took, from the command to the reports.
fn time_text(results: &[Results], time: Duration) -> String {
    let mut points_count = 0;
    for results in results {
        let cells = 0..results.plan.cells.len();
        let is_measured = |cell: &usize| results.runs.iter().any(|run| run.cell == *cell);
        points_count += cells.filter(is_measured).count();
    }
    format!(
        "measured {points_count} points in {:.0} s",
        time.as_secs_f64()
    )
}

/// What a run comes to whose reports are written.
fn outcome(results: &[Results], scale_failed: Option<BenchError>) -> Result<(), BenchError> {
    let cells_count = results.iter().map(|r| r.failures.len()).sum();
    match (scale_failed, cells_count) {
        (Some(e), _) => Err(e),
        (None, 0) => Ok(()),
        (None, cells_count) => Err(BenchError::Cells { cells_count }),
    }
}
