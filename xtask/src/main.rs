//! What a developer of Ropewalk repeats, as one program: `cargo xtask COMMAND`.
//!
//! Each command owns one module; this file only names them. A command prints what it found and
//! returns an error for its last line, so that the exit status tells a script what happened.
#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    reason = "a developer's tool talks on the terminal"
)]

mod ci;
mod circles;
mod dist;
mod docs;
mod fixtures;
mod fuzz;
mod instructions;
mod layers;
mod long;
mod packages;
mod pages;
mod pynfs;
mod repo;
mod sim;
mod step;
mod test;
mod tidy;
mod tools;
mod vm;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", about = "What a developer of Ropewalk repeats")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Format, lints, every test, layers and tidy; as root also the kernel client's tests
    Test,
    /// All of `test`, then a release build
    Ci,
    /// Check that crates depend only on lower layers, as docs/architecture/README.md says
    Layers(layers::Args),
    /// Check what rustfmt and clippy do not: lengths, headers, words, clocks
    Tidy,
    /// Count the instructions of single operations and compare them with the baseline in git
    Instructions(instructions::Args),
    /// Run a fuzz target, or all of them in turn
    Fuzz(fuzz::Args),
    /// Simulate a whole cluster from a seed: --seed N replays one, --seeds COUNT tries many
    #[command(disable_help_flag = true)]
    Sim(sim::Args),
    /// Cut the power of the stores at many points, more than the tests do
    Powercut(long::PowercutArgs),
    /// Kill servers under load many times in a row, more often than the tests do
    Kills(long::KillsArgs),
    /// The simulator on 10,000 seeds, then `powercut`, `kills`, failing data servers and networks that die silently, one after the other: hours
    Long(long::LongArgs),
    /// List a directory of a million entries, and see what memory that takes
    Listing(long::ListingArgs),
    /// Make the stored clusters of earlier commits that the test of upgrades opens
    Fixtures(fixtures::Args),
    /// Make a site of static pages from the documents, by mdBook
    Docs(docs::Args),
    /// Make Debian packages and a tar of the programs, manual pages, completions, units and documents
    Dist(dist::Args),
    /// Run pynfs, a test suite of others, from an existing checkout against a cluster
    Pynfs(pynfs::Args),
    /// What pynfs calls to have the metadata server restarted
    #[command(hide = true)]
    PynfsHelper(pynfs::HelperArgs),
    /// Test servers with a real Linux NFS client (User Mode Linux)
    Vm(vm::Args),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Test => test::run(),
        Command::Ci => ci::run(),
        Command::Layers(args) => layers::run(&args),
        Command::Tidy => tidy::run(),
        Command::Instructions(args) => instructions::run(&args),
        Command::Fuzz(args) => fuzz::run(&args),
        Command::Sim(args) => sim::run(&args),
        Command::Powercut(args) => long::powercut(&args),
        Command::Kills(args) => long::kills(&args),
        Command::Long(args) => long::all(&args),
        Command::Listing(args) => long::listing(&args),
        Command::Fixtures(args) => fixtures::run(&args),
        Command::Dist(args) => dist::run(&args),
        Command::Docs(args) => docs::run(&args),
        Command::Pynfs(args) => pynfs::run(&args),
        Command::PynfsHelper(args) => pynfs::helper(&args),
        Command::Vm(args) => return args.run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}
