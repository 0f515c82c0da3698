//! Making connections without knowing the transport.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::{BoxFuture, ConnHandle, Counters, DynService};

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Address {
    /// TCP in clear.
    Tcp(SocketAddr),
    /// TLS on TCP; the name is what the server's certificate must carry.
    Tls {
        /// Host and port.
        address: SocketAddr,
        /// DNS name or textual IP address in the certificate.
        server_name: String,
    },
    /// RPC-over-RDMA.
    Rdma(SocketAddr),
    /// What a [`crate::tunnel`] leads to. Who connects knows the way there.
    Tunnel(String),
    /// A listener of a [`crate::memory::MemoryNetwork`].
    Memory(String),
}

impl Address {
    /// The address of a netid and a universal address (RFC 5665), as servers tell each other; `None` for a transport that
    /// we do not have. The netid `memory` is that of a [`crate::memory::MemoryNetwork`].
    #[must_use]
    pub fn of_told(netid: &str, uaddr: &str) -> Option<Self> {
        if netid == "memory" {
            return Some(Self::Memory(uaddr.to_owned()));
        }
        let parsed = rpc::UniversalAddress::parse(netid.as_bytes(), uaddr.as_bytes()).ok()?;
        Some(match parsed.netid {
            rpc::Netid::Tcp | rpc::Netid::Tcp6 => Self::Tcp(parsed.address),
            rpc::Netid::Rdma | rpc::Netid::Rdma6 => Self::Rdma(parsed.address),
        })
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp(a) => write!(f, "tcp {a}"),
            Self::Tls {
                address,
                server_name,
            } => write!(f, "tls {address} ({server_name})"),
            Self::Rdma(a) => write!(f, "rdma {a}"),
            Self::Tunnel(name) => write!(f, "tunnel to {name}"),
            Self::Memory(name) => write!(f, "memory {name}"),
        }
    }
}

/// Why no connection was made.
#[derive(Debug)]
pub enum ConnectError {
    /// The connector does not serve this kind of address.
    Unsupported,
    /// The network refused it. A retry may help.
    Io(std::io::Error),
    /// It took longer than [`crate::TransportLimits::handshake`]. A retry may help.
    TimedOut,
    /// TLS was refused: by us, or by the server. A retry does not help before someone acts.
    Tls(std::io::Error),
    /// [`crate::TransportLimits::connections_max`] is reached.
    TooMany,
}

impl std::fmt::Display for ConnectError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unsupported => write!(f, "no transport for this address"),
            Self::Io(e) => write!(f, "{e}"),
            Self::TimedOut => write!(f, "timed out"),
            Self::Tls(e) => write!(f, "TLS: {e}"),
            Self::TooMany => write!(f, "too many connections"),
        }
    }
}

impl std::error::Error for ConnectError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(e) | Self::Tls(e) => Some(e),
            _ => None,
        }
    }
}

impl ConnHandle {
    /// To be called by who made this connection after RDMA to the same peer did not come up: counts and logs that.
    pub fn fell_back(&self, from: &Address, why: &ConnectError) {
        Counters::add(&self.context().counters().rdma_fallbacks, 1);
        if self.context().may_log() {
            tracing::warn!(%from, peer = %self.peer(), "RDMA did not come up ({why}): another transport is used");
        }
    }
}

/// Makes connections. The connection lives in a task of the runtime that it was made on, until
/// [`ConnHandle::close`] or the peer ends it.
pub trait Connector: Send + Sync + 'static {
    /// Connects to `address`; calls that the server sends on the connection go to `reverse`.
    fn connect<'a>(
        &'a self,
        address: &'a Address,
        reverse: Arc<dyn DynService>,
    ) -> BoxFuture<'a, Result<ConnHandle, ConnectError>>;
}
