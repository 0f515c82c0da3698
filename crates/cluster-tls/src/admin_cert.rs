//! Certificates of the administration API: the one that the cluster's CA signs, and one of the operator's own.
//!
//! # Ownership
//! The signed one and its key are in a file of the state directory, which only its server writes. The operator's files are only
//! read.
//!
//! # Failure
//! A kept certificate that is not good any more is told as [`ClusterTlsError::Mismatch`]: the caller makes another.

use std::path::Path;
use std::sync::Arc;

use rcgen::{
    CertificateParams, ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose,
    PKCS_ECDSA_P256_SHA256,
};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;
use rustls::{Error, InconsistentKeys};

use crate::ca::{ClusterCa, name, set_validity};
use crate::error::ClusterTlsError;
use crate::files::{self, Bundle, FILE_BYTES_MAX, Replace};
use crate::verify::{provider, roots};

/// The name that every certificate of the cluster for the API has.
pub(crate) const ADMIN_NAME: &str = "admin.ropewalk";
/// What names of the cluster's own roles end with.
const OWN_SUFFIX: &str = ".ropewalk";

/// Whether a name belongs to the cluster itself: no certificate for others has it.
#[must_use]
pub fn is_own_name(name: &str) -> bool {
    name.to_ascii_lowercase().ends_with(OWN_SUFFIX)
}

/// A certificate for the API that the cluster's CA has signed. It is good for servers only and has no role's name.
pub struct AdminCert {
    chain: Vec<CertificateDer<'static>>,
    key: PrivatePkcs8KeyDer<'static>,
}

impl std::fmt::Debug for AdminCert {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AdminCert(<secret>)")
    }
}

impl AdminCert {
    /// Makes a key and has `ca` sign a certificate for `names`: the DNS names and addresses that browsers use.
    ///
    /// # Errors
    /// [`ClusterTlsError::Mismatch`] for a name that belongs to a role, or [`ClusterTlsError`] when a name is none.
    pub fn make(ca: &ClusterCa, names: &[String]) -> Result<Self, ClusterTlsError> {
        if names.iter().any(|name| is_own_name(name)) {
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
        Ok(Self {
            chain: vec![leaf, ca.certificate().clone()],
            key: PrivatePkcs8KeyDer::from(key.serialize_der()),
        })
    }

    /// Loads a certificate that was kept, where `ca` has signed it and it is good for all of `names`.
    ///
    /// # Errors
    /// What is wrong with the file, or [`ClusterTlsError::Mismatch`].
    pub fn load(path: &Path, ca: &ClusterCa, names: &[String]) -> Result<Self, ClusterTlsError> {
        let Bundle { certificates, key } = files::read_bundle(path)?;
        let verifier =
            WebPkiServerVerifier::builder_with_provider(roots(ca.certificate())?, provider())
                .build()
                .map_err(|e| Error::General(e.to_string()))?;
        let other = ClusterTlsError::Mismatch("the certificate is of another CA or other names");
        let [leaf, of_ca] = certificates.as_slice() else {
            return Err(other);
        };
        let is_good = |name: &str| {
            let name = ServerName::try_from(name).ok()?;
            let verified = verifier.verify_server_cert(leaf, &[], &name, &[], UnixTime::now());
            verified.ok()
        };
        let mut all = std::iter::once(ADMIN_NAME).chain(names.iter().map(String::as_str));
        if of_ca != ca.certificate() || all.any(|name| is_good(name).is_none()) {
            return Err(other);
        }
        let loaded = Self {
            chain: certificates,
            key,
        };
        loaded.certified_key()?;
        Ok(loaded)
    }

    /// Keeps it durably, in place of an older one.
    ///
    /// # Errors
    /// [`ClusterTlsError::Io`].
    pub fn save(&self, path: &Path) -> Result<(), ClusterTlsError> {
        let bundle = Bundle {
            certificates: self.chain.clone(),
            key: self.key.clone_key(),
        };
        files::write_bundle(path, &bundle, Replace::Allowed)
    }

    pub(crate) fn certified_key(&self) -> Result<Arc<CertifiedKey>, ClusterTlsError> {
        let key = self.key.clone_key().into();
        let certified = CertifiedKey::from_der(self.chain.clone(), key, &provider())?;
        Ok(Arc::new(certified))
    }
}

/// A certificate of the operator's own with its key. The cluster does not check its signature.
#[derive(Debug)]
pub struct OwnCert {
    pub(crate) key: Arc<CertifiedKey>,
    not_after_s: i64,
}

impl OwnCert {
    /// Reads two PEM files: the certificate with those that lead to its CA, and the key.
    ///
    /// # Errors
    /// What is wrong with the files: [`ClusterTlsError::Exposed`] for a key that others can read.
    pub fn load(certificate: &Path, key: &Path) -> Result<Self, ClusterTlsError> {
        let chain = files::read_certificates(certificate, FILE_BYTES_MAX)?;
        let secret = files::read_key(key)?;
        let malformed = |path: &Path, what| ClusterTlsError::Malformed {
            path: path.to_owned(),
            what,
        };
        let none = || malformed(certificate, "its first certificate is none");
        let not_after_s = chain.first().and_then(not_after_s).ok_or_else(none)?;
        let certified = CertifiedKey::from_der(chain, secret, &provider());
        let certified = certified.map_err(|error| match error {
            Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
                let what = "is not the key of the first certificate in the other file";
                malformed(key, what)
            }
            Error::InvalidCertificate(_) => none(),
            other => ClusterTlsError::Tls(other),
        })?;
        Ok(Self {
            key: Arc::new(certified),
            not_after_s,
        })
    }

    /// The last second in which it is valid (RFC 5280 §4.1.2.5), since 1970.
    #[must_use]
    pub const fn not_after_s(&self) -> i64 {
        self.not_after_s
    }
}

fn not_after_s(certificate: &CertificateDer<'_>) -> Option<i64> {
    let (_, parsed) = x509_parser::parse_x509_certificate(certificate).ok()?;
    Some(parsed.validity().not_after.timestamp())
}
