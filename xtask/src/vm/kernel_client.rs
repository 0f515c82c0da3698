//! `cargo xtask vm kernel-client`: Ropewalk itself under a real Linux client, as CI runs it.
//!
//! Builds the `ropewalk` binary, starts `ropewalk up` in the namespace and runs every scenario. Among them are kill -9
//! of servers, a decoded capture and, on clusters of their own, a full disk and failures with two copies. Ends with the
//! closing line that the test command counts.

use super::error::Result;
use super::foreign::YARD_SUFFIX;
use super::full::DISK_MIB;
use super::newer::Suite;
use super::prepare::{Tools, host_scripts, prepare};
use super::program;
use super::run::{self, Disk, Ropewalk, RunArgs};
use super::scenario::{Needs, Outcome};
use crate::tools;
use clap::builder::PossibleValuesParser;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Data servers of the cluster.
const DS_COUNT: u32 = 4;
/// Size of the disk with clones, MiB: more than what data servers leave to others, and less than copies would take.
const SHARED_DISK_MIB: u64 = 600;

/// `cargo xtask vm kernel-client`.
#[derive(Debug, clap::Args)]
pub(crate) struct KernelClientArgs {
    /// Also newer kernels: data servers that fail under two, and stripes on NFSv3 servers of others, which takes minutes
    #[arg(long)]
    long: bool,
    /// Only these clusters [default: all]
    #[arg(long, value_delimiter = ',', value_name = "NAME", value_parser = PossibleValuesParser::new(all_passes().map(|pass| pass.name)))]
    pass: Vec<String>,
    /// A ropewalk that is built already, instead of one that is built now.
    #[arg(long, value_name = "PROGRAM")]
    ropewalk: Option<PathBuf>,
    #[command(flatten)]
    scenarios: run::ScenarioArgs,
}

/// A cluster of its own and what runs against it.
struct Pass {
    name: &'static str,
    /// The version to mount with.
    vers: &'static str,
    /// How many files the directory of `manyfiles` gets.
    files: u32,
    /// What the cluster lies on.
    disk: Disk,
    /// Copies of each stripe. With two, the scenarios are those of [`COPIES_SCENARIOS`].
    copies: u32,
    /// The client is a newer kernel, and the scenarios are those of [`NEWER_SCENARIOS`].
    newer: Option<Suite>,
    /// Two NFSv3 servers of others run beside the cluster, and the only scenario is that of them.
    foreign: bool,
}

const fn usual(vers: &'static str, files: u32) -> Pass {
    Pass {
        name: vers,
        vers,
        files,
        disk: Disk::Usual,
        copies: 1,
        newer: None,
        foreign: false,
    }
}

const fn on_disk(name: &'static str, disk: Disk) -> Pass {
    Pass {
        name,
        disk,
        ..usual("4.2", 0)
    }
}

const fn with_copies(name: &'static str) -> Pass {
    Pass {
        name,
        copies: 2,
        ..usual("4.2", 0)
    }
}

/// The versions differ in few operations, so the second pass is cheaper where size alone matters.
static PASSES: [Pass; 9] = [
    usual("4.2", 10_000),
    usual("4.1", 5_000),
    usual("4.0", 1_000),
    usual("3", 1_000),
    with_copies("copies"),
    on_disk("small", Disk::Small),
    on_disk("shared", Disk::Shared),
    Pass {
        name: "foreign",
        foreign: true,
        ..usual("4.2", 0)
    },
    Pass {
        name: "newer",
        newer: Some(Suite::Trixie),
        ..usual("4.2", 0)
    },
];

/// The cluster of which a machine goes away. Linux waits for it for minutes.
const HOST_GONE: &str = "host-gone";

/// With `--long`. The kernel of the backports changes every week, so CI does not hang on it.
static LONG_PASSES: [Pass; 4] = [
    with_copies(HOST_GONE),
    Pass {
        newer: Some(Suite::Trixie),
        ..with_copies("newer-copies")
    },
    Pass {
        newer: Some(Suite::TrixieBackports),
        ..with_copies("newest-copies")
    },
    Pass {
        name: "newer-foreign",
        newer: Some(Suite::TrixieBackports),
        foreign: true,
        ..usual("4.2", 0)
    },
];

/// What a newer kernel does otherwise: it asks for delegations in place of opens, and keeps times.
const NEWER_SCENARIOS: [&str; 3] = ["opens", "preserve", "delegations"];

/// All that does not need what came with NFSv4.1: sessions, layouts, attributes and operations of its own.
const NFS40_SCENARIOS: [&str; 25] = [
    "mount",
    "df",
    "special",
    "preserve",
    "atime",
    "acl",
    "nfs3",
    "openunlink",
    "truncate",
    "direct",
    "aio",
    "sparse",
    "mmap",
    "locks",
    "delegations",
    "fsx",
    "build",
    "git",
    "manyfiles",
    "inline",
    "identities",
    "evict",
    "kernels",
    "crash",
    "nfs3locks",
];

/// What is the same without opens: NFSv3 with NLM. Others have it beside NFSv4.
const NFS3_SCENARIOS: [&str; 16] = [
    "mount",
    "df",
    "special",
    "preserve",
    "atime",
    "truncate",
    "direct",
    "aio",
    "sparse",
    "mmap",
    "locks",
    "fsx",
    "build",
    "git",
    "manyfiles",
    "crash",
];

/// What has all versions in one pass.
const ALL_VERSIONS: [&str; 2] = ["versions", "nfs3locks"];

/// What NFSv3 servers of others are for; the others are for Linux 6.18 or newer.
const FOREIGN_SCENARIOS: [&str; 3] = ["foreign", "foreignstripes", "foreignknfsd"];

/// What two copies are for.
const COPIES_SCENARIOS: [&str; 3] = ["dscrash", "failover", "drain"];

fn all_passes() -> impl Iterator<Item = &'static Pass> {
    PASSES.iter().chain(&LONG_PASSES)
}

/// The names of the clusters that the tests need, for `--pass`.
pub(crate) fn pass_names() -> impl Iterator<Item = &'static str> {
    PASSES.iter().map(|pass| pass.name)
}

/// Runs the scenarios; `true` when every one passed.
pub(crate) fn kernel_client(dir: &Path, args: &KernelClientArgs) -> Result<bool> {
    // Before the build, which takes minutes: it says what is missing.
    let tools = prepare(dir, &[])?;
    let binary = program::ropewalk(args.ropewalk.as_deref())?;
    let (mut passed, mut failed) = (0, 0);
    let is_wanted = |pass: &&Pass| match &args.pass[..] {
        [] => args.long || pass_names().any(|name| name == pass.name),
        named => named.iter().any(|name| name == pass.name),
    };
    for pass in all_passes().filter(is_wanted) {
        if pass.disk == Disk::Shared && !has_xfs(dir) {
            println!(
                "clones left out: this machine mounts no xfs from a file{}",
                why_no_xfs()
            );
            continue;
        }
        let outcomes = run_pass(dir, &tools, args, &binary, pass)?;
        let bad = outcomes.iter().filter(|o| o.is_failure()).count();
        failed += bad;
        passed += outcomes.len() - bad;
    }
    println!("{passed} passed, {failed} failed, 0 skipped");
    Ok(failed == 0)
}

fn run_pass(
    dir: &Path,
    tools: &Tools,
    args: &KernelClientArgs,
    binary: &Path,
    pass: &Pass,
) -> Result<Vec<Outcome>> {
    let all = args.scenarios.with(pass.vers, pass.files);
    let Some(scenarios) = among(&all, pass) else {
        return Ok(Vec::new());
    };
    let state = dir.join(format!("{}-{}", pass.name, std::process::id()));
    let mut before = mount_of(pass.disk, &state);
    if pass.newer.is_some() {
        before.push_str(&keep_times(&state));
    }
    let mut first = with_rpcbind(tools, &state);
    let mut older = "--nfs3 --register-rpcbind ";
    if pass.foreign {
        first.push_str(&beside_foreign(tools, binary, &state)?);
        // The servers of others register NFSv3 with rpcbind.
        older = "--nfs3 ";
    }
    let server_cmd = format!(
        "{before}{first} && exec {} up {older}--ds {DS_COUNT} --copies {} --dir {} --listen 192.0.2.1 --export 192.0.2.0/24:rw:none",
        binary.display(),
        pass.copies,
        state.display()
    );
    let run_args = RunArgs::of_ropewalk(Ropewalk {
        server_cmd,
        cluster_dir: state.clone(),
        ds_count: DS_COUNT,
        copies: pass.copies,
        disk: pass.disk,
        newer: pass.newer,
        foreign: pass.foreign,
        scenarios,
    });
    let outcomes = run::outcomes(dir, &run_args)?;
    let failed = outcomes.iter().any(Outcome::is_failure);
    // The logs on a disk of its own ended with it.
    if failed && pass.disk == Disk::Usual {
        println!("the cluster's logs: {}/*/log", state.display());
    } else if !failed {
        // A failure here leaves files, and says nothing of Ropewalk.
        let _done = std::fs::remove_dir_all(&state);
    }
    Ok(outcomes)
}

/// Those of the scenarios that a pass runs; `None` if there is none.
fn among(all: &run::ScenarioArgs, pass: &Pass) -> Option<run::ScenarioArgs> {
    let is_plain = |needs| !matches!(needs, Needs::Copies | Needs::CopiesOnRails | Needs::Foreign);
    match pass {
        Pass {
            foreign: true,
            newer: Some(_),
            ..
        } => all.among(&FOREIGN_SCENARIOS),
        Pass { foreign: true, .. } => all.among(&FOREIGN_SCENARIOS[..1]),
        Pass {
            newer: Some(_),
            copies: 2..,
            ..
        } => all.among(&["failover"]),
        Pass { newer: Some(_), .. } => all.among(&NEWER_SCENARIOS),
        Pass { name, .. } if *name == HOST_GONE => all.among(&["hostgone"]),
        Pass { copies: 2.., .. } => all.among(&COPIES_SCENARIOS),
        Pass { vers: "4.0", .. } => all.among(&NFS40_SCENARIOS),
        Pass { vers: "3", .. } => all.among(&NFS3_SCENARIOS),
        Pass { vers: "4.1", .. } => all.that(is_plain).map(|all| all.without(&ALL_VERSIONS)),
        _ => all.that(is_plain),
    }
}

/// The command that gives the server an rpcbind of its own.
fn with_rpcbind(tools: &Tools, state: &Path) -> String {
    format!(
        "TOOLS={} RPC_DIR={}.rpc && . {}",
        tools.client_root().display(),
        state.display(),
        host_scripts().join("rpcbind.sh").display()
    )
}

/// The command that starts two NFSv3 servers of others beside the cluster.
fn beside_foreign(tools: &Tools, binary: &Path, state: &Path) -> Result<String> {
    Ok(format!(
        " && GANESHA={} FOREIGN_DIR={}{YARD_SUFFIX} ROPEWALK={} CLUSTER_DIR={} && . {} && foreign_beside",
        tools.server_root()?.display(),
        state.display(),
        binary.display(),
        state.display(),
        host_scripts().join("foreign.sh").display()
    ))
}

/// The command that puts a disk of its own below the state. One that is mounted in the server's own mount namespace ends with it.
fn mount_of(disk: Disk, state: &Path) -> String {
    let state = state.display();
    match disk {
        Disk::Usual => String::new(),
        Disk::Small => {
            format!("mkdir -p {state} && mount -t tmpfs -o size={DISK_MIB}m none {state} && ")
        }
        Disk::Shared => format!(
            "mkdir -p {state} && truncate -s {SHARED_DISK_MIB}M {state}.img && mkfs.xfs -q {state}.img && \
             mount -o loop {state}.img {state} && rm {state}.img && "
        ),
    }
}

/// The command that lets clients keep the times of files, which is no default.
fn keep_times(state: &Path) -> String {
    let dir = state.join("mds");
    let dir = dir.display();
    format!(
        "mkdir -p {dir} && printf 'state_dir = \"{dir}\"\ndelegated_times = true\n' > {dir}/mds.toml && "
    )
}

/// Whether this machine can put xfs on a file: that takes root, a loop device and a kernel with xfs.
fn has_xfs(dir: &Path) -> bool {
    let state = dir.join(format!("try-{}", std::process::id()));
    let command = format!("{}true", mount_of(Disk::Shared, &state));
    let tried = Command::new("unshare")
        .args(["-m", "sh", "-c", &command])
        .output();
    let _image = std::fs::remove_file(state.with_extension("img"));
    let _empty = std::fs::remove_dir(&state);
    tried.is_ok_and(|tried| tried.status.success())
}

/// What else to say of a machine that cannot, if it only lacks a package.
fn why_no_xfs() -> String {
    match tools::need(&["mkfs.xfs"]) {
        Ok(()) => String::new(),
        Err(why) => format!(": {why}"),
    }
}
