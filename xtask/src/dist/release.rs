//! What all packages have in common. Owns no file.

use std::path::PathBuf;

/// The version of the workspace, and so of the packages.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What all packages have in common.
#[derive(Debug)]
pub(super) struct Release {
    /// Where the packages go.
    pub(super) out: PathBuf,
    /// Debian's name of this machine's architecture, such as `amd64`.
    pub(super) arch: String,
    pub(super) maintainer: String,
    /// The time of the commit in seconds since 1970: every file gets it, so that equal sources make equal packages.
    pub(super) time_s: String,
}
