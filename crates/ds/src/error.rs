//! Operational failures: opening the stores, talking to the MDS, joining.

use control::Refusal;
use meta::MetaError;
use objects::ObjectError;
use redo::RedoError;
use transport::{CallError, ConnectError};

/// Why a data server does not start.
#[derive(Debug)]
pub enum OpenError {
    /// The index failed.
    Index(MetaError),
    /// The objects failed.
    Objects(ObjectError),
    /// The redo log failed.
    Redo(RedoError),
    /// The index holds what this version does not understand.
    Format(&'static str),
    /// The index is new but there are objects: they belong to another index, and are not touched.
    ObjectsWithoutIndex,
    /// The start counter is used up (2^32 starts).
    CounterExhausted,
}

impl std::fmt::Display for OpenError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Index(e) => write!(f, "index: {e}"),
            Self::Objects(e) => write!(f, "objects: {e}"),
            Self::Redo(e) => write!(f, "{e}"),
            Self::Format(what) => write!(f, "index: {what}"),
            Self::ObjectsWithoutIndex => write!(
                f,
                "there are objects but the index is empty: the index was lost or belongs to another store"
            ),
            Self::CounterExhausted => write!(f, "the store was opened too often"),
        }
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Index(e) => Some(e),
            Self::Objects(e) => Some(e),
            Self::Redo(e) => Some(e),
            _ => None,
        }
    }
}

impl From<MetaError> for OpenError {
    fn from(e: MetaError) -> Self {
        Self::Index(e)
    }
}

/// Why a control call has no result.
#[derive(Debug)]
pub enum LinkError {
    /// No connection to the MDS now.
    NotConnected,
    /// No connection could be made.
    Connect(ConnectError),
    /// The call has no reply.
    Call(CallError),
    /// The MDS said no.
    Refused(Refusal),
    /// The RPC layer of the MDS said no.
    Verdict(rpc::CallRefusal),
    /// The MDS's bytes are wrong.
    Malformed(xdr::DecodeError),
    /// What the MDS said could not be taken or made durable here.
    Store(control::Status),
    /// A HEARTBEAT was answered after the lease had ended: HELLO must come first.
    LeaseEnded,
    /// The keys that the MDS sent contradict each other.
    Keys(layout::KeyError),
}

impl std::fmt::Display for LinkError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotConnected => f.write_str("no connection to the MDS"),
            Self::Connect(e) => write!(f, "cannot connect to the MDS: {e}"),
            Self::Call(e) => write!(f, "the MDS does not answer: {e}"),
            Self::Refused(e) => write!(f, "the MDS refuses: {e}"),
            Self::Verdict(v) => write!(f, "the MDS refuses the call: {v:?}"),
            Self::Malformed(e) => write!(f, "the MDS's answer is malformed: {e}"),
            Self::Store(status) => write!(f, "cannot take what the MDS said: {status:?}"),
            Self::LeaseEnded => f.write_str("the lease has ended"),
            Self::Keys(e) => write!(f, "keys of the MDS: {e}"),
        }
    }
}

impl std::error::Error for LinkError {}

/// Why a data server did not join.
#[derive(Debug)]
pub enum JoinError {
    /// This store is a member already.
    AlreadyMember,
    /// The store has objects: of another cluster, or of an expelled membership.
    NotEmpty,
    /// The MDS could not be asked, or said no.
    Link(LinkError),
    /// Key or certificate.
    Tls(cluster_tls::ClusterTlsError),
    /// The certificate is for another role than the answer says.
    WrongRole,
    /// The membership cannot be stored.
    Index(MetaError),
}

impl std::fmt::Display for JoinError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::AlreadyMember => f.write_str("this store has joined a cluster already"),
            Self::NotEmpty => f.write_str("this store has objects; join with an empty one"),
            Self::Link(e) => write!(f, "{e}"),
            Self::Tls(e) => write!(f, "{e}"),
            Self::WrongRole => f.write_str("the MDS sent a certificate for another server"),
            Self::Index(e) => write!(f, "index: {e}"),
        }
    }
}

impl std::error::Error for JoinError {}
