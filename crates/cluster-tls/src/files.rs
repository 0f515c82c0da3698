//! Files that hold a private key: mode 0600, whole or not there at all. And files of certificates, which anybody may read.
//!
//! # Ownership
//! One process writes a given file; `NAME.tmp` beside it is that process's scratch.
//!
//! # Ordering
//! Content is synced before the name appears, the directory after it: a file that exists is complete.
//!
//! # Failure
//! An error leaves the old file, or none. A `.tmp` left by a crash is replaced by the next write.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::error::ClusterTlsError;

/// Largest identity or CA file that is read, in bytes.
pub const FILE_BYTES_MAX: u64 = 64 * 1024;

/// Certificates and a key, as in one PEM file.
pub(crate) struct Bundle {
    pub(crate) certificates: Vec<CertificateDer<'static>>,
    pub(crate) key: PrivatePkcs8KeyDer<'static>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Replace {
    Never,
    Allowed,
}

fn io_error(path: &Path) -> impl Fn(io::Error) -> ClusterTlsError + '_ {
    |source| ClusterTlsError::Io {
        path: path.to_owned(),
        source,
    }
}

pub(crate) fn write_bundle(
    path: &Path,
    bundle: &Bundle,
    replace: Replace,
) -> Result<(), ClusterTlsError> {
    let certificate = |der: &CertificateDer<'_>| pem::Pem::new("CERTIFICATE", der.to_vec());
    let mut sections: Vec<_> = bundle.certificates.iter().map(certificate).collect();
    let key = bundle.key.secret_pkcs8_der();
    sections.push(pem::Pem::new("PRIVATE KEY", key));
    write(path, pem::encode_many(&sections).as_bytes(), replace)
}

fn write(path: &Path, bytes: &[u8], replace: Replace) -> Result<(), ClusterTlsError> {
    let dir = match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    };
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o700);
    builder.create(dir).map_err(io_error(dir))?;
    let mut tmp = path.as_os_str().to_owned();
    tmp.push(".tmp");
    let tmp = PathBuf::from(tmp);
    match fs::remove_file(&tmp) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(io_error(&tmp)(e)),
        _ => {}
    }
    let result = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&tmp)
        .and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()
        });
    result.map_err(io_error(&tmp))?;
    if replace == Replace::Allowed {
        fs::rename(&tmp, path).map_err(io_error(path))?;
    } else {
        // A link fails where a rename would silently replace.
        let linked = fs::hard_link(&tmp, path);
        fs::remove_file(&tmp).map_err(io_error(&tmp))?;
        linked.map_err(|e| match e.kind() {
            io::ErrorKind::AlreadyExists => ClusterTlsError::Exists(path.to_owned()),
            _ => io_error(path)(e),
        })?;
    }
    let sync = File::open(dir).and_then(|dir| dir.sync_all());
    sync.map_err(io_error(dir))
}

fn malformed(path: &Path, what: &'static str) -> ClusterTlsError {
    ClusterTlsError::Malformed {
        path: path.to_owned(),
        what,
    }
}

pub(crate) fn read_bundle(path: &Path) -> Result<Bundle, ClusterTlsError> {
    let bytes = read_secret(path)?;
    let key = PrivatePkcs8KeyDer::from_pem_slice(&bytes)
        .map_err(|_| malformed(path, "has no PKCS #8 private key"))?;
    let certificates = certificates(path, &bytes)?;
    Ok(Bundle { certificates, key })
}

/// The certificates of a PEM file of at most `bytes_max`: one at least.
pub(crate) fn read_certificates(
    path: &Path,
    bytes_max: u64,
) -> Result<Vec<CertificateDer<'static>>, ClusterTlsError> {
    let file = File::open(path).map_err(io_error(path))?;
    certificates(path, &read_open(path, file, bytes_max)?)
}

/// The private key of a PEM file that its owner alone can read, in any of the usual forms.
pub(crate) fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>, ClusterTlsError> {
    let bytes = read_secret(path)?;
    PrivateKeyDer::from_pem_slice(&bytes).map_err(|_| malformed(path, "has no private key in PEM"))
}

fn certificates(
    path: &Path,
    bytes: &[u8],
) -> Result<Vec<CertificateDer<'static>>, ClusterTlsError> {
    let certificates = CertificateDer::pem_slice_iter(bytes)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|_| malformed(path, "not a PEM file"))?;
    match certificates.is_empty() {
        true => Err(malformed(path, "has no certificate")),
        false => Ok(certificates),
    }
}

fn read_secret(path: &Path) -> Result<Vec<u8>, ClusterTlsError> {
    let file = File::open(path).map_err(io_error(path))?;
    // Asked of the open file, so that nobody can swap it in between.
    let mode = file
        .metadata()
        .map_err(io_error(path))?
        .permissions()
        .mode()
        & 0o777;
    if mode & 0o077 != 0 {
        return Err(ClusterTlsError::Exposed {
            path: path.to_owned(),
            mode,
        });
    }
    read_open(path, file, FILE_BYTES_MAX)
}

fn read_open(path: &Path, file: File, bytes_max: u64) -> Result<Vec<u8>, ClusterTlsError> {
    let mut bytes = Vec::new();
    file.take(bytes_max + 1)
        .read_to_end(&mut bytes)
        .map_err(io_error(path))?;
    if bytes.len() as u64 > bytes_max {
        return Err(ClusterTlsError::TooLarge(path.to_owned()));
    }
    Ok(bytes)
}
