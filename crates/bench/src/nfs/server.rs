//! Servers and what carries requests to them.

use super::providers::providers;
pub use super::transport::Transport;
use crate::BenchError;
use rpc::{Netid, UniversalAddress};
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use transport::rdma::{Config, Rdma, RdmaConnector};
use transport::{Address, AnyConnector, Connector, Context, TransportLimits};

fn over(provider: fabric_iwarp::Iwarp, crc: bool) -> Rdma {
    let config = Config {
        crc,
        ..Config::default()
    };
    Rdma::new(Arc::new(provider), config)
}

/// A server as the load generator reaches it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Server {
    /// Over what, and where.
    pub transport: Transport,
    /// Its socket: that of software iWARP is one of TCP too.
    pub address: SocketAddr,
    /// Whether this side wants checksums over RDMA frames.
    pub rdma_crc: bool,
}

impl Server {
    /// As connectors want it.
    #[must_use]
    pub fn address(&self) -> Address {
        match self.transport {
            Transport::Tcp => Address::Tcp(self.address),
            Transport::Rdma => Address::Rdma(self.address),
        }
    }

    /// As a URL of our client.
    #[must_use]
    pub fn url(&self) -> String {
        format!(
            "nfs://{}/?transport={}",
            self.address,
            self.transport.name()
        )
    }

    /// What connects to it.
    #[must_use]
    pub fn connector(&self) -> Arc<dyn Connector> {
        let context = Context::new(TransportLimits::default());
        let rdma = providers(self.address.ip(), self.rdma_crc);
        Arc::new(AnyConnector::new(&context, rdma))
    }

    /// What connects to it over RDMA, and from one address of this machine.
    pub(crate) fn rdma_connector(&self, from: IpAddr) -> Arc<dyn Connector> {
        let provider = fabric_iwarp::Iwarp::default().connecting_from(from);
        let rdma = over(provider, self.rdma_crc);
        let context = Context::new(TransportLimits::default());
        Arc::new(RdmaConnector::new(context, vec![rdma]))
    }

    /// Another server, told of by this one: reached over the same transport, if it has such an address.
    #[must_use]
    pub fn other(&self, told: &UniversalAddress) -> Option<Self> {
        let transport = match told.netid {
            Netid::Tcp | Netid::Tcp6 => Transport::Tcp,
            Netid::Rdma | Netid::Rdma6 => Transport::Rdma,
        };
        (transport == self.transport).then(|| Self {
            address: told.address,
            ..self.clone()
        })
    }

    /// Where a client of plain sockets connects to.
    ///
    /// # Errors
    /// [`BenchError::Setting`] for a server over RDMA.
    pub fn socket(&self) -> Result<SocketAddr, BenchError> {
        match self.transport {
            Transport::Tcp => Ok(self.address),
            Transport::Rdma => Err(BenchError::Setting {
                name: "the client of plain sockets",
                must_be: "over TCP",
            }),
        }
    }
}
