//! Names of hosts, and of their lock-owners, as the tables of locks know them.

use nlm::{Fsh4Access, Fsh4Mode, Netobj};
use state::Share;
use std::net::IpAddr;
use transport::{Address, ConnHandle, Endpoint};
use xdr::Opaque;

/// A host: where it calls from, and the name that it gives itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HostName {
    /// An IP address, or a name in memory after `memory:`.
    peer: String,
    name: Vec<u8>,
}

const MEMORY: &str = "memory:";

impl HostName {
    /// The host at the other end of a connection.
    pub(crate) fn of(conn: &ConnHandle, name: &[u8]) -> Self {
        Self {
            peer: peer_of(conn),
            name: name.to_vec(),
        }
    }

    /// As the tables have it.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.peer.clone().into_bytes();
        bytes.push(0);
        bytes.extend_from_slice(&self.name);
        bytes
    }

    /// From what [`HostName::to_bytes`] made; `None` for anything else.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let at = bytes.iter().position(|byte| *byte == 0)?;
        Some(Self {
            peer: String::from_utf8(bytes[..at].to_vec()).ok()?,
            name: bytes[at + 1..].to_vec(),
        })
    }

    /// Where it calls from, as text.
    pub(crate) fn peer(&self) -> &str {
        &self.peer
    }

    /// The name that it gives itself.
    pub(crate) fn name(&self) -> &[u8] {
        &self.name
    }

    /// Whether it calls from there.
    pub(crate) fn is_at(&self, peer: &str) -> bool {
        self.peer == peer
    }

    /// Whether its name is this one, up to the domain: hosts call themselves by either.
    pub(crate) fn is_named(&self, name: &[u8]) -> bool {
        let short = |name: &[u8]| {
            name.split(|b| *b == b'.')
                .next()
                .map(<[u8]>::to_ascii_lowercase)
        };
        short(&self.name) == short(name)
    }

    /// Where its programs are to be reached, given their port.
    pub(crate) fn address(&self, port: u16) -> Option<Address> {
        match self.peer.strip_prefix(MEMORY) {
            Some(name) => Some(Address::Memory(name.to_owned())),
            None => {
                let ip: IpAddr = self.peer.parse().ok()?;
                Some(Address::Tcp((ip, port).into()))
            }
        }
    }
}

impl std::fmt::Display for HostName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", String::from_utf8_lossy(&self.name), self.peer)
    }
}

/// Where a connection comes from, without the port.
pub(crate) fn peer_of(conn: &ConnHandle) -> String {
    peer_of_endpoint(conn.peer())
}

/// As [`peer_of`], of what came without a connection.
pub(crate) fn peer_of_endpoint(peer: &Endpoint) -> String {
    match peer {
        Endpoint::Socket(address) => address.ip().to_canonical().to_string(),
        Endpoint::Tunnel(name) | Endpoint::Memory(name) => format!("{MEMORY}{name}"),
    }
}

/// Name of a lock-owner in the tables: the process, then what the host calls it.
pub(crate) fn owner_of(svid: i32, oh: Netobj<'_>) -> Vec<u8> {
    let mut owner = svid.to_be_bytes().to_vec();
    owner.extend_from_slice(oh.0);
    owner
}

/// Back from [`owner_of`].
pub(crate) fn svid_and_oh(owner: &[u8]) -> (i32, Netobj<'_>) {
    match owner.split_first_chunk::<4>() {
        Some((svid, oh)) => (i32::from_be_bytes(*svid), Opaque(oh)),
        None => (0, Opaque(&[])),
    }
}

/// A share as the tables have it.
pub(crate) fn share_of(access: Fsh4Access, mode: Fsh4Mode) -> Share {
    Share {
        access: access as u32,
        deny: mode as u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_what_its_bytes_say() {
        let host = HostName {
            peer: "192.0.2.7".into(),
            name: b"a\0b".to_vec(),
        };
        assert_eq!(HostName::parse(&host.to_bytes()), Some(host.clone()));
        let address = Address::Tcp("192.0.2.7:111".parse().unwrap());
        assert_eq!(host.address(111), Some(address));
        assert_eq!(HostName::parse(b"192.0.2.7"), None);
    }

    #[test]
    fn a_name_with_its_domain_is_the_same_name() {
        let host = HostName {
            peer: "192.0.2.7".into(),
            name: b"client.example".to_vec(),
        };
        assert!(host.is_named(b"CLIENT") && host.is_named(b"client.other"));
        assert!(!host.is_named(b"client2"));
    }

    #[test]
    fn an_owner_is_a_process_and_its_handle() {
        let owner = owner_of(-7, Opaque(b"7@client"));
        assert_eq!(svid_and_oh(&owner), (-7, Opaque(&b"7@client"[..])));
    }
}
