//! A call of the program and what its reply says, the same for every caller.
//!
//! How long a caller waits, and what it does with its connection, is its own.

use crate::answer::{Answer, Refusal};
use crate::proc::Request;
use crate::{PROGRAM, VERSION_MAX};
use rpc::{CallRefusal, CallStart, OpaqueAuth, ReplyHeader, ReplyVerdict};
use xdr::{Decode, DecodeError, Decoder, Encode, Encoder};

/// Why a reply has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplyError {
    /// Its bytes are wrong, or there are more than those of the result.
    Malformed(DecodeError),
    /// The RPC layer of the other side refuses the call (RFC 5531 §9).
    Verdict(CallRefusal),
    /// The other side refuses what is asked.
    Refused(Refusal),
}

impl std::fmt::Display for ReplyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Malformed(error) => write!(f, "a malformed answer: {error}"),
            Self::Verdict(verdict) => write!(f, "the call is refused: {verdict:?}"),
            Self::Refused(refusal) => refusal.fmt(f),
        }
    }
}

impl std::error::Error for ReplyError {}

/// The record of a call. TLS proves the caller, so its credential is AUTH_NONE; the transport sets the transaction id.
pub fn encode_call<R: Request>(args: &R) -> Encoder {
    let mut e = Encoder::new();
    let start = CallStart {
        xid: 0,
        program: PROGRAM,
        version: VERSION_MAX,
        procedure: R::PROC as u32,
        credential: OpaqueAuth::NONE,
        verifier: OpaqueAuth::NONE,
    };
    start.encode(&mut e);
    args.encode(&mut e);
    e
}

/// The result in the record of a reply to `R`.
///
/// # Errors
/// [`ReplyError`].
pub fn read_reply<R: Request>(record: &[u8]) -> Result<R::Ok, ReplyError> {
    let mut d = Decoder::new(record);
    let header = ReplyHeader::decode(&mut d).map_err(ReplyError::Malformed)?;
    if let ReplyVerdict::Error(verdict) = header.verdict {
        return Err(ReplyError::Verdict(verdict));
    }
    let answer: Answer<R::Ok> = xdr::decode_all(d.rest()).map_err(ReplyError::Malformed)?;
    answer.into_result().map_err(ReplyError::Refused)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SizeArgs, SizeOk, Status, ToMds};
    use rpc::{AcceptError, CallHeader};

    fn args() -> SizeArgs {
        SizeArgs {
            file_id: 7,
            generation: 1,
        }
    }

    fn reply(answer: &Answer<SizeOk>) -> Vec<u8> {
        let mut e = Encoder::new();
        rpc::begin_success(&mut e, 1, OpaqueAuth::NONE);
        answer.encode(&mut e);
        e.into_bytes()
    }

    #[test]
    fn a_call_is_understood_as_it_was_made() {
        let record = encode_call(&args()).into_bytes();
        let mut d = Decoder::new(&record);
        let header = CallHeader::decode(&mut d).expect("a header");
        assert_eq!((header.program, header.version), (PROGRAM, VERSION_MAX));
        let call = ToMds::decode(header.procedure, d.rest());
        assert_eq!(call, Ok(ToMds::Size(args())));
    }

    #[test]
    fn a_reply_is_a_result_or_says_who_refuses() {
        let refusal = Refusal::new(Status::TryLater, "busy");
        let refused = reply(&Answer::Refused(refusal.clone()));
        let read = |record: &[u8]| read_reply::<SizeArgs>(record).map(drop);
        assert_eq!(read(&refused), Err(ReplyError::Refused(refusal)));
        let malformed = |record: &[u8]| matches!(read(record), Err(ReplyError::Malformed(_)));
        assert!(malformed(&[&refused[..], &[0; 4]].concat()));
        assert!((0..refused.len()).all(|end| malformed(&refused[..end])));
        let mut e = Encoder::new();
        rpc::encode_error(&mut e, 1, AcceptError::ProcUnavail.into());
        let verdict = CallRefusal::from(AcceptError::ProcUnavail);
        assert_eq!(read(&e.into_bytes()), Err(ReplyError::Verdict(verdict)));
    }
}
