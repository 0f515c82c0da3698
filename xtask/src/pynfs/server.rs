//! Clusters for a run of the suite: `ropewalk up` on loopback, in a directory that is made anew. One is tested; others may serve it
//! as NFSv3 servers ([`super::foreign`]).
//!
//! The lease is short, because tests wait for its end, and nobody is squashed, because the suite makes device files. A new
//! cluster knows no client, so there is no grace period to wait for; [`Server::start`] makes sure.

use crate::repo::{self, Result};
use crate::vm::cluster::{self, Cluster};
use crate::vm::process;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// What `up` prints last when the cluster is ready.
const READY: &str = "  stop:";
/// How long an orderly stop may take.
const STOP_LIMIT: Duration = Duration::from_secs(30);
/// Data servers: two, so that files are striped, or as many as there are copies.
const DS_COUNT_MIN: u32 = 2;

/// What a cluster is to be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Setup {
    pub(super) lease_s: u64,
    /// Copies of each stripe.
    pub(super) copies: u32,
    /// Where it listens, an address of loopback.
    pub(super) host: Ipv4Addr,
    /// Whether it serves NFSv3 as well.
    pub(super) nfs3: bool,
}

/// A running cluster.
pub(super) struct Server {
    up: Child,
    dir: PathBuf,
    address: SocketAddr,
}

/// Builds the program and says where it is.
pub(super) fn build() -> Result<PathBuf> {
    let status = repo::cargo()
        .args(["build", "--quiet", "--package", "ropewalk"])
        .status()
        .map_err(|e| format!("cannot run cargo: {e}"))?;
    if !status.success() {
        return Err("ropewalk cannot be built".to_owned());
    }
    // Built by the same cargo with the same target directory as this program, which lies beside it.
    let own = std::env::current_exe().map_err(|e| format!("cannot find this program: {e}"))?;
    Ok(own.with_file_name("ropewalk"))
}

/// What the cluster in `dir` says.
pub(super) fn cluster(dir: &Path) -> Cluster {
    Cluster::new(std::process::id(), dir)
}

impl Server {
    /// Starts a cluster in `dir`, whose old contents go, and waits until it serves.
    pub(super) fn start(program: &Path, dir: &Path, setup: Setup) -> Result<Self> {
        let unable = |e| format!("cannot make {}: {e}", dir.display());
        let _ = std::fs::remove_dir_all(dir);
        std::fs::create_dir_all(dir.join("cluster/mds")).map_err(unable)?;
        let dir = std::path::absolute(dir.join("cluster")).map_err(unable)?;
        let address = free_address(setup.host)?;
        let mds = dir.join("mds");
        let control = free_address(Ipv4Addr::LOCALHOST)?;
        let config = config(&mds, address, control, setup);
        std::fs::write(mds.join("mds.toml"), config).map_err(unable)?;
        let log = std::fs::File::create(dir.join("up.log")).map_err(unable)?;
        let mut up = Command::new(program)
            .args(["up", "--ds", &setup.copies.max(DS_COUNT_MIN).to_string()])
            .args(["--copies", &setup.copies.to_string(), "--dir"])
            .arg(&dir)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .map_err(|e| format!("cannot start {}: {e}", program.display()))?;
        let stdout = up.stdout.take().expect("standard output is a pipe");
        let ready = BufReader::new(stdout)
            .lines()
            .map_while(std::result::Result::ok)
            .any(|line| line.starts_with(READY));
        let server = Self { up, dir, address };
        if !ready {
            return Err(format!("no cluster: see {}/up.log", server.dir.display()));
        }
        cluster::await_state("the grace period did not end", || {
            Ok(cluster(&server.dir).mds()?["in_grace"] == false)
        })
        .map_err(|e| e.to_string())?;
        Ok(server)
    }

    /// Where its state lies.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Where clients connect to.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops it in order.
    pub(super) fn stop(mut self) {
        process::signal(&[self.up.id()], "TERM");
        // What does not end is killed when this is dropped.
        let _ = process::wait_at_most(&mut self.up, STOP_LIMIT);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        process::kill_family(&mut self.up);
    }
}

fn config(dir: &Path, listen: SocketAddr, control: SocketAddr, setup: Setup) -> String {
    let Setup { lease_s, nfs3, .. } = setup;
    format!(
        "state_dir = '{}'\nlisten = ['{listen}']\ncontrol_listen = ['{control}']\nlease_seconds = {lease_s}\nnfs3 = {nfs3}\n\
         [root]\nmode = '1777'\n[[export]]\nclients = '127.0.0.0/8'\naccess = 'rw'\nsquash = 'none'\n",
        dir.display()
    )
}

/// An address that is free now.
fn free_address(host: Ipv4Addr) -> Result<SocketAddr> {
    TcpListener::bind((host, 0))
        .and_then(|listener| listener.local_addr())
        .map_err(|e| format!("cannot find a free port: {e}"))
}
