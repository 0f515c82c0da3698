//! Who is asked: a cluster of ours, or nfs-ganesha.

use crate::BenchError;
use crate::nfs::cluster::{Cluster, ClusterOptions};
use crate::nfs::server::{Server, Transport};
use crate::peer::{Ganesha, GaneshaOptions};
use serde_json::Value;
use std::time::Duration;

/// Who is asked.
#[derive(Debug, Clone)]
pub enum Host {
    /// A cluster of ours.
    Ropewalk(ClusterOptions),
    /// The peer.
    Ganesha(GaneshaOptions),
}

impl Host {
    /// What a reader must know to repeat a run.
    #[must_use]
    pub fn settings(&self) -> Value {
        match self {
            Self::Ropewalk(options) => options.settings(),
            Self::Ganesha(options) => options.settings(),
        }
    }

    /// Its name in tables.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Ropewalk(_) => "ropewalk".to_owned(),
            Self::Ganesha(options) => options.name(),
        }
    }

    /// Starts it.
    ///
    /// # Errors
    /// As [`Cluster::start`] and [`Ganesha::start`].
    pub fn start(&self) -> Result<Running, BenchError> {
        Ok(match self {
            Self::Ropewalk(options) => Running::Cluster(Box::new(Cluster::start(options)?)),
            Self::Ganesha(options) => {
                let peer = Ganesha::start(options)?;
                let server = Server {
                    transport: Transport::Tcp,
                    address: peer.address(),
                    rdma_crc: true,
                };
                Running::Ganesha(peer, server)
            }
        })
    }
}

/// It, while it runs.
#[derive(Debug)]
pub enum Running {
    /// A cluster of ours.
    Cluster(Box<Cluster>),
    /// The peer, and where it listens.
    Ganesha(Ganesha, Server),
}

impl Running {
    /// Where names and attributes are.
    #[must_use]
    pub fn server(&self) -> &Server {
        match self {
            Self::Cluster(cluster) => cluster.server(),
            Self::Ganesha(_, server) => server,
        }
    }

    /// CPU time of all its processes so far.
    ///
    /// # Errors
    /// [`BenchError::Io`] when one of them is gone.
    pub fn cpu(&self) -> Result<Duration, BenchError> {
        match self {
            Self::Cluster(cluster) => cluster.cpu(),
            Self::Ganesha(peer, _) => peer.cpu(),
        }
    }
}
