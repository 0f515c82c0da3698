//! A cluster of the real program: `ropewalk up` in a folder of its own, gone with it.
//!
//! # Ownership
//! A [`Cluster`] owns the process, its folder and all that is in it.
//!
//! # Failure
//! A program that does not get ready is an error with its own last line. One that does not stop in time is killed;
//! its servers then stop by themselves, as their standard input ends.

use crate::BenchError;
use crate::nfs::server::{Server, Transport};
use crate::process::{cpu_of, last_line};
use rustix::fs::Advice;
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The words of the ready text before the port of each transport.
const PORT_WORD: &str = "port=";
const RDMA_PORT_WORD: &str = "nfs://127.0.0.1:";
/// The line with which the ready text begins.
const READY_LINE: &str = "ropewalk is ready";
/// Longest text before the port.
const READY_BYTES_MAX: u64 = 64 * 1024;
/// A cluster that has not stopped after this is killed.
const STOP_MAX: Duration = Duration::from_secs(30);
/// How often a stopping cluster is looked at.
const STOP_POLL: Duration = Duration::from_millis(20);
/// The cluster's own folder in the one that is made for it.
const STATE_DIR: &str = "state";
/// Removed files that are not gone from the data servers after this are an error, and how often they are looked for.
const CLEAN_MAX: Duration = Duration::from_secs(60);
const CLEAN_POLL: Duration = Duration::from_millis(5);
/// Processes of one cluster at most: a supervisor, an MDS, and the data servers.
const PROCESSES_MAX: usize = 128;

/// What carries requests, as goals tell it apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Carrier {
    /// TCP of the kernel.
    #[default]
    Tcp,
    /// Software iWARP.
    Iwarp,
    /// The same without checksums.
    IwarpWithoutCrc,
}

impl Carrier {
    /// In words.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Iwarp => "iwarp",
            Self::IwarpWithoutCrc => "iwarp without crc",
        }
    }

    /// The transport.
    #[must_use]
    pub const fn transport(self) -> Transport {
        match self {
            Self::Tcp => Transport::Tcp,
            Self::Iwarp | Self::IwarpWithoutCrc => Transport::Rdma,
        }
    }
}

/// What to start.
#[derive(Debug, Clone)]
pub struct ClusterOptions {
    /// The program.
    pub program: PathBuf,
    /// Where the cluster's folder is made.
    pub dir: PathBuf,
    /// Data servers.
    pub ds_count: u16,
    /// Whether metadata and objects stay in memory.
    pub in_memory: bool,
    /// What all paths use.
    pub transport: Transport,
    /// Whether frames of RDMA have checksums.
    pub rdma_crc: bool,
}

impl ClusterOptions {
    /// The same cluster with another number of data servers.
    #[must_use]
    pub fn with_ds_count(&self, ds_count: u16) -> Self {
        Self {
            ds_count,
            ..self.clone()
        }
    }

    /// The same cluster with another carrier on all paths.
    #[must_use]
    pub fn over(&self, carrier: Carrier) -> Self {
        Self {
            transport: carrier.transport(),
            rdma_crc: carrier != Carrier::IwarpWithoutCrc,
            ..self.clone()
        }
    }

    /// What carries requests to it.
    #[must_use]
    pub const fn carrier(&self) -> Carrier {
        match (self.transport, self.rdma_crc) {
            (Transport::Tcp, _) => Carrier::Tcp,
            (Transport::Rdma, true) => Carrier::Iwarp,
            (Transport::Rdma, false) => Carrier::IwarpWithoutCrc,
        }
    }

    /// What a reader must know to repeat a run.
    #[must_use]
    pub fn settings(&self) -> serde_json::Value {
        serde_json::json!({
            "ds_count": self.ds_count,
            "in_memory": self.in_memory,
            "dir": self.dir,
            "file_system": file_system(&self.dir),
            "transport": self.transport.name(),
            "provider": self.transport.provider(),
            "rdma_crc": (self.transport == Transport::Rdma).then_some(self.rdma_crc),
        })
    }
}

/// The type of the file system that `dir` is on, by its magic number in statfs(2).
#[must_use]
pub fn file_system(dir: &Path) -> String {
    let Ok(stat) = rustix::fs::statfs(dir) else {
        return "unknown".to_owned();
    };
    let magic = u64::try_from(stat.f_type).unwrap_or(0) & 0xffff_ffff;
    match magic {
        0x0102_1994 => "tmpfs".to_owned(),
        0xef53 => "ext4".to_owned(),
        0x5846_5342 => "xfs".to_owned(),
        0x9123_683e => "btrfs".to_owned(),
        0x794c_7630 => "overlayfs".to_owned(),
        other => format!("magic {other:#x}"),
    }
}

/// A running cluster. Dropping it stops it and removes its folder.
#[derive(Debug)]
pub struct Cluster {
    child: Child,
    server: Server,
    pids: Vec<u32>,
    // Removed last: the servers write into it until they are gone.
    dir: TempDir,
}

impl Cluster {
    /// Starts a cluster and waits until it is ready.
    ///
    /// # Errors
    /// [`BenchError::Cluster`] with the program's last words, or [`BenchError::Io`].
    pub fn start(options: &ClusterOptions) -> Result<Self, BenchError> {
        let dir = tempfile::Builder::new()
            .prefix("ropewalk-bench-")
            .tempdir_in(&options.dir)
            .map_err(BenchError::io("make the cluster's folder"))?;
        let words = dir.path().join("up.log");
        let stderr = File::create(&words).map_err(BenchError::io("make the cluster's log"))?;
        let mut command = Command::new(&options.program);
        command
            .args(["up", "--port=0", "--export=127.0.0.0/8:rw:none"])
            .arg(format!("--ds={}", options.ds_count))
            .arg(format!("--transport={}", options.transport.name()))
            .arg(format!("--rdma-crc={}", options.rdma_crc))
            .arg("--dir")
            .arg(dir.path().join(STATE_DIR));
        if options.in_memory {
            command.arg("--memory");
        }
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .map_err(BenchError::io("start ropewalk"))?;
        let mut cluster = Self {
            child,
            server: Server {
                transport: options.transport,
                address: (Ipv4Addr::LOCALHOST, 0).into(),
                rdma_crc: options.rdma_crc,
            },
            pids: Vec::new(),
            dir,
        };
        let Some(port) = cluster.ready_port() else {
            let said = last_line(&words);
            let why = said.unwrap_or_else(|| "it ended without a word".to_owned());
            return Err(BenchError::Cluster(why));
        };
        cluster.server.address.set_port(port);
        cluster.pids = family(cluster.child.id())?;
        Ok(cluster)
    }

    /// Reads the ready text up to the port in it.
    fn ready_port(&mut self) -> Option<u16> {
        let word = match self.server.transport {
            Transport::Tcp => PORT_WORD,
            Transport::Rdma => RDMA_PORT_WORD,
        };
        let stdout = self.child.stdout.take()?;
        let mut ready = false;
        for line in BufReader::new(stdout.take(READY_BYTES_MAX)).lines() {
            let line = line.ok()?;
            ready |= line.starts_with(READY_LINE);
            if let Some((_, port)) = line.split_once(word).filter(|_| ready) {
                let digits = port.split(|c: char| !c.is_ascii_digit()).next()?;
                return digits.parse().ok();
            }
        }
        None
    }

    /// The metadata server.
    #[must_use]
    pub const fn server(&self) -> &Server {
        &self.server
    }

    /// Where its servers keep their state.
    #[must_use]
    pub fn state_dir(&self) -> PathBuf {
        self.dir.path().join(STATE_DIR)
    }

    /// User and system CPU time of all its processes so far.
    ///
    /// # Errors
    /// [`BenchError::Io`] when one of them is gone.
    pub fn cpu(&self) -> Result<Duration, BenchError> {
        self.pids.iter().map(|pid| cpu_of(&pid.to_string())).sum()
    }

    /// Waits until no data server has anything left of removed files. The metadata server is asked by `program status`.
    ///
    /// # Errors
    /// [`BenchError::Cluster`] when it does not say, or when it takes longer than a minute.
    pub fn wait_until_clean(&self, program: &Path) -> Result<(), BenchError> {
        let end = Instant::now() + CLEAN_MAX;
        while self.removals_waiting(program)? > 0 {
            if Instant::now() >= end {
                let why = "data servers have not removed all files within a minute";
                return Err(BenchError::Cluster(why.to_owned()));
            }
            std::thread::sleep(CLEAN_POLL);
        }
        Ok(())
    }

    /// Makes the page cache forget the files of the cluster: what its servers read next comes from the disk. What is not written
    /// back yet is written first.
    ///
    /// # Errors
    /// [`BenchError::Io`].
    pub fn forget_cached(&self) -> Result<(), BenchError> {
        forget_cached(&self.state_dir()).map_err(BenchError::io("empty the page cache"))
    }

    fn removals_waiting(&self, program: &Path) -> Result<u64, BenchError> {
        let output = Command::new(program)
            .args(["status", "--json", "--dir"])
            .arg(self.state_dir())
            .stdin(Stdio::null())
            .output()
            .map_err(BenchError::io("ask for the cluster's status"))?;
        let status: Option<serde_json::Value> = serde_json::from_slice(&output.stdout).ok();
        let waiting = status.and_then(|status| status["mds"]["removals_waiting"].as_u64());
        waiting.ok_or_else(|| {
            let said = String::from_utf8_lossy(&output.stderr);
            BenchError::Cluster(format!("its status is missing: {}", said.trim()))
        })
    }

    /// The process of the metadata server.
    ///
    /// # Errors
    /// [`BenchError::Cluster`] when it is not there.
    pub fn mds_pid(&self) -> Result<Pid, BenchError> {
        let is_mds = |pid: &&u32| {
            let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            arguments.split(|b| *b == 0).nth(1) == Some(b"mds")
        };
        let found = self.pids.iter().find(is_mds);
        let pid = found.and_then(|pid| Pid::from_raw(pid.cast_signed()));
        pid.ok_or_else(|| BenchError::Cluster("it has no metadata server".to_owned()))
    }

    /// Processes of the cluster: the supervisor, the metadata server, the data servers.
    #[must_use]
    pub fn processes_count(&self) -> usize {
        self.pids.len()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // Fails only when it has gone by itself.
            let _ = kill_process(pid, Signal::TERM);
        }
        let end = Instant::now() + STOP_MAX;
        while Instant::now() < end {
            match self.child.try_wait() {
                Ok(None) => std::thread::sleep(STOP_POLL),
                Ok(Some(_)) | Err(_) => return,
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Makes the page cache forget all files below `dir`.
fn forget_cached(dir: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            forget_cached(&entry.path())?;
        } else if kind.is_file() {
            match File::open(entry.path()) {
                Ok(file) => {
                    rustix::fs::fdatasync(&file)?;
                    rustix::fs::fadvise(&file, 0, None, Advice::DontNeed)?;
                }
                // The servers go on meanwhile.
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(e),
            }
        }
    }
    Ok(())
}

/// `root` and all its descendants.
fn family(root: u32) -> Result<Vec<u32>, BenchError> {
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
    //! Finding processes, and programs that are no clusters.
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

    #[test]
    fn a_program_that_is_no_cluster_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let options = |program: &str| ClusterOptions {
            program: program.into(),
            dir: dir.path().to_owned(),
            ds_count: 1,
            in_memory: true,
            transport: Transport::Tcp,
            rdma_crc: true,
        };
        let said = |program| Cluster::start(&options(program)).unwrap_err().to_string();
        assert!(said("true").contains("without a word"));
        // `ls` knows none of the options, and says so.
        assert!(said("ls").contains("ls"), "{}", said("ls"));
        assert!(said("/no/such/program").contains("cannot start ropewalk"));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn file_systems_have_names() {
        assert_eq!(file_system(Path::new("/no/such/folder")), "unknown");
        assert!(file_system(Path::new("/proc")).starts_with("magic 0x9fa0"));
    }
}
