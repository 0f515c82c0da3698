//! TLS of the administration API: which certificate a server shows to whom, and what a client takes.
//!
//! A client that pins the cluster's CA asks for the name [`admin_name`] and gets the certificate of that CA. All others get the
//! operator's own certificate, where there is one. Neither a data server nor the control port takes either for one of theirs.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tracing_mutex::parkinglot::RwLock;

use crate::admin_cert::{ADMIN_NAME, AdminCert, OwnCert};
use crate::config::PinnedCa;
use crate::error::ClusterTlsError;
use crate::files;
use crate::peer::Fingerprint;
use crate::verify::provider;

/// The protocol of the API.
const ADMIN_ALPN: &[u8] = b"http/1.1";
/// Largest file of CAs that a client reads, in bytes: those of a whole system fit.
const CA_FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// The name that a client of the API expects when it pins the cluster's CA.
#[must_use]
pub fn admin_name() -> ServerName<'static> {
    ServerName::try_from(ADMIN_NAME).expect("a valid DNS name")
}

/// The certificates that a server of the API shows.
#[derive(Debug)]
pub struct AdminCerts {
    of_cluster: Arc<CertifiedKey>,
    own: RwLock<Option<OwnCert>>,
}

impl AdminCerts {
    /// With the certificate of the cluster's CA alone.
    ///
    /// # Errors
    /// [`ClusterTlsError::Tls`] when TLS refuses it.
    pub fn new(of_cluster: &AdminCert) -> Result<Self, ClusterTlsError> {
        Ok(Self {
            of_cluster: of_cluster.certified_key()?,
            own: RwLock::default(),
        })
    }

    /// Shows another certificate of the operator's from the next handshake on, or none. Says whether it is another.
    pub fn set_own(&self, own: Option<OwnCert>) -> bool {
        let chain = |own: &Option<OwnCert>| own.as_ref().map(|own| own.key.cert.clone());
        let mut now = self.own.write();
        let is_another = chain(&now) != chain(&own);
        *now = own;
        is_another
    }

    /// The last second in which the operator's certificate is valid, since 1970; `None` without one.
    #[must_use]
    pub fn own_not_after_s(&self) -> Option<i64> {
        self.own.read().as_ref().map(OwnCert::not_after_s)
    }

    fn for_name(&self, name: Option<&str>) -> Arc<CertifiedKey> {
        let own = self.own.read();
        let own = own.as_ref().filter(|_| name != Some(ADMIN_NAME));
        Arc::clone(own.map_or(&self.of_cluster, |own| &own.key))
    }
}

impl ResolvesServerCert for AdminCerts {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.for_name(hello.server_name()))
    }
}

/// The server's side of the API.
///
/// # Errors
/// [`ClusterTlsError::Tls`] when TLS cannot be set up.
pub fn admin_server_config(certs: Arc<AdminCerts>) -> Result<ServerConfig, ClusterTlsError> {
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(certs);
    config.alpn_protocols = vec![ADMIN_ALPN.to_vec()];
    Ok(config)
}

/// The client's side: it takes only a server that the CA of this fingerprint has signed. Connect with [`admin_name`].
///
/// # Errors
/// [`ClusterTlsError::Tls`] when TLS cannot be set up.
pub fn admin_client_config(pinned_ca: Fingerprint) -> Result<ClientConfig, ClusterTlsError> {
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(PinnedCa(pinned_ca)))
        .with_no_client_auth();
    config.alpn_protocols = vec![ADMIN_ALPN.to_vec()];
    Ok(config)
}

/// The client's side: it takes a server that a CA of this PEM file has signed, for the name that it connects with.
///
/// # Errors
/// What is wrong with the file.
pub fn trusting_client_config(ca_file: &Path) -> Result<ClientConfig, ClusterTlsError> {
    let mut roots = RootCertStore::empty();
    let certificates = files::read_certificates(ca_file, CA_FILE_BYTES_MAX)?;
    let (taken, _) = roots.add_parsable_certificates(certificates);
    if taken == 0 {
        return Err(ClusterTlsError::Malformed {
            path: ca_file.to_owned(),
            what: "has no certificate that can be read",
        });
    }
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![ADMIN_ALPN.to_vec()];
    Ok(config)
}

#[cfg(test)]
mod tests;
