//! Calls and replies as bytes: the RPC header around arguments, the way into a reply, and room for it. Sans I/O.

use crate::{CallerAuth, RpcError};
use bytes::Bytes;
use nfs3::{Nfs3Status, PostOpAttr};
use rpc::{CallStart, OpaqueAuth, ReplyHeader, ReplyVerdict};
use transport::{Message, Payload, ReplyRoom};
use xdr::{Decode, Decoder, Encode, Encoder};

/// Bytes of a reply beside what its procedure's counts bound: the RPC header, status, attributes, wcc data.
pub(crate) const REPLY_BYTES: u32 = 1024;

/// What is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) program: u32,
    pub(crate) version: u32,
    pub(crate) procedure: u32,
}

/// A call, ready to be sent. The same arguments and the same id give the same bytes.
pub(crate) fn call(
    xid: u32,
    target: Target,
    caller: &CallerAuth,
    args: &dyn Encode,
    data: Option<&Bytes>,
    room: ReplyRoom,
) -> Message {
    let mut e = Encoder::new();
    CallStart {
        xid,
        program: target.program,
        version: target.version,
        procedure: target.procedure,
        credential: caller.credential(),
        verifier: OpaqueAuth::NONE,
    }
    .encode(&mut e);
    args.encode(&mut e);
    let payloads = data.map(|data| Payload::Bytes(data.clone()));
    Message::new(e, payloads.into_iter().collect()).with_reply_room(room)
}

/// The result in a reply.
pub(crate) fn result(record: &Bytes) -> Result<Bytes, RpcError> {
    let mut d = Decoder::new(record);
    let header = ReplyHeader::decode(&mut d).map_err(|_| RpcError::Malformed("RPC header"))?;
    match header.verdict {
        ReplyVerdict::Success { .. } => Ok(record.slice(d.position()..)),
        ReplyVerdict::Error(verdict) => Err(RpcError::Refused(verdict)),
    }
}

/// Room for the reply of a READ of `count` bytes.
pub(crate) const fn read_room(count: u32) -> ReplyRoom {
    ReplyRoom {
        reply_bytes_max: REPLY_BYTES,
        result_bytes_max: count,
        locate: read_data,
    }
}

/// Where the data of a READ belong in a reply that lacks them.
fn read_data(reply: &[u8]) -> Option<usize> {
    let mut d = Decoder::new(reply);
    let header = ReplyHeader::decode(&mut d).ok()?;
    if !matches!(header.verdict, ReplyVerdict::Success { .. }) {
        return None;
    }
    if !Nfs3Status::decode(&mut d).ok()?.is_ok() {
        return None;
    }
    PostOpAttr::decode(&mut d).ok()?;
    // The count, the end of file, and the count again, as that of the opaque data.
    d.u32().ok()?;
    d.bool().ok()?;
    d.u32().ok()?;
    Some(d.position())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nfs3::procs::{ReadOkPayload, ReadResPayload, WriteArgsPayload};
    use nfs3::{Proc, StableHow};
    use xdr::Opaque;

    #[test]
    fn the_data_of_a_read_belong_behind_their_count() {
        let mut e = Encoder::new();
        rpc::begin_success(&mut e, 7, OpaqueAuth::NONE);
        ReadResPayload::Ok(ReadOkPayload {
            file_attributes: None,
            eof: true,
            len: 77,
        })
        .encode(&mut e);
        let (head, spans) = e.into_parts();
        assert_eq!(read_data(&head), Some(spans[0].at));
        // Cut anywhere before it there is no such place, and nothing panics.
        assert!((0..spans[0].at).all(|cut| read_data(&head[..cut]).is_none()));
    }

    #[test]
    fn a_failure_has_no_place_for_data() {
        let mut e = Encoder::new();
        rpc::begin_success(&mut e, 7, OpaqueAuth::NONE);
        ReadResPayload::Fail(Nfs3Status::Stale, None).encode(&mut e);
        assert_eq!(read_data(e.as_bytes()), None);
    }

    #[test]
    fn a_call_built_twice_has_the_same_bytes_and_its_data_are_not_copied() {
        let data = Bytes::from_static(b"abcde");
        let target = Target {
            program: nfs3::PROGRAM,
            version: nfs3::VERSION,
            procedure: Proc::Write as u32,
        };
        let args = WriteArgsPayload {
            file: Opaque(b"handle"),
            offset: 3,
            stable: StableHow::Unstable,
            len: 5,
        };
        let build = || {
            let room = ReplyRoom::plain(REPLY_BYTES);
            call(9, target, &CallerAuth::none(), &args, Some(&data), room)
        };
        let message = build();
        assert_eq!(message.flatten().unwrap(), build().flatten().unwrap());
        assert_eq!(
            rpc::peek(message.head()),
            Ok((9, rpc::MessageType::Call)),
            "the id is the caller's"
        );
        let [Payload::Bytes(sent)] = message.payloads() else {
            panic!("one payload");
        };
        assert_eq!(sent.as_ptr(), data.as_ptr());
    }

    #[test]
    fn a_refusal_is_told_and_junk_is_malformed() {
        let mut e = Encoder::new();
        rpc::encode_error(&mut e, 7, rpc::AcceptError::ProgUnavail.into());
        let refused = result(&Bytes::from(e.into_bytes()));
        assert!(matches!(refused, Err(RpcError::Refused(_))), "{refused:?}");
        let junk = result(&Bytes::from_static(b"\0\0"));
        assert!(matches!(junk, Err(RpcError::Malformed(_))), "{junk:?}");
    }
}
