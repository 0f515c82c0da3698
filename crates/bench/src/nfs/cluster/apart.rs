//! A cluster whose servers are started one by one, from configuration files as a user writes them: in network namespaces
//! where each has a link of its own, else at loopback. Unlike those of `ropewalk up`, one that is ended stays away.

use super::child::{ask_to_stop, mds_status, wait_for_end};
use super::options::{ClientLinks, ClusterOptions, MEMORY_TOTAL_BYTES};
use super::up::family;
use crate::net::{self, Link, NameSpace, Network};
use crate::nfs::server::Transport;
use crate::process::last_line;
use crate::{BenchError, interrupt};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use transport::tcp::Reservation;

/// Behind links every server has an address of its own, so all have the same ports.
const NFS_PORT: u16 = 2049;
const RDMA_PORT: u16 = 20049;
const CONTROL_PORT: u16 = 2149;
/// Clients of servers at loopback.
const LOOPBACK_NET: &str = "127.0.0.0/8";
/// The host of the metadata server; data servers follow, and then a client.
const MDS: usize = 0;
/// Memory that each data server may take at least.
const MEMORY_EACH_BYTES_MIN: u64 = 1 << 30;
/// A cluster that is not ready after this does not become so; how often it is asked.
const READY_MAX: Duration = Duration::from_secs(120);
const READY_POLL: Duration = Duration::from_millis(30);
/// How the status names a data server that serves.
const SERVING: &str = "serving";

/// Where one server listens: for NFS over TCP, over RDMA, and for control.
#[derive(Debug, Clone, Copy)]
struct Ports {
    nfs: SocketAddr,
    rdma: SocketAddr,
    control: SocketAddr,
}

impl Ports {
    /// Those of a server behind a link.
    fn behind_link(host: usize) -> Self {
        let at = |port| SocketAddr::from((net::address(host), port));
        Self {
            nfs: at(NFS_PORT),
            rdma: at(RDMA_PORT),
            control: at(CONTROL_PORT),
        }
    }

    /// Free ones of the loopback interface, and what keeps them free.
    fn free() -> std::io::Result<(Self, [Reservation; 3])> {
        let any = || Reservation::new((Ipv4Addr::LOCALHOST, 0).into());
        let kept = [any()?, any()?, any()?];
        let ports = Self {
            nfs: kept[0].address()?,
            rdma: kept[1].address()?,
            control: kept[2].address()?,
        };
        Ok((ports, kept))
    }

    const fn of(self, transport: Transport) -> SocketAddr {
        match transport {
            Transport::Tcp => self.nfs,
            Transport::Rdma => self.rdma,
        }
    }
}

/// How a data server goes away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Away {
    /// SIGKILL to its watcher and to all that this has started: it does not come back.
    Killed,
    /// SIGKILL to the process that serves: its watcher starts it again.
    KilledAndRestarted,
    /// SIGTERM: it hands its places over first.
    Terminated,
    /// SIGSTOP to the process that serves: its watcher has to see that it does nothing.
    Stopped,
    /// Its link is down: nobody says that connections are gone. Only where servers have links.
    Unplugged,
}

impl Away {
    /// Whether the process that was started as the data server ends by it.
    #[must_use]
    pub const fn is_end(self) -> bool {
        matches!(self, Self::Killed | Self::Terminated)
    }
}

/// The servers and their links. Dropping it stops them, the metadata server first, and takes the links away.
#[derive(Debug)]
pub(super) struct Apart {
    servers: Vec<Daemon>,
    address: SocketAddr,
    clients_count: usize,
    // Gone after the servers, where they have links.
    network: Option<Network>,
    _reservations: Vec<[Reservation; 3]>,
}

impl Apart {
    /// Starts a cluster in `state` and waits until it is ready.
    pub(super) fn start(
        options: &ClusterOptions,
        link: Option<Link>,
        state: &Path,
    ) -> Result<Self, BenchError> {
        let ds_count = usize::from(options.ds_count);
        let servers_count = ds_count + usize::from(options.ds_idle_count) + 1;
        let network = link.map(|link| Network::of(&links(options, link, servers_count)));
        let mut reservations = Vec::new();
        let mut ports = |host| match link {
            Some(_) => Ok(Ports::behind_link(host)),
            None => {
                let (ports, kept) =
                    Ports::free().map_err(BenchError::io("find free ports for servers"))?;
                reservations.push(kept);
                Ok(ports)
            }
        };
        let all: Result<Vec<Ports>, BenchError> = (MDS..servers_count).map(&mut ports).collect();
        let all = all?;
        let mut apart = Self {
            servers: Vec::new(),
            address: all[MDS].of(options.transport),
            clients_count: options.clients.map_or(1, |clients| clients.count.into()),
            network: network.transpose()?,
            _reservations: reservations,
        };
        let dir = state.join("mds");
        let clients = match link {
            Some(_) => net::NET,
            None => LOOPBACK_NET,
        };
        let config = mds_config(options, &dir, all[MDS], clients);
        apart.add(options, "mds", MDS, &dir, &config)?;
        apart.wait(options, state, |_| true)?;
        for (number, ports) in all.into_iter().enumerate().skip(1) {
            // Groups are made of those that are there: the idle ones come when the others have theirs.
            if number == ds_count + 1 {
                apart.wait(options, state, |mds| is_ready(mds, ds_count))?;
            }
            let token = join_token(options, &dir)?;
            let dir = state.join(format!("ds-{number}"));
            let config = ds_config(options, &dir, ports, &token);
            apart.add(options, "ds", number, &dir, &config)?;
        }
        apart.wait(options, state, |mds| {
            is_ready(mds, ds_count) && serving(mds) >= servers_count - 1
        })?;
        Ok(apart)
    }

    /// Where the metadata server listens for clients.
    pub(super) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sends a data server away; they have the numbers from 1.
    pub(super) fn send_away(&self, number: usize, away: Away) -> Result<(), BenchError> {
        let missing = || BenchError::Cluster(format!("it has no data server {number}"));
        let watcher = self.servers.get(number).ok_or_else(missing)?.child.id();
        let pids = family(watcher)?;
        let (pids, signal) = match away {
            Away::Killed => (pids.as_slice(), Signal::KILL),
            Away::KilledAndRestarted => (&pids[1..], Signal::KILL),
            Away::Terminated => (&pids[..1], Signal::TERM),
            Away::Stopped => (&pids[1..], Signal::STOP),
            Away::Unplugged => return self.unplug(number),
        };
        if pids.is_empty() {
            return Err(missing());
        }
        // The watcher first: it must not start another one.
        for pid in pids {
            let pid = Pid::from_raw(pid.cast_signed()).ok_or_else(missing)?;
            kill_process(pid, signal).map_err(|e| BenchError::io("end a data server")(e.into()))?;
        }
        Ok(())
    }

    fn unplug(&self, number: usize) -> Result<(), BenchError> {
        let network = self.network.as_ref().ok_or_else(|| {
            let why = "its data servers have no links that could be down";
            BenchError::Cluster(why.to_owned())
        })?;
        network.unplug(number)
    }

    /// Starts a data server again that has ended, from the configuration that it had.
    pub(super) fn start_again(
        &mut self,
        options: &ClusterOptions,
        number: usize,
    ) -> Result<(), BenchError> {
        let missing = || BenchError::Cluster(format!("it has no data server {number}"));
        let ended = self.servers.get_mut(number).ok_or_else(missing)?;
        ended
            .child
            .wait()
            .map_err(BenchError::io("wait for a server"))?;
        let config = ended.config.clone();
        let again = self.launch(options, "ds", number, config)?;
        self.servers[number] = again;
        Ok(())
    }

    /// Whether what was started as a data server has ended: only a process that lives has a command line.
    pub(super) fn has_ended(&self, number: usize) -> Result<bool, BenchError> {
        let missing = || BenchError::Cluster(format!("it has no data server {number}"));
        let pid = self.servers.get(number).ok_or_else(missing)?.child.id();
        let line = std::fs::read(format!("/proc/{pid}/cmdline"));
        Ok(line.is_ok_and(|line| line.is_empty()))
    }

    fn add(
        &mut self,
        options: &ClusterOptions,
        role: &str,
        host: usize,
        dir: &Path,
        config: &Value,
    ) -> Result<(), BenchError> {
        let doing = BenchError::io("write a server's configuration");
        std::fs::create_dir_all(dir).map_err(&doing)?;
        let file = dir.join(format!("{role}.toml"));
        let text = toml::to_string(config).map_err(|e| doing(std::io::Error::other(e)))?;
        std::fs::write(&file, text).map_err(&doing)?;
        let server = self.launch(options, role, host, file)?;
        self.servers.push(server);
        Ok(())
    }

    fn launch(
        &self,
        options: &ClusterOptions,
        role: &str,
        host: usize,
        config: PathBuf,
    ) -> Result<Daemon, BenchError> {
        let log = config.with_file_name("log");
        let stderr = File::create(&log).map_err(BenchError::io("make a server's log"))?;
        let mut command = Command::new(&options.program);
        command
            .arg(role)
            .arg("--config")
            .arg(&config)
            .arg("--exit-with-parent")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(stderr)
            // Ctrl-C in a terminal is for us, who stop servers in their order.
            .process_group(0);
        let network = self.network.as_ref();
        let _inside = network.map(|net| net.host(host).enter()).transpose()?;
        let child = command.spawn().map_err(BenchError::io("start ropewalk"))?;
        Ok(Daemon { child, config, log })
    }

    /// Waits until the metadata server answers, and what it says is enough.
    fn wait(
        &mut self,
        options: &ClusterOptions,
        state: &Path,
        enough: impl Fn(&Value) -> bool,
    ) -> Result<(), BenchError> {
        let end = Instant::now() + READY_MAX;
        loop {
            let status = mds_status(&options.program, state);
            if status.as_ref().is_ok_and(&enough) {
                return Ok(());
            }
            for server in &mut self.servers {
                server.need_alive()?;
            }
            interrupt::check()?;
            if Instant::now() >= end {
                let why = "it is not ready after two minutes".to_owned();
                return Err(status.err().unwrap_or(BenchError::Cluster(why)));
            }
            std::thread::sleep(READY_POLL);
        }
    }

    /// The servers with all that they have started: a data server is a watcher and the server itself.
    pub(super) fn pids(&self) -> Result<Vec<u32>, BenchError> {
        let mut out = Vec::new();
        for server in &self.servers {
            out.extend(family(server.child.id())?);
        }
        Ok(out)
    }

    /// Where a client is: behind a link, of its own where there are several, or beside the switch.
    pub(super) fn space(&self, behind_link: bool, number: usize) -> Option<&NameSpace> {
        let network = self.network.as_ref()?;
        Some(match behind_link {
            // The hosts of servers come first, and then those of clients.
            true => network.host(self.servers.len() + number % self.clients_count),
            false => network.hub(),
        })
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        // The data servers still take what the metadata server proxies.
        let mut servers = self.servers.iter_mut();
        if let Some(mds) = servers.next() {
            ask_to_stop(&mds.child);
            wait_for_end(&mut mds.child);
        }
        let rest = servers.into_slice();
        rest.iter().for_each(|ds| ask_to_stop(&ds.child));
        rest.iter_mut().for_each(|ds| wait_for_end(&mut ds.child));
    }
}

/// A server. Its standard input is a pipe that ends with us.
#[derive(Debug)]
struct Daemon {
    child: Child,
    config: PathBuf,
    log: PathBuf,
}

impl Daemon {
    fn need_alive(&mut self) -> Result<(), BenchError> {
        let ended = self
            .child
            .try_wait()
            .map_err(BenchError::io("wait for a server"))?;
        match ended {
            None => Ok(()),
            Some(_) => {
                let said = last_line(&self.log);
                let why = said.unwrap_or_else(|| "a server ended without a word".to_owned());
                Err(BenchError::Cluster(why))
            }
        }
    }
}

/// The links of servers, and behind them those of clients.
fn links(options: &ClusterOptions, link: Link, servers_count: usize) -> Vec<Link> {
    let one = ClientLinks { count: 1, link };
    let clients = options.clients.unwrap_or(one);
    let mut links = vec![link; servers_count];
    links.extend(vec![clients.link; clients.count.into()]);
    links
}

fn store(options: &ClusterOptions) -> &'static str {
    if options.in_memory { "memory" } else { "disk" }
}

fn listeners(options: &ClusterOptions, ports: Ports) -> (Vec<SocketAddr>, Vec<SocketAddr>) {
    match options.transport {
        Transport::Tcp => (vec![ports.nfs], Vec::new()),
        Transport::Rdma => (vec![ports.nfs], vec![ports.rdma]),
    }
}

fn mds_config(options: &ClusterOptions, dir: &Path, ports: Ports, clients: &str) -> Value {
    let (listen, rdma_listen) = listeners(options, ports);
    let transport = options.transport.name();
    let mut config = json!({
        "state_dir": dir,
        "store": store(options),
        "listen": listen,
        "rdma_listen": rdma_listen,
        "rdma_crc": options.rdma_crc,
        "data_transport": transport,
        "proxy_transport": transport,
        "control_listen": [ports.control],
        "export": [{ "clients": clients, "access": "rw", "squash": "none" }],
        "root": { "mode": "1777" },
        "placement": { "create": if options.is_eager { "eager" } else { "lazy" } },
    });
    // A program from before there were copies is compared with, too.
    if options.copies > 1 {
        config["copies"] = json!(options.copies);
    }
    // Nor did it serve NFSv3.
    if options.nfs3 {
        config["nfs3"] = json!(true);
    }
    config
}

fn ds_config(options: &ClusterOptions, dir: &Path, ports: Ports, token: &str) -> Value {
    let (listen, rdma_listen) = listeners(options, ports);
    let memory_bytes = MEMORY_TOTAL_BYTES / u64::from(options.ds_count.max(1));
    let memory_mib = memory_bytes.max(MEMORY_EACH_BYTES_MIN) >> 20;
    json!({
        "state_dir": dir,
        "store": store(options),
        "memory_size": format!("{memory_mib}MiB"),
        "listen": listen,
        "rdma_listen": rdma_listen,
        "rdma_crc": options.rdma_crc,
        "join_token": token,
    })
}

fn join_token(options: &ClusterOptions, mds_dir: &Path) -> Result<String, BenchError> {
    let output = Command::new(&options.program)
        .args(["token", "create", "--state-dir"])
        .arg(mds_dir)
        .stdin(Stdio::null())
        .output()
        .map_err(BenchError::io("ask for a join token"))?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if output.status.success() && !text.is_empty() {
        return Ok(text);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(BenchError::Cluster(format!(
        "it makes no join token: {}",
        said.trim()
    )))
}

/// How many data servers serve.
fn serving(mds: &Value) -> usize {
    let rows = mds["data_servers"].as_array().into_iter().flatten();
    rows.filter(|ds| ds["state"] == SERVING).count()
}

/// Whether files can be striped over so many data servers.
fn is_ready(mds: &Value, ds_count: usize) -> bool {
    let rows = |name: &str| mds[name].as_array().cloned().unwrap_or_default();
    let group = |group: &Value| group["ds_ids"].as_array().map_or(0, Vec::len) >= ds_count;
    serving(mds) >= ds_count && rows("groups").iter().any(group)
}

#[cfg(test)]
mod tests {
    //! What servers are told, and when they are ready.
    use super::*;

    #[test]
    fn configurations_name_the_servers_own_address() {
        let mut options = ClusterOptions::new("ropewalk".into(), "/there".into());
        options.ds_count = 2;
        let mds = toml::to_string(&mds_config(
            &options,
            Path::new("/there/mds"),
            Ports::behind_link(MDS),
            net::NET,
        ))
        .unwrap();
        for line in [
            "listen = [\"198.18.0.2:2049\"]",
            "control_listen = [\"198.18.0.2:2149\"]",
            "state_dir = \"/there/mds\"",
            "create = \"lazy\"",
        ] {
            assert!(mds.lines().any(|l| l == line), "{line} is not in:\n{mds}");
        }
        options.transport = Transport::Rdma;
        let ds = ds_config(
            &options,
            Path::new("/there/ds-2"),
            Ports::behind_link(2),
            "secret",
        );
        assert_eq!(ds["rdma_listen"], json!(["198.18.0.4:20049"]));
        assert_eq!(ds["memory_size"], "4096MiB");
        let mds = Ports::behind_link(MDS).of(Transport::Rdma);
        assert_eq!(mds.to_string(), "198.18.0.2:20049");
    }

    #[test]
    fn clients_come_behind_servers_with_links_of_their_own() {
        let link = |bits_per_s| Link {
            rate: net::Rate { bits_per_s },
            mtu_bytes: net::MTU_DEFAULT,
        };
        let mut options = ClusterOptions::new("ropewalk".into(), "/there".into());
        assert_eq!(links(&options, link(400), 2), [400, 400, 400].map(link));
        options.clients = Some(ClientLinks {
            count: 3,
            link: link(40),
        });
        assert_eq!(
            links(&options, link(400), 2),
            [400, 400, 40, 40, 40].map(link)
        );
    }

    #[test]
    fn it_is_ready_with_a_group_over_all() {
        let row = |state: &str| json!({ "state": state });
        let status = |second: &str, ids: &[u32]| json!({ "data_servers": [row(SERVING), row(second)], "groups": [{ "ds_ids": ids }] });
        assert!(is_ready(&status(SERVING, &[1, 2]), 2));
        assert!(!is_ready(&status("away", &[1, 2]), 2));
        assert!(!is_ready(&status(SERVING, &[1]), 2));
        assert!(!is_ready(&json!({}), 1));
    }
}
