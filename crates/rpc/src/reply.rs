//! The REPLY header (RFC 5531 §9): accepted and rejected replies, both directions.
//!
//! Owns everything before the results. A verdict is a value that is sent, not a failure of ours.

use xdr::{Decode, DecodeError, DecodeErrorKind, Decoder, Encode, Encoder};

use crate::auth::{AuthStat, OpaqueAuth};
use crate::message::{MessageType, RPC_VERSION};

const MSG_ACCEPTED: u32 = 0;
const MSG_DENIED: u32 = 1;

/// An accepted call that was not executed (`accept_stat`, RFC 5531 §9).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcceptError {
    /// This server does not offer the program.
    ProgUnavail,
    /// It offers other versions of it.
    ProgMismatch {
        /// Lowest version offered.
        low: u32,
        /// Highest version offered.
        high: u32,
    },
    /// The version has no such procedure.
    ProcUnavail,
    /// The arguments cannot be decoded.
    GarbageArgs,
    /// The server failed, for example out of memory.
    SystemErr,
}

impl AcceptError {
    const fn stat(self) -> u32 {
        match self {
            Self::ProgUnavail => 1,
            Self::ProgMismatch { .. } => 2,
            Self::ProcUnavail => 3,
            Self::GarbageArgs => 4,
            Self::SystemErr => 5,
        }
    }
}

/// A call that was rejected (`reject_stat`, RFC 5531 §9).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rejection {
    /// Another RPC version is needed.
    RpcMismatch {
        /// Lowest version offered.
        low: u32,
        /// Highest version offered.
        high: u32,
    },
    /// The authenticator was refused.
    Auth(AuthStat),
}

impl Rejection {
    /// What we answer to any RPC version but 2.
    pub const RPC_MISMATCH: Self = Self::RpcMismatch {
        low: RPC_VERSION,
        high: RPC_VERSION,
    };
}

/// Every answer of RPC but success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallRefusal {
    /// Accepted, not executed.
    Accepted(AcceptError),
    /// Rejected.
    Denied(Rejection),
}

impl From<AcceptError> for CallRefusal {
    fn from(e: AcceptError) -> Self {
        Self::Accepted(e)
    }
}

impl From<Rejection> for CallRefusal {
    fn from(r: Rejection) -> Self {
        Self::Denied(r)
    }
}

/// Writes the header of a successful reply; the results follow.
pub fn begin_success(e: &mut Encoder, xid: u32, verifier: OpaqueAuth<'_>) {
    begin_accepted(e, xid, verifier, 0);
}

fn begin_accepted(e: &mut Encoder, xid: u32, verifier: OpaqueAuth<'_>, stat: u32) {
    e.u32(xid);
    MessageType::Reply.encode(e);
    e.u32(MSG_ACCEPTED);
    verifier.encode(e);
    e.u32(stat);
}

/// Writes a whole reply that carries no results. Its verifier is AUTH_NONE.
pub fn encode_error(e: &mut Encoder, xid: u32, verdict: CallRefusal) {
    match verdict {
        CallRefusal::Accepted(error) => {
            begin_accepted(e, xid, OpaqueAuth::NONE, error.stat());
            if let AcceptError::ProgMismatch { low, high } = error {
                e.u32(low);
                e.u32(high);
            }
        }
        CallRefusal::Denied(rejection) => {
            e.u32(xid);
            MessageType::Reply.encode(e);
            e.u32(MSG_DENIED);
            match rejection {
                Rejection::RpcMismatch { low, high } => {
                    e.u32(0);
                    e.u32(low);
                    e.u32(high);
                }
                Rejection::Auth(stat) => {
                    e.u32(1);
                    stat.encode(e);
                }
            }
        }
    }
}

/// What a reply says about its call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyVerdict<'a> {
    /// Executed; the results follow in the decoder.
    Success {
        /// The server's verifier.
        verifier: OpaqueAuth<'a>,
    },
    /// Not executed.
    Error(CallRefusal),
}

/// The header of a received REPLY; it borrows from the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplyHeader<'a> {
    /// Transaction id of the call.
    pub xid: u32,
    /// How it went.
    pub verdict: ReplyVerdict<'a>,
}

impl<'a> Decode<'a> for ReplyHeader<'a> {
    /// Reads a REPLY header and leaves the decoder at the results.
    fn decode(d: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        let xid = d.u32()?;
        let direction_at = d.position();
        if MessageType::decode(d)? != MessageType::Reply {
            let kind = DecodeErrorKind::Invalid("a call where a reply was expected");
            return Err(DecodeError {
                kind,
                offset: direction_at,
            });
        }
        let offset = d.position();
        let verdict = match d.u32()? {
            MSG_ACCEPTED => accepted(d)?,
            MSG_DENIED => ReplyVerdict::Error(CallRefusal::Denied(denied(d)?)),
            v => {
                return Err(DecodeError {
                    kind: DecodeErrorKind::BadDiscriminant(v),
                    offset,
                });
            }
        };
        Ok(Self { xid, verdict })
    }
}

fn accepted<'a>(d: &mut Decoder<'a>) -> Result<ReplyVerdict<'a>, DecodeError> {
    let verifier = OpaqueAuth::decode(d)?;
    let offset = d.position();
    let error = match d.u32()? {
        0 => return Ok(ReplyVerdict::Success { verifier }),
        1 => AcceptError::ProgUnavail,
        2 => AcceptError::ProgMismatch {
            low: d.u32()?,
            high: d.u32()?,
        },
        3 => AcceptError::ProcUnavail,
        4 => AcceptError::GarbageArgs,
        5 => AcceptError::SystemErr,
        v => {
            return Err(DecodeError {
                kind: DecodeErrorKind::BadDiscriminant(v),
                offset,
            });
        }
    };
    Ok(ReplyVerdict::Error(error.into()))
}

fn denied(d: &mut Decoder<'_>) -> Result<Rejection, DecodeError> {
    let offset = d.position();
    match d.u32()? {
        0 => Ok(Rejection::RpcMismatch {
            low: d.u32()?,
            high: d.u32()?,
        }),
        1 => Ok(Rejection::Auth(AuthStat::decode(d)?)),
        v => Err(DecodeError {
            kind: DecodeErrorKind::BadDiscriminant(v),
            offset,
        }),
    }
}
