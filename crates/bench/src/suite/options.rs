//! The command line of the experiments.

use super::experiment::Experiment;
use super::spec::{ClusterSpec, Transport};
use crate::BenchError;
use crate::net::Rate;
use crate::nfs::providers::OwnRdma;
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

/// All transports, in the order of reports.
pub(super) const BOTH: &[Transport] = &Transport::ALL;
/// Repeats of a published number, and of `--quick`.
const REPEATS_DEFAULT: u16 = 5;
const REPEATS_QUICK: u16 = 1;

/// One experiment, or all.
#[derive(Debug, Subcommand)]
pub enum ExperimentCommand {
    /// Run every experiment
    All(Options),
    /// Small operations: latency by the payload of the reply, 1 B to 32 KiB
    SmallOps(Options),
    /// Create: stat, open-create, chmod, close, by data servers and by processes
    Create(Options),
    /// Sequential: throughput of the cluster by data servers and clients
    Sequential(Options),
    /// Zipf: place and length of requests by Zipf's law
    Zipf(Options),
    /// BT-IO: the solution of NAS BT, written by collective buffering, and verified
    Btio(Options),
    /// Records: sequential records of 1 to 64 KiB, four streams
    Records(Options),
    /// Threads: 2 KiB, 8 KiB and 128 KiB at random places, 16 threads
    Threads(Options),
    /// Cached: 64 KiB reads from the server's cache, a cold disk, and the bare disk
    Cached(Options),
    /// Clients: one to five, on one server and on a cluster
    Clients(Options),
    /// Sweep: a grid of file and record sizes
    Sweep(Options),
    /// Metadata: create, stat, readdir, rename, remove in one directory and in many
    Metadata(Options),
    /// Incast: one client that reads from all data servers at once
    Incast(Options),
    /// Scale: 1,000 data servers and 8,000 idle sessions at one metadata server, and a model of more
    Scale(Options),
}

/// What was asked for.
pub(super) struct Asked {
    /// Experiments that are plans.
    pub(super) experiments: Vec<Experiment>,
    /// Whether `scale` is among them, which is none.
    pub(super) scale: bool,
    /// How.
    pub(super) options: Options,
}

impl ExperimentCommand {
    pub(super) fn split(self) -> Asked {
        let (one, options) = match self {
            Self::All(options) => {
                return Asked {
                    scale: true,
                    experiments: Experiment::ALL.to_vec(),
                    options,
                };
            }
            Self::Scale(options) => {
                return Asked {
                    experiments: Vec::new(),
                    scale: true,
                    options,
                };
            }
            Self::SmallOps(options) => (Experiment::SmallOps, options),
            Self::Create(options) => (Experiment::Create, options),
            Self::Sequential(options) => (Experiment::Sequential, options),
            Self::Zipf(options) => (Experiment::Zipf, options),
            Self::Btio(options) => (Experiment::Btio, options),
            Self::Records(options) => (Experiment::Records, options),
            Self::Threads(options) => (Experiment::Threads, options),
            Self::Cached(options) => (Experiment::Cached, options),
            Self::Clients(options) => (Experiment::Clients, options),
            Self::Sweep(options) => (Experiment::Sweep, options),
            Self::Metadata(options) => (Experiment::Metadata, options),
            Self::Incast(options) => (Experiment::Incast, options),
        };
        Asked {
            experiments: vec![one],
            scale: false,
            options,
        }
    }
}

/// A server that is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Peer {
    /// nfs-ganesha, as the distribution has it
    Ganesha,
}

/// What to measure, how often, and where results go.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Measure this NFS server instead of clusters of our own
    #[arg(long, value_name = "URL", conflicts_with_all = ["mounted", "cluster"])]
    pub target: Option<String>,
    /// Measure this directory, of whatever file system is mounted there
    #[arg(long, value_name = "DIR", conflicts_with = "cluster")]
    pub mounted: Option<PathBuf>,
    /// What our own clusters are made of, e.g. ds=8,copies=2,transport=tcp,store=memory; the rest is as in the experiment
    #[arg(
        long,
        value_name = "SPEC",
        default_value = "",
        hide_default_value = true
    )]
    pub cluster: ClusterSpec,
    /// What our own clusters use, beside each other in one report, e.g. tcp,rdma (rdma by a device of this machine, else software iWARP) [default: both where the paper compares them, else tcp]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "TRANSPORTS", hide_possible_values = true, conflicts_with_all = ["target", "mounted"])]
    pub transport: Vec<Transport>,
    /// As root: another server beside ours, started like ours, where an experiment has one server
    #[arg(long, value_enum, conflicts_with_all = ["target", "mounted"])]
    pub peer: Option<Peer>,
    /// As root: each server behind a link of this rate, in a network namespace, e.g. 500mbit
    #[arg(long, value_name = "RATE", conflicts_with_all = ["target", "mounted"])]
    pub link: Option<Rate>,
    /// Directory of tables, plots and the report
    #[arg(long, value_name = "DIR", default_value = "bench-results")]
    pub out: PathBuf,
    /// Few points, small files, one run of each: to see that everything works, not to measure
    #[arg(long)]
    pub quick: bool,
    /// Runs of each point [default: 5, with --quick 1]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub repeats: Option<u16>,
    /// The program that clusters are made of [default: the one beside this program]
    #[arg(long, value_name = "PATH")]
    pub ropewalk: Option<PathBuf>,
    /// Directory of clusters that keep all in memory: logs and sockets
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    pub dir: PathBuf,
    /// Directory of clusters on a disk
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    pub disk_dir: PathBuf,
}

impl Options {
    /// Refuses what contradicts itself.
    pub(super) fn check(&self) -> Result<(), BenchError> {
        if self.cluster.transport.is_some() && !self.transport.is_empty() {
            return Err(BenchError::Setting {
                name: "the transport",
                must_be: "given once, by --transport or in --cluster",
            });
        }
        Ok(())
    }

    /// The transports that the user wants, in the order of reports.
    pub(super) fn transports(&self) -> Option<&'static [Transport]> {
        let wants = |t| self.cluster.transport == Some(t) || self.transport.contains(&t);
        match Transport::ALL.map(wants) {
            [false, false] => None,
            [true, false] => Some(&[Transport::Tcp]),
            [false, true] => Some(&[Transport::Rdma]),
            [true, true] => Some(BOTH),
        }
    }

    /// What RDMA servers of ours run on. Devices are in no network namespace of ours.
    pub(super) fn own_rdma(&self) -> OwnRdma {
        let is_own = self.target.is_none() && self.mounted.is_none();
        match self.link {
            None if is_own => OwnRdma::of_this_machine(),
            _ => OwnRdma::SOFTWARE,
        }
    }

    pub(super) fn repeats(&self) -> u16 {
        let default = if self.quick {
            REPEATS_QUICK
        } else {
            REPEATS_DEFAULT
        };
        self.repeats.unwrap_or(default)
    }
}
