//! The bare measurements as a program of their own; `ropewalk bench` is the same with our servers added.
#![forbid(unsafe_code)]

use clap::Parser;
use ropewalk_bench::cli::{self, Command};
use ropewalk_bench::process::Launcher;
use std::process::ExitCode;

#[derive(Debug, Parser)]
#[command(
    name = "ropewalk-bench",
    about = "Measure the least that a server must do"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

fn main() -> ExitCode {
    let command = Cli::parse().command;
    let result = Launcher::this_program(&["serve"])
        .and_then(|launcher| cli::run(command, &launcher, Vec::new(), &mut std::io::stdout()));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ropewalk-bench: {error}");
            ExitCode::FAILURE
        }
    }
}
