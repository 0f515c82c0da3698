//! Ropewalk: one binary with the servers, the client commands and the administration.
//!
//! Exit codes: 0 when done, 1 when an operation failed, 2 when the command line or a configuration makes no sense. 3 is
//! that of a data server that the cluster has expelled. A failure is one sentence on standard error.
#![forbid(unsafe_code)]

mod access;
mod account;
mod admin;
mod api;
mod backoff;
mod bench_cmd;
mod busiest;
mod cli;
mod client_cmds;
mod clients;
mod config;
mod config_cmd;
mod confirm;
mod daemon;
mod dashboard;
mod demo;
mod devices;
mod doctor;
#[cfg(test)]
mod documented;
mod expel;
mod failure;
mod key;
mod listeners;
mod logging;
mod man;
mod metrics;
mod movement;
mod nfs3_servers;
mod nlm_hosts;
mod nsm_datagrams;
mod nss;
mod older_nfs;
mod out;
mod rdma;
mod rdma_provider;
mod reload;
mod rpcbind;
mod scrub;
mod serve_ds;
mod serve_mds;
mod setup;
mod status;
mod table;
mod times;
mod token;
mod top;
mod traces;
mod up;
mod watch;

use clap::{CommandFactory, Parser};
use cli::{Cli, Command};
use failure::Outcome;
use std::process::ExitCode;

/// An operation makes some dozens of small, short-lived allocations on its thread; the C library's arenas grow by one mprotect for each 128 KiB.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(cli.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !failure.is_told() && !logging::tell_as_json(&failure) {
                out::say(&failure);
            }
            ExitCode::from(failure.exit_code())
        }
    }
}

fn run(command: Command) -> Outcome {
    match command {
        Command::Up(args) => up::run(&args),
        Command::Mds(args) => serve_mds::run(&args),
        Command::Ds(args) => match (&args.order, &args.daemon) {
            (Some(order), _) => movement::run(order),
            (None, Some(daemon)) => serve_ds::run(daemon, args.watched),
            // The parser asks for one of them.
            (None, None) => Err(failure::failed("--config is missing")),
        },
        Command::Repair(command) => movement::repair(&command),
        Command::Scrub(args) => scrub::run(&args),
        Command::Status(args) => status::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Token(command) => token::run(&command),
        Command::Access(command) => access::run(&command),
        Command::Key(command) => key::run(&command),
        Command::Expel(args) => expel::run(&args),
        Command::Reload(args) => reload::run(&args),
        Command::Config(command) => config_cmd::run(&command),
        Command::Setup(command) => setup::run(&command),
        Command::Doctor(args) => doctor::run(&args),
        Command::Clients(command) => clients::run(&command),
        Command::Lock(command) => clients::run_lock(&command),
        Command::Nlm(command) => nlm_hosts::run(&command),
        Command::Rdma(args) => devices::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Client(command) => Ok(client_cmds::run(&command)?),
        Command::Bench { arguments } => bench_cmd::run(&arguments),
        Command::Completions { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "ropewalk", &mut text);
            out::print(&String::from_utf8_lossy(&text))
        }
        Command::Man { dir } => man::run(dir.as_deref()),
    }
}
