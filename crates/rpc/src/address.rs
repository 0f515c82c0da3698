//! Netids and universal addresses (RFC 5665): how a server names a transport address on the wire.
//!
//! Only the four netids that we serve are known. An address of another one is a value that the caller may pass over,
//! not a decode error.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Transport names (RFC 5665 §5.2.3, §5.2.4; RFC 8166 §9 for RDMA).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Netid {
    /// TCP over IPv4.
    Tcp,
    /// TCP over IPv6.
    Tcp6,
    /// RPC-over-RDMA, addressed by IPv4.
    Rdma,
    /// RPC-over-RDMA, addressed by IPv6.
    Rdma6,
}

impl Netid {
    /// Every netid that we know.
    pub const ALL: [Self; 4] = [Self::Tcp, Self::Tcp6, Self::Rdma, Self::Rdma6];

    /// The name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Tcp6 => "tcp6",
            Self::Rdma => "rdma",
            Self::Rdma6 => "rdma6",
        }
    }

    /// The netid of a name, or `None` for one that we do not know.
    #[must_use]
    pub fn from_wire(name: &[u8]) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|n| n.as_str().as_bytes() == name)
    }

    /// Whether its addresses are IPv6.
    #[must_use]
    pub const fn is_ipv6(self) -> bool {
        matches!(self, Self::Tcp6 | Self::Rdma6)
    }

    /// The TCP netid for an address.
    #[must_use]
    pub const fn tcp(address: &SocketAddr) -> Self {
        if address.is_ipv6() {
            Self::Tcp6
        } else {
            Self::Tcp
        }
    }

    /// The RDMA netid for an address.
    #[must_use]
    pub const fn rdma(address: &SocketAddr) -> Self {
        if address.is_ipv6() {
            Self::Rdma6
        } else {
            Self::Rdma
        }
    }
}

/// Why a universal address was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressError {
    /// The netid is none of [`Netid::ALL`].
    UnknownNetid,
    /// The text is not an address of its netid's family followed by two port octets.
    BadAddress,
}

impl std::fmt::Display for AddressError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::UnknownNetid => "unknown netid",
            Self::BadAddress => "bad universal address",
        })
    }
}

impl std::error::Error for AddressError {}

/// A netid and the address in its form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct UniversalAddress {
    /// The transport.
    pub netid: Netid,
    /// Host and port, of the family that the netid says.
    pub address: SocketAddr,
}

impl UniversalAddress {
    /// Longest text of ours: a full IPv6 address with an embedded IPv4 one, and two octets.
    pub const TEXT_BYTES_MAX: u32 = 64;

    /// An address on TCP.
    #[must_use]
    pub const fn tcp(address: SocketAddr) -> Self {
        Self {
            netid: Netid::tcp(&address),
            address,
        }
    }

    /// An address on RDMA.
    #[must_use]
    pub const fn rdma(address: SocketAddr) -> Self {
        Self {
            netid: Netid::rdma(&address),
            address,
        }
    }

    /// The text form: `h1.h2.h3.h4.p1.p2`, or an IPv6 address followed by `.p1.p2`.
    #[must_use]
    pub fn to_text(&self) -> String {
        let [high, low] = self.address.port().to_be_bytes();
        format!("{}.{high}.{low}", self.address.ip())
    }

    /// Parses the two texts of a `netaddr4`.
    ///
    /// # Errors
    /// [`AddressError`] says which of the two is wrong.
    pub fn parse(netid: &[u8], text: &[u8]) -> Result<Self, AddressError> {
        let netid = Netid::from_wire(netid).ok_or(AddressError::UnknownNetid)?;
        let address = parse_text(netid, text).ok_or(AddressError::BadAddress)?;
        Ok(Self { netid, address })
    }
}

fn parse_text(netid: Netid, text: &[u8]) -> Option<SocketAddr> {
    if text.len() > UniversalAddress::TEXT_BYTES_MAX as usize {
        return None;
    }
    let text = std::str::from_utf8(text).ok()?;
    let (rest, low) = text.rsplit_once('.')?;
    let (host, high) = rest.rsplit_once('.')?;
    let port = u16::from_be_bytes([octet(high)?, octet(low)?]);
    let ip = if netid.is_ipv6() {
        IpAddr::V6(host.parse::<Ipv6Addr>().ok()?)
    } else {
        IpAddr::V4(host.parse::<Ipv4Addr>().ok()?)
    };
    Some(SocketAddr::new(ip, port))
}

/// A decimal octet: digits only, because `parse` alone would take a sign.
fn octet(text: &str) -> Option<u8> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}
