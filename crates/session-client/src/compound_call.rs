//! The RPC header of a COMPOUND call, and the way into its reply.

use crate::SessionError;
use bytes::Bytes;
use nfs4::{CompoundReply, NfsStatus, OpError};
use rpc::{CallStart, OpaqueAuth, ReplyHeader, ReplyVerdict};
use xdr::{Decode, Decoder, Encode, Encoder};

/// The beginning of a call, up to the arguments of COMPOUND.
pub(crate) fn call_header(credential: OpaqueAuth<'_>) -> Encoder {
    let mut e = Encoder::new();
    let start = CallStart {
        xid: 0,
        program: nfs4::PROGRAM,
        version: nfs4::VERSION,
        procedure: 1,
        credential,
        verifier: OpaqueAuth::NONE,
    };
    start.encode(&mut e);
    e
}

/// The COMPOUND reply in a record, and where it begins.
pub(crate) fn accepted(record: &Bytes) -> Result<(CompoundReply<'_>, usize), SessionError> {
    let mut d = Decoder::new(record);
    let header =
        ReplyHeader::decode(&mut d).map_err(|_| SessionError::Malformed("RPC reply header"))?;
    if let ReplyVerdict::Error(verdict) = header.verdict {
        return Err(SessionError::Refused(verdict));
    }
    let at = d.position();
    let reply =
        CompoundReply::new(d).map_err(|_| SessionError::Malformed("COMPOUND reply header"))?;
    Ok((reply, at))
}

/// The only result of a session operation.
pub(crate) fn session_result<'a, T: nfs4::OpRes<'a, Num = nfs4::OpNum>>(
    record: &'a Bytes,
) -> Result<T, SessionError> {
    accepted(record)?.0.take().map_err(op_error)
}

/// Statuses of session operations that mean "the server has forgotten us".
pub(crate) fn op_error(e: OpError) -> SessionError {
    match e {
        OpError::Status { status, .. } => match status {
            NfsStatus::BadSession
            | NfsStatus::DeadSession
            | NfsStatus::StaleClientId
            | NfsStatus::SeqMisordered
            | NfsStatus::BadSlot
            | NfsStatus::BadHighSlot
            | NfsStatus::ConnNotBoundToSession => SessionError::Lost,
            status => SessionError::Status(status),
        },
        OpError::Decode(_) => SessionError::Malformed("result"),
        OpError::WrongOp { .. } => SessionError::Malformed("result of another operation"),
    }
}
