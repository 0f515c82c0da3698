//! `cargo xtask vm rdma`: our provider over rdma-core, on the RDMA devices that Linux has in software.
//!
//! A QEMU guest has soft-RoCE (rdma_rxe), or soft-iWARP (siw) when asked. The provider keeps its contract there
//! ([`contract`]). A cluster serves over it the kernel's own client in the same guest ([`cluster`]). The client goes on
//! after every server was killed, and when one of two devices fails. Ends with the closing line that the test command
//! counts.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::error::{Context, Failure, Result};
use super::guest::Guest;
use super::net::Net;
use super::prepare::prepare;
use super::program;
use super::qemu::{self, Kernel, Qemu};
use super::scenario::{Outcome, judge_single};
use crate::repo;

/// How long a guest may take; it ends a hang and measures nothing.
const GUEST_LIMIT: Duration = Duration::from_secs(1800);

/// `cargo xtask vm rdma`.
#[derive(Debug, clap::Args)]
pub(crate) struct RdmaArgs {
    /// Software devices to run on.
    #[arg(long, value_delimiter = ',', default_value = "rxe")]
    device: Vec<Device>,
    /// What to run.
    #[arg(long, value_delimiter = ',', default_value = "contract,nfs")]
    scenario: Vec<Part>,
    /// NFS versions to mount with.
    #[arg(long, value_delimiter = ',', default_value = "4.1,4.2")]
    vers: Vec<String>,
    /// A ropewalk that is built already, instead of one that is built now.
    #[arg(long, value_name = "PROGRAM")]
    ropewalk: Option<PathBuf>,
    /// Promises of the contract to test, by a part of their name [default: all].
    #[arg(long)]
    only: Option<String>,
    /// Show what the guests print while they run.
    #[arg(long, short)]
    verbose: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// The contract of providers.
    Contract,
    /// A cluster that the kernel mounts with proto=rdma.
    Nfs,
    /// The same on two devices, of which one fails and comes back. No part of CI: it takes some minutes.
    Rails,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Device {
    /// Soft-RoCE.
    Rxe,
    /// Soft-iWARP.
    Siw,
}

impl Device {
    fn name(self) -> &'static str {
        match self {
            Self::Rxe => "rxe",
            Self::Siw => "siw",
        }
    }
}

/// Runs everything; `true` when all passed.
pub(crate) fn rdma(dir: &Path, args: &RdmaArgs) -> Result<bool> {
    let started = Instant::now();
    let tools = prepare(dir, qemu::TOOLS)?;
    let qemu = Qemu::prepare(&tools, Kernel::WithSiw)?;
    let programs = Programs::build(args)?;
    let ready = started.elapsed().as_secs_f64();
    println!(
        "Linux {} and our programs are ready after {ready:.1} s",
        qemu.release()
    );
    let net = Net::create(&tools)?;
    let mut outcomes = Vec::new();
    for device in &args.device {
        if let Some(tests) = &programs.tests {
            outcomes.push(contract(&net, &qemu, tests, *device, args)?);
            outcomes.last().into_iter().for_each(program::print);
        }
        if let Some(program) = &programs.ropewalk {
            for (part, script) in [(Part::Nfs, "nfs"), (Part::Rails, "rails")] {
                for vers in args.vers.iter().filter(|_| args.scenario.contains(&part)) {
                    let what = (*device, script, &vers[..]);
                    outcomes.push(cluster(&net, &qemu, program, what, args)?);
                    outcomes.last().into_iter().for_each(program::print);
                }
            }
        }
    }
    let failed = outcomes.iter().filter(|o| o.is_failure()).count();
    println!(
        "{} passed, {failed} failed, 0 skipped",
        outcomes.len() - failed
    );
    Ok(failed == 0 && !outcomes.is_empty())
}

/// The contract's promises, each a test, in one guest.
fn contract(
    net: &Net,
    qemu: &Qemu,
    programs: &Tests,
    device: Device,
    args: &RdmaArgs,
) -> Result<Outcome> {
    let started = Instant::now();
    let run = Guest::under_qemu(net, qemu)
        .script("rdma/contract.sh")
        .env("RDMA", device.name())
        .env("CONTRACT", in_guest(&programs.contract)?)
        .env("TROUBLE", in_guest(&programs.trouble)?)
        .env("ONLY", args.only.as_deref().unwrap_or_default())
        .timeout(GUEST_LIMIT)
        .echo(args.verbose)
        .run()?;
    let mut outcome = judge_single(&run, "", "contract", started.elapsed());
    outcome.name = format!("contract on {}", device.name());
    Ok(outcome)
}

/// A cluster and its client in one guest.
fn cluster(
    net: &Net,
    qemu: &Qemu,
    program: &Path,
    (device, script, vers): (Device, &str, &str),
    args: &RdmaArgs,
) -> Result<Outcome> {
    let started = Instant::now();
    let run = Guest::under_qemu(net, qemu)
        .script(format!("rdma/{script}.sh"))
        .env("RDMA", device.name())
        .env("ROPEWALK", in_guest(program)?)
        .env("VERS", vers)
        .env("EXPORT", "/")
        .env("MNT", "/mnt/a")
        .timeout(GUEST_LIMIT)
        .echo(args.verbose)
        .run()?;
    let mut outcome = judge_single(&run, vers, script, started.elapsed());
    outcome.name = format!("{script} {vers} on {}", device.name());
    Ok(outcome)
}

/// Where the guest has a program of the host.
fn in_guest(program: &Path) -> Result<String> {
    let path =
        std::path::absolute(program).context(|| format!("cannot find {}", program.display()))?;
    Ok(format!("/run/host{}", path.display()))
}

/// What runs in the guests.
struct Programs {
    tests: Option<Tests>,
    ropewalk: Option<PathBuf>,
}

/// The test programs of `fabric-verbs` that need a device.
struct Tests {
    contract: PathBuf,
    trouble: PathBuf,
}

impl Programs {
    fn build(args: &RdmaArgs) -> Result<Self> {
        let wants = |part| args.scenario.contains(&part);
        let tests = || {
            Ok(Tests {
                contract: test_program("contract")?,
                trouble: test_program("trouble")?,
            })
        };
        let tests = wants(Part::Contract).then(tests).transpose()?;
        let ropewalk = || program::ropewalk(args.ropewalk.as_deref());
        let ropewalk = (wants(Part::Nfs) || wants(Part::Rails))
            .then(ropewalk)
            .transpose()?;
        Ok(Self { tests, ropewalk })
    }
}

/// Builds a test program, as it is for a developer: with every check.
fn test_program(name: &str) -> Result<PathBuf> {
    let package = ["--package", "ropewalk-fabric-verbs", "--test", name];
    let built = repo::cargo()
        .args(["test", "--no-run", "--locked", "--message-format=json"])
        .args(package)
        .output()
        .context(|| "cannot run cargo".to_owned())?;
    let told = String::from_utf8_lossy(&built.stdout);
    let lines = told
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut programs = lines.filter_map(|line| Some(PathBuf::from(line["executable"].as_str()?)));
    programs
        .next()
        .filter(|_| built.status.success())
        .ok_or_else(|| {
            let why = String::from_utf8_lossy(&built.stderr);
            Failure::new(format!("the test {name} does not build: {}", why.trim()))
        })
}
