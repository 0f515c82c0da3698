//! Who is who inside a cluster: its own CA, the identities that the CA signs, join tokens, and the
//! TLS configurations of the control port.
//!
//! The MDS holds the CA. A data server joins with a one-time token. The token pins the CA, so the data server knows the MDS before
//! it has a certificate. The token's secret tells the MDS that the data server may have one. From then on both sides show
//! certificates. One port serves both: [`peer_of`] says who is there, and a peer without a certificate may call JOIN only.
//!
//! Certificates do not expire in practice: a wrong clock must not stop a cluster. An expelled data
//! server is refused because the MDS compares [`Fingerprint`]s with its table at every connection, and
//! sessions are never resumed.
//!
//! Entry points: [`ClusterCa`], [`Identity`], [`NewKey`], [`JoinToken`], [`TokenTable`],
//! [`server_config`], [`client_config`], [`join_config`], [`peer_of`].
#![forbid(unsafe_code)]

mod access_token;
mod admin_cert;
mod admin_tls;
mod base32;
mod ca;
mod config;
mod error;
mod files;
mod identity;
mod peer;
mod token;
mod token_text;

pub use access_token::{
    ACCESS_NAME_BYTES_MAX, ACCESS_SECRET_BYTES, ACCESS_TOKENS_MAX, AccessName, AccessSecret,
    AccessToken,
};
pub use admin_cert::{AdminCert, OwnCert, is_own_name};
pub use admin_tls::{
    AdminCerts, admin_client_config, admin_name, admin_server_config, trusting_client_config,
};
pub use ca::ClusterCa;
pub use config::{ALPN, client_config, join_config, mds_name, server_config};
pub use error::ClusterTlsError;
pub use files::FILE_BYTES_MAX;
pub use identity::{Identity, NewKey};
pub use peer::{CertRole, Fingerprint, Peer, PeerError, peer_of, peer_of_der};
pub use token::{
    JoinToken, TOKEN_ADDRESS_BYTES_MAX, TOKEN_ADDRESSES_MAX, TOKENS_MAX, TokenHash, TokenRefusal,
    TokenTable,
};
pub use token_text::{TOKEN_CHARS_MAX, TokenError};

/// Random bytes from the operating system: those of a secret.
///
/// # Errors
/// When the operating system has no randomness to give.
pub fn random_bytes<const N: usize>() -> Result<[u8; N], ClusterTlsError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(ClusterTlsError::Randomness)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
mod verify;
