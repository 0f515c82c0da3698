//! `cargo xtask vm run`: any server command, some scenarios, a table.
//!
//! Owns the order of things: tools, namespace, server, guests per version, scenarios with the host last.
//! Entry points: [`run`] for the command line, [`session`] for other subcommands.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::cluster::Cluster;
use super::error::{Context, Failure, Result};
use super::hosted::{self, Victim};
use super::net::{Net, SERVER_IP};
use super::newer::Suite;
use super::prepare::{Tools, prepare};
use super::process::signal;
use super::qemu::{self, Kernel, Qemu};
use super::scenario::{Needs, Outcome, SCENARIOS, Scenario, Settings, print_outcome, print_table};
use super::scenario::{run_list, select};
use super::server::{START_LIMIT, Server, tail};

/// Lines of the server's log that are shown when a scenario failed.
const LOG_TAIL_LINES: usize = 15;

/// What is common to the subcommands that run scenarios.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ScenarioArgs {
    /// Scenarios to run, by name (see `list`), or all.
    #[arg(long, value_delimiter = ',', default_value = "all")]
    scenario: Vec<String>,
    /// NFS versions to mount with.
    #[arg(long, value_delimiter = ',', default_value = "4.1,4.2")]
    vers: Vec<String>,
    /// Files in the directory of the manyfiles scenario.
    #[arg(long, default_value_t = 100_000)]
    files: u32,
    /// Seed of the fsx scenario.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Further variables for the guest scripts.
    #[arg(long, value_name = "NAME=VALUE")]
    env: Vec<String>,
    /// Memory of a guest, MiB.
    #[arg(long, default_value_t = 512)]
    mem_mib: u32,
    /// A scenario fails after this many seconds. The limit ends a hang and measures nothing.
    #[arg(long, default_value_t = 1800)]
    limit_s: u64,
    /// Show what the guests print while they run.
    #[arg(long, short)]
    verbose: bool,
    /// Print the results as one JSON array at the end.
    #[arg(long)]
    json: bool,
    /// Scenarios that are not run though they are named.
    #[arg(skip)]
    left_out: &'static [&'static str],
}

impl ScenarioArgs {
    /// The same with one version and another number of files.
    pub(crate) fn with(&self, vers: &str, files: u32) -> Self {
        Self {
            vers: vec![vers.to_owned()],
            files,
            ..self.clone()
        }
    }

    /// The same with those of its scenarios that are among `names`; `None` if none is.
    pub(crate) fn among(&self, names: &[&str]) -> Option<Self> {
        let wanted = |name: &&&str| self.scenario.iter().any(|w| w == "all" || w == **name);
        let scenario: Vec<String> = names
            .iter()
            .filter(wanted)
            .map(|n| (*n).to_owned())
            .collect();
        let some = Self {
            scenario,
            ..self.clone()
        };
        (!some.scenario.is_empty()).then_some(some)
    }

    /// The same without the named scenarios whose needs `has` does not meet; `None` if none is left. `all` stands for
    /// those that can run anyway.
    pub(crate) fn that(&self, has: impl Fn(Needs) -> bool) -> Option<Self> {
        let lacks = |name: &&String| {
            let found = SCENARIOS.iter().find(|scenario| scenario.name == **name);
            found.is_some_and(|scenario| !has(scenario.needs))
        };
        let scenario: Vec<String> = self
            .scenario
            .iter()
            .filter(|name| !lacks(name))
            .cloned()
            .collect();
        (!scenario.is_empty()).then(|| Self {
            scenario,
            ..self.clone()
        })
    }

    /// The same without these scenarios.
    pub(crate) fn without(&self, names: &'static [&'static str]) -> Self {
        Self {
            left_out: names,
            ..self.clone()
        }
    }

    /// The settings for guests, for a server at this port and export.
    pub(crate) fn settings(&self, port: u16, export: &str) -> Result<Settings> {
        let mut env = vec![
            ("FILES".to_owned(), self.files.to_string()),
            ("FSX_SEED".to_owned(), self.seed.to_string()),
        ];
        for given in &self.env {
            let (name, value) = given
                .split_once('=')
                .filter(|(name, _)| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
                .ok_or_else(|| Failure::new(format!("--env {given} is not NAME=VALUE")))?;
            env.push((name.to_owned(), value.to_owned()));
        }
        Ok(Settings {
            port,
            export: export.to_owned(),
            env,
            mem_mib: self.mem_mib,
            scenario_limit: Duration::from_secs(self.limit_s),
            echo: self.verbose,
            qemu: None,
        })
    }
}

/// `cargo xtask vm run`.
#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    /// The server, as `sh -c` reads it. It must listen on 192.0.2.1 and stay in the foreground.
    /// Start it with exec when it needs a shell in front, so that signals reach it.
    #[arg(long, value_name = "CMD")]
    server_cmd: String,
    /// The TCP port that the server listens on when it is ready.
    #[arg(long, default_value_t = 2049)]
    port: u16,
    /// The path to mount.
    #[arg(long, default_value = "/")]
    export: String,
    /// Data servers whose layouts the pnfs scenario expects; without it that scenario is left out.
    #[arg(long, value_name = "N")]
    ds_count: Option<u32>,
    /// Also run the crash scenario: kill -9 of the server command and a new start of it.
    #[arg(long)]
    crash: bool,
    /// With --crash: kill only the process that listens on --port; the server command starts it
    /// again by itself.
    #[arg(long, requires = "crash")]
    supervised: bool,
    /// The --dir of a `ropewalk up` in the server command: scenarios may then ask its servers and kill any of them.
    #[arg(long, value_name = "DIR")]
    cluster_dir: Option<PathBuf>,
    /// The --copies of a `ropewalk up` in the server command.
    #[arg(long, value_name = "N", default_value_t = 1)]
    copies: u32,
    /// The cluster is on a disk of 512 MiB of its own, and scenarios may fill it.
    #[arg(long, requires = "cluster_dir")]
    small_disk: bool,
    /// The cluster is on xfs or btrfs, so that clones of files must work.
    #[arg(long)]
    shared_storage: bool,
    /// The server command starts NFSv3 servers of others too (vm/host/foreign.sh).
    #[arg(long, requires = "cluster_dir")]
    foreign: bool,
    /// The client is a newer kernel, under QEMU: that of Debian 13, or of its backports
    #[arg(long, value_enum, value_name = "SUITE", num_args = 0..=1, require_equals = true, default_missing_value = "trixie")]
    newer: Option<Suite>,
    #[command(flatten)]
    scenarios: ScenarioArgs,
}

/// What the state of a cluster lies on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Disk {
    /// Whatever the folder is on.
    Usual,
    /// As `--small-disk`; then the only scenario is that which fills it.
    Small,
    /// As `--shared-storage`; then the only scenario is that of clones.
    Shared,
}

/// A cluster that starts its killed servers again by itself.
pub(crate) struct Ropewalk {
    pub(crate) server_cmd: String,
    pub(crate) cluster_dir: PathBuf,
    pub(crate) ds_count: u32,
    pub(crate) copies: u32,
    pub(crate) disk: Disk,
    pub(crate) newer: Option<Suite>,
    pub(crate) foreign: bool,
    pub(crate) scenarios: ScenarioArgs,
}

impl RunArgs {
    /// A cluster of Ropewalk under every scenario that can run on it.
    pub(crate) fn of_ropewalk(cluster: Ropewalk) -> Self {
        let mut scenarios = cluster.scenarios;
        match cluster.disk {
            Disk::Usual => {}
            Disk::Small => scenarios.scenario = vec!["full".to_owned()],
            Disk::Shared => scenarios.scenario = vec!["clone".to_owned()],
        }
        Self {
            server_cmd: cluster.server_cmd,
            port: 2049,
            export: "/".to_owned(),
            ds_count: Some(cluster.ds_count),
            crash: true,
            supervised: true,
            cluster_dir: Some(cluster.cluster_dir),
            copies: cluster.copies,
            small_disk: cluster.disk == Disk::Small,
            shared_storage: cluster.disk == Disk::Shared,
            newer: cluster.newer,
            foreign: cluster.foreign,
            scenarios,
        }
    }
}

/// Runs the command; `true` when every scenario passed.
pub(crate) fn run(dir: &Path, args: &RunArgs) -> Result<bool> {
    Ok(outcomes(dir, args)?.iter().all(|o| !o.is_failure()))
}

/// Runs the command and hands out what each scenario came to.
pub(crate) fn outcomes(dir: &Path, args: &RunArgs) -> Result<Vec<Outcome>> {
    let tools = prepare(
        dir,
        if args.newer.is_some() {
            qemu::TOOLS
        } else {
            &[]
        },
    )?;
    let mut settings = args.scenarios.settings(args.port, &args.export)?;
    if let Some(count) = args.ds_count {
        settings
            .env
            .push(("DS_COUNT".to_owned(), count.to_string()));
    }
    if let Some(suite) = args.newer {
        let qemu = Qemu::prepare(&tools, Kernel::Newer(suite))?;
        println!("the client is Linux {}", qemu.release());
        settings.qemu = Some(qemu);
    }
    let net = Net::create(&tools)?;
    let mut plan = ServerPlan {
        net: &net,
        command_line: args.server_cmd.clone(),
        port: args.port,
        log: new_log(&tools)?,
        supervised: args.supervised,
        cluster_dir: args.cluster_dir.clone(),
        server: None,
    };
    let has = |needs| match needs {
        Needs::Server => true,
        Needs::Ropewalk | Needs::Layouts => args.ds_count.is_some(),
        Needs::Crash => args.crash,
        Needs::Cluster | Needs::Rails => args.crash && args.cluster_dir.is_some(),
        Needs::Copies | Needs::CopiesOnRails => {
            args.crash && args.cluster_dir.is_some() && args.copies > 1
        }
        Needs::Foreign => args.crash && args.cluster_dir.is_some() && args.foreign,
        Needs::SmallDisk => args.small_disk,
        Needs::SharedStorage => args.shared_storage,
    };
    session(&tools, &mut plan, &settings, &args.scenarios, has)
}

/// How to start the server of a session; holds it while it runs.
#[derive(Debug)]
pub(crate) struct ServerPlan<'net> {
    /// Where the server and the guests live.
    pub(crate) net: &'net Net,
    /// The server, as `sh -c` reads it.
    pub(crate) command_line: String,
    /// The port that says that it is ready.
    pub(crate) port: u16,
    /// Where its words go.
    pub(crate) log: PathBuf,
    /// Whether the command starts a killed server again by itself.
    pub(crate) supervised: bool,
    /// Where a Ropewalk cluster keeps its state.
    pub(crate) cluster_dir: Option<PathBuf>,
    /// The running server.
    pub(crate) server: Option<Server>,
}

impl ServerPlan<'_> {
    /// Starts the server and waits for its port.
    pub(crate) fn start(&mut self) -> Result<()> {
        let server = Server::start(self.net, &self.command_line, &self.log, self.port)?;
        self.server = Some(server);
        Ok(())
    }
}

impl Victim for ServerPlan<'_> {
    fn kill(&mut self) -> Result<()> {
        if self.supervised {
            let pids = self.net.listeners(self.port)?;
            if pids.is_empty() {
                return Err(Failure::new(format!(
                    "nothing listens on port {}",
                    self.port
                )));
            }
            signal(&pids, "KILL");
            return Ok(());
        }
        self.server
            .take()
            .expect("a server runs before it is killed")
            .kill();
        Ok(())
    }

    fn cluster(&self) -> Option<Cluster> {
        let dir = self.cluster_dir.as_deref()?;
        Some(Cluster::new(self.server.as_ref()?.pid(), dir))
    }

    fn words(&self) -> String {
        let bytes = fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn revive(&mut self) -> Result<()> {
        if !self.supervised {
            return self.start();
        }
        let server = self.server.as_mut().expect("the supervising server runs");
        self.net
            .wait_listening(self.port, START_LIMIT, || server.check_alive())
    }
}

/// A new log file for a server of this process.
pub(crate) fn new_log(tools: &Tools) -> Result<PathBuf> {
    let logs = tools.dir().join("logs");
    fs::create_dir_all(&logs).context(|| format!("cannot create {}", logs.display()))?;
    Ok(logs.join(format!("server-{}.log", std::process::id())))
}

/// Starts the server, runs the chosen scenarios with each version, prints the table, hands out the results.
pub(crate) fn session(
    tools: &Tools,
    plan: &mut ServerPlan<'_>,
    settings: &Settings,
    args: &ScenarioArgs,
    has: impl Fn(Needs) -> bool,
) -> Result<Vec<Outcome>> {
    let mut chosen = select(&args.scenario, has)?;
    chosen.retain(|scenario| !args.left_out.contains(&scenario.name));
    let (with_host, calm): (Vec<&Scenario>, Vec<&Scenario>) = chosen
        .into_iter()
        .partition(|scenario| scenario.part.is_some());
    plan.start()?;
    if let Some(cluster) = plan.cluster() {
        hosted::await_cluster(&cluster)?;
    }
    println!(
        "the server listens on {SERVER_IP} port {}; log: {}",
        plan.port,
        plan.log.display()
    );
    let mut outcomes: Vec<Outcome> = Vec::new();
    for vers in &args.vers {
        outcomes.extend(run_list(plan.net, tools, settings, vers, &calm)?);
        for scenario in &with_host {
            let part = scenario.part.expect("those with a part of the host");
            let outcome = hosted::run(plan.net, tools, settings, vers, scenario, part, plan)?;
            print_outcome(&outcome);
            outcomes.push(outcome);
        }
    }
    let good = print_table(&outcomes);
    if let Some(server) = plan.server.take()
        && !server.stop()?
    {
        println!("note: the server did not end with success after SIGTERM");
    }
    if args.json {
        let values: Vec<_> = outcomes.iter().map(Outcome::json).collect();
        println!("{}", serde_json::Value::from(values));
    }
    if !good {
        println!("{}", tail(&plan.log, LOG_TAIL_LINES));
    }
    Ok(outcomes)
}
