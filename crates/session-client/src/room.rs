//! Room for replies, for transports that place results straight into our memory (RFC 8267 §6).

use nfs4::ops::{GetAttrRes, GetFhRes, OpenRes, SequenceRes};
use nfs4::{CompoundReply, OpNum, OpRes, ReplyBytes};
use rpc::{ReplyHeader, ReplyVerdict};
use transport::ReplyRoom;
use xdr::{Decode, Decoder};

/// How much room a request makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Estimate {
    /// What servers answer in practice.
    Usual,
    /// As much as the session allows (RFC 8267 §6.2.2).
    Most,
}

/// Room for a reply of at most these bytes in a session whose replies have at most `response_bytes_max`.
pub(crate) fn reply_room(
    bytes: ReplyBytes,
    response_bytes_max: u32,
    estimate: Estimate,
) -> ReplyRoom {
    let whole = bytes.plain.saturating_add(bytes.data);
    if estimate == Estimate::Most || bytes.reads > 1 || bytes.data > response_bytes_max {
        let wanted = match estimate {
            Estimate::Most => u32::MAX,
            Estimate::Usual => whole,
        };
        return ReplyRoom::plain(wanted.min(response_bytes_max));
    }
    ReplyRoom {
        reply_bytes_max: bytes.plain.min(response_bytes_max),
        result_bytes_max: bytes.data,
        locate: read_data,
    }
}

/// Where the data of the first READ belong in a COMPOUND reply that lacks them.
fn read_data(reply: &[u8]) -> Option<usize> {
    let mut d = Decoder::new(reply);
    let header = ReplyHeader::decode(&mut d).ok()?;
    if !matches!(header.verdict, ReplyVerdict::Success { .. }) {
        return None;
    }
    let mut reply = CompoundReply::new(d).ok()?;
    while let Some(result) = reply.next_result().ok()? {
        if !result.status.is_ok() {
            return None;
        }
        let d = reply.decoder();
        match OpNum::from_u32(result.op)? {
            OpNum::Read => {
                // End of file, then the count.
                d.bool().ok()?;
                d.u32().ok()?;
                return Some(d.position());
            }
            OpNum::Sequence => skip::<SequenceRes>(d)?,
            OpNum::GetAttr => skip::<GetAttrRes<'_>>(d)?,
            OpNum::GetFh => skip::<GetFhRes<'_>>(d)?,
            OpNum::Open => skip::<OpenRes>(d)?,
            OpNum::PutFh | OpNum::PutRootFh | OpNum::Lookup | OpNum::LookupP => {}
            OpNum::SaveFh | OpNum::RestoreFh => {}
            _ => return None,
        }
    }
    None
}

fn skip<'a, R: OpRes<'a>>(d: &mut Decoder<'a>) -> Option<()> {
    R::decode_res(nfs4::NfsStatus::Ok, d).ok()?.map(drop)
}

#[cfg(test)]
mod tests {
    //! The data of a READ are found after whatever stands before it.
    use super::*;
    use nfs4::ops::ReadResPayload;
    use nfs4::{NfsStatus, ReplyWriter};
    use rpc::OpaqueAuth;
    use xdr::Encoder;

    #[test]
    fn the_data_of_a_read_belong_behind_their_count() {
        let mut e = Encoder::new();
        rpc::begin_success(&mut e, 7, OpaqueAuth::NONE);
        let mut w: ReplyWriter<OpNum> = ReplyWriter::new(e, b"tag");
        w.error(OpNum::PutRootFh, NfsStatus::Ok);
        w.error(OpNum::Lookup, NfsStatus::Ok);
        let mark = w.result(&ReadResPayload { eof: true, len: 77 });
        w.end_op(mark, NfsStatus::Ok);
        w.error(OpNum::Access, NfsStatus::Io);
        let (head, spans) = w.finish(NfsStatus::Io).into_parts();
        assert_eq!(read_data(&head), Some(spans[0].at));
        // Cut anywhere before it there is no such place, and nothing panics.
        assert!((0..spans[0].at).all(|cut| read_data(&head[..cut]).is_none()));
    }
}
