//! What all packages have in common, and how files are written.
//!
//! Owns no file: callers say which. Errors name the path.

use crate::repo::Result;
use std::fs;
use std::path::{Path, PathBuf};

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

/// An empty folder at `path`.
pub(super) fn clear(path: &Path) -> Result<()> {
    if path.exists() {
        fs::remove_dir_all(path).map_err(unable(path))?;
    }
    fs::create_dir_all(path).map_err(unable(path))
}

pub(super) fn write(path: &Path, content: &[u8]) -> Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(unable(folder))?;
    }
    fs::write(path, content).map_err(unable(path))
}

pub(super) fn unable<E: std::fmt::Display>(path: &Path) -> impl FnOnce(E) -> String {
    move |error| format!("{}: {error}", path.display())
}
