//! The systems that are compared: how each is started, loses a server, and gets its copies again.

use crate::BenchError;
use crate::nfs::cluster::{Away, Cluster, ClusterOptions};
use crate::nfs::server::{Server, Transport};
use crate::peer::gluster::{self, Gluster};
use crate::peer::moosefs::{self, MooseFs};
use crate::process::Launcher;
use clap::ValueEnum;
use std::path::{Path, PathBuf};

/// Servers of each system.
const SERVERS_COUNT: u16 = 4;
/// The data server that is killed.
const KILLED: usize = 1;

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Ropewalk with one copy
    One,
    /// Ropewalk with two
    Two,
    /// nfs-ganesha over GlusterFS, replica 2
    Gluster,
    /// `MooseFS`, goal 2, by FUSE
    Moosefs,
}

impl Kind {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::One => "Ropewalk, one copy",
            Self::Two => "Ropewalk, two copies",
            Self::Gluster => "nfs-ganesha over GlusterFS, replica 2",
            Self::Moosefs => "MooseFS, goal 2, by FUSE",
        }
    }

    /// What programs of others say of their versions.
    pub(super) fn versions(self) -> Vec<String> {
        match self {
            Self::One | Self::Two => Vec::new(),
            Self::Gluster => gluster::versions(),
            Self::Moosefs => moosefs::versions(),
        }
    }
}

/// Those that were named, or all, as far as they are here; says which are not.
pub(super) fn installed(named: &[Kind]) -> Vec<Kind> {
    let wanted = match named {
        [] => Kind::value_variants(),
        some => some,
    };
    let is_root = rustix::process::geteuid().is_root();
    let mut kinds = wanted.to_vec();
    kinds.retain(|kind| {
        let (is_here, how) = match kind {
            Kind::One | Kind::Two => return true,
            Kind::Gluster => (gluster::is_installed(), gluster::HOW_TO_INSTALL),
            Kind::Moosefs => (moosefs::is_installed(), moosefs::HOW_TO_INSTALL),
        };
        match (is_here, is_root) {
            (false, _) => eprintln!("{how}: nothing is compared with it"),
            (true, false) => eprintln!("{} needs root: it is left out", kind.name()),
            (true, true) => {}
        }
        is_here && is_root
    });
    kinds
}

/// A running system.
#[derive(Debug)]
pub(super) enum System {
    Ropewalk {
        cluster: Cluster,
        program: PathBuf,
        copies: u32,
        /// What the cluster calls the data server that is killed.
        killed_id: String,
    },
    Gluster(Gluster),
    MooseFs(MooseFs),
}

/// How its files are reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reached {
    /// By our library.
    Url(String),
    /// By the kernel.
    Mount(PathBuf),
}

impl System {
    pub(super) fn start(
        kind: Kind,
        launcher: &Launcher,
        program: &Path,
        dir: &Path,
    ) -> Result<Self, BenchError> {
        let ropewalk = |copies| {
            let cluster = Cluster::start(&ClusterOptions {
                ds_count: SERVERS_COUNT,
                copies,
                in_memory: false,
                is_apart: true,
                ..ClusterOptions::new(program.to_owned(), dir.to_owned())
            })?;
            Ok(Self::Ropewalk {
                killed_id: cluster.ds_id(program, KILLED)?.to_string(),
                cluster,
                program: program.to_owned(),
                copies,
            })
        };
        match kind {
            Kind::One => ropewalk(1),
            Kind::Two => ropewalk(2),
            Kind::Gluster => Gluster::start(launcher, dir).map(Self::Gluster),
            Kind::Moosefs => MooseFs::start(launcher, dir).map(Self::MooseFs),
        }
    }

    pub(super) fn reached(&self) -> Reached {
        match self {
            Self::Ropewalk { cluster, .. } => Reached::Url(cluster.server().url()),
            Self::Gluster(gluster) => {
                let server = Server {
                    transport: Transport::Tcp,
                    address: gluster.address(),
                    rdma_crc: true,
                };
                Reached::Url(server.url())
            }
            Self::MooseFs(moose) => Reached::Mount(moose.mount()),
        }
    }

    /// Whether a server may be lost.
    pub(super) const fn has_copies(&self) -> bool {
        !matches!(self, Self::Ropewalk { copies: 1, .. })
    }

    /// Kills (SIGKILL) one server for good.
    pub(super) fn kill(&self) -> Result<(), BenchError> {
        match self {
            Self::Ropewalk { cluster, .. } => cluster.send_away(KILLED, Away::Killed),
            Self::Gluster(gluster) => gluster.kill(),
            Self::MooseFs(moose) => moose.kill(),
        }
    }

    /// Gives the killed server up, where that takes an order: `MooseFS` makes copies again by itself.
    pub(super) fn order_repair(&self) -> Result<(), BenchError> {
        match self {
            Self::Ropewalk {
                cluster,
                program,
                killed_id,
                ..
            } => cluster
                .tell(program, &["expel", killed_id, "--yes"])
                .map(drop),
            Self::Gluster(gluster) => gluster.order_repair(),
            Self::MooseFs(_) => Ok(()),
        }
    }

    /// Waits until everything has two copies again.
    pub(super) fn wait_until_full(&self) -> Result<(), BenchError> {
        match self {
            Self::Ropewalk {
                cluster, program, ..
            } => cluster.wait_until_full(program),
            Self::Gluster(gluster) => gluster.wait_until_full(),
            Self::MooseFs(moose) => moose.wait_until_full(),
        }
    }
}
