//! pynfs: the NFSv4.0, 4.1 and 4.2 tests of others, run against a cluster of ours and judged by a table of exceptions.
//!
//! The suite is somebody else's and stays where it is: the command takes a checkout. It needs Python 3 with `ply` and
//! `xdrlib3`. Owns building Ropewalk, a cluster on loopback with a short lease ([`server`]), and one run of the suite
//! for each minor version ([`suite`]) in a directory of its own, on NFSv3 servers if asked to ([`foreign`]). It compares
//! the results with `xtask/pynfs-expected.txt` ([`expected`]). A test fails the command when it fails without a row there, or passes in
//! spite of one. If asked to, tshark looks at what was sent ([`decode`]).

mod decode;
mod expected;
mod foreign;
mod server;
mod suite;

use crate::repo::{self, Result};
use crate::tools;
use decode::Decode;
use expected::{Differences, Expected};
use serde_json::{Value, json};
use server::{Server, Setup};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use suite::{Outcome, Report};

/// What applies to a server of files layouts: everything but the layouts of other types, and the restarts. Those take
/// long and are asked for by `--flags reboot`.
const FLAGS_DEFAULT: &str = "everything noblock noflex noreboot";

/// What applies where files lie on NFSv3 servers and have flexible files layouts. There ALLOCATE is answered NOTSUPP, as NFSv3 has
/// nothing of the kind.
const FLAGS_FOREIGN: &str = "everything noblock noreboot noALLOC1 noALLOC2 noALLOC3";

/// The same of the suite for NFSv4.0.
const FLAGS_DEFAULT_0: &str = "all";

/// What came with the second minor version or after it (COPY; open_arguments of RFC 9754; LAYOUTSTATS). The suite says so of
/// other such tests but not of these.
const FLAGS_MINOR_1: [&str; 6] = [
    "nocopy",
    "noDELEG24",
    "noDELEG25",
    "noFFLS2",
    "noFFLS3",
    "noFFLS4",
];

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// An existing checkout of the suite
    checkout: PathBuf,
    /// One minor version instead of all, one after the other
    #[arg(long, value_parser = clap::value_parser!(u32).range(0..=2))]
    minor: Option<u32>,
    /// Flags and codes of the suite; `no` before one leaves it out [default: all that applies]
    #[arg(long)]
    flags: Option<String>,
    /// Where the cluster and the logs go [default: target/pynfs of the workspace]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Python with the modules that the suite needs, as of a virtual environment
    #[arg(long, value_name = "PATH", default_value = "python3")]
    python: PathBuf,
    /// Lease of the cluster in seconds; tests wait for its end
    #[arg(long, value_name = "SECONDS", default_value_t = 12)]
    lease: u64,
    /// Copies of each stripe in the cluster
    #[arg(long, value_name = "N", default_value_t = 1)]
    copies: u32,
    /// Files lie on NFSv3 servers, and their tests run too: flexible files layouts with two mirrors
    #[arg(long)]
    nfs3_servers: bool,
    /// Record loopback, and fail when tshark finds fault with a frame that Ropewalk sent
    #[arg(long)]
    decode: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What the suite calls to have the metadata server restarted.
#[derive(Debug, clap::Args)]
pub(crate) struct HelperArgs {
    /// The cluster
    dir: PathBuf,
    /// What to do
    #[arg(value_parser = ["reboot"])]
    action: String,
}

/// Runs the suite and judges it.
pub(crate) fn run(args: &Args) -> Result<()> {
    tools::need(&[&args.python.to_string_lossy()])
        .map_err(|why| format!("{why}\nor give another Python with --python"))?;
    let expected = Expected::parse(&repo::read(expected::PATH)?)?;
    let out = match &args.out {
        Some(out) => out.clone(),
        None => repo::root().join("target/pynfs"),
    };
    suite::prepare(&args.checkout, &args.python)?;
    let program = server::build()?;
    let mut runs = Vec::new();
    for minor in args
        .minor
        .map_or_else(|| vec![0, 1, 2], |minor| vec![minor])
    {
        let dir = out.join(format!("minor-{minor}"));
        let report = one(args, &program, &dir, minor)?;
        let differences = expected.compare(minor, &report);
        if !args.json {
            print(minor, &report, &differences, &expected);
        }
        runs.push((minor, report, differences));
    }
    if args.json {
        let runs: Vec<Value> = runs.iter().map(as_json).collect();
        println!("{:#}", json!({ "flags": args.flags, "runs": runs }));
    }
    match runs.iter().map(|(.., d)| d.count()).sum() {
        0 => Ok(()),
        1 => Err("1 difference to xtask/pynfs-expected.txt".to_owned()),
        n => Err(format!("{n} differences to xtask/pynfs-expected.txt")),
    }
}

/// Restarts the metadata server of a running cluster as a crash would, and waits until it serves.
pub(crate) fn helper(args: &HelperArgs) -> Result<()> {
    restart(&args.dir).map_err(|e| format!("{}: {e}", args.action))
}

fn restart(dir: &Path) -> Result<()> {
    let cluster = server::cluster(dir);
    let old = cluster.signal("mds", "KILL").map_err(|e| e.to_string())?;
    cluster.await_restart("mds", old).map_err(|e| e.to_string())
}

fn one(args: &Args, program: &Path, dir: &Path, minor: u32) -> Result<Report> {
    let setup = Setup {
        lease_s: args.lease,
        copies: args.copies,
        host: Ipv4Addr::LOCALHOST,
        nfs3: false,
    };
    let server = Server::start(program, dir, setup)?;
    let export = format!("minor-{minor}");
    let others = match args.nfs3_servers {
        true => foreign::start(program, dir, &server, &export)?,
        false => Vec::new(),
    };
    let usual = match (minor, args.nfs3_servers) {
        (0, _) => FLAGS_DEFAULT_0,
        (_, false) => FLAGS_DEFAULT,
        (_, true) => FLAGS_FOREIGN,
    };
    let flags = args.flags.as_deref().unwrap_or(usual);
    let mut flags: Vec<&str> = flags.split_whitespace().collect();
    if minor == 0 {
        // It makes stateids of an earlier run by writing 1 into their first four bytes, which is the first run of ours.
        restart(server.dir())?;
    }
    if minor == 1 {
        flags.extend(FLAGS_MINOR_1);
    }
    let decode = match args.decode {
        true => Some(Decode::start(dir, &server, &others)?),
        false => None,
    };
    let report = suite::run(&suite::Run {
        checkout: &args.checkout,
        python: &args.python,
        log: &dir.join("pynfs.log"),
        cluster: server.dir(),
        target: format!("{}/{export}", server.address()),
        minor,
        flags: &flags,
    });
    let decoded = decode.map_or(Ok(()), Decode::stop);
    server.stop();
    others.into_iter().for_each(Server::stop);
    decoded.and(report)
}

fn print(minor: u32, report: &Report, differences: &Differences, expected: &Expected) {
    let of = |outcome| report.count(outcome);
    println!(
        "minor version {minor}: {} passed of {}, {} failed, {} with a warning, {} skipped",
        of(Outcome::Passed),
        report.tests.len(),
        of(Outcome::Failed),
        of(Outcome::Warned),
        of(Outcome::Skipped),
    );
    for test in report.that(Outcome::Failed) {
        let why = match expected.reason(minor, &test.code) {
            Some(reason) => format!("expected: {reason}"),
            None => format!("NOT EXPECTED: {}", test.message),
        };
        println!("  {:<14} {why}", test.code);
    }
    for test in report.that(Outcome::Skipped) {
        println!("  {:<14} not run by the suite", test.code);
    }
    for code in &differences.passed_unexpectedly {
        println!("  {code:<14} passes, in spite of its row in the table");
    }
}

fn as_json((minor, report, differences): &(u32, Report, Differences)) -> Value {
    let codes = |outcome| -> Vec<&str> {
        let of = report.that(outcome);
        of.map(|t| t.code.as_str()).collect()
    };
    json!({
        "minor": minor,
        "asked": report.tests.len(),
        "passed": report.count(Outcome::Passed),
        "warned": codes(Outcome::Warned),
        "failed": codes(Outcome::Failed),
        "skipped": codes(Outcome::Skipped),
        "failed_unexpectedly": differences.failed_unexpectedly,
        "passed_unexpectedly": differences.passed_unexpectedly,
    })
}
