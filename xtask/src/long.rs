//! The long forms of tests; `cargo xtask test` runs their short forms with all the others.

use crate::packages;
use crate::repo::{self, Result};
use crate::sim;
use std::env;
use std::process::{Command, ExitStatus};

/// Worlds of the simulator with all seeds: the usual one, and one with two copies whose data servers come and go.
const WHOLE_WORLDS: [&str; 2] = ["", "--replicas=2 --ds=4 --moves --restripes"];
/// Worlds with a tenth of the seeds.
const WORLDS: [&str; 13] = [
    "--names",
    "--names --nfs3",
    "--names --nfs40 --nlm",
    "--nfs3",
    "--nfs40 --nlm",
    "--copies",
    "--times",
    "--contended",
    "--delegations",
    "--greedy",
    "--eager",
    "--replicas=3 --ds=5 --moves",
    "--replicas=2 --ds=4 --moves --copies-min=2",
];
/// Where the seeds begin: the tests try those before.
const FIRST_SEED: u32 = 1000;
/// Rounds of the scenario `failover`: in each one, each of four data servers fails.
const FAILOVER_ROUNDS: u32 = 12;

#[derive(Debug, clap::Args)]
pub(crate) struct LongArgs {
    /// Seeds of the simulator's usual world, and of that with two copies; the others have a tenth of them
    #[arg(long, default_value_t = 10_000)]
    seeds: u32,
    #[command(flatten)]
    powercut: PowercutArgs,
    #[command(flatten)]
    kills: KillsArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct PowercutArgs {
    /// Cuts of each store
    #[arg(long, default_value_t = 2000)]
    points: u32,
}

#[derive(Debug, clap::Args)]
pub(crate) struct KillsArgs {
    /// Kills in a row
    #[arg(long, default_value_t = 100)]
    count: u32,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ListingArgs {
    /// Entries of the directory
    #[arg(long, default_value_t = 1_000_000)]
    entries: u32,
}

/// All long forms that look for lost data, one after the other: hours.
pub(crate) fn all(args: &LongArgs) -> Result<()> {
    for world in WHOLE_WORLDS {
        sim::try_seeds(FIRST_SEED, args.seeds, world)?;
    }
    for world in WORLDS {
        sim::try_seeds(FIRST_SEED, args.seeds / 10, world)?;
    }
    powercut(&args.powercut)?;
    kills(&args.kills)?;
    failover()?;
    silence()
}

/// Lets data servers with two copies fail under two kernel clients, each in each way and more often than the tests do, also
/// under two newer ones; then lets them be drained.
fn failover() -> Result<()> {
    let rounds = format!("FAILOVER_ROUNDS={FAILOVER_ROUNDS}");
    kernel_client(
        "failures with two copies",
        "dscrash,failover,drain",
        &rounds,
    )
}

/// Cuts a network under a kernel client that nobody tells, and then a data server with two copies. A client needs a quarter of an
/// hour for the one and minutes for the other.
fn silence() -> Result<()> {
    kernel_client("silent networks", "multipath,hostgone", "SILENT=yes")
}

/// Runs the long form of scenarios, which `variable` asks for.
fn kernel_client(what: &str, scenarios: &str, variable: &str) -> Result<()> {
    if !packages::is_root() {
        println!("{what} left out: guests need root");
        return Ok(());
    }
    let program = env::current_exe().map_err(|e| format!("cannot find this program: {e}"))?;
    let status = Command::new(program)
        .args(["vm", "kernel-client", "--long", "--scenario", scenarios])
        .args(["--env", variable])
        .status()
        .map_err(|e| format!("cannot run the kernel client: {e}"))?;
    judged(status)
}

/// Cuts the power of the metadata store, of a metadata server and of a data server at many points.
pub(crate) fn powercut(args: &PowercutArgs) -> Result<()> {
    test(
        &[
            "--package",
            "ropewalk-meta-fjall",
            "--package",
            "ropewalk-mds",
            "--package",
            "ropewalk-ds",
        ],
        "a_cut_at_any_call",
        ("ROPEWALK_POWERCUT_POINTS", args.points),
    )
}

/// Kills servers under load, many times in a row.
pub(crate) fn kills(args: &KillsArgs) -> Result<()> {
    test(
        &["--package", "ropewalk", "--test", "kills"],
        "kills_under_load",
        ("ROPEWALK_KILLS", args.count),
    )
}

/// Lists a directory that is larger than any memory that listing it may take.
pub(crate) fn listing(args: &ListingArgs) -> Result<()> {
    test(
        &["--package", "ropewalk", "--test", "listing"],
        "listing_does_not_grow",
        ("ROPEWALK_ENTRIES", args.entries),
    )
}

fn test(packages: &[&str], name: &str, (variable, count): (&str, u32)) -> Result<()> {
    let status = repo::cargo()
        .arg("test")
        .args(packages)
        .args([name, "--", "--nocapture"])
        .env(variable, count.to_string())
        .status()
        .map_err(|e| format!("cannot run the tests: {e}"))?;
    judged(status)
}

fn judged(status: ExitStatus) -> Result<()> {
    if status.success() {
        Ok(())
    } else {
        Err("something that was promised is not there".to_owned())
    }
}
