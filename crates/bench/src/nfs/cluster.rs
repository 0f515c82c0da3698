//! A cluster of the real program in a folder of its own, gone with it: `ropewalk up`, or where links have a cap servers that are
//! started one by one, each in a network namespace.
//!
//! # Ownership
//! A [`Cluster`] owns the processes, their folder and all that is in it.
//!
//! # Failure
//! A program that does not get ready is an error with its own last line. One that does not stop in time is killed;
//! its servers then stop by themselves, as their standard input ends.

mod linked;
mod up;

use crate::BenchError;
use crate::net::{Link, NameSpace};
use crate::nfs::providers::OwnRdma;
use crate::nfs::server::{Server, Transport};
use crate::process::cpu_of;
use linked::Linked;
use rustix::fs::{Advice, StatFs};
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use serde_json::Value;
use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use up::Up;

/// A cluster that has not stopped after this is killed.
const STOP_MAX: Duration = Duration::from_secs(30);
/// How often a stopping cluster is looked at.
const STOP_POLL: Duration = Duration::from_millis(20);
/// The cluster's own folder in the one that is made for it.
const STATE_DIR: &str = "state";
/// What the data of a cluster in memory may take: more than any experiment makes. It is taken only as far as there are data.
pub(crate) const MEMORY_TOTAL_BYTES: u64 = 8 << 30;
/// Removed files that are not gone from the data servers after this are an error, and how often they are looked for.
const CLEAN_MAX: Duration = Duration::from_secs(300);
const CLEAN_POLL: Duration = Duration::from_millis(5);

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
    /// Whether the objects of a file are made with it, on all of its data servers.
    pub is_eager: bool,
    /// The address of a device that servers listen on, for RDMA over it; without one they are at loopback.
    pub device: Option<IpAddr>,
    /// What each server is behind; without one all share the loopback interface.
    pub link: Option<Link>,
}

impl ClusterOptions {
    /// One data server in memory, over TCP, all else as it comes.
    #[must_use]
    pub const fn new(program: PathBuf, dir: PathBuf) -> Self {
        Self {
            program,
            dir,
            ds_count: 1,
            in_memory: true,
            transport: Transport::Tcp,
            rdma_crc: true,
            is_eager: false,
            device: None,
            link: None,
        }
    }

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
            "provider": OwnRdma::SOFTWARE.provider(self.transport),
            "rdma_crc": (self.transport == Transport::Rdma).then_some(self.rdma_crc),
            "create": if self.is_eager { "eager" } else { "lazy" },
            "link": self.link,
        })
    }
}

/// The type of the file system that `dir` is on, by its magic number in statfs(2).
#[must_use]
pub fn file_system(dir: &Path) -> String {
    let Ok(stat) = rustix::fs::statfs(dir) else {
        return "unknown".to_owned();
    };
    file_system_of(&stat)
}

/// What a tmpfs is called.
pub(crate) const TMPFS: &str = "tmpfs";

/// The type of a file system.
pub(crate) fn file_system_of(stat: &StatFs) -> String {
    let magic = u64::try_from(stat.f_type).unwrap_or(0) & 0xffff_ffff;
    match magic {
        0x0102_1994 => TMPFS.to_owned(),
        0xef53 => "ext4".to_owned(),
        0x5846_5342 => "xfs".to_owned(),
        0x9123_683e => "btrfs".to_owned(),
        0x794c_7630 => "overlayfs".to_owned(),
        other => format!("magic {other:#x}"),
    }
}

/// The processes of a cluster.
#[derive(Debug)]
enum Servers {
    Up(Up),
    Linked(Linked),
}

impl Servers {
    fn pids(&self) -> Result<Vec<u32>, BenchError> {
        match self {
            Self::Up(up) => up.pids(),
            Self::Linked(linked) => Ok(linked.pids()),
        }
    }
}

/// A running cluster. Dropping it stops it and removes its folder.
#[derive(Debug)]
pub struct Cluster {
    servers: Servers,
    server: Server,
    pids: Vec<u32>,
    // Removed last: the servers write into it until they are gone.
    dir: TempDir,
}

impl Cluster {
    /// Starts a cluster and waits until it is ready.
    ///
    /// # Errors
    /// [`BenchError::Cluster`] with the program's last words, [`BenchError::Links`], or [`BenchError::Io`].
    pub fn start(options: &ClusterOptions) -> Result<Self, BenchError> {
        let dir = crate::own::folder(&options.dir)
            .map_err(BenchError::io("make the cluster's folder"))?;
        let (servers, address) = match options.link {
            None => {
                let (up, address) = Up::start(options, dir.path())?;
                (Servers::Up(up), address)
            }
            Some(link) => {
                let linked = Linked::start(options, link, &dir.path().join(STATE_DIR))?;
                (Servers::Linked(linked), linked::address(options.transport))
            }
        };
        let pids = servers.pids()?;
        let server = Server {
            transport: options.transport,
            address,
            rdma_crc: options.rdma_crc,
        };
        Ok(Self {
            servers,
            server,
            pids,
            dir,
        })
    }

    /// Where clients must be to reach it, when that is not just this machine: behind a link of their own, or beside the switch.
    pub(crate) fn space(&self, behind_link: bool) -> Option<&NameSpace> {
        match &self.servers {
            Servers::Up(_) => None,
            Servers::Linked(linked) => Some(linked.space(behind_link)),
        }
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
    /// [`BenchError::Cluster`] when it does not say, or when it takes longer than five minutes.
    pub fn wait_until_clean(&self, program: &Path) -> Result<(), BenchError> {
        let end = Instant::now() + CLEAN_MAX;
        while self.removals_waiting(program)? > 0 {
            if Instant::now() >= end {
                let why = "data servers have not removed all files within five minutes";
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
        let mds = mds_status(program, &self.state_dir())?;
        mds["removals_waiting"].as_u64().ok_or_else(|| {
            let why = "its status does not say how many removals wait";
            BenchError::Cluster(why.to_owned())
        })
    }

    /// Connections that the metadata server has. It is asked by `program status`.
    ///
    /// # Errors
    /// [`BenchError::Cluster`] when it does not say.
    pub(crate) fn connections(&self, program: &Path) -> Result<u64, BenchError> {
        let mds = mds_status(program, &self.state_dir())?;
        mds["connections"].as_u64().ok_or_else(|| {
            let why = "its status does not say how many connections it has";
            BenchError::Cluster(why.to_owned())
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

/// What the metadata server of the cluster in `dir` says of itself.
fn mds_status(program: &Path, dir: &Path) -> Result<Value, BenchError> {
    let output = Command::new(program)
        .args(["status", "--json", "--dir"])
        .arg(dir)
        .stdin(Stdio::null())
        .output()
        .map_err(BenchError::io("ask for the cluster's status"))?;
    let status: Option<Value> = serde_json::from_slice(&output.stdout).ok();
    let mds = status.and_then(|mut status| Some(status.get_mut("mds")?.take()));
    mds.filter(Value::is_object).ok_or_else(|| {
        let said = String::from_utf8_lossy(&output.stderr);
        BenchError::Cluster(format!("its status is missing: {}", said.trim()))
    })
}

/// Asks a process to stop.
fn ask_to_stop(child: &Child) {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    if let Some(pid) = pid {
        // Fails only when it has gone by itself.
        let _ = kill_process(pid, Signal::TERM);
    }
}

/// Waits until a process that was asked to stop has ended, and kills it when it takes too long.
fn wait_for_end(child: &mut Child) {
    let end = Instant::now() + STOP_MAX;
    while Instant::now() < end {
        match child.try_wait() {
            Ok(None) => std::thread::sleep(STOP_POLL),
            Ok(Some(_)) | Err(_) => return,
        }
    }
    let _ = child.kill();
    let _ = child.wait();
}

/// Makes the page cache forget all files below `dir`.
pub(crate) fn forget_cached(dir: &Path) -> io::Result<()> {
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

#[cfg(test)]
mod tests {
    //! Programs that are no clusters.
    use super::*;

    #[test]
    fn a_program_that_is_no_cluster_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let options = |program: &str| ClusterOptions::new(program.into(), dir.path().to_owned());
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
