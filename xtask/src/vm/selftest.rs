//! `cargo xtask vm selftest`: the harness against nfs-ganesha, a server that is known to work.
//!
//! Proves that guests boot, mount and pass every scenario that needs no layouts. Also that the host can kill a server
//! in the middle, and that two guests at once are two clients. Ganesha is unpacked, not installed, and serves NFSv4
//! only. What it exports is on disk. It lists a changing directory of a tmpfs of recent kernels for ever, because it
//! cannot go on from that one's cookies.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use super::error::{Context, Result};
use super::guest::{Guest, GuestExit};
use super::net::{Net, SERVER_IP};
use super::prepare::{Tools, prepare};
use super::run::{ScenarioArgs, ServerPlan, new_log, session};
use super::scenario::{Needs, Settings};

/// Ganesha's port. Not 2049, so that a forgotten default is noticed.
const PORT: u16 = 12049;

/// The exported path.
const EXPORT: &str = "/work";

/// How long the two guests at once may take.
const PAIR_LIMIT: Duration = Duration::from_secs(600);

/// `cargo xtask vm selftest`.
#[derive(Debug, clap::Args)]
pub(crate) struct SelftestArgs {
    #[command(flatten)]
    scenarios: ScenarioArgs,
}

/// Runs the self-test; `true` when everything passed.
pub(crate) fn selftest(dir: &Path, args: &SelftestArgs) -> Result<bool> {
    let started = Instant::now();
    let tools = prepare(dir, &[])?;
    let root = tools.server_root()?;
    println!("tools ready after {:.1} s", started.elapsed().as_secs_f64());
    let settings = args.scenarios.settings(PORT, EXPORT)?;
    let net = Net::create(&tools)?;
    let mut plan = ServerPlan {
        net: &net,
        command_line: command_line(&root, net.scratch())?,
        port: PORT,
        log: new_log(&tools)?,
        supervised: false,
        cluster_dir: None,
        server: None,
    };
    plan.start()?;
    let pair = two_guests(&net, &tools, &settings)?;
    drop(plan.server.take());
    let passed = session(&tools, &mut plan, &settings, &args.scenarios, |needs| {
        matches!(needs, Needs::Server | Needs::Crash)
    })?;
    Ok(pair && passed.iter().all(|o| !o.is_failure()))
}

/// Writes ganesha's configuration and returns the command that runs it in the foreground.
fn command_line(root: &Path, state: &Path) -> Result<String> {
    for part in ["export", "recovery"] {
        let path = state.join(part);
        fs::create_dir_all(&path).context(|| format!("cannot create {}", path.display()))?;
    }
    let (root, dir) = (root.display(), state.display());
    let library = std::env::consts::ARCH;
    let config = format!(
        "NFS_CORE_PARAM {{ Bind_addr = {SERVER_IP}; NFS_Port = {PORT}; Protocols = 4;
    Enable_NLM = false; Enable_RQUOTA = false; Enable_UDP = none;
    Plugins_Dir = {root}/usr/lib/{library}-linux-gnu/ganesha; }}
NFSv4 {{ Minor_Versions = 1, 2; RecoveryBackend = fs; RecoveryRoot = {dir}/recovery;
    Grace_Period = 6; Lease_Lifetime = 5; Only_Numeric_Owners = true; Delegations = false; }}
EXPORT {{ Export_Id = 1; Path = {dir}/export; Pseudo = {EXPORT}; Protocols = 4; Transports = TCP;
    Access_Type = RW; Squash = none; SecType = sys; FSAL {{ Name = VFS; }} }}
LOG {{ Default_Log_Level = EVENT; }}
"
    );
    let path = state.join("ganesha.conf");
    fs::write(&path, config).context(|| format!("cannot write {}", path.display()))?;
    let libraries = format!(
        "{root}/usr/lib/{library}-linux-gnu:{root}/lib/{library}-linux-gnu:{root}/usr/lib/ganesha"
    );
    Ok(format!(
        "LD_LIBRARY_PATH={libraries} exec {root}/usr/bin/ganesha.nfsd -F -f {path} \
         -p {dir}/pid -L STDOUT",
        path = path.display()
    ))
}

/// Two guests on two taps of one bridge at the same time: two clients of one server. Each holds a
/// lock that the other must find, in turns that the host gives.
fn two_guests(net: &Net, tools: &Tools, settings: &Settings) -> Result<bool> {
    let started = Instant::now();
    let spawn = |slot: u8| -> Result<Guest> {
        settings
            .guest(net, tools, "4.2")
            .script("pair.sh")
            .env("ROLE", slot)
            .slot(slot)
            .timeout(PAIR_LIMIT)
            .spawn()
    };
    let (mut first, mut second) = (spawn(0)?, spawn(1)?);
    // A guest that never comes so far fails below, and says why.
    if first.await_signal("locked")? {
        second.signal("try")?;
        if second.await_signal("refused")? {
            first.signal("release")?;
        }
    }
    let mut passed = true;
    for (name, guest) in [("first", first), ("second", second)] {
        let run = guest.wait()?;
        if run.rc != GuestExit::Status(0) {
            println!("FAIL pair: the {name} guest: {:?}\n{}", run.rc, run.output);
            passed = false;
        }
    }
    if passed {
        println!(
            "ok pair (two guests at once, {:.1} s)",
            started.elapsed().as_secs_f64()
        );
    }
    Ok(passed)
}
