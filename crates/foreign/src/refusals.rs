//! Why something on servers of others was not done, in values.

use meta::MetaError;
use nfs4::NfsStatus;

/// Why a call for a file failed as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FarError {
    /// What a client is told.
    pub status: NfsStatus,
    /// Bit m: mirror m failed. The caller may mark it bad, unless no other one is good.
    pub failed_mirrors: u32,
}

impl FarError {
    pub(crate) const fn of(status: NfsStatus) -> Self {
        Self {
            status,
            failed_mirrors: 0,
        }
    }
}

impl From<FarError> for NfsStatus {
    fn from(error: FarError) -> Self {
        error.status
    }
}

impl std::fmt::Display for FarError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (mirrors {:b})", self.status, self.failed_mirrors)
    }
}

impl std::error::Error for FarError {}

/// Why a WRITE failed as a whole, and where something of it may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotWritten {
    /// What a client is told.
    pub status: NfsStatus,
    /// Bit m: mirror m has all of it.
    pub whole_mirrors: u32,
    /// Bit m: mirror m may have a part of it, or all. The others that count have nothing of it.
    pub touched_mirrors: u32,
}

impl From<FarError> for NotWritten {
    fn from(error: FarError) -> Self {
        Self {
            status: error.status,
            whole_mirrors: 0,
            touched_mirrors: 0,
        }
    }
}

impl From<NotWritten> for NfsStatus {
    fn from(error: NotWritten) -> Self {
        error.status
    }
}

/// Why a server was not added.
#[derive(Debug)]
pub enum AddError {
    /// A server that is used has this target.
    Known(u32),
    /// [`crate::SERVERS_MAX`] servers were added already.
    Full,
    /// Its name or its addresses cannot be kept, or none of them can be reached from here.
    Invalid(&'static str),
    /// Its directories could not be made.
    Server(String),
    /// The metadata store failed.
    Store(MetaError),
}

impl std::fmt::Display for AddError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Known(id) => write!(f, "it is server f{id} already"),
            Self::Full => write!(f, "{} servers were added already", crate::SERVERS_MAX),
            Self::Invalid(why) => f.write_str(why),
            Self::Server(why) => write!(f, "cannot make its directories: {why}"),
            Self::Store(e) => write!(f, "{e}"),
        }
    }
}

impl std::error::Error for AddError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Store(e) => Some(e),
            _ => None,
        }
    }
}

impl From<MetaError> for AddError {
    fn from(e: MetaError) -> Self {
        Self::Store(e)
    }
}

/// Why the state of a server was not changed.
#[derive(Debug)]
pub enum ChangeError {
    /// There is no such server, or it was removed.
    Unknown,
    /// Groups name it, so files may lie there.
    InUse,
    /// The metadata store failed.
    Store(MetaError),
}

impl std::fmt::Display for ChangeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unknown => write!(f, "there is no such server"),
            Self::InUse => write!(f, "files may lie on the server"),
            Self::Store(e) => write!(f, "{e}"),
        }
    }
}

impl std::error::Error for ChangeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Store(e) => Some(e),
            _ => None,
        }
    }
}

impl From<MetaError> for ChangeError {
    fn from(e: MetaError) -> Self {
        Self::Store(e)
    }
}

/// Why a new file has no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoPlace {
    /// Too few servers are up, or too many groups exist: ask again later.
    NotYet,
    /// Enough servers are up, and too few of them have room.
    Full,
}
