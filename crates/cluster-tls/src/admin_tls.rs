//! TLS of the administration API: a certificate of the cluster's CA for the server, a pinned CA for the client.
//!
//! The certificate is good for servers only and has no role's name. Neither a data server nor the control port takes it for
//! one of theirs.

use std::sync::Arc;

use rcgen::{
    CertificateParams, ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose,
    PKCS_ECDSA_P256_SHA256,
};
use rustls::pki_types::{PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, ServerConfig};

use crate::ca::{ClusterCa, name, set_validity};
use crate::config::PinnedCa;
use crate::error::ClusterTlsError;
use crate::peer::Fingerprint;
use crate::verify::provider;

/// The name that every certificate of the API has.
const ADMIN_NAME: &str = "admin.ropewalk";
/// What names of the cluster's own roles end with.
const OWN_SUFFIX: &str = ".ropewalk";
/// The protocol of the API.
const ADMIN_ALPN: &[u8] = b"http/1.1";

/// The name that a client of the API expects.
#[must_use]
pub fn admin_name() -> ServerName<'static> {
    ServerName::try_from(ADMIN_NAME).expect("a valid DNS name")
}

/// The server's side of the API, with a new key. `names` are the DNS names and addresses that browsers use.
///
/// # Errors
/// [`ClusterTlsError::Mismatch`] for a name that belongs to a role, or [`ClusterTlsError`] when TLS refuses a name.
pub fn admin_server_config(
    ca: &ClusterCa,
    names: &[String],
) -> Result<ServerConfig, ClusterTlsError> {
    if names
        .iter()
        .any(|n| n.to_ascii_lowercase().ends_with(OWN_SUFFIX))
    {
        let what = "names below .ropewalk belong to the cluster itself";
        return Err(ClusterTlsError::Mismatch(what));
    }
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    let own = std::iter::once(ADMIN_NAME.to_owned());
    let all: Vec<String> = own.chain(names.iter().cloned()).collect();
    let mut params = CertificateParams::new(all)?;
    params.distinguished_name = name("ropewalk admin");
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    set_validity(&mut params);
    let leaf = ca.sign_params(&params, &key)?;
    let chain = vec![leaf, ca.certificate().clone()];
    let key = PrivatePkcs8KeyDer::from(key.serialize_der());
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key.into())?;
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

#[cfg(test)]
mod tests {
    //! Goal: a client reaches the server of its own cluster and no other, and the certificate opens nothing else.
    use super::*;
    use crate::{CertRole, client_config, mds_name};
    use rustls::{ClientConnection, ServerConnection};

    /// Shakes hands in memory; why not.
    fn shake(
        client: ClientConfig,
        expected: ServerName<'static>,
        server: ServerConfig,
    ) -> Result<(), rustls::Error> {
        let mut client = ClientConnection::new(Arc::new(client), expected)?;
        let mut server = ServerConnection::new(Arc::new(server))?;
        for _ in 0..8 {
            let mut bytes = Vec::new();
            client.write_tls(&mut bytes).unwrap();
            server.read_tls(&mut &bytes[..]).unwrap();
            server.process_new_packets()?;
            let mut bytes = Vec::new();
            server.write_tls(&mut bytes).unwrap();
            client.read_tls(&mut &bytes[..]).unwrap();
            client.process_new_packets()?;
        }
        assert!(!client.is_handshaking() && !server.is_handshaking());
        Ok(())
    }

    #[test]
    fn only_the_clusters_own_ca_can_prove_the_server() {
        let (own, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let ca = ClusterCa::create(own.path(), 1).unwrap();
        let stranger = ClusterCa::create(other.path(), 1).unwrap();
        let server = || admin_server_config(&ca, &["localhost".to_owned()]).unwrap();
        let client = |ca: &ClusterCa| admin_client_config(ca.fingerprint()).unwrap();
        shake(client(&ca), admin_name(), server()).unwrap();
        shake(client(&stranger), admin_name(), server()).unwrap_err();
        let data_server = ca
            .issue_identity(CertRole::DataServer { ds_id: 1 })
            .unwrap();
        let as_mds = client_config(&data_server).unwrap();
        shake(as_mds, mds_name(), server()).unwrap_err();
        admin_server_config(&ca, &["MDS.ropewalk".to_owned()]).unwrap_err();
    }
}
