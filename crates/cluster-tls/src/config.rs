//! TLS configurations of the control port: TLS 1.3 only, one ALPN name, no resumption (a resumed session
//! would carry an identity past its expulsion).

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::SingleCertAndKey;
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, ServerConfig, SignatureScheme,
};

use crate::error::ClusterTlsError;
use crate::identity::Identity;
use crate::peer::Fingerprint;
use crate::verify::{algorithms, provider, roots};

/// The ALPN name of the control program: another protocol's server on this port ends the handshake.
pub const ALPN: &[u8] = b"ropewalk-control";

/// The name that a client of the control port expects: no data server's certificate has it.
#[must_use]
pub fn mds_name() -> ServerName<'static> {
    ServerName::try_from("mds.ropewalk").expect("a valid DNS name")
}

fn server_verifier(ca: &CertificateDer<'_>) -> Result<Arc<WebPkiServerVerifier>, Error> {
    WebPkiServerVerifier::builder_with_provider(roots(ca)?, provider())
        .build()
        .map_err(|e| Error::General(e.to_string()))
}

/// The MDS's side of the control port. A certificate of the peer is verified against the cluster's CA; a
/// peer may also show none and is then [`crate::Peer::Anonymous`].
///
/// # Errors
/// [`ClusterTlsError::Tls`] when TLS refuses the identity.
pub fn server_config(identity: &Identity) -> Result<ServerConfig, ClusterTlsError> {
    let verifier =
        WebPkiClientVerifier::builder_with_provider(roots(identity.ca_certificate())?, provider())
            .allow_unauthenticated()
            .build()
            .map_err(|e| Error::General(e.to_string()))?;
    let own = SingleCertAndKey::from(identity.certified_key()?);
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(Arc::new(own));
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}

/// A data server's side: both ends show certificates of the cluster's CA. Connect with [`mds_name`].
///
/// # Errors
/// [`ClusterTlsError::Tls`] when TLS refuses the identity.
pub fn client_config(identity: &Identity) -> Result<ClientConfig, ClusterTlsError> {
    let own = SingleCertAndKey::from(identity.certified_key()?);
    let config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])?
        .with_root_certificates(roots(identity.ca_certificate())?)
        .with_client_cert_resolver(Arc::new(own));
    Ok(finish_client(config))
}

/// The side of a data server that joins: it shows no certificate, and takes only an MDS whose CA has the
/// fingerprint of the token. Connect with [`mds_name`].
///
/// # Errors
/// [`ClusterTlsError::Tls`] when TLS cannot be set up.
pub fn join_config(pinned_ca: Fingerprint) -> Result<ClientConfig, ClusterTlsError> {
    let config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(PinnedCa(pinned_ca)))
        .with_no_client_auth();
    Ok(finish_client(config))
}

fn finish_client(mut config: ClientConfig) -> ClientConfig {
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.resumption = Resumption::disabled();
    config
}

/// Takes the CA from the server's own chain when it is the pinned one, then verifies as usual.
#[derive(Debug)]
pub(crate) struct PinnedCa(pub(crate) Fingerprint);

impl ServerCertVerifier for PinnedCa {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let ca = intermediates
            .iter()
            .find(|certificate| Fingerprint::of(certificate) == self.0)
            .ok_or(CertificateError::UnknownIssuer)?;
        server_verifier(ca)?.verify_server_cert(end_entity, &[], server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &algorithms())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &algorithms())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        algorithms().supported_schemes()
    }
}
