//! The first bytes of every message and the CALL header (RFC 5531 §9).
//!
//! Owns what comes before the procedure's arguments. A call that cannot be served is told apart by what answers it. A
//! verdict goes back to the peer; a malformed message closes the connection.

use xdr::{Decode, DecodeError, DecodeErrorKind, Decoder, Encode, Encoder};

use crate::auth::{AuthStat, OpaqueAuth};
use crate::message::{MessageType, RPC_VERSION};
use crate::reply::{CallRefusal, Rejection};

/// The transaction id and the direction of a message, which is all that a transport must know.
///
/// # Errors
/// [`DecodeError`] when the record is shorter than both, or names another direction.
pub fn peek(record: &[u8]) -> Result<(u32, MessageType), DecodeError> {
    let mut d = Decoder::new(record);
    Ok((d.u32()?, MessageType::decode(&mut d)?))
}

/// Why a CALL was not understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallHeaderError {
    /// No header could be found in the bytes: nothing sensible can be answered.
    Malformed(DecodeError),
    /// The header is refused, and RFC 5531 has an answer: send it with this transaction id.
    Refused {
        /// Transaction id of the call.
        xid: u32,
        /// What to answer.
        verdict: CallRefusal,
    },
}

impl std::fmt::Display for CallHeaderError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Malformed(e) => write!(f, "malformed call: {e}"),
            Self::Refused { verdict, .. } => write!(f, "call refused: {verdict:?}"),
        }
    }
}

impl std::error::Error for CallHeaderError {}

impl From<DecodeError> for CallHeaderError {
    fn from(e: DecodeError) -> Self {
        Self::Malformed(e)
    }
}

/// What a caller writes before the arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallStart<'a> {
    /// Transaction id.
    pub xid: u32,
    /// Program number.
    pub program: u32,
    /// Version of the program.
    pub version: u32,
    /// Procedure within the version.
    pub procedure: u32,
    /// Who asks.
    pub credential: OpaqueAuth<'a>,
    /// Proof of who asks.
    pub verifier: OpaqueAuth<'a>,
}

impl Encode for CallStart<'_> {
    fn encode(&self, e: &mut Encoder) {
        e.u32(self.xid);
        MessageType::Call.encode(e);
        e.u32(RPC_VERSION);
        e.u32(self.program);
        e.u32(self.version);
        e.u32(self.procedure);
        self.credential.encode(e);
        self.verifier.encode(e);
    }
}

/// The header of a received CALL; it borrows from the record.
pub type CallHeader<'a> = CallStart<'a>;

impl<'a> CallStart<'a> {
    /// Reads a CALL header and leaves the decoder at the procedure's arguments.
    ///
    /// # Errors
    /// [`CallHeaderError::Refused`] for another RPC version (RFC 5531 §9, RPC_MISMATCH) and for an
    /// authenticator above 400 bytes (AUTH_ERROR); else [`CallHeaderError::Malformed`].
    pub fn decode(d: &mut Decoder<'a>) -> Result<Self, CallHeaderError> {
        let xid = d.u32()?;
        let direction_at = d.position();
        if MessageType::decode(d)? != MessageType::Call {
            let kind = DecodeErrorKind::Invalid("a reply where a call was expected");
            return Err(DecodeError {
                kind,
                offset: direction_at,
            }
            .into());
        }
        if d.u32()? != RPC_VERSION {
            return Err(CallHeaderError::Refused {
                xid,
                verdict: Rejection::RPC_MISMATCH.into(),
            });
        }
        let (program, version, procedure) = (d.u32()?, d.u32()?, d.u32()?);
        let credential = auth(d, xid, AuthStat::BadCred)?;
        let verifier = auth(d, xid, AuthStat::BadVerf)?;
        Ok(Self {
            xid,
            program,
            version,
            procedure,
            credential,
            verifier,
        })
    }
}

/// An authenticator; one above its limit is answered with `too_long`.
fn auth<'a>(
    d: &mut Decoder<'a>,
    xid: u32,
    too_long: AuthStat,
) -> Result<OpaqueAuth<'a>, CallHeaderError> {
    OpaqueAuth::decode(d).map_err(|e| match e.kind {
        DecodeErrorKind::TooLong { .. } => CallHeaderError::Refused {
            xid,
            verdict: Rejection::Auth(too_long).into(),
        },
        _ => CallHeaderError::Malformed(e),
    })
}
