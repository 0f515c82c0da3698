//! A cluster by `ropewalk up`.

use super::child::{ask_to_stop, wait_for_end};
use super::options::{ClusterOptions, MEMORY_TOTAL_BYTES, STATE_DIR};
use crate::BenchError;
use crate::nfs::server::Transport;
use crate::process::last_line;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The word of the ready text before the port of TCP.
const PORT_WORD: &str = "port=";
/// The line with which the ready text begins.
const READY_LINE: &str = "ropewalk is ready";
/// The word before the address of the page, and that of the last line.
const PAGE_WORD: &str = "page:   http://";
const LAST_WORD: &str = "stop:";
/// Longest text before the port.
const READY_BYTES_MAX: u64 = 64 * 1024;
/// Processes of one cluster at most: a supervisor, an MDS, and the data servers.
const PROCESSES_MAX: usize = 128;

/// Where the page is, and who may see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Page {
    /// Where it is.
    pub(crate) address: SocketAddr,
    /// An access token.
    pub(crate) token: String,
}

impl Page {
    /// From `ADDRESS/#token=TOKEN`.
    fn of(url: &str) -> Option<Self> {
        let (address, token) = url.trim().split_once("/#token=")?;
        Some(Self {
            address: address.parse().ok()?,
            token: token.to_owned(),
        })
    }
}

/// The supervisor. Dropping it stops the cluster.
#[derive(Debug)]
pub(super) struct Up {
    child: Child,
}

impl Up {
    /// Starts a cluster in `dir` and waits until it is ready; returns where it listens too.
    pub(super) fn start(
        options: &ClusterOptions,
        dir: &Path,
    ) -> Result<(Self, SocketAddr, Option<Page>), BenchError> {
        let words = dir.join("up.log");
        let stderr = File::create(&words).map_err(BenchError::io("make the cluster's log"))?;
        let mut command = match &options.launcher {
            None => Command::new(&options.program),
            Some(launcher) => launcher.bound(&options.program),
        };
        let at = listen(options);
        command
            .args(["up", "--port=0"])
            .args(place(options))
            .arg(format!("--ds={}", options.ds_count))
            .arg(format!("--transport={}", options.transport.name()))
            .arg(format!("--rdma-crc={}", options.rdma_crc))
            .arg("--dir")
            .arg(dir.join(STATE_DIR));
        if options.copies > 1 {
            command.arg(format!("--copies={}", options.copies));
        }
        if options.nfs3 {
            command.arg("--nfs3");
        }
        if options.is_eager {
            command.arg("--create=eager");
        }
        if options.speaks_nfs3 {
            command.arg("--nfs3");
        }
        if options.is_watched {
            command.arg("--dashboard");
        }
        if options.in_memory {
            let size = format!("--memory-size={MEMORY_TOTAL_BYTES}B");
            command.args(["--memory".to_owned(), size]);
        }
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .map_err(BenchError::io("start ropewalk"))?;
        let mut up = Self { child };
        let Some((port, page)) = up.ready(options.transport, at) else {
            let said = last_line(&words);
            let why = said.unwrap_or_else(|| "it ended without a word".to_owned());
            return Err(BenchError::Cluster(why));
        };
        Ok((up, (at, port).into(), page))
    }

    /// Reads the ready text: the port in it, and the page where it is served.
    fn ready(&mut self, transport: Transport, at: IpAddr) -> Option<(u16, Option<Page>)> {
        let word = match (transport, at) {
            (Transport::Tcp, _) => PORT_WORD.to_owned(),
            (Transport::Rdma, IpAddr::V4(at)) => format!("nfs://{at}:"),
            (Transport::Rdma, IpAddr::V6(at)) => format!("nfs://[{at}]:"),
        };
        let stdout = self.child.stdout.take()?;
        let (mut ready, mut found, mut page) = (false, None, None);
        for line in BufReader::new(stdout.take(READY_BYTES_MAX)).lines() {
            let line = line.ok()?;
            ready |= line.starts_with(READY_LINE);
            if let Some((_, port)) = line.split_once(word.as_str()).filter(|_| ready) {
                let digits = port.split(|c: char| !c.is_ascii_digit()).next()?;
                found = found.or(digits.parse().ok());
            }
            page = page.or(line
                .split_once(PAGE_WORD)
                .and_then(|(_, url)| Page::of(url)));
            if line.contains(LAST_WORD) {
                break;
            }
        }
        Some((found?, page))
    }

    /// The supervisor and its servers.
    pub(super) fn pids(&self) -> Result<Vec<u32>, BenchError> {
        family(self.child.id())
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        ask_to_stop(&self.child);
        wait_for_end(&mut self.child);
    }
}

/// Where its servers are.
fn listen(options: &ClusterOptions) -> IpAddr {
    let at = options
        .device
        .filter(|_| options.transport == Transport::Rdma);
    let net = options.network.map(|net| net.address.into());
    at.or(net).unwrap_or(Ipv4Addr::LOCALHOST.into())
}

/// The options that say so.
fn place(options: &ClusterOptions) -> Vec<String> {
    let at = listen(options);
    if at.is_loopback() {
        return vec!["--export=127.0.0.0/8:rw:none".to_owned()];
    }
    if let Some(net) = options.network.filter(|net| at == net.address) {
        return vec![
            format!("--listen={at}"),
            format!("--export={}:rw:none", net.clients()),
        ];
    }
    let bits = if at.is_ipv4() { 32 } else { 128 };
    vec![
        format!("--listen={at}"),
        format!("--export={at}/{bits}:rw:none"),
        "--rdma-provider=verbs".to_owned(),
    ]
}

/// `root` and all its descendants.
pub(crate) fn family(root: u32) -> Result<Vec<u32>, BenchError> {
    let doing = BenchError::io("list the cluster's processes");
    let mut parents = BTreeMap::new();
    for entry in std::fs::read_dir("/proc").map_err(&doing)? {
        let name = entry.map_err(&doing)?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        // A process that has gone meanwhile is none of ours.
        if let Some(parent) = std::fs::read_to_string(format!("/proc/{pid}/stat"))
            .ok()
            .and_then(|stat| parent(&stat))
        {
            parents.insert(pid, parent);
        }
    }
    let mut out = vec![root];
    let mut at = 0;
    while at < out.len() && out.len() < PROCESSES_MAX {
        let of = out[at];
        let children = parents.iter().filter(|(_, parent)| **parent == of);
        out.extend(children.map(|(pid, _)| *pid));
        at += 1;
    }
    Ok(out)
}

/// Field 4 of proc(5) `stat`; the name before it may hold spaces and parentheses.
fn parent(stat: &str) -> Option<u32> {
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    //! Finding processes.
    use super::*;

    #[test]
    fn the_family_of_this_process_has_its_children() {
        let mut child = Command::new("sleep").arg("30").spawn().unwrap();
        let pids = family(std::process::id()).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(pids[0], std::process::id());
        assert!(pids.contains(&child.id()));
        assert!(!pids.contains(&1));
        assert_eq!(parent("7 (a) b (c) S 12 2 3"), Some(12));
        assert_eq!(parent("7"), None);
    }
}
