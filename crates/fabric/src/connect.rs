//! Providers: how connections begin.

use crate::{BoxFuture, Claim, Endpoint, EndpointConfig, Negotiated, Receive};
use bytes::Bytes;
use std::fmt;
use std::io;
use std::net::SocketAddr;

/// Private data that every fabric carries in both directions. InfiniBand and RoCE leave 56 octets of a connection
/// request to the caller. iWARP leaves 508 (512 of RFC 5044 §7.1.1 less 4 of RFC 6581 §9.1).
pub const PRIVATE_DATA_BYTES_PORTABLE: usize = 56;

/// What a provider can do at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProviderLimits {
    /// Bytes of private data in a request, an acceptance or a rejection.
    pub private_data_bytes_max: usize,
    /// Bytes of one [`Work::Send`](crate::Work::Send).
    pub send_bytes_max: u32,
    /// Bytes of one write or read.
    pub transfer_bytes_max: u32,
    /// Largest [`EndpointConfig::send_depth`] and [`EndpointConfig::receive_depth`].
    pub depth_max: u32,
    /// Largest [`EndpointConfig::exposed_max`].
    pub exposed_max: u32,
    /// Largest [`EndpointConfig::ird`] and [`EndpointConfig::ord`].
    pub reads_max: u32,
    /// A message waits when no receive is posted (InfiniBand, RoCE) instead of ending the connection (iWARP).
    pub waits_for_receives: bool,
    /// Connections can take their receives from a queue that they share ([`Incoming::accept_sharing`]).
    pub shares_receives: bool,
    /// What comes on a connection that shares its receives beyond what was admitted waits, alone. Else it ends that connection, unless it is
    /// excused ([`Endpoint::excuse`](crate::Endpoint::excuse)).
    pub holds_back: bool,
    /// Private data may come with zeros after them: InfiniBand's messages have one size.
    pub pads_private_data: bool,
    /// A peer may take back memory that is exposed to it ([`Work::Send`](crate::Work::Send) with an invalidation). Where
    /// that is not so, no peer must be told that it may.
    pub peers_invalidate: bool,
    /// [`Counters`](crate::Counters) have what the peer placed in exposed memory, and what it read from there. A device
    /// does that without a word.
    pub counts_peers_work: bool,
    /// How much the two sides learn when one of them has broken a rule.
    pub blame: Blame,
}

/// What both sides learn of a broken rule. It ends the connection in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Blame {
    /// That the connection ended, and no more: iWARP of a kernel keeps the rest to itself.
    Nobody,
    /// Who it was, mostly; the rule only roughly, since InfiniBand has one answer for many of them. Who was wrong may
    /// learn only that the other has closed.
    Side,
    /// Who it was and which rule.
    Rule,
}

/// An RDMA provider.
pub trait Fabric: Send + Sync + 'static {
    /// For logs and status, such as `software iWARP`.
    fn name(&self) -> &'static str;

    /// Whether a device moves the bytes.
    fn is_hardware(&self) -> bool;

    /// What it can do at most.
    fn limits(&self) -> ProviderLimits;

    /// Listens. Several listeners of one process may share an address, one for each of its runtimes.
    fn listen(&self, address: SocketAddr) -> BoxFuture<'_, io::Result<Box<dyn Listener>>>;

    /// Connects. The receives are posted before the peer may send.
    fn connect(
        &self,
        address: SocketAddr,
        config: EndpointConfig,
        private_data: Bytes,
        receives: Vec<Receive>,
    ) -> BoxFuture<'_, Result<Connected, ConnectError>>;
}

/// Where connections arrive.
pub trait Listener: Send {
    /// The address it listens on.
    fn local(&self) -> SocketAddr;

    /// The next peer that asks for a connection, its request complete. Peers that are slow or wrong delay no other.
    /// May be dropped and called again. After [`io::ErrorKind::NetworkDown`] nobody arrives here any more: the device is
    /// gone, and whoever wants to listen to its successor listens anew.
    fn accept(&mut self) -> BoxFuture<'_, io::Result<Box<dyn Incoming>>>;
}

/// A peer that asks for a connection. Dropping it turns the peer away, without private data.
pub trait Incoming: Send {
    /// Its address.
    fn peer(&self) -> SocketAddr;

    /// The private data of its request.
    fn private_data(&self) -> &Bytes;

    /// Says yes. The receives are posted before the peer may send.
    fn accept(
        self: Box<Self>,
        config: EndpointConfig,
        private_data: Bytes,
        receives: Vec<Receive>,
    ) -> BoxFuture<'static, Result<Connected, ConnectError>>;

    /// Says yes. Messages of the peer take their receives from the queue of `claim`, which has admitted the first of
    /// them; [`Endpoint::admit`] admits more. What comes beyond them waits or ends this connection
    /// ([`ProviderLimits::holds_back`]), and nobody else's. Nor does it stand in the way of the answer to a read of
    /// this side. Where the answer comes after such messages, a provider that holds them back may cut off a peer that
    /// sends many. Completions of these receives have the id 0.
    ///
    /// A provider that cannot share takes the receives of the claim for this connection alone.
    fn accept_sharing(
        self: Box<Self>,
        config: EndpointConfig,
        private_data: Bytes,
        mut claim: Claim,
    ) -> BoxFuture<'static, Result<Connected, ConnectError>> {
        let buffers = std::iter::from_fn(|| claim.take());
        let receives = buffers.map(|buffer| Receive { id: 0, buffer }).collect();
        self.accept(config, private_data, receives)
    }

    /// Says no.
    fn reject(self: Box<Self>, private_data: Bytes) -> BoxFuture<'static, io::Result<()>>;
}

/// A connection that has begun.
pub struct Connected {
    /// This side of it.
    pub endpoint: Box<dyn Endpoint>,
    /// What the other side said: in its acceptance if this side connects, in its request if this side accepts.
    pub private_data: Bytes,
}

impl fmt::Debug for Connected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Negotiated { ird, ord, crc, .. } = self.endpoint.negotiated();
        f.debug_struct("Connected")
            .field("peer", &self.endpoint.peer())
            .field("ird", &ird)
            .field("ord", &ord)
            .field("crc", &crc)
            .finish_non_exhaustive()
    }
}

/// Why there is no connection.
#[derive(Debug)]
pub enum ConnectError {
    /// The peer said no.
    Rejected {
        /// And this.
        private_data: Bytes,
    },
    /// The private data or the receives are more than the provider takes.
    TooMuch,
    /// The peer speaks otherwise; says how.
    Protocol(&'static str),
    /// The network failed, or the peer was too slow.
    Io(io::Error),
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rejected { .. } => write!(f, "the peer rejected the connection"),
            Self::TooMuch => write!(f, "too much private data or too many receives"),
            Self::Protocol(what) => write!(f, "the peer breaks the connection set-up: {what}"),
            Self::Io(e) => write!(f, "no connection: {e}"),
        }
    }
}

impl std::error::Error for ConnectError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(e) => Some(e),
            _ => None,
        }
    }
}

impl From<io::Error> for ConnectError {
    fn from(e: io::Error) -> Self {
        Self::Io(e)
    }
}
