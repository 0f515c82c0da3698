//! `ropewalk-bench`: the published experiments, the goals, and the bare limits of a machine.
//!
//! A program of its own, because running servers needs none of it. `ropewalk bench` starts it when it lies beside `ropewalk`
//! or in the search path. Exit codes are those of `ropewalk`: 0 when done, 1 when a measurement failed, 2 for a wrong command line.
#![forbid(unsafe_code)]

use bench::cli::{self, Command};
use bench::process::Launcher;
use clap::Parser;
use ropewalk_bench as bench;
use std::io::Write;
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
    command: Command,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = Launcher::this_program()
        .and_then(|launcher| cli::run(cli.command, &launcher, &mut std::io::stdout()));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "ropewalk-bench: {error}");
            ExitCode::FAILURE
        }
    }
}
