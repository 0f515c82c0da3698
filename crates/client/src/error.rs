//! Why an operation of the client failed.

use nfs3::mount::MountStatus;
use nfs3_client::RpcError;
use nfs4::{NfsStatus, OpError};
use session_client::SessionError;

/// A failure of an operation.
#[derive(Debug)]
pub enum Error {
    /// The server answered so.
    Status(NfsStatus),
    /// No answer: the server cannot be reached, is silent, or refuses the session.
    Session(SessionError),
    /// The same of a server of NFSv3.
    Rpc(RpcError),
    /// The server of NFSv3 did not give the handle of the export.
    Mount(MountStatus),
    /// The server of NFSv3 exports nothing that the path is in; these are its exports.
    NotExported(Vec<String>),
    /// NFSv3 cannot do it: what that is.
    NotInV3(&'static str),
    /// The server's bytes are wrong.
    Malformed(&'static str),
    /// The path cannot be sent: what is wrong with it.
    Path(&'static str),
    /// The file was not opened for this.
    NotOpenFor(&'static str),
    /// Written data could not be made durable, although they were sent again several times.
    NotCommitted,
    /// The open was lost at the server, which did not take it back; data that were not flushed may be lost.
    OpenLost,
    /// Somebody else has locked bytes of the range.
    Locked,
    /// The server has lost what this open file had locked: others may have had the locks, and changed what they protect.
    LocksLost,
    /// The client was closed.
    Closed,
}

impl Error {
    /// The server's status, if it answered one.
    #[must_use]
    pub const fn status(&self) -> Option<NfsStatus> {
        match self {
            Self::Status(status) => Some(*status),
            Self::Session(SessionError::Status(status)) => Some(*status),
            _ => None,
        }
    }

    /// Whether the server says that there is no such name.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Status(NfsStatus::NoEnt))
    }
}

impl From<OpError> for Error {
    fn from(e: OpError) -> Self {
        match e {
            OpError::Status { status, .. } => Self::Status(status),
            OpError::Decode(_) => Self::Malformed("result"),
            OpError::WrongOp { .. } => Self::Malformed("result of another operation"),
        }
    }
}

impl From<SessionError> for Error {
    fn from(e: SessionError) -> Self {
        Self::Session(e)
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Status(status) => f.write_str(&explain(*status)),
            Self::Session(e) => write!(f, "{e}"),
            Self::Rpc(e) => write!(f, "{e}"),
            Self::Mount(status) => write!(f, "the server refuses to mount it: {status}"),
            Self::NotExported(exports) => match exports.is_empty() {
                true => write!(f, "the server exports nothing that it lists by NFSv3"),
                false => write!(f, "the server exports {} by NFSv3", exports.join(", ")),
            },
            Self::NotInV3(what) => write!(f, "NFSv3 has no {what}; use vers=4.2"),
            Self::Malformed(what) => write!(f, "the server's reply is malformed: {what}"),
            Self::Path(what) => write!(f, "the path is not usable: {what}"),
            Self::NotOpenFor(what) => write!(f, "the file is not open for {what}"),
            Self::NotCommitted => write!(f, "the data servers keep losing written data"),
            Self::OpenLost => write!(f, "the server gave the open file up; open it again"),
            Self::Locked => write!(f, "somebody else has locked that part of the file"),
            Self::LocksLost => write!(
                f,
                "the server lost the locks of the open file; close it and open it again"
            ),
            Self::Closed => write!(f, "the client was closed"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Session(e) => Some(e),
            Self::Rpc(e) => Some(e),
            Self::Mount(e) => Some(e),
            _ => None,
        }
    }
}

fn explain(status: NfsStatus) -> String {
    let text = match status {
        NfsStatus::Perm => "operation not permitted",
        NfsStatus::NoEnt => "no such file or directory",
        NfsStatus::Io => "input/output error at the server",
        NfsStatus::Access => "permission denied",
        NfsStatus::Exist => "it exists already",
        NfsStatus::XDev => "the two are in different file systems",
        NfsStatus::NotDir => "not a directory",
        NfsStatus::IsDir => "it is a directory",
        NfsStatus::Inval => "the server finds the request invalid",
        NfsStatus::FBig => "the file would be too large",
        NfsStatus::NoSpc => "no space left at the server",
        NfsStatus::RoFs => "the file system is exported read-only",
        NfsStatus::MLink => "too many hard links",
        NfsStatus::NameTooLong => "the name is too long",
        NfsStatus::NotEmpty => "the directory is not empty",
        NfsStatus::DQuot => "the quota is used up",
        NfsStatus::Stale => "the file was removed meanwhile",
        NfsStatus::Symlink => "too many symbolic links",
        NfsStatus::WrongType => "it is of another type",
        NfsStatus::Delay => "the server is busy; try again later",
        NfsStatus::Grace => "the server is recovering; try again in a minute",
        NfsStatus::ShareDenied => "somebody else has it open exclusively",
        NfsStatus::NotSupp => "the server does not support this",
        NfsStatus::WrongSec => "the server wants another security flavour",
        NfsStatus::BadName | NfsStatus::BadChar => "the server refuses the name",
        other => return format!("the server answered {other}"),
    };
    text.to_owned()
}
