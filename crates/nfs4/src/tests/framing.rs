//! Goal: requests and replies are framed as the RFC says, unknown operations are answered rather than refused, and
//! READDIR keeps to the client's sizes. Method: both ends of this crate against each other.

use xdr::{Decode, Decoder, Encoder, Opaque};

use crate::{cb::*, ops::*, *};

fn request() -> Vec<u8> {
    let mut b = CompoundBuilder::new(Encoder::new(), b"tag", 2);
    b.push(&PutRootFhArgs {})
        .push(&LookupArgs {
            name: Opaque(b"etc"),
        })
        .push(&GetFhArgs {});
    b.finish().into_bytes()
}

#[test]
fn a_server_reads_what_a_client_builds() {
    let bytes = request();
    let mut d = Decoder::new(&bytes);
    let header = CompoundHeader::decode(&mut d).unwrap();
    assert_eq!(
        (header.tag.0, header.minorversion, header.ops_count),
        (&b"tag"[..], 2, 3)
    );
    let mut ops = OpReader::new(d, header.ops_count);
    assert_eq!(ops.next_op(), Some(Ok(24)));
    ops.args::<PutRootFhArgs>().unwrap();
    assert_eq!(ops.next_op(), Some(Ok(15)));
    assert_eq!(ops.args::<LookupArgs<'_>>().unwrap().name.0, b"etc");
    assert_eq!(ops.next_op(), Some(Ok(10)));
    ops.args::<GetFhArgs>().unwrap();
    assert_eq!(ops.next_op(), None);
    assert_eq!(ops.decoder().finish(), Ok(()));
}

#[test]
fn a_client_reads_what_a_server_writes() {
    let mut e = Encoder::new();
    e.u32(0xfeed); // an RPC header
    let mut w = ReplyWriter::<OpNum>::new(e, b"tag");
    let _ = w.result(&PutRootFhRes {});
    let _ = w.result(&AccessRes {
        supported: 3,
        access: 1,
    });
    w.error(OpNum::Lookup, NfsStatus::NoEnt);
    assert_eq!(w.count(), 3);
    let bytes = w.finish(NfsStatus::NoEnt).into_bytes();
    let mut r = CompoundReply::new(Decoder::new(&bytes[4..])).unwrap();
    assert_eq!((r.status, r.tag.0), (NfsStatus::NoEnt, &b"tag"[..]));
    r.take::<PutRootFhRes>().unwrap();
    assert_eq!(r.take::<AccessRes>().unwrap().access, 1);
    assert_eq!(
        r.take::<LookupRes>(),
        Err(OpError::Status {
            op: Some(15),
            status: NfsStatus::NoEnt
        })
    );
    // The operations after a failure were not evaluated.
    let missing = r.take::<GetFhRes<'_>>().unwrap_err();
    assert_eq!(missing.status(), Some(NfsStatus::NoEnt));
}

#[test]
fn an_unknown_operation_is_a_number_and_answered_illegal() {
    let mut e = Encoder::new();
    e.opaque(b"");
    e.u32(1);
    e.u32(1);
    e.u32(4711);
    let bytes = e.into_bytes();
    let mut d = Decoder::new(&bytes);
    let header = CompoundHeader::decode(&mut d).unwrap();
    let mut ops = OpReader::new(d, header.ops_count);
    let number = ops.next_op().unwrap().unwrap();
    assert_eq!((number, OpNum::from_u32(number)), (4711, None));
    let mut w = ReplyWriter::<OpNum>::new(Encoder::new(), b"");
    w.illegal();
    let bytes = w.finish(NfsStatus::OpIllegal).into_bytes();
    let mut r = CompoundReply::new(Decoder::new(&bytes)).unwrap();
    let err = r.take::<SeekRes>().unwrap_err();
    assert_eq!(err.status(), Some(NfsStatus::OpIllegal));
}

#[test]
fn a_request_with_too_many_operations_is_seen_before_they_are_read() {
    let header = CompoundHeader {
        tag: Opaque(b""),
        minorversion: 1,
        ops_count: OPS_MAX + 1,
    };
    assert!(header.has_too_many_ops());
    let nothing = Decoder::new(&[]);
    assert_eq!(OpReader::new(nothing, u32::MAX).left(), OPS_MAX);
}

#[test]
fn a_tag_above_its_limit_is_refused() {
    let mut e = Encoder::new();
    e.opaque(&[b'x'; TAG_BYTES_MAX as usize + 1]);
    e.u32(1);
    e.u32(0);
    let bytes = e.into_bytes();
    assert!(CompoundHeader::decode(&mut Decoder::new(&bytes)).is_err());
}

#[test]
fn failures_have_the_bodies_of_their_unions() {
    let body = |op: OpNum, status| {
        let mut w = ReplyWriter::<OpNum>::new(Encoder::new(), b"");
        w.error(op, status);
        w.finish(status).into_bytes()
    };
    // SETATTR has its attrsset whatever the status.
    let bytes = body(OpNum::SetAttr, NfsStatus::Stale);
    let mut r = CompoundReply::new(Decoder::new(&bytes)).unwrap();
    let res = r.take::<SetAttrRes>().unwrap();
    assert_eq!(
        (res.status, res.attrsset),
        (NfsStatus::Stale, Bitmap::EMPTY)
    );
    assert_eq!(r.decoder().finish(), Ok(()));

    let bytes = body(OpNum::LayoutGet, NfsStatus::LayoutTryLater);
    let mut r = CompoundReply::new(Decoder::new(&bytes)).unwrap();
    let res = r.take::<LayoutGetRes<'_>>().unwrap();
    assert_eq!(res, LayoutGetRes::TryLater { will_signal: false });

    for op in OpNum::ALL {
        for status in NfsStatus::ALL.iter().filter(|s| !s.is_ok()) {
            crate::fuzz::compound_reply(&body(*op, *status));
        }
    }
    let bytes = body(OpNum::Lock, NfsStatus::Denied);
    let mut r = CompoundReply::new(Decoder::new(&bytes)).unwrap();
    assert!(matches!(r.take(), Ok(LockRes::Denied(_))));
    let bytes = body(OpNum::GetDeviceInfo, NfsStatus::TooSmall);
    let mut r = CompoundReply::new(Decoder::new(&bytes)).unwrap();
    let res = r.take::<GetDeviceInfoRes<'_>>();
    assert_eq!(res, Ok(GetDeviceInfoRes::TooSmall { mincount: 0 }));
    let bytes = body(OpNum::Copy, NfsStatus::OffloadNoReqs);
    let mut r = CompoundReply::new(Decoder::new(&bytes)).unwrap();
    assert!(matches!(r.take(), Ok(CopyRes::NoReqs(_))));
}

#[test]
fn a_result_that_is_too_big_is_taken_back() {
    let mut w = ReplyWriter::<OpNum>::new(Encoder::new(), b"");
    let _ = w.result(&PutRootFhRes {});
    let before = w.wire_len();
    let mark = w.result(&ReadResPayload {
        eof: false,
        len: 1 << 20,
    });
    assert_eq!(w.wire_len(), before + 16 + (1 << 20));
    w.abandon_op(mark);
    assert_eq!((w.wire_len(), w.count()), (before, 1));
    w.error(OpNum::Read, NfsStatus::RepTooBig);
    let bytes = w.finish(NfsStatus::RepTooBig).into_bytes();
    let mut r = CompoundReply::new(Decoder::new(&bytes)).unwrap();
    r.take::<PutRootFhRes>().unwrap();
    let err = r.take::<ReadRes<'_>>().unwrap_err();
    assert_eq!(err.status(), Some(NfsStatus::RepTooBig));
}

#[test]
fn another_operation_or_a_missing_result_is_an_error_of_the_server() {
    let mut w = ReplyWriter::<OpNum>::new(Encoder::new(), b"");
    let _ = w.result(&PutRootFhRes {});
    let bytes = w.finish(NfsStatus::Ok).into_bytes();
    let mut r = CompoundReply::new(Decoder::new(&bytes)).unwrap();
    let wrong = r.clone().take::<PutFhRes>();
    assert_eq!(
        wrong,
        Err(OpError::WrongOp {
            want: 22,
            got: Some(24)
        })
    );
    r.take::<PutRootFhRes>().unwrap();
    let missing = r.take::<PutFhRes>();
    assert_eq!(
        missing,
        Err(OpError::WrongOp {
            want: 22,
            got: None
        })
    );
}

#[test]
fn a_callback_goes_there_and_back() {
    let mut b = CbCompoundBuilder::new(Encoder::new(), b"", 1);
    b.push(&CbRecallSlotArgs {
        target_highest_slot_id: 4,
    });
    let bytes = b.finish().into_bytes();
    let mut d = Decoder::new(&bytes);
    let header = CbCompoundHeader::decode(&mut d).unwrap();
    assert_eq!((header.callback_ident, header.minorversion), (0, 1));
    let mut ops = OpReader::new(d, header.ops_count);
    assert_eq!(ops.next_op(), Some(Ok(10)));
    let args = ops.args::<CbRecallSlotArgs>().unwrap();
    assert_eq!(args.target_highest_slot_id, 4);
    let mut w = ReplyWriter::<CbOpNum>::new(Encoder::new(), b"");
    let _ = w.result(&CbRecallSlotRes {});
    let bytes = w.finish(NfsStatus::Ok).into_bytes();
    let mut r = CbCompoundReply::new(Decoder::new(&bytes)).unwrap();
    r.take::<CbRecallSlotRes>().unwrap();
}

#[test]
fn readdir_keeps_to_maxcount_and_to_dircount_after_the_first_entry() {
    let attrs = Attrs {
        fileid: Some(1),
        ..Attrs::default()
    };
    let mask = Bitmap::of(&[attr::FILEID]);
    let list = |maxcount, dircount| {
        let mut e = Encoder::new();
        let mut w = ReadDirWriter::new(&mut e, Verifier::default(), maxcount, dircount)?;
        let mut cookie = 3;
        while cookie < 100 && w.push(cookie, b"name", &mask, &attrs) {
            cookie += 1;
        }
        let count = w.entries_count();
        w.finish(false);
        let bytes = e.into_bytes();
        assert!(bytes.len() <= maxcount as usize);
        let res = xdr::decode_all::<ReadDirRes<'_>>(&bytes).unwrap();
        assert_eq!(res.entries.len(), count as usize);
        Some(count)
    };
    // An entry: follows (4), cookie (8), name (8), bitmap (8), values (12) = 40; the frame is 16.
    assert_eq!(list(15, 0), None);
    assert_eq!(list(16, 0), Some(0));
    assert_eq!(list(16 + 39, 0), Some(0));
    assert_eq!(list(16 + 40, 0), Some(1));
    assert_eq!(list(16 + 400, 0), Some(10));
    assert_eq!(list(4096, 1), Some(1));
    assert_eq!(list(4096, 32), Some(2));
}
