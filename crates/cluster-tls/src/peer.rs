//! Who the other side of a connection is, from the certificate that TLS has verified.

use rustls::pki_types::CertificateDer;
use xdr::{Decode, DecodeError, Decoder, Encode, Encoder};

/// Names of roles end so; the CA, not the name, tells the cluster.
const SUFFIX: &str = ".ropewalk";

/// What a certificate was issued for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CertRole {
    /// The metadata server.
    Mds,
    /// A data server.
    DataServer {
        /// Its id in the cluster.
        ds_id: u32,
    },
}

impl CertRole {
    /// The subject's common name: `mds` or `ds-<id>`.
    #[must_use]
    pub fn common_name(self) -> String {
        match self {
            Self::Mds => "mds".to_owned(),
            Self::DataServer { ds_id } => format!("ds-{ds_id}"),
        }
    }

    /// The one DNS name in the certificate: `mds.ropewalk` or `ds-<id>.ropewalk`.
    #[must_use]
    pub fn dns_name(self) -> String {
        self.common_name() + SUFFIX
    }

    fn from_dns_name(name: &str) -> Option<Self> {
        let name = name.strip_suffix(SUFFIX)?;
        if name == "mds" {
            return Some(Self::Mds);
        }
        let ds_id = name.strip_prefix("ds-")?.parse().ok()?;
        let role = Self::DataServer { ds_id };
        // Only the form that we write: no sign, no leading zeros.
        (role.common_name() == name).then_some(role)
    }
}

/// BLAKE3 of a certificate's DER form.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint(pub [u8; 32]);

impl Fingerprint {
    /// The fingerprint of a certificate.
    #[must_use]
    pub fn of(certificate: &[u8]) -> Self {
        Self(*blake3::hash(certificate).as_bytes())
    }
}

impl std::fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl std::fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

impl Decode<'_> for Fingerprint {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.opaque_fixed().map(Self)
    }
}

impl Encode for Fingerprint {
    fn encode(&self, e: &mut Encoder) {
        e.opaque_fixed(&self.0);
    }
}

/// The other side of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// Showed no certificate: it may JOIN and nothing else.
    Anonymous,
    /// Showed a certificate of this cluster's CA. The MDS still compares the fingerprint with its table.
    Member {
        /// What it was issued for.
        role: CertRole,
        /// Which certificate it was.
        fingerprint: Fingerprint,
    },
}

/// A certificate that the CA signed and that names no role: never one that [`crate::ClusterCa`] issued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerError;

impl std::fmt::Display for PeerError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the peer's certificate names no role of this cluster")
    }
}

impl std::error::Error for PeerError {}

/// Who the peer is. `certificates` is `peer_certificates()` of a connection whose handshake is complete,
/// made with a configuration of this crate: only then are they verified.
///
/// # Errors
/// [`PeerError`]: close the connection.
pub fn peer_of(certificates: Option<&[CertificateDer<'_>]>) -> Result<Peer, PeerError> {
    let Some(leaf) = certificates.and_then(<[_]>::first) else {
        return Ok(Peer::Anonymous);
    };
    Ok(Peer::Member {
        role: role_of(leaf).ok_or(PeerError)?,
        fingerprint: Fingerprint::of(leaf),
    })
}

/// As [`peer_of`], for a transport that keeps the peer's certificate as DER bytes.
///
/// # Errors
/// [`PeerError`]: close the connection.
pub fn peer_of_der(certificate: Option<&[u8]>) -> Result<Peer, PeerError> {
    let leaf = certificate.map(CertificateDer::from);
    peer_of(leaf.as_ref().map(std::slice::from_ref))
}

/// The role in a certificate that has exactly one name.
pub(crate) fn role_of(certificate: &CertificateDer<'_>) -> Option<CertRole> {
    let parsed = webpki::EndEntityCert::try_from(certificate).ok()?;
    let mut names = parsed.valid_dns_names();
    let name = names.next()?;
    if names.next().is_some() {
        return None;
    }
    CertRole::from_dns_name(name)
}
