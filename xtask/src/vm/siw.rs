//! `cargo xtask vm siw`: our RDMA against that of a Linux kernel.
//!
//! The guest's kernel has siw, software iWARP by other people. rping of librdmacm talks to the rping of `fabric-iwarp`
//! in both roles ([`rping`]). The kernel mounts a cluster over RDMA ([`nfs`]). Data are compared, and tshark decodes
//! what was said ([`decode`]). Ends with the closing line that the test command counts.

mod decode;
mod nfs;
mod rping;

use std::path::{Path, PathBuf};
use std::time::Instant;

use super::error::Result;
use super::net::Net;
use super::prepare::prepare;
use super::program::print;
use super::qemu::{self, Kernel, Qemu};
use super::scenario::Outcome;
use nfs::Data;

/// `cargo xtask vm siw`.
#[derive(Debug, clap::Args)]
pub(crate) struct SiwArgs {
    /// What to run.
    #[arg(long, value_delimiter = ',', default_value = "rping,nfs")]
    scenario: Vec<Part>,
    /// NFS versions to mount with.
    #[arg(long, value_delimiter = ',', default_value = "4.1,4.2")]
    vers: Vec<String>,
    /// A ropewalk that is built already, instead of one that is built now.
    #[arg(long, value_name = "PROGRAM")]
    ropewalk: Option<PathBuf>,
    /// Show what the guests print while they run.
    #[arg(long, short)]
    verbose: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// librdmacm's ping, both ways.
    Rping,
    /// A cluster mounted with proto=rdma.
    Nfs,
}

/// Runs everything; `true` when all passed.
pub(crate) fn siw(dir: &Path, args: &SiwArgs) -> Result<bool> {
    let started = Instant::now();
    let tools = prepare(dir, qemu::TOOLS)?;
    let qemu = Qemu::prepare(&tools, Kernel::WithSiw)?;
    let ready = started.elapsed().as_secs_f64();
    println!(
        "Linux {} with siw is ready after {ready:.1} s",
        qemu.release()
    );
    let net = Net::create(&tools)?;
    let mut outcomes = Vec::new();
    if args.scenario.contains(&Part::Rping) {
        outcomes.push(rping::rping(&net, &qemu, args.verbose)?);
        outcomes.iter().for_each(print);
    }
    if args.scenario.contains(&Part::Nfs) {
        let cluster = nfs::Cluster::start(&net, &qemu, args.ropewalk.as_deref())?;
        for vers in &args.vers {
            outcomes.push(cluster.mount(vers, Data::ByLayout, args.verbose)?);
            outcomes.last().into_iter().for_each(print);
        }
        // The versions do not differ in this.
        if let Some(vers) = args.vers.last() {
            outcomes.push(cluster.mount(vers, Data::ByMds, args.verbose)?);
            outcomes.last().into_iter().for_each(print);
        }
        cluster.stop(outcomes.iter().any(Outcome::is_failure))?;
    }
    let failed = outcomes.iter().filter(|o| o.is_failure()).count();
    println!(
        "{} passed, {failed} failed, 0 skipped",
        outcomes.len() - failed
    );
    Ok(failed == 0 && !outcomes.is_empty())
}
