//! The callback program of a client of NFSv4.0 (RFC 7530 §15, §16): what is recalled waits here for its worker.

use super::locker::{RANGE_BYTES, RANGES};
use bytes::Bytes;
use nfs4::attr::Attrs;
use nfs4::cb::{CbGetAttrArgs, CbGetAttrRes, CbRecallArgs, CbRecallRes};
use nfs4::{
    CbCompoundHeader, CbOpNum, Fattr, FileHandle, NfsStatus, OpReader, ReplyWriter, Stateid,
};
use parking_lot::Mutex;
use rpc::{CallHeader, OpaqueAuth};
use std::collections::{BTreeSet, VecDeque};
use transport::{ConnHandle, Message, Service};
use xdr::{Decode, Decoder, Encoder};

/// See the module.
#[derive(Default)]
pub(super) struct Callbacks0 {
    recalled: Mutex<VecDeque<Stateid>>,
    /// Handles of what is delegated.
    known: Mutex<BTreeSet<Vec<u8>>>,
}

impl Callbacks0 {
    pub(super) const PROGRAM: u32 = 0x4000_0000;
    pub(super) const IDENT: u32 = 7;

    pub(super) fn next_recalled(&self) -> Option<Stateid> {
        self.recalled.lock().pop_front()
    }

    pub(super) fn remember(&self, fh: &FileHandle) {
        self.known.lock().insert(fh.0.clone());
    }

    pub(super) fn forget(&self, fh: &FileHandle) {
        self.known.lock().remove(&fh.0);
    }

    fn operations(&self, ops: &mut OpReader<'_>, reply: &mut ReplyWriter<CbOpNum>) -> NfsStatus {
        while let Some(op) = ops.next_op() {
            let op = op.ok().and_then(CbOpNum::from_u32);
            let status = match op {
                Some(CbOpNum::GetAttr) => self.getattr(ops, reply),
                Some(CbOpNum::Recall) => match ops.args::<CbRecallArgs<'_>>() {
                    Ok(args) => {
                        self.recalled.lock().push_back(args.stateid);
                        let _ = reply.result(&CbRecallRes {});
                        NfsStatus::Ok
                    }
                    Err(_) => NfsStatus::BadXdr,
                },
                _ => NfsStatus::OpIllegal,
            };
            if !status.is_ok() {
                reply.error(op.unwrap_or(CbOpNum::Illegal), status);
                return status;
            }
        }
        NfsStatus::Ok
    }

    /// A file has the size that it always has. Its change value is the server's business: the holder writes through.
    fn getattr(&self, ops: &mut OpReader<'_>, reply: &mut ReplyWriter<CbOpNum>) -> NfsStatus {
        let Ok(args) = ops.args::<CbGetAttrArgs<'_>>() else {
            return NfsStatus::BadXdr;
        };
        if !self.known.lock().contains(args.fh.0) {
            return NfsStatus::BadHandle;
        }
        let mut attrs = Attrs {
            change: Some(0),
            size: Some(RANGES * u64::from(RANGE_BYTES)),
            ..Attrs::default()
        };
        attrs.retain(&args.attr_request);
        let attributes = Fattr::new(&attrs);
        let _ = reply.result(&CbGetAttrRes { attributes });
        NfsStatus::Ok
    }
}

impl Service for Callbacks0 {
    async fn call(&self, _conn: &ConnHandle, record: Bytes) -> Option<Message> {
        let mut d = Decoder::new(&record);
        let header = CallHeader::decode(&mut d).ok()?;
        let mut e = Encoder::new();
        rpc::begin_success(&mut e, header.xid, OpaqueAuth::NONE);
        if header.procedure == 0 {
            return Some(e.into());
        }
        let compound = CbCompoundHeader::decode(&mut d).ok()?;
        let mut reply = ReplyWriter::<CbOpNum>::new(e, compound.tag.0);
        let mut ops = OpReader::new(d, compound.ops_count);
        let is_own = compound.minorversion == 0 && compound.callback_ident == Self::IDENT;
        let status = match is_own {
            true => self.operations(&mut ops, &mut reply),
            false => NfsStatus::MinorVersMismatch,
        };
        Some(reply.finish(status).into())
    }
}
