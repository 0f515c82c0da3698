//! The simulator from the command line: replays one seed with its whole story, or tries many.
//!
//! The program itself is that of the `sim` crate, so that this one need not be built with all servers.

use crate::repo::{self, Result};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What the simulator takes: --seed N, --seeds COUNT, --steps N, --bug FAULT; --help lists all
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// Builds and runs the simulator.
pub(crate) fn run(args: &Args) -> Result<()> {
    start(&[], &args.arguments)
}

/// Tries seeds of a world, which is named by words between spaces, with a program that is compiled for speed.
pub(crate) fn try_seeds(first: u32, count: u32, world: &str) -> Result<()> {
    let mut arguments = vec![format!("--seed={first}"), format!("--seeds={count}")];
    arguments.extend(world.split_whitespace().map(str::to_owned));
    println!("simulator: {}", arguments.join(" "));
    start(&["--release"], &arguments)
}

fn start(build: &[&str], arguments: &[String]) -> Result<()> {
    let status = repo::cargo()
        .args(["run", "--quiet", "--package", "ropewalk-sim"])
        .args(build)
        .arg("--")
        .args(arguments)
        .status()
        .map_err(|e| format!("cannot run the simulator: {e}"))?;
    if status.success() {
        Ok(())
    } else {
        Err("a promise was broken, or the arguments were not understood".to_owned())
    }
}
