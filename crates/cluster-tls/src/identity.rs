//! A server's own certificate and key, and how a data server comes to have them.
//!
//! # Ownership
//! The private key never leaves the machine that made it: a JOIN carries the public half.
//!
//! # Ordering
//! [`Identity::save`] returns when the file is durable; a data server says HELLO only after that.
//!
//! # Failure
//! A data server that crashes between JOIN and `save` has no identity: it needs a new token.

use std::path::Path;
use std::sync::Arc;

use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PublicKeyData};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;

use crate::error::ClusterTlsError;
use crate::files::{self, Bundle, Replace};
use crate::peer::{CertRole, Fingerprint, role_of};
use crate::verify::{provider, verify_issued};

/// A key that has no certificate yet.
pub struct NewKey {
    key: KeyPair,
}

impl std::fmt::Debug for NewKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("NewKey(<secret>)")
    }
}

impl NewKey {
    /// Makes a P-256 key.
    ///
    /// # Errors
    /// [`ClusterTlsError::Certificate`] when the operating system has no randomness.
    pub fn generate() -> Result<Self, ClusterTlsError> {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        Ok(Self { key })
    }

    /// The public half, as JOIN carries it.
    #[must_use]
    pub fn public_key(&self) -> &[u8] {
        self.key.der_bytes()
    }

    /// The identity, once the CA has signed: `ca` is the CA of the token's fingerprint.
    ///
    /// # Errors
    /// [`ClusterTlsError::Mismatch`] when CA, certificate and key do not belong together.
    pub fn complete(
        self,
        certificate: CertificateDer<'static>,
        ca: CertificateDer<'static>,
        pinned_ca: Fingerprint,
    ) -> Result<Identity, ClusterTlsError> {
        if Fingerprint::of(&ca) != pinned_ca {
            return Err(ClusterTlsError::Mismatch("the CA is not that of the token"));
        }
        let key = PrivatePkcs8KeyDer::from(self.key.serialize_der());
        Identity::new(certificate, ca, key)
    }
}

/// A certificate of the cluster, its CA, and its key.
pub struct Identity {
    role: CertRole,
    certificate: CertificateDer<'static>,
    ca: CertificateDer<'static>,
    key: PrivatePkcs8KeyDer<'static>,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Identity({:?}, {})", self.role, self.fingerprint())
    }
}

impl Identity {
    fn new(
        certificate: CertificateDer<'static>,
        ca: CertificateDer<'static>,
        key: PrivatePkcs8KeyDer<'static>,
    ) -> Result<Self, ClusterTlsError> {
        verify_issued(&certificate, &ca).map_err(|_| {
            ClusterTlsError::Mismatch("the certificate is not signed by the cluster's CA")
        })?;
        let role = role_of(&certificate)
            .ok_or(ClusterTlsError::Mismatch("the certificate names no role"))?;
        let identity = Self {
            role,
            certificate,
            ca,
            key,
        };
        identity.certified_key()?;
        Ok(identity)
    }

    /// Loads an identity and proves that its parts belong together.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub fn load(path: &Path) -> Result<Self, ClusterTlsError> {
        let bundle = files::read_bundle(path)?;
        let [certificate, ca] =
            <[_; 2]>::try_from(bundle.certificates).map_err(|_| ClusterTlsError::Malformed {
                path: path.to_owned(),
                what: "an identity has two certificates, its own and the CA's",
            })?;
        Self::new(certificate, ca, bundle.key)
    }

    /// Stores the identity durably, in place of an older one.
    ///
    /// # Errors
    /// [`ClusterTlsError::Io`].
    pub fn save(&self, path: &Path) -> Result<(), ClusterTlsError> {
        let bundle = Bundle {
            certificates: self.chain(),
            key: self.key.clone_key(),
        };
        files::write_bundle(path, &bundle, Replace::Allowed)
    }

    /// What the certificate was issued for.
    #[must_use]
    pub const fn role(&self) -> CertRole {
        self.role
    }

    /// The fingerprint of the certificate, by which the MDS knows a data server.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.certificate)
    }

    /// The CA's certificate (DER).
    #[must_use]
    pub const fn ca_certificate(&self) -> &CertificateDer<'static> {
        &self.ca
    }

    /// Own certificate, then the CA's: a joining data server finds in it the CA that its token pins.
    pub(crate) fn chain(&self) -> Vec<CertificateDer<'static>> {
        vec![self.certificate.clone(), self.ca.clone()]
    }

    /// For TLS; fails when key and certificate are not a pair.
    pub(crate) fn certified_key(&self) -> Result<Arc<CertifiedKey>, ClusterTlsError> {
        let key = self.key.clone_key().into();
        let certified = CertifiedKey::from_der(self.chain(), key, &provider())?;
        Ok(Arc::new(certified))
    }
}
