//! `cargo xtask sim`: replays a seed, or tries many.
//!
//! One seed prints its whole story; many print one line each, and the story's command for those that failed.
#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    reason = "a developer's tool talks on the terminal"
)]

use clap::Parser;
use ropewalk_sim::{Canary, Config, Report, run};
use std::process::ExitCode;

#[derive(Debug, Parser)]
#[command(about = "Simulates a cluster from a seed")]
struct Args {
    /// The seed, or the first of them
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// How many seeds to try; one prints its trace
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// Operations of each worker
    #[arg(long)]
    steps: Option<u32>,
    /// Names and locks only, without data servers
    #[arg(long)]
    names: bool,
    /// Data servers
    #[arg(long)]
    ds: Option<usize>,
    /// Clients
    #[arg(long)]
    clients: Option<usize>,
    /// Print the trace of every seed that fails
    #[arg(long)]
    trace: bool,
    /// Build a fault in, which the checkers must find
    #[arg(long, value_enum)]
    canary: Option<CanaryArg>,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum CanaryArg {
    /// Replies leave before their transactions are durable
    ReplyBeforeDurable,
    /// COMMIT answers without syncing objects
    CommitWithoutSync,
}

fn config(args: &Args) -> Config {
    let usual = if args.names {
        Config::names()
    } else {
        Config::cluster()
    };
    Config {
        steps: args.steps.unwrap_or(usual.steps),
        ds: args.ds.unwrap_or(usual.ds),
        clients: args.clients.unwrap_or(usual.clients),
        canary: args.canary.map(|c| match c {
            CanaryArg::ReplyBeforeDurable => Canary::ReplyBeforeDurable,
            CanaryArg::CommitWithoutSync => Canary::CommitWithoutSync,
        }),
        ..usual
    }
}

fn print(report: &Report) {
    let Report {
        seed,
        findings,
        hash,
        events,
        virtual_ms,
        decided,
        ..
    } = report;
    let verdict = if findings.is_empty() { "ok" } else { "FAILED" };
    let undecided = if *decided {
        ""
    } else {
        ", not all searches ended"
    };
    let seconds = virtual_ms / 1000;
    println!(
        "seed {seed}: {verdict}, {events} events, {seconds} virtual s, hash {hash:016x}{undecided}"
    );
    for text in findings {
        println!("  {text}");
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    let config = config(&args);
    let mut failed = Vec::new();
    for seed in args.seed..args.seed.saturating_add(args.seeds) {
        let report = run(seed, &config);
        let is_failed = !report.findings.is_empty();
        if args.seeds == 1 || (args.trace && is_failed) {
            report.lines.iter().for_each(|line| println!("{line}"));
        }
        print(&report);
        if is_failed {
            failed.push(seed);
        }
    }
    let names = if args.names { " --names" } else { "" };
    for seed in &failed {
        println!("replay: cargo xtask sim --seed {seed}{names}");
    }
    if failed.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
