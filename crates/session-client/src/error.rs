//! Why a COMPOUND has no reply.

use nfs4::NfsStatus;
use transport::ConnectError;

/// A failure below the operations. Failures of operations are in the reply.
#[derive(Debug)]
pub enum SessionError {
    /// No address of the server could be reached in time. A retry may help.
    Unreachable(ConnectError),
    /// The server did not answer in time, over any connection. Whether it executed the request is not known.
    TimedOut,
    /// The server does not know the session any more: make a new one, reclaim, and ask again.
    Lost,
    /// The session operation itself failed.
    Status(NfsStatus),
    /// The RPC layer of the server refused the call.
    Refused(rpc::CallRefusal),
    /// The transport carries this request or its reply in no way. Whether the server executed it is not known.
    NotCarried,
    /// The server's bytes are wrong.
    Malformed(&'static str),
}

impl SessionError {
    /// Whether the same request may succeed when it is made again later.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::Unreachable(_) | Self::TimedOut | Self::Lost | Self::Status(NfsStatus::Delay)
        )
    }
}

impl std::fmt::Display for SessionError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unreachable(e) => write!(f, "cannot reach the server: {e}"),
            Self::TimedOut => write!(f, "the server does not answer"),
            Self::Lost => write!(f, "the server has lost the session"),
            Self::Status(status) => write!(f, "the server refused the session: {status}"),
            Self::Refused(verdict) => write!(f, "the server refused the call: {verdict:?}"),
            Self::NotCarried => write!(f, "the transport cannot carry the request or its reply"),
            Self::Malformed(what) => write!(f, "the server's reply is malformed: {what}"),
        }
    }
}

impl std::error::Error for SessionError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unreachable(e) => Some(e),
            _ => None,
        }
    }
}
