//! Why a server could not be tried.

use nfs3_client::Nfs3Error;

/// Why there is no report: the server could not be tried.
#[derive(Debug)]
pub struct ProbeError {
    /// What was to be done.
    pub doing: &'static str,
    /// Why it could not be.
    pub why: Nfs3Error,
}

impl std::fmt::Display for ProbeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cannot {}: {}", self.doing, self.why)
    }
}

impl std::error::Error for ProbeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.why)
    }
}

/// Says what was to be done when it fails.
pub(crate) fn doing<T>(what: &'static str, result: Result<T, Nfs3Error>) -> Result<T, ProbeError> {
    result.map_err(|why| ProbeError { doing: what, why })
}
