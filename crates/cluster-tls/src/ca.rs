//! The cluster's certificate authority. It lives at the MDS and signs nothing but roles of this cluster.
//!
//! # Ownership
//! `ca.pem` in the MDS's state directory is the only copy of the CA's key.
//!
//! # Ordering
//! The file is durable before the first certificate is signed with it.
//!
//! # Failure
//! A CA that is lost cannot be made again: every data server would have to join anew. So creation never
//! replaces a file, and loading proves that certificate, key and cluster id belong together.

use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PublicKeyData, SignatureAlgorithm,
    date_time_ymd,
};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};

use crate::error::ClusterTlsError;
use crate::files::{self, Bundle, Replace};
use crate::identity::{Identity, NewKey};
use crate::peer::{CertRole, Fingerprint};
use crate::verify::verify_issued;

const FILE_NAME: &str = "ca.pem";
/// Bytes of an uncompressed P-256 point (SEC 1 §2.3.3), and its first byte.
const P256_POINT_BYTES: usize = 65;
const P256_POINT_TAG: u8 = 4;

/// The CA of one cluster.
pub struct ClusterCa {
    certificate: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

impl std::fmt::Debug for ClusterCa {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ClusterCa({})", self.fingerprint())
    }
}

impl ClusterCa {
    /// Makes the CA of a new cluster and stores it in `dir`.
    ///
    /// # Errors
    /// [`ClusterTlsError::Exists`] when there is one, or what keeps it from being made or stored.
    pub fn create(dir: &Path, cluster_id: u64) -> Result<Self, ClusterTlsError> {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let params = ca_params(cluster_id);
        let certificate = params.self_signed(&key)?.der().clone();
        let bundle = Bundle {
            certificates: vec![certificate.clone()],
            key: PrivatePkcs8KeyDer::from(key.serialize_der()),
        };
        files::write_bundle(&Self::path(dir), &bundle, Replace::Never)?;
        Ok(Self {
            certificate,
            issuer: Issuer::new(params, key),
        })
    }

    /// Loads the CA of cluster `cluster_id` from `dir`.
    ///
    /// # Errors
    /// What is wrong with the file, or [`ClusterTlsError::Mismatch`] when it is another cluster's.
    pub fn load(dir: &Path, cluster_id: u64) -> Result<Self, ClusterTlsError> {
        let path = Self::path(dir);
        let bundle = files::read_bundle(&path)?;
        let [certificate] = <[_; 1]>::try_from(bundle.certificates).map_err(|_| {
            let what = "a CA has one certificate";
            ClusterTlsError::Malformed { path, what }
        })?;
        let key = KeyPair::from_pkcs8_der_and_sign_algo(&bundle.key, &PKCS_ECDSA_P256_SHA256)?;
        let ca = Self {
            certificate,
            issuer: Issuer::new(ca_params(cluster_id), key),
        };
        // What this CA signs must verify under its own certificate: key and name are the right ones.
        let probe = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let issued = ca.sign(CertRole::Mds, &probe)?;
        verify_issued(&issued, &ca.certificate).map_err(|_| {
            ClusterTlsError::Mismatch("the CA's certificate is not that of its key and cluster")
        })?;
        Ok(ca)
    }

    /// Where the CA of a state directory is.
    #[must_use]
    pub fn path(dir: &Path) -> PathBuf {
        dir.join(FILE_NAME)
    }

    /// The CA's certificate (DER).
    #[must_use]
    pub const fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    /// What join tokens pin.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.certificate)
    }

    /// Signs a certificate for the holder of `public_key` (an uncompressed P-256 point). That it holds the
    /// private half is proved at every handshake, so no proof is asked for here.
    ///
    /// # Errors
    /// [`ClusterTlsError::BadPublicKey`] or [`ClusterTlsError::Certificate`].
    pub fn issue(
        &self,
        role: CertRole,
        public_key: &[u8],
    ) -> Result<CertificateDer<'static>, ClusterTlsError> {
        if public_key.len() != P256_POINT_BYTES || public_key[0] != P256_POINT_TAG {
            return Err(ClusterTlsError::BadPublicKey);
        }
        self.sign(role, &Point(public_key))
    }

    fn sign(
        &self,
        role: CertRole,
        public_key: &impl PublicKeyData,
    ) -> Result<CertificateDer<'static>, ClusterTlsError> {
        let mut params = CertificateParams::new([role.dns_name()])?;
        params.distinguished_name = name(&role.common_name());
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        // Both, because either side may open a connection; the role, not the usage, tells them apart.
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        params.use_authority_key_identifier_extension = true;
        set_validity(&mut params);
        self.sign_params(&params, public_key)
    }

    /// Signs what `params` say.
    pub(crate) fn sign_params(
        &self,
        params: &CertificateParams,
        public_key: &impl PublicKeyData,
    ) -> Result<CertificateDer<'static>, ClusterTlsError> {
        Ok(params.signed_by(public_key, &self.issuer)?.der().clone())
    }

    /// Makes a key and a certificate for it: the MDS's own identity.
    ///
    /// # Errors
    /// [`ClusterTlsError`] when that cannot be done.
    pub fn issue_identity(&self, role: CertRole) -> Result<Identity, ClusterTlsError> {
        let key = NewKey::generate()?;
        let certificate = self.issue(role, key.public_key())?;
        key.complete(certificate, self.certificate.clone(), self.fingerprint())
    }
}

struct Point<'a>(&'a [u8]);

impl PublicKeyData for Point<'_> {
    fn der_bytes(&self) -> &[u8] {
        self.0
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ECDSA_P256_SHA256
    }
}

fn ca_params(cluster_id: u64) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = name(&format!("ropewalk cluster {cluster_id:016x}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    set_validity(&mut params);
    params
}

pub(crate) fn name(common_name: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    name
}

/// As good as forever: trust ends by the MDS's table, and a machine that starts with its clock in
/// 1980 must still reach its cluster.
pub(crate) fn set_validity(params: &mut CertificateParams) {
    params.not_before = date_time_ymd(1975, 1, 1);
    params.not_after = date_time_ymd(4096, 1, 1);
}
