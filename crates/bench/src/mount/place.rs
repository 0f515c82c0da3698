//! A directory that is measured, and one measurement in it.

use super::counts::Counts;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// A directory to measure, and what it is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Its name in tables.
    pub name: String,
    /// The directory.
    pub dir: PathBuf,
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, dir) = text.split_once('=').unwrap_or((text, text));
        if name.is_empty() || dir.is_empty() {
            return Err("say DIR, or NAME=DIR".to_owned());
        }
        Ok(Self {
            name: name.to_owned(),
            dir: PathBuf::from(dir),
        })
    }
}

/// One piece of work, done once.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    pub(crate) elapsed: Duration,
    /// Of an NFS mount.
    pub(crate) counts: Option<Counts>,
}
