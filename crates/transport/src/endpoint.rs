//! Where a connection ends, what is under it, and who the peer proved to be.

use std::net::SocketAddr;
use std::sync::Arc;

/// The kind of transport under a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TransportKind {
    /// TCP in clear.
    Tcp,
    /// TLS on TCP.
    Tls,
    /// RPC-over-RDMA.
    Rdma,
    /// A stream that somebody else has opened.
    Tunnel,
    /// Within the process.
    Memory,
}

/// One end of a connection.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// An address of the Internet.
    Socket(SocketAddr),
    /// The other end of a [`crate::tunnel`], by the name of whoever it is open to.
    Tunnel(Arc<str>),
    /// A name in a [`crate::memory::MemoryNetwork`].
    Memory(Arc<str>),
}

impl Endpoint {
    /// The socket address, where there is one.
    #[must_use]
    pub const fn socket(&self) -> Option<SocketAddr> {
        match self {
            Self::Socket(a) => Some(*a),
            Self::Tunnel(_) | Self::Memory(_) => None,
        }
    }
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Socket(a) => write!(f, "{a}"),
            Self::Tunnel(name) | Self::Memory(name) => f.write_str(name),
        }
    }
}

/// Who the peer proved to be by its TLS certificate, which the TLS configuration has verified.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TlsIdentity {
    /// SHA-256 of the certificate's DER.
    pub certificate_sha256: [u8; 32],
    /// The certificate's DER.
    pub certificate_der: Vec<u8>,
    /// Common name of the subject, when it has one in UTF-8.
    pub common_name: Option<String>,
}
