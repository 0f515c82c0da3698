//! `ropewalk bench copies`: one copy of the data, two copies, and file systems of others that keep two.
//!
//! Each system has four servers with their data in one folder, on a tmpfs by default, and the same work is done on each: files are
//! written and made durable, read again, then one server is killed while small durable writes go on, and is given up. [`run`]
//! measures all of them in each round, every other round in the opposite order, and prints a line for each. The client is our
//! library where a system speaks NFS, and the kernel where it is mounted by FUSE.

mod systems;
mod work;

use crate::process::Launcher;
use crate::report::{self, Machine};
use crate::runner::Spread;
use crate::{BenchError, interrupt};
use clap::Args;
use serde_json::{Value, json};
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
pub use systems::Kind;
use systems::System;
use work::Run;

/// Bytes of all files, and those of `--quick`.
const BYTES: u64 = 2 << 30;
const BYTES_QUICK: u64 = 64 << 20;

/// What to measure.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Systems to measure; all that are installed when none is named
    #[arg(value_enum)]
    pub systems: Vec<Kind>,
    /// The program under test [default: the one beside this program]
    #[arg(long, value_name = "PATH")]
    pub ropewalk: Option<PathBuf>,
    /// Folder of all data: a tmpfs leaves out the disk
    #[arg(long, default_value = "/dev/shm")]
    pub dir: PathBuf,
    /// Runs of each system
    #[arg(long, default_value_t = 5)]
    pub rounds: usize,
    /// Few bytes and one round: to see that everything works, not to measure
    #[arg(long, conflicts_with = "rounds")]
    pub quick: bool,
    /// Write all runs to this file as JSON
    #[arg(long)]
    pub json: Option<PathBuf>,
}

const COLUMNS: [&str; 5] = [
    "system",
    "write mb_per_s",
    "read mb_per_s",
    "SIGKILL to write s",
    "full repair s",
];

/// Measures and writes the table to `out`.
///
/// # Errors
/// Whatever kept a system from being measured.
pub fn run(options: &Options, launcher: &Launcher, out: &mut dyn Write) -> Result<(), BenchError> {
    let program = &launcher.ropewalk(options.ropewalk.as_ref())?;
    let kinds = systems::installed(&options.systems);
    let (bytes, rounds) = match options.quick {
        true => (BYTES_QUICK, 1),
        false => (BYTES, options.rounds),
    };
    let mut runs = vec![Vec::new(); kinds.len()];
    for round in 0..rounds {
        let mut order: Vec<usize> = (0..kinds.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for index in order {
            interrupt::check()?;
            let kind = kinds[index];
            eprintln!("round {} of {rounds}: {}", round + 1, kind.name());
            let system = Arc::new(System::start(kind, launcher, program, &options.dir)?);
            let run = work::measure(&system, bytes);
            // A signal may have gone to the servers too: what then failed says nothing.
            interrupt::check()?;
            runs[index].push(run?);
        }
    }
    let machine = Machine::here(program, launcher);
    let mut text = format!(
        "Copies of {} MiB at four servers, {rounds} rounds; on {}\n{}\n",
        bytes >> 20,
        options.dir.display(),
        machine.line(),
    );
    for version in kinds.iter().flat_map(|kind| kind.versions()) {
        text.push_str(&version);
        text.push('\n');
    }
    let mut table = vec![COLUMNS.map(String::from).to_vec()];
    table.extend(
        kinds
            .iter()
            .zip(&runs)
            .map(|(kind, runs)| line(*kind, runs)),
    );
    report::align(&mut text, &table);
    out.write_all(text.as_bytes())
        .map_err(BenchError::io("write the table"))?;
    let Some(path) = &options.json else {
        return Ok(());
    };
    let system = |(kind, runs): (&Kind, &Vec<Run>)| {
        let runs: Vec<Value> = runs.iter().map(Run::json).collect();
        json!({ "system": kind.name(), "versions": kind.versions(), "runs": runs })
    };
    let value = json!({
        "machine": machine.json(),
        "dir": options.dir,
        "bytes": bytes,
        "systems": kinds.iter().zip(&runs).map(system).collect::<Vec<_>>(),
    });
    report::write_json(path, &value)
}

fn line(kind: Kind, runs: &[Run]) -> Vec<String> {
    let column = |at: usize| report::cell(Spread::of(runs.iter().map(|run| run.values()[at])));
    let mut cells = vec![kind.name().to_owned()];
    cells.extend((0..COLUMNS.len() - 1).map(column));
    cells
}

#[cfg(test)]
mod tests {
    //! What is not measured is shown as that.
    use super::*;

    #[test]
    fn one_copy_has_no_repair() {
        let run = |write_mb_per_s| Run {
            write_mb_per_s,
            read_mb_per_s: 8.0,
            wait_s: None,
            repair_s: Some(2.0),
        };
        let cells = line(Kind::One, &[run(1.0), run(3.0), run(2.0)]);
        assert_eq!(cells.len(), COLUMNS.len());
        assert!(
            cells[1].starts_with("2.0") && cells[1].contains("[1.0"),
            "{cells:?}"
        );
        assert_eq!(cells[3], "-");
        assert!(cells[4].starts_with("2.0"), "{cells:?}");
    }
}
