//! `--cluster "ds=8,transport=tcp,store=memory"`: what the clusters of an experiment are made of, as far as it is laid down.

use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// Most data servers of one cluster on one machine (the limit of `ropewalk up`).
const DS_COUNT_MAX: u16 = 64;
/// Most copies of a stripe (the limit of `mds.toml`).
const COPIES_MAX: u32 = 4;

pub use crate::nfs::server::Transport;

/// Where a cluster keeps metadata and objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Store {
    /// In the memory of its processes.
    Memory,
    /// In a folder on a disk.
    Disk,
}

impl Store {
    /// Its name in options and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Disk => "disk",
        }
    }
}

/// When the objects of a new file are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Create {
    /// By the first write to each data server.
    Lazy,
    /// With the file, on all of its data servers.
    Eager,
}

impl Create {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Lazy, Self::Eager];

    /// Its name in options and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lazy => "lazy",
            Self::Eager => "eager",
        }
    }
}

/// What is laid down; an experiment chooses the rest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClusterSpec {
    /// Data servers.
    pub ds_count: Option<u16>,
    /// Copies of each stripe.
    pub copies: Option<u32>,
    /// Between clients and servers.
    pub transport: Option<Transport>,
    /// Where data are kept.
    pub store: Option<Store>,
    /// When objects are made.
    pub create: Option<Create>,
}

/// Why a specification was refused: the part, and what it must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpecError {
    part: String,
    must_be: String,
}

impl std::fmt::Display for SpecError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} must be {}", self.part, self.must_be)
    }
}

impl std::error::Error for SpecError {}

impl FromStr for ClusterSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let mut spec = Self::default();
        for part in text.split(',').map(str::trim).filter(|p| !p.is_empty()) {
            let wrong = |must_be: String| SpecError {
                part: part.to_owned(),
                must_be,
            };
            match part.split_once('=') {
                Some(("ds", count)) => {
                    let count = count
                        .parse()
                        .ok()
                        .filter(|n| (1..=DS_COUNT_MAX).contains(n));
                    let must_be = || wrong(format!("ds=N with N from 1 to {DS_COUNT_MAX}"));
                    spec.ds_count = Some(count.ok_or_else(must_be)?);
                }
                Some(("copies", count)) => {
                    let count = count.parse().ok();
                    let count = count.filter(|n| (1..=COPIES_MAX).contains(n));
                    let must_be = || wrong(format!("copies=N with N from 1 to {COPIES_MAX}"));
                    spec.copies = Some(count.ok_or_else(must_be)?);
                }
                Some(("transport", name)) => {
                    let found = Transport::ALL.into_iter().find(|t| t.name() == name);
                    let names = Transport::ALL.map(Transport::name).join("|");
                    spec.transport =
                        Some(found.ok_or_else(|| wrong(format!("transport={names}")))?);
                }
                Some(("store", "memory")) => spec.store = Some(Store::Memory),
                Some(("store", "disk")) => spec.store = Some(Store::Disk),
                Some(("store", _)) => return Err(wrong("store=memory|disk".to_owned())),
                Some(("create", name)) => {
                    let found = Create::ALL.into_iter().find(|c| c.name() == name);
                    let must_be = || wrong("create=lazy|eager".to_owned());
                    spec.create = Some(found.ok_or_else(must_be)?);
                }
                _ => {
                    return Err(wrong(
                        "ds=, copies=, transport=, store= or create=".to_owned(),
                    ));
                }
            }
        }
        Ok(spec)
    }
}

#[cfg(test)]
mod tests {
    //! What is typed means what it says, and what means nothing is refused.
    use super::*;

    #[test]
    fn parts_may_be_left_out() {
        assert_eq!("".parse(), Ok(ClusterSpec::default()));
        let spec = ClusterSpec {
            ds_count: Some(8),
            copies: Some(2),
            transport: Some(Transport::Tcp),
            store: Some(Store::Disk),
            create: Some(Create::Eager),
        };
        let text = "ds=8, copies=2,transport=tcp,store=disk,create=eager";
        assert_eq!(text.parse(), Ok(spec));
    }

    #[test]
    fn what_means_nothing_is_refused() {
        for wrong in [
            "ds=0",
            "ds=65",
            "ds",
            "ds=x",
            "copies=0",
            "copies=5",
            "transport=udp",
            "store=tape",
            "create=never",
            "dss=1",
        ] {
            let error = wrong.parse::<ClusterSpec>().unwrap_err().to_string();
            assert!(
                error.contains(wrong) && error.contains("must be"),
                "{error}"
            );
        }
    }
}
