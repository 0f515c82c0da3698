//! Messages of rpcbind, which knows where the programs of a machine listen (RFC 1833): of its version 4 (§2), and what remains in use
//! of version 2, the port mapper (§3).
//!
//! Owns arguments and results. Leaves the calls, and what an answer is worth, to those who ask. Entry points: [`Mapping`],
//! [`address`], [`port`], [`is_done`], [`Listing`].

use crate::{Netid, UniversalAddress};
use std::net::SocketAddr;
use xdr::{Chain, DecodeError, Opaque, decode_all};

/// ONC RPC program number.
pub const PROGRAM: u32 = 100_000;
/// Its port, over TCP and UDP.
pub const PORT: u16 = 111;
/// The version with universal addresses.
pub const VERSION: u32 = 4;
/// `RPCBPROC_SET`: registers a program.
pub const SET: u32 = 1;
/// `RPCBPROC_UNSET`: takes a registration back.
pub const UNSET: u32 = 2;
/// `RPCBPROC_GETADDR`: where a program listens.
pub const GETADDR: u32 = 3;
/// `RPCBPROC_DUMP`: all registrations.
pub const DUMP: u32 = 4;
/// The version of the port mapper.
pub const PORTMAP_VERSION: u32 = 2;
/// `PMAPPROC_GETPORT`: the port of a program.
pub const GETPORT: u32 = 3;
/// `IPPROTO_TCP`, as the port mapper names transports.
pub const IPPROTO_TCP: u32 = 6;

/// Longest netid, universal address or owner, in bytes. The RFC has no limit.
pub const TEXT_BYTES_MAX: u32 = 1024;
/// Most registrations of a machine that are listed. A machine has some hundred.
pub const LISTED_MAX: u32 = 4096;

xdr::xdr_struct! {
    /// A program, its version, and where it is: `rpcb` (RFC 1833 §2.1).
    pub struct Mapping<'a> {
        /// Number of the program.
        pub program: u32,
        /// Its version.
        pub version: u32,
        /// The transport.
        pub netid: Opaque<'a, TEXT_BYTES_MAX>,
        /// Universal address; empty in a question.
        pub address: Opaque<'a, TEXT_BYTES_MAX>,
        /// Who registered it.
        pub owner: Opaque<'a, TEXT_BYTES_MAX>,
    }
}

xdr::xdr_struct! {
    /// A program and its port: `mapping` (RFC 1833 §3.1).
    pub struct PortMapping {
        /// Number of the program.
        pub program: u32,
        /// Its version.
        pub version: u32,
        /// [`IPPROTO_TCP`].
        pub protocol: u32,
        /// 0 in a question.
        pub port: u32,
    }
}

/// What [`DUMP`] answers: `rpcblist_ptr` (RFC 1833 §2.1).
pub type Listing<'a> = Chain<Mapping<'a>, LISTED_MAX>;

/// An answer that makes no sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadAnswer;

impl std::fmt::Display for BadAnswer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an answer of rpcbind that makes no sense")
    }
}

impl std::error::Error for BadAnswer {}

impl From<DecodeError> for BadAnswer {
    fn from(_: DecodeError) -> Self {
        Self
    }
}

/// The result of [`GETADDR`] for a transport: where the program listens, or `None` when it is not registered. Port 0 is that of no
/// program.
///
/// # Errors
/// [`BadAnswer`] for anything but an address of that transport.
pub fn address(answer: &[u8], netid: Netid) -> Result<Option<SocketAddr>, BadAnswer> {
    let text: Opaque<'_, TEXT_BYTES_MAX> = decode_all(answer)?;
    if text.0.is_empty() {
        return Ok(None);
    }
    let told = UniversalAddress::parse(netid.as_str().as_bytes(), text.0).map_err(|_| BadAnswer)?;
    Ok(Some(told.address).filter(|at| at.port() != 0))
}

/// The result of [`GETPORT`]: the port, or `None` when the program is not registered.
///
/// # Errors
/// [`BadAnswer`] for what is no port.
pub fn port(answer: &[u8]) -> Result<Option<u16>, BadAnswer> {
    let port = u16::try_from(decode_all::<u32>(answer)?).map_err(|_| BadAnswer)?;
    Ok((port != 0).then_some(port))
}

/// The result of [`SET`] and [`UNSET`]: whether it was done.
///
/// # Errors
/// [`BadAnswer`].
pub fn is_done(answer: &[u8]) -> Result<bool, BadAnswer> {
    Ok(decode_all(answer)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use xdr::encode_to_vec;

    fn text(text: &str) -> Vec<u8> {
        encode_to_vec(&Opaque::<TEXT_BYTES_MAX>(text.as_bytes()))
    }

    /// Every shorter form of a result, and a longer one.
    fn cut(whole: &[u8]) -> impl Iterator<Item = Vec<u8>> + '_ {
        let shorter = (0..whole.len()).map(|end| whole[..end].to_vec());
        shorter.chain([[whole, &[0; 4]].concat()])
    }

    #[test]
    fn a_mapping_is_what_rfc_1833_says() {
        let mapping = Mapping {
            program: 100_003,
            version: 3,
            netid: Opaque(b"tcp"),
            address: Opaque(b"192.0.2.7.8.1"),
            owner: Opaque(b"ropewalk"),
        };
        let mut wanted = Vec::new();
        wanted.extend([0, 1, 0x86, 0xa3, 0, 0, 0, 3]);
        wanted.extend(*b"\0\0\0\x03tcp\0");
        wanted.extend(*b"\0\0\0\x0d192.0.2.7.8.1\0\0\0");
        wanted.extend(*b"\0\0\0\x08ropewalk");
        assert_eq!(encode_to_vec(&mapping), wanted);
        assert_eq!(decode_all::<Mapping<'_>>(&wanted), Ok(mapping));
        for bytes in cut(&wanted) {
            decode_all::<Mapping<'_>>(&bytes).unwrap_err();
        }
        let question = PortMapping {
            program: 100_003,
            version: 3,
            protocol: IPPROTO_TCP,
            port: 0,
        };
        let wanted = [0, 1, 0x86, 0xa3, 0, 0, 0, 3, 0, 0, 0, 6, 0, 0, 0, 0];
        assert_eq!(encode_to_vec(&question), wanted);
    }

    #[test]
    fn an_address_is_told_or_not_or_makes_no_sense() {
        let found = text("192.0.2.7.8.1");
        let at = "192.0.2.7:2049".parse().ok();
        assert_eq!(address(&found, Netid::Tcp), Ok(at));
        for none in ["", "192.0.2.7.0.0"] {
            assert_eq!(address(&text(none), Netid::Tcp), Ok(None), "{none}");
        }
        let sixth = text("::1.8.1");
        assert_eq!(address(&sixth, Netid::Tcp6), Ok("[::1]:2049".parse().ok()));
        assert_eq!(address(&found, Netid::Tcp6), Err(BadAnswer));
        let long = "1".repeat(TEXT_BYTES_MAX as usize + 1);
        for bad in ["192.0.2.7", "host.8.1", &long] {
            let bytes = encode_to_vec(&Opaque::<{ u32::MAX }>(bad.as_bytes()));
            assert_eq!(address(&bytes, Netid::Tcp), Err(BadAnswer), "{bad}");
        }
        for bytes in cut(&found) {
            assert_eq!(address(&bytes, Netid::Tcp), Err(BadAnswer));
        }
    }

    #[test]
    fn a_port_is_told_or_not_or_makes_no_sense() {
        assert_eq!(port(&[0, 0, 8, 1]), Ok(Some(2049)));
        assert_eq!(port(&[0; 4]), Ok(None));
        assert_eq!(port(&[0, 1, 8, 1]), Err(BadAnswer));
        for bytes in cut(&[0, 0, 8, 1]) {
            assert_eq!(port(&bytes), Err(BadAnswer));
        }
        assert_eq!(is_done(&[0, 0, 0, 1]), Ok(true));
        assert_eq!(is_done(&[0; 4]), Ok(false));
        assert_eq!(is_done(&[0, 0, 0, 2]), Err(BadAnswer));
    }

    #[test]
    fn a_listing_ends_at_its_limit() {
        let mapping = Mapping {
            program: 1,
            version: 2,
            netid: Opaque(b"udp"),
            address: Opaque(b""),
            owner: Opaque(b"superuser"),
        };
        let listing = |count| Chain::<_, { u32::MAX }>(vec![mapping.clone(); count]);
        let most = encode_to_vec(&listing(LISTED_MAX as usize));
        let listed: Listing<'_> = decode_all(&most).expect("as many as there may be");
        assert_eq!(listed.0.len(), LISTED_MAX as usize);
        let more = encode_to_vec(&listing(LISTED_MAX as usize + 1));
        decode_all::<Listing<'_>>(&more).unwrap_err();
        for bytes in cut(&encode_to_vec(&listing(2))) {
            decode_all::<Listing<'_>>(&bytes).unwrap_err();
        }
    }
}
