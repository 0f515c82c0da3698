//! `ropewalk-bench`: the published experiments, the goals, and the bare limits of a machine.
//!
//! A program of its own, because running servers needs none of it. `ropewalk bench` starts it when it lies beside `ropewalk`
//! or in the search path. Exit codes are those of `ropewalk`: 0 when done, 1 when a measurement failed, 2 for a wrong command line.
#![forbid(unsafe_code)]

use bench::cli::{self, Command};
use bench::process::Launcher;
use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use ropewalk_bench as bench;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// As in `ropewalk`, so that load generators cost what its own clients cost.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What `--version` says; reports take the commit from it, so its form is fixed.
const LONG_VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (commit ",
    env!("ROPEWALK_COMMIT"),
    ")"
);

/// Measure: the published experiments again, the goals, and the bare limits of this machine
#[derive(Debug, Parser)]
#[command(
    name = "ropewalk-bench",
    version,
    long_version = LONG_VERSION,
    propagate_version = true,
    arg_required_else_help = true
)]
struct Cli {
    #[command(subcommand)]
    command: Wanted,
}

/// A measurement, or what a package has beside the program.
#[derive(Debug, Subcommand)]
enum Wanted {
    #[command(flatten)]
    Measurement(Command),
    /// Print completions for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Write the manual pages of all commands into a directory
    Man {
        /// The directory
        #[arg(long, value_name = "DIR")]
        dir: PathBuf,
    },
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Wanted::Measurement(command) => Launcher::this_program()
            .and_then(|launcher| cli::run(command, &launcher, &mut io::stdout()))
            .map_err(|error| error.to_string()),
        Wanted::Completions { shell } => {
            completions(shell).map_err(|error| format!("cannot print completions: {error}"))
        }
        Wanted::Man { dir } => pages(&dir)
            .map_err(|error| format!("cannot write manual pages into {}: {error}", dir.display())),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "ropewalk-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn completions(shell: Shell) -> io::Result<()> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "ropewalk-bench", &mut text);
    io::stdout().write_all(&text)
}

fn pages(dir: &Path) -> io::Result<()> {
    std::fs::create_dir_all(dir)?;
    clap_mangen::generate_to(Cli::command(), dir)
}
