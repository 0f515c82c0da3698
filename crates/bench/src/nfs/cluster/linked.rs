//! A cluster whose servers each have a link of their own. They are started one by one, in network namespaces, from
//! configuration files as a user writes them.

use super::child::{ask_to_stop, mds_status, wait_for_end};
use super::options::{ClusterOptions, MEMORY_TOTAL_BYTES};
use super::up::family;
use crate::net::{self, Link, NameSpace, Network};
use crate::nfs::server::Transport;
use crate::process::last_line;
use crate::{BenchError, interrupt};
use serde_json::{Value, json};
use std::fs::File;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Every server has an address of its own, so all have the same ports.
const NFS_PORT: u16 = 2049;
const RDMA_PORT: u16 = 20049;
const CONTROL_PORT: u16 = 2149;
/// The host of the metadata server; data servers follow, and then a client.
const MDS: usize = 0;
/// Memory that each data server may take at least.
const MEMORY_EACH_BYTES_MIN: u64 = 1 << 30;
/// A cluster that is not ready after this does not become so; how often it is asked.
const READY_MAX: Duration = Duration::from_secs(120);
const READY_POLL: Duration = Duration::from_millis(30);
/// How the status names a data server that serves.
const SERVING: &str = "serving";

/// Where the metadata server listens for clients.
pub(super) fn address(transport: Transport) -> SocketAddr {
    let port = match transport {
        Transport::Tcp => NFS_PORT,
        Transport::Rdma => RDMA_PORT,
    };
    (net::address(MDS), port).into()
}

/// The servers and their links. Dropping it stops them, the metadata server first, and takes the links away.
#[derive(Debug)]
pub(super) struct Linked {
    servers: Vec<Daemon>,
    // Gone after the servers.
    network: Network,
}

impl Linked {
    /// Starts a cluster in `state` and waits until it is ready.
    pub(super) fn start(
        options: &ClusterOptions,
        link: Link,
        state: &Path,
    ) -> Result<Self, BenchError> {
        let ds_count = usize::from(options.ds_count);
        let mut linked = Self {
            servers: Vec::new(),
            network: Network::make(link, ds_count + 2)?,
        };
        let dir = state.join("mds");
        linked.add(options, "mds", MDS, &dir, &mds_config(options, &dir))?;
        linked.wait(options, state, |_| true)?;
        for number in 1..=ds_count {
            let token = join_token(options, &dir)?;
            let dir = state.join(format!("ds-{number}"));
            let config = ds_config(options, &dir, number, &token);
            linked.add(options, "ds", number, &dir, &config)?;
        }
        linked.wait(options, state, |mds| is_ready(mds, ds_count))?;
        Ok(linked)
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
        let log = dir.join("log");
        let stderr = File::create(&log).map_err(BenchError::io("make a server's log"))?;
        let mut command = Command::new(&options.program);
        command
            .arg(role)
            .arg("--config")
            .arg(&file)
            .arg("--exit-with-parent")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(stderr)
            // Ctrl-C in a terminal is for us, who stop servers in their order.
            .process_group(0);
        let _inside = self.network.host(host).enter()?;
        let child = command.spawn().map_err(BenchError::io("start ropewalk"))?;
        self.servers.push(Daemon { child, log });
        Ok(())
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

    /// Where clients are: behind a link as a server has one, or beside the switch.
    pub(super) fn space(&self, behind_link: bool) -> &NameSpace {
        match behind_link {
            // The metadata server's host is none of data servers, and the last is the client's.
            true => self.network.host(self.servers.len()),
            false => self.network.hub(),
        }
    }
}

impl Drop for Linked {
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

fn store(options: &ClusterOptions) -> &'static str {
    if options.in_memory { "memory" } else { "disk" }
}

fn listeners(options: &ClusterOptions, host: usize) -> (Vec<SocketAddr>, Vec<SocketAddr>) {
    let at = |port| vec![SocketAddr::from((net::address(host), port))];
    match options.transport {
        Transport::Tcp => (at(NFS_PORT), Vec::new()),
        Transport::Rdma => (at(NFS_PORT), at(RDMA_PORT)),
    }
}

fn mds_config(options: &ClusterOptions, dir: &Path) -> Value {
    let (listen, rdma_listen) = listeners(options, MDS);
    let transport = options.transport.name();
    json!({
        "state_dir": dir,
        "store": store(options),
        "copies": options.copies,
        "listen": listen,
        "rdma_listen": rdma_listen,
        "rdma_crc": options.rdma_crc,
        "data_transport": transport,
        "proxy_transport": transport,
        "control_listen": [SocketAddr::from((net::address(MDS), CONTROL_PORT))],
        "export": [{ "clients": net::NET, "access": "rw", "squash": "none" }],
        "root": { "mode": "1777" },
        "placement": { "create": if options.is_eager { "eager" } else { "lazy" } },
    })
}

fn ds_config(options: &ClusterOptions, dir: &Path, host: usize, token: &str) -> Value {
    let (listen, rdma_listen) = listeners(options, host);
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

/// Whether files can be striped over so many data servers.
fn is_ready(mds: &Value, ds_count: usize) -> bool {
    let rows = |name: &str| mds[name].as_array().cloned().unwrap_or_default();
    let serving = rows("data_servers")
        .iter()
        .filter(|ds| ds["state"] == SERVING)
        .count();
    let group = |group: &Value| group["ds_ids"].as_array().map_or(0, Vec::len) >= ds_count;
    serving >= ds_count && rows("groups").iter().any(group)
}

#[cfg(test)]
mod tests {
    //! What servers are told, and when they are ready.
    use super::*;

    #[test]
    fn configurations_name_the_servers_own_address() {
        let mut options = ClusterOptions::new("ropewalk".into(), "/there".into());
        options.ds_count = 2;
        let mds = toml::to_string(&mds_config(&options, Path::new("/there/mds"))).unwrap();
        for line in [
            "listen = [\"198.18.0.2:2049\"]",
            "control_listen = [\"198.18.0.2:2149\"]",
            "state_dir = \"/there/mds\"",
            "create = \"lazy\"",
        ] {
            assert!(mds.lines().any(|l| l == line), "{line} is not in:\n{mds}");
        }
        options.transport = Transport::Rdma;
        let ds = ds_config(&options, Path::new("/there/ds-2"), 2, "secret");
        assert_eq!(ds["rdma_listen"], json!(["198.18.0.4:20049"]));
        assert_eq!(ds["memory_size"], "4096MiB");
        assert_eq!(address(Transport::Rdma).to_string(), "198.18.0.2:20049");
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
