//! Why a call has no result.

use nfs3::Nfs3Status;
use nfs3::mount::MountStatus;
use rpc::{AcceptError, CallRefusal, Rejection};
use transport::ConnectError;

/// A failure below the procedures.
#[derive(Debug)]
pub enum RpcError {
    /// No address of the server could be reached in time. The call was never sent.
    Unreachable(ConnectError),
    /// The server did not answer in time. Whether it executed the call is not known.
    TimedOut,
    /// The RPC layer of the server refused the call.
    Refused(CallRefusal),
    /// The transport carries this call or its reply in no way.
    NotCarried,
    /// The server's bytes are wrong.
    Malformed(&'static str),
}

impl std::fmt::Display for RpcError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unreachable(e) => write!(f, "cannot reach the server: {e}"),
            Self::TimedOut => write!(f, "the server does not answer"),
            Self::Refused(verdict) => f.write_str(&explain(*verdict)),
            Self::NotCarried => write!(f, "the transport cannot carry the call or its reply"),
            Self::Malformed(what) => write!(f, "the server's reply is malformed: {what}"),
        }
    }
}

fn explain(verdict: CallRefusal) -> String {
    let what = match verdict {
        CallRefusal::Accepted(AcceptError::ProgUnavail) => "the server does not have the program",
        CallRefusal::Accepted(AcceptError::ProgMismatch { low, high }) => {
            return format!("the server has versions {low} to {high} of the program only");
        }
        CallRefusal::Accepted(AcceptError::ProcUnavail) => "the server does not have the procedure",
        CallRefusal::Accepted(AcceptError::GarbageArgs) => "the server cannot read the call",
        CallRefusal::Accepted(AcceptError::SystemErr) => "the server failed to serve the call",
        CallRefusal::Denied(Rejection::RpcMismatch { .. }) => "the server has another RPC version",
        CallRefusal::Denied(Rejection::Auth(stat)) => {
            return format!("the server refuses who calls: {stat:?}");
        }
    };
    what.to_owned()
}

impl std::error::Error for RpcError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unreachable(e) => Some(e),
            _ => None,
        }
    }
}

/// A failure of a procedure.
#[derive(Debug)]
pub enum Nfs3Error {
    /// There is no result.
    Rpc(RpcError),
    /// NFS answered so. `Jukebox` only after the whole time of the call.
    Status(Nfs3Status),
    /// MOUNT answered so.
    Mount(MountStatus),
}

impl Nfs3Error {
    /// The status of NFS, if the server answered one.
    #[must_use]
    pub const fn status(&self) -> Option<Nfs3Status> {
        match self {
            Self::Status(status) => Some(*status),
            _ => None,
        }
    }
}

impl From<RpcError> for Nfs3Error {
    fn from(e: RpcError) -> Self {
        Self::Rpc(e)
    }
}

impl std::fmt::Display for Nfs3Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Rpc(e) => write!(f, "{e}"),
            Self::Status(status) => write!(f, "the server answered {status}"),
            Self::Mount(status) => write!(f, "the server refused the mount: {status}"),
        }
    }
}

impl std::error::Error for Nfs3Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Rpc(e) => Some(e),
            Self::Status(e) => Some(e),
            Self::Mount(e) => Some(e),
        }
    }
}
