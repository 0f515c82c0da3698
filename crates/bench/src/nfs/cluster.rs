//! A cluster of the real program, in a folder that is removed with it. It is `ropewalk up`, or servers that are
//! started one by one: where links have a cap, or where one of them is to go away.
//!
//! # Ownership
//! A [`Cluster`] owns the processes, their folder and all that is in it.
//!
//! # Failure
//! A program that does not get ready is an error with its own last line. One that does not stop in time is killed;
//! its servers then stop by themselves, as their standard input ends.

mod apart;
mod child;
mod file_system;
pub(crate) mod options;
mod up;
mod watchers;

pub use apart::Away;
pub use file_system::file_system;
pub(crate) use file_system::{TMPFS, file_system_of};
pub use options::{Carrier, ClientLinks, ClientNet, ClusterOptions};

use crate::BenchError;
use crate::net::NameSpace;
use crate::nfs::server::Server;
use crate::process::cpu_of;
use apart::Apart;
use child::{mds_status, server_status};
use options::STATE_DIR;
use rustix::fs::Advice;
use rustix::process::Pid;
use serde_json::Value;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use up::Up;
pub(crate) use up::{Page, family};
use watchers::Watchers;
pub(crate) use watchers::get;

/// Removed files that are not gone from the data servers after this are an error, and how often they are looked for.
const CLEAN_MAX: Duration = Duration::from_secs(300);
const CLEAN_POLL: Duration = Duration::from_millis(5);

/// What a process of a cluster does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It serves names and attributes, and passes on data of clients without layouts.
    Metadata,
    /// It serves data.
    Data,
}

impl Role {
    /// In words.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Metadata => "metadata server",
            Self::Data => "data server",
        }
    }

    /// Its word on the command line.
    const fn word(self) -> &'static str {
        match self {
            Self::Metadata => "mds",
            Self::Data => "ds",
        }
    }

    /// Whether a process has it.
    fn is_of(self, pid: u32) -> bool {
        let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        arguments.split(|b| *b == 0).nth(1) == Some(self.word().as_bytes())
    }
}

/// The processes of a cluster.
#[derive(Debug)]
enum Servers {
    Up(Up),
    Apart(Apart),
}

impl Servers {
    fn pids(&self) -> Result<Vec<u32>, BenchError> {
        match self {
            Self::Up(up) => up.pids(),
            Self::Apart(apart) => apart.pids(),
        }
    }
}

/// A running cluster. Dropping it stops it and removes its folder.
#[derive(Debug)]
pub struct Cluster {
    // They end before the servers do.
    #[expect(dead_code, reason = "its drop ends them")]
    watchers: Option<Box<Watchers>>,
    page: Option<Box<Page>>,
    servers: Servers,
    server: Server,
    nfs3: bool,
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
        let mut page = None;
        let (servers, address) = if options.is_apart || options.link.is_some() {
            let apart = Apart::start(options, options.link, &dir.path().join(STATE_DIR))?;
            let address = apart.address();
            (Servers::Apart(apart), address)
        } else {
            let (up, address, found) = Up::start(options, dir.path())?;
            page = found;
            (Servers::Up(up), address)
        };
        let pids = servers.pids()?;
        let server = Server {
            transport: options.transport,
            address,
            rdma_crc: options.rdma_crc,
        };
        Ok(Self {
            watchers: page.clone().map(|page| Box::new(Watchers::start(page))),
            page: page.map(Box::new),
            servers,
            server,
            nfs3: options.nfs3,
            pids,
            dir,
        })
    }

    /// Where the client of a number must be to reach it, when that is not just this machine: behind a link of its own, or beside the
    /// switch.
    pub(crate) fn space(&self, behind_link: bool, number: usize) -> Option<&NameSpace> {
        match &self.servers {
            Servers::Up(_) => None,
            Servers::Apart(apart) => apart.space(behind_link, number),
        }
    }

    /// Where it is watched, if it is.
    pub(crate) fn page(&self) -> Option<&Page> {
        self.page.as_deref()
    }

    /// The metadata server.
    #[must_use]
    pub const fn server(&self) -> &Server {
        &self.server
    }

    /// As a URL of our client, by NFSv3 where that is served.
    #[must_use]
    pub fn url(&self) -> String {
        let url = self.server.url();
        match self.nfs3 {
            true => format!("{url}&vers=3&mountport={}", self.server.address.port()),
            false => url,
        }
    }

    /// Sends a data server away; they have the numbers from 1.
    ///
    /// # Errors
    /// [`BenchError::Cluster`] when there is none, or when the servers are those of `ropewalk up`.
    pub fn send_away(&self, number: usize, away: Away) -> Result<(), BenchError> {
        match &self.servers {
            Servers::Apart(apart) => apart.send_away(number, away),
            Servers::Up(_) => {
                let why = "its data servers are started again";
                Err(BenchError::Cluster(why.to_owned()))
            }
        }
    }

    /// Starts a data server again that was sent away, and has ended; it has its store.
    ///
    /// # Errors
    /// As [`Self::send_away`], and [`BenchError::Io`].
    pub fn start_again(
        &mut self,
        options: &ClusterOptions,
        number: usize,
    ) -> Result<(), BenchError> {
        match &mut self.servers {
            Servers::Apart(apart) => apart.start_again(options, number),
            Servers::Up(_) => {
                let why = "its data servers start again by themselves";
                Err(BenchError::Cluster(why.to_owned()))
            }
        }
    }

    /// Whether the process that was started as a data server has ended.
    ///
    /// # Errors
    /// As [`Self::send_away`].
    pub fn has_ended(&self, number: usize) -> Result<bool, BenchError> {
        match &self.servers {
            Servers::Apart(apart) => apart.has_ended(number),
            Servers::Up(_) => Ok(false),
        }
    }

    /// What the metadata server calls a data server that serves: servers join in no order.
    ///
    /// # Errors
    /// [`BenchError::Cluster`] when it does not say.
    pub fn ds_id(&self, program: &Path, number: usize) -> Result<u64, BenchError> {
        let status = server_status(program, &self.state_dir(), &format!("ds-{number}"))?;
        status["ds_id"].as_u64().ok_or_else(|| {
            let why = "the status of a data server does not say its number";
            BenchError::Cluster(why.to_owned())
        })
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

    /// The same of those with a role.
    ///
    /// # Errors
    /// As [`Self::cpu`], and [`BenchError::Cluster`] when there is none.
    pub fn cpu_of(&self, role: Role) -> Result<Duration, BenchError> {
        let mut found = self.pids.iter().filter(|pid| role.is_of(**pid)).peekable();
        if found.peek().is_none() {
            return Err(BenchError::Cluster(format!("it has no {}", role.name())));
        }
        found.map(|pid| cpu_of(&pid.to_string())).sum()
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

    /// Waits until each place has its copies, as `program repair status` says.
    ///
    /// # Errors
    /// [`BenchError::Cluster`] when it does not say, or when it takes longer than five minutes.
    pub fn wait_until_full(&self, program: &Path) -> Result<(), BenchError> {
        self.wait_for_repair(program, |repair| {
            let lacking = ["under_replicated", "filling", "not_served"];
            lacking.into_iter().all(|what| repair[what] == 0)
        })
    }

    /// Waits until some place lacks a copy.
    ///
    /// # Errors
    /// As [`Self::wait_until_full`].
    pub fn wait_until_lacking(&self, program: &Path) -> Result<(), BenchError> {
        self.wait_for_repair(program, |repair| repair["under_replicated"] != 0)
    }

    /// Waits until some place is being filled.
    ///
    /// # Errors
    /// As [`Self::wait_until_full`].
    pub fn wait_until_filling(&self, program: &Path) -> Result<(), BenchError> {
        self.wait_for_repair(program, |repair| repair["filling"] != 0)
    }

    fn wait_for_repair(
        &self,
        program: &Path,
        is_enough: impl Fn(&Value) -> bool,
    ) -> Result<(), BenchError> {
        let end = Instant::now() + CLEAN_MAX;
        loop {
            let repair = self.tell(program, &["repair", "status", "--json"])?;
            let repair: Value = serde_json::from_str(&repair)
                .map_err(|e| BenchError::Cluster(format!("its repair status: {e}")))?;
            if is_enough(&repair) {
                return Ok(());
            }
            if Instant::now() >= end {
                let why = "places have not got their copies within five minutes";
                return Err(BenchError::Cluster(why.to_owned()));
            }
            std::thread::sleep(CLEAN_POLL);
        }
    }

    /// Gives the metadata server an order, by `program`; returns what this says.
    ///
    /// # Errors
    /// [`BenchError::Cluster`] with its last words when it fails.
    pub fn tell(&self, program: &Path, order: &[&str]) -> Result<String, BenchError> {
        let output = Command::new(program)
            .args(order)
            .arg("--dir")
            .arg(self.state_dir())
            .stdin(Stdio::null())
            .output()
            .map_err(BenchError::io("give the cluster an order"))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let order = order.join(" ");
        Err(BenchError::Cluster(format!("{order}: {}", said.trim())))
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
        let found = self.pids.iter().find(|pid| Role::Metadata.is_of(**pid));
        let pid = found.and_then(|pid| Pid::from_raw(pid.cast_signed()));
        pid.ok_or_else(|| BenchError::Cluster("it has no metadata server".to_owned()))
    }

    /// Processes of the cluster: the supervisor, the metadata server, the data servers.
    #[must_use]
    pub fn processes_count(&self) -> usize {
        self.pids.len()
    }
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
}
