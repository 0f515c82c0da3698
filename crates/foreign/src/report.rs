//! What a probe has found, in words.

use std::fmt;

/// What is tried on a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Check {
    /// Root is root there: what it makes is its own.
    RootIsRoot,
    /// Root gives a file to another user and group.
    GivesFiles,
    /// The owner of a data file writes it by its handle alone, though it may not search the directory.
    OwnerWrites,
    /// The group of a data file reads it, and does not write it.
    GroupReads,
    /// Others do neither.
    OthersAreKeptOut,
    /// A caller with the ids that a file had before can no longer use the file.
    IsFenced,
    /// COMMIT answers the write verifier of the WRITEs before it (RFC 1813 §3.3.21).
    KeepsVerifier,
    /// What was written is read, holes are zeros, and a file that is cut is shorter.
    KeepsData,
    /// READ and WRITE of at least 64 KiB.
    LargeRequests,
}

impl Check {
    /// All of them, in the order in which they are tried.
    pub const ALL: [Self; 9] = [
        Self::RootIsRoot,
        Self::GivesFiles,
        Self::OwnerWrites,
        Self::GroupReads,
        Self::OthersAreKeptOut,
        Self::IsFenced,
        Self::KeepsVerifier,
        Self::KeepsData,
        Self::LargeRequests,
    ];

    /// What is good if it is there.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::RootIsRoot => "root is not squashed",
            Self::GivesFiles => "root gives files to others",
            Self::OwnerWrites => "the owner of a file writes it by its handle",
            Self::GroupReads => "the group of a file reads it",
            Self::OthersAreKeptOut => "others neither read nor write it",
            Self::IsFenced => "a file that was given away is out of reach",
            Self::KeepsVerifier => "COMMIT answers the verifier of the WRITEs",
            Self::KeepsData => "data are kept, holes are zeros",
            Self::LargeRequests => "READ and WRITE of 64 KiB",
        }
    }

    /// What to do about it if it is not there.
    #[must_use]
    pub const fn advice(self) -> &'static str {
        match self {
            Self::RootIsRoot => {
                "export it to the metadata server with no_root_squash (knfsd), or Squash = No_Root_Squash (nfs-ganesha)"
            }
            Self::GivesFiles => {
                "the file system behind the export must let root change owners; one that squashes all users cannot serve"
            }
            Self::OwnerWrites => {
                "export it with no_subtree_check, without all_squash, and let it take AUTH_SYS of any user id"
            }
            Self::GroupReads | Self::OthersAreKeptOut | Self::IsFenced => {
                "the server does not keep to the mode of files: clients could not be fenced off, so it must not serve"
            }
            Self::KeepsVerifier => {
                "the server breaks RFC 1813: unstable writes could be lost without a word, so it must not serve"
            }
            Self::KeepsData => {
                "the server does not give back what was written, so it must not serve"
            }
            Self::LargeRequests => {
                "raise the largest READ and WRITE of the server; small ones are slow"
            }
        }
    }

    /// Whether a server without it cannot serve at all.
    #[must_use]
    pub const fn is_needed(self) -> bool {
        !matches!(self, Self::LargeRequests)
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What came of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What was tried.
    pub check: Check,
    /// Why it is not there; `None` where it is.
    pub lacks: Option<String>,
}

/// What a probe has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeReport {
    /// One for each check that was tried. What depends on a check that failed was not.
    pub findings: Vec<Finding>,
    /// Bytes of the file system.
    pub bytes_total: u64,
    /// Bytes that are free there.
    pub bytes_free: u64,
    /// Largest READ and WRITE in bytes.
    pub io_bytes_max: (u32, u32),
    /// Largest file in bytes.
    pub file_bytes_max: u64,
}

impl ProbeReport {
    /// Whether the server can be a data server.
    #[must_use]
    pub fn is_fit(&self) -> bool {
        let found = |check: &Check| {
            let of_it = self.findings.iter().find(|f| f.check == *check);
            of_it.is_some_and(|f| f.lacks.is_none())
        };
        Check::ALL.iter().filter(|c| c.is_needed()).all(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(lacking: Option<Check>, tried: &[Check]) -> ProbeReport {
        let finding = |check: &Check| Finding {
            check: *check,
            lacks: (Some(*check) == lacking).then(|| "why".to_owned()),
        };
        ProbeReport {
            findings: tried.iter().map(finding).collect(),
            bytes_total: 0,
            bytes_free: 0,
            io_bytes_max: (0, 0),
            file_bytes_max: 0,
        }
    }

    #[test]
    fn a_server_is_fit_when_all_that_is_needed_was_seen() {
        assert!(report(None, &Check::ALL).is_fit());
        assert!(report(Some(Check::LargeRequests), &Check::ALL).is_fit());
        assert!(!report(Some(Check::IsFenced), &Check::ALL).is_fit());
        assert!(!report(None, &Check::ALL[..3]).is_fit(), "not tried");
    }
}
