//! The kernel-client harness: a real Linux NFS client, as an ordinary process, against any server.
//!
//! The client is User Mode Linux: a Linux kernel that runs in user space. It has the host's root file system
//! (read-only) as its own: every tool of the host is there, and no disk image is built. Servers and clients meet in a
//! network namespace of their own.
//!
//! Owns fetching the tools ([`prepare`]), the namespace ([`net`]), servers in it ([`server`]), and guests ([`guest`]).
//! Guests run scenarios ([`scenario`], scripts in `vm/guest`); in some the host has a part ([`hosted`], [`capture`],
//! [`failover`], [`drain`], [`full`], [`trunks`], [`kernels`], [`identities`], [`cluster`]). [`selftest`] is the harness's
//! own test. Does not own: what a particular server needs to start; that is the caller's command line. Entry point: [`Args::run`].

#![allow(
    clippy::print_stdout,
    reason = "a developer's command reports on standard output"
)]

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;

pub(crate) mod capture;
mod clones;
pub(crate) mod cluster;
mod drain;
mod error;
mod evict;
mod failover;
mod foreign;
mod full;
mod guest;
mod hosted;
mod hostgone;
mod identities;
mod initrd;
mod kernel_client;
mod kernels;
mod multipath;
mod net;
mod newer;
mod prepare;
pub(crate) mod process;
mod program;
mod qemu;
mod rdma;
mod run;
mod scenario;
mod selftest;
mod server;
mod siw;
mod trunks;

pub(crate) use kernel_client::pass_names;
pub(crate) use prepare::{Tools, default_dir, prepare};
pub(crate) use process::{kill_family, wait_at_most};

/// `cargo xtask vm`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where tools, logs and job directories live [default: target/vm of the workspace].
    #[arg(long, global = true, value_name = "DIR")]
    dir: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Fetch User Mode Linux and the client tools (as root; quick when they are there).
    Prepare,
    /// List the scenarios and what each one checks.
    List,
    /// Start a server command in a namespace of its own and run scenarios against it.
    Run(run::RunArgs),
    /// Build Ropewalk and run every scenario against a cluster of it, as CI does.
    KernelClient(kernel_client::KernelClientArgs),
    /// Talk RDMA with a Linux kernel's software iWARP (siw) in a QEMU guest: rping both ways, as CI does.
    Siw(siw::SiwArgs),
    /// Run our provider over rdma-core on Linux's software RDMA devices (rdma_rxe, siw) in QEMU guests, as CI does.
    Rdma(rdma::RdmaArgs),
    /// Prove the harness against an NFSv4.1 server that is known to work (nfs-ganesha).
    Selftest(selftest::SelftestArgs),
}

impl Args {
    /// Runs the subcommand; errors go to standard error as one sentence.
    pub(crate) fn run(&self) -> ExitCode {
        let dir = self.dir.clone().unwrap_or_else(prepare::default_dir);
        let result = match &self.command {
            Command::Prepare => prepare::prepare(&dir, &[]).map(|tools| {
                println!("the kernel-client tools are in {}", tools.dir().display());
                true
            }),
            Command::List => {
                scenario::print_list();
                Ok(true)
            }
            Command::Run(args) => run::run(&dir, args),
            Command::KernelClient(args) => kernel_client::kernel_client(&dir, args),
            Command::Siw(args) => siw::siw(&dir, args),
            Command::Rdma(args) => rdma::rdma(&dir, args),
            Command::Selftest(args) => selftest::selftest(&dir, args),
        };
        match result {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::FAILURE,
            Err(error) => {
                eprintln!("error: {error}");
                ExitCode::FAILURE
            }
        }
    }
}
