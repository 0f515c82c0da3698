//! Verification of certificates against a cluster's CA.

use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::{Error, RootCertStore};
use std::sync::Arc;

pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

pub(crate) fn algorithms() -> WebPkiSupportedAlgorithms {
    rustls::crypto::ring::default_provider().signature_verification_algorithms
}

pub(crate) fn roots(ca: &CertificateDer<'_>) -> Result<Arc<RootCertStore>, Error> {
    let mut roots = RootCertStore::empty();
    roots.add(ca.clone().into_owned())?;
    Ok(Arc::new(roots))
}

/// Whether `ca` signed `certificate`, for a peer of any role.
pub(crate) fn verify_issued(
    certificate: &CertificateDer<'_>,
    ca: &CertificateDer<'_>,
) -> Result<(), Error> {
    WebPkiClientVerifier::builder_with_provider(roots(ca)?, provider())
        .build()
        .map_err(|e| Error::General(e.to_string()))?
        .verify_client_cert(certificate, &[], UnixTime::now())
        .map(|_| ())
}
