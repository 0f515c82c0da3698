//! What can go wrong while identities are made, stored or loaded. All of it is the operator's to mend
//! (a file, a mode, a wrong directory); nothing here helps to retry.

use std::path::PathBuf;

/// Why an identity or a CA cannot be used.
#[derive(Debug)]
pub enum ClusterTlsError {
    /// A file cannot be read or written.
    Io {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// A file with a private key can be read by others.
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// A file is larger than any that we write.
    TooLarge(PathBuf),
    /// The CA of a cluster is never replaced.
    Exists(PathBuf),
    /// A file does not hold what it should.
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is missing or wrong.
        what: &'static str,
    },
    /// Certificates and keys that do not belong together.
    Mismatch(&'static str),
    /// A public key that is none of a kind that we sign.
    BadPublicKey,
    /// A certificate cannot be made.
    Certificate(rcgen::Error),
    /// TLS refuses a certificate or key.
    Tls(rustls::Error),
    /// The operating system has no randomness.
    Randomness(getrandom::Error),
}

impl std::fmt::Display for ClusterTlsError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Io { path, source } => write!(f, "{}: {source}", path.display()),
            Self::Exposed { path, mode } => write!(
                f,
                "{} holds a private key but has mode {mode:o}: make it 600",
                path.display()
            ),
            Self::TooLarge(path) => write!(f, "{} is too large", path.display()),
            Self::Exists(path) => write!(f, "{} exists already", path.display()),
            Self::Malformed { path, what } => write!(f, "{}: {what}", path.display()),
            Self::Mismatch(what) => f.write_str(what),
            Self::BadPublicKey => f.write_str("not an uncompressed P-256 public key"),
            Self::Certificate(e) => write!(f, "cannot make a certificate: {e}"),
            Self::Tls(e) => write!(f, "TLS refuses a certificate: {e}"),
            Self::Randomness(e) => write!(f, "no randomness: {e}"),
        }
    }
}

impl std::error::Error for ClusterTlsError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::Certificate(e) => Some(e),
            Self::Tls(e) => Some(e),
            Self::Randomness(e) => Some(e),
            _ => None,
        }
    }
}

impl From<rcgen::Error> for ClusterTlsError {
    fn from(e: rcgen::Error) -> Self {
        Self::Certificate(e)
    }
}

impl From<rustls::Error> for ClusterTlsError {
    fn from(e: rustls::Error) -> Self {
        Self::Tls(e)
    }
}
