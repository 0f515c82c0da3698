//! `cargo xtask sim`: replays a seed, or tries many.
//!
//! One seed prints its whole story; many print one line each, and the story's command for those that failed.
#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    reason = "a developer's tool talks on the terminal"
)]

use clap::{Parser, ValueEnum};
use ropewalk_sim::{Config, InjectedBug, Report, run};
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
    /// Names and locks only
    #[arg(long)]
    names: bool,
    /// One file that all clients want, and no power cuts
    #[arg(long, conflicts_with = "names")]
    contended: bool,
    /// Files that clients are delegated
    #[arg(long, conflicts_with_all = ["names", "contended"])]
    delegations: bool,
    /// Servers that copy, clone, make holes and take storage by themselves; with `--contended`, of two files that all want
    #[arg(long, conflicts_with_all = ["names", "delegations", "greedy"])]
    copies: bool,
    /// Clients that set modification times
    #[arg(long, conflicts_with_all = ["names", "contended", "delegations", "copies", "greedy"])]
    times: bool,
    /// Clients over RDMA that do not keep to their credits
    #[arg(long, conflicts_with_all = ["names", "contended", "delegations"])]
    greedy: bool,
    /// Objects are made with their files
    #[arg(long)]
    eager: bool,
    /// Copies of each stripe
    #[arg(long)]
    replicas: Option<u32>,
    /// Copies that must be in sync for a write
    #[arg(long)]
    copies_min: Option<u32>,
    /// Data servers are drained and made level meanwhile
    #[arg(long)]
    moves: bool,
    /// With --moves: files of the data workers are restriped too
    #[arg(long)]
    restripes: bool,
    /// Some of the clients speak NFSv3; the seed chooses which
    #[arg(long, conflicts_with_all = ["copies", "greedy"])]
    nfs3: bool,
    /// Clients of NFSv4.0 open, lock, read and write files beside one of NFSv4.1
    #[arg(long, conflicts_with = "greedy")]
    nfs40: bool,
    /// Hosts lock files by NLM beside one of NFSv4.1, and beside those of `--nfs40`
    #[arg(long, conflicts_with = "greedy")]
    nlm: bool,
    /// Data servers
    #[arg(long)]
    ds: Option<usize>,
    /// Clients
    #[arg(long)]
    clients: Option<usize>,
    /// Connections over RDMA, in 1000; else the seed chooses
    #[arg(long)]
    rdma: Option<u32>,
    /// Print the trace of every seed that fails
    #[arg(long)]
    trace: bool,
    /// Build a fault in, which the checkers must find
    #[arg(long, value_enum)]
    bug: Option<InjectedBug>,
}

fn config(args: &Args) -> Config {
    let usual = if args.names {
        Config::names()
    } else if args.contended && args.copies {
        Config::contended_copies()
    } else if args.contended {
        Config::contended()
    } else if args.copies {
        Config::copies()
    } else if args.times {
        Config::times()
    } else if args.replicas.is_some_and(|count| count > 1) && !args.delegations && !args.greedy {
        Config::replicated()
    } else if args.delegations {
        Config::delegations()
    } else if args.greedy {
        Config::greedy()
    } else {
        Config::cluster()
    };
    Config {
        steps: args.steps.unwrap_or(usual.steps),
        ds: args.ds.unwrap_or(usual.ds),
        clients: args.clients.unwrap_or(usual.clients),
        rdma: args.rdma.or(usual.rdma),
        eager: args.eager,
        replicas: args.replicas.unwrap_or(usual.replicas),
        copies_min: args.copies_min.unwrap_or(usual.copies_min),
        moves: args.moves,
        restripes: args.restripes,
        nfs3: args.nfs3,
        nfs40: args.nfs40,
        nlm: args.nlm,
        bug: args.bug,
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

/// The command that replays a seed of this configuration.
fn replay(seed: u64, args: &Args) -> String {
    let mut out = format!("cargo xtask sim --seed {seed}");
    let flags = [
        ("names", args.names),
        ("contended", args.contended),
        ("delegations", args.delegations),
        ("copies", args.copies),
        ("times", args.times),
        ("greedy", args.greedy),
        ("eager", args.eager),
        ("moves", args.moves),
        ("restripes", args.restripes),
        ("nfs3", args.nfs3),
        ("nfs40", args.nfs40),
        ("nlm", args.nlm),
    ];
    for (name, _) in flags.iter().filter(|(_, is_given)| *is_given) {
        out += &format!(" --{name}");
    }
    let numbers = [
        ("steps", args.steps.map(|n| n.to_string())),
        ("replicas", args.replicas.map(|n| n.to_string())),
        ("copies-min", args.copies_min.map(|n| n.to_string())),
        ("ds", args.ds.map(|n| n.to_string())),
        ("clients", args.clients.map(|n| n.to_string())),
        (
            "bug",
            args.bug
                .and_then(|c| Some(c.to_possible_value()?.get_name().to_owned())),
        ),
    ];
    for (name, value) in numbers {
        out += &value.map_or_else(String::new, |value| format!(" --{name} {value}"));
    }
    out
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
    if args.seeds > 1 {
        for seed in &failed {
            println!("replay: {}", replay(*seed, &args));
        }
    }
    if failed.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
