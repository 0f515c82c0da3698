//! The client's end of the back channel: `CB_COMPOUND` from the server (RFC 8881 §20).
//!
//! Slots of the back channel are judged here; what an operation means is for a [`CallbackHandler`].

use crate::slots::Slots;
use bytes::Bytes;
use nfs4::attr::Attrs;
use nfs4::cb::{CbGetAttrArgs, CbGetAttrRes, CbRecallSlotArgs, CbSequenceArgs, CbSequenceRes};
use nfs4::{
    CbCompoundHeader, CbOpNum, Fattr, NfsStatus, NfsTime, OpReader, ReplyWriter, SessionId,
};
use parking_lot::Mutex;
use rpc::AcceptError;
use rpc_service::{Call, Program, Seal, refusal};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use transport::{BoxFuture, ConnHandle, Message, Service};
use xdr::{Decode, Decoder, Encoder};

/// Slots that a client offers for callbacks.
pub(crate) const BACK_SLOTS: u32 = 8;
/// Program number that callbacks are addressed to; private to the connection.
pub(crate) const CB_PROGRAM: u32 = 0x4000_0000;
/// `CB_COMPOUND` (RFC 8881 §20.2).
const CB_PROC_COMPOUND: u32 = 1;

/// Executes callbacks.
pub trait CallbackHandler: Send + Sync + 'static {
    /// Executes one operation. `args` is its body, to be decoded by `op`; a handler that does not know the operation
    /// answers `NotSupp`. The answer must not wait for requests to the same server.
    fn callback<'a>(&'a self, op: CbOpNum, args: &'a mut OpReader<'_>) -> BoxFuture<'a, NfsStatus>;

    /// CB_GETATTR of a file that this client holds for writing: what the file is like as it has it (RFC 8881 §10.4.3).
    ///
    /// # Errors
    /// `BadHandle` for any other file.
    fn attributes(&self, _fh: &[u8]) -> Result<HeldAttrs, NfsStatus> {
        Err(NfsStatus::BadHandle)
    }
}

/// A file as the client has it that holds it for writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HeldAttrs {
    /// The change attribute at the grant, or another value once the file was modified.
    pub change: u64,
    /// Bytes.
    pub size: u64,
    /// Times of the last access and of the last change of data, if the client is the authority for them (RFC 9754 §5).
    pub times: Option<(NfsTime, NfsTime)>,
}

/// Has no state to recall.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoCallbacks;

impl CallbackHandler for NoCallbacks {
    fn callback<'a>(
        &'a self,
        _op: CbOpNum,
        _args: &'a mut OpReader<'_>,
    ) -> BoxFuture<'a, NfsStatus> {
        Box::pin(std::future::ready(NfsStatus::NotSupp))
    }
}

/// A slot of the back channel. Its reply is absent while the request runs, and before the first one.
#[derive(Default)]
struct CbSlot {
    seqid: u32,
    reply: Option<Vec<u8>>,
}

/// The session whose back channel this is; absent while it is being made: callbacks then get DELAY.
struct Bound {
    session: SessionId,
    fore: Arc<Slots>,
    slots: Vec<CbSlot>,
}

/// Sends a SEQUENCE alone, if the session is still there. A lost session shows at its next request.
pub(crate) type RenewLease = Arc<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

/// The reverse service of a session's connections.
pub(crate) struct Callbacks {
    handler: Arc<dyn CallbackHandler>,
    renew: RenewLease,
    bound: Mutex<Option<Bound>>,
    /// The server is about to be told of fewer slots.
    telling: Arc<AtomicBool>,
}

impl Callbacks {
    pub(crate) fn new(handler: Arc<dyn CallbackHandler>, renew: RenewLease) -> Arc<Self> {
        Arc::new(Self {
            handler,
            renew,
            bound: Mutex::default(),
            telling: Arc::default(),
        })
    }

    /// A session is about to be made: its first callback may come before its id is known.
    pub(crate) fn unbind(&self) {
        *self.bound.lock() = None;
    }

    /// A new session: its back channel starts anew.
    pub(crate) fn bind(&self, session: SessionId, fore: Arc<Slots>) {
        let slots = (0..BACK_SLOTS).map(|_| CbSlot::default()).collect();
        *self.bound.lock() = Some(Bound {
            session,
            fore,
            slots,
        });
    }

    /// Judges CB_SEQUENCE (RFC 8881 §20.9): `Ok(None)` executes, `Ok(Some)` is the reply of a retry.
    fn sequence(&self, args: &CbSequenceArgs) -> Result<Option<Vec<u8>>, NfsStatus> {
        let mut bound = self.bound.lock();
        let bound = bound.as_mut().ok_or(NfsStatus::Delay)?;
        if bound.session != args.session_id {
            return Err(NfsStatus::BadSession);
        }
        let slot = bound
            .slots
            .get_mut(args.slot_id as usize)
            .ok_or(NfsStatus::BadSlot)?;
        if args.sequence_id == slot.seqid && slot.seqid != 0 {
            return slot.reply.clone().map(Some).ok_or(NfsStatus::Delay);
        }
        if args.sequence_id != slot.seqid.wrapping_add(1) {
            return Err(NfsStatus::SeqMisordered);
        }
        *slot = CbSlot {
            seqid: args.sequence_id,
            reply: None,
        };
        Ok(None)
    }

    /// Keeps the reply for a retry, unless the slot belongs to a newer session or request by now.
    fn keep(&self, args: &CbSequenceArgs, reply: &[u8]) {
        let mut bound = self.bound.lock();
        let Some(bound) = bound.as_mut().filter(|b| b.session == args.session_id) else {
            return;
        };
        if let Some(slot) = bound.slots.get_mut(args.slot_id as usize)
            && slot.seqid == args.sequence_id
        {
            slot.reply = Some(reply.to_vec());
        }
    }

    async fn compound(&self, xid: u32, mut d: Decoder<'_>) -> Message {
        let Ok(header) = CbCompoundHeader::decode(&mut d) else {
            return refusal(xid, AcceptError::GarbageArgs.into());
        };
        let mut e = Encoder::new();
        Seal::None.begin(&mut e, xid);
        let header_bytes = e.len();
        let mut reply: ReplyWriter<CbOpNum> = ReplyWriter::new(e, header.tag.0);
        let mut ops = OpReader::new(d, header.ops_count);
        let first = ops
            .next_op()
            .and_then(Result::ok)
            .and_then(CbOpNum::from_u32);
        let args = match first {
            Some(CbOpNum::Sequence) => ops.args::<CbSequenceArgs>().map_err(|_| NfsStatus::BadXdr),
            _ => Err(NfsStatus::OpNotInSession),
        };
        let args = match args {
            Ok(args) => args,
            Err(status) => {
                reply.error(first.unwrap_or(CbOpNum::Illegal), status);
                return reply.finish(status).into();
            }
        };
        match self.sequence(&args) {
            Err(status) => {
                reply.error(CbOpNum::Sequence, status);
                return reply.finish(status).into();
            }
            Ok(Some(cached)) => {
                let mut e = Encoder::new();
                Seal::None.begin(&mut e, xid);
                e.raw(&cached);
                return e.into();
            }
            Ok(None) => {}
        }
        let _ = reply.result(&CbSequenceRes {
            session_id: args.session_id,
            sequence_id: args.sequence_id,
            slot_id: args.slot_id,
            highest_slot_id: BACK_SLOTS - 1,
            target_highest_slot_id: BACK_SLOTS - 1,
        });
        let status = self.operations(&mut ops, &mut reply).await;
        let e = reply.finish(status);
        self.keep(&args, &e.as_bytes()[header_bytes..]);
        e.into()
    }

    /// Fewer slots are used from now on. Once that is so, a SEQUENCE alone tells the server, which over RDMA takes its
    /// credits back by the reply (RFC 8881 §20.8.3). It is not waited for here.
    fn recall_slot(&self, ops: &mut OpReader<'_>) -> NfsStatus {
        let Ok(args) = ops.args::<CbRecallSlotArgs>() else {
            return NfsStatus::BadXdr;
        };
        if let Some(bound) = self.bound.lock().as_ref() {
            bound.fore.set_target(args.target_highest_slot_id);
            if !self.telling.swap(true, SeqCst) {
                let (renew, slots) = (Arc::clone(&self.renew), Arc::clone(&bound.fore));
                let telling = Arc::clone(&self.telling);
                tokio::spawn(async move {
                    slots.lowered().await;
                    renew().await;
                    telling.store(false, SeqCst);
                });
            }
        }
        NfsStatus::Ok
    }

    fn getattr(&self, ops: &mut OpReader<'_>, reply: &mut ReplyWriter<CbOpNum>) -> NfsStatus {
        let answer = match ops.args::<CbGetAttrArgs<'_>>() {
            Ok(args) => (self.handler.attributes(args.fh.0)).map(|held| (args.attr_request, held)),
            Err(_) => Err(NfsStatus::BadXdr),
        };
        match answer {
            Ok((asked, held)) => {
                let mut attrs = Attrs {
                    change: Some(held.change),
                    size: Some(held.size),
                    time_deleg_access: held.times.map(|(access, _)| access),
                    time_deleg_modify: held.times.map(|(_, modify)| modify),
                    ..Attrs::default()
                };
                attrs.retain(&asked);
                let _ = reply.result(&CbGetAttrRes {
                    attributes: Fattr::new(&attrs),
                });
                NfsStatus::Ok
            }
            Err(status) => {
                reply.error(CbOpNum::GetAttr, status);
                status
            }
        }
    }

    async fn operations(
        &self,
        ops: &mut OpReader<'_>,
        reply: &mut ReplyWriter<CbOpNum>,
    ) -> NfsStatus {
        while let Some(next) = ops.next_op() {
            let Some(op) = next.ok().and_then(CbOpNum::from_u32) else {
                reply.illegal();
                return NfsStatus::OpIllegal;
            };
            if op == CbOpNum::GetAttr {
                let status = self.getattr(ops, reply);
                if !status.is_ok() {
                    return status;
                }
                continue;
            }
            let status = match op {
                CbOpNum::Sequence => NfsStatus::SequencePos,
                CbOpNum::RecallSlot => self.recall_slot(ops),
                _ => self.handler.callback(op, ops).await,
            };
            reply.error(op, status);
            if !status.is_ok() {
                return status;
            }
        }
        NfsStatus::Ok
    }
}

impl Program for Callbacks {
    fn number(&self) -> u32 {
        CB_PROGRAM
    }

    /// Servers disagree about the version (RFC 8881 §18.36.3 says 4, RFC 5662 §2 says 1), so none is refused.
    fn versions(&self) -> RangeInclusive<u32> {
        0..=u32::MAX
    }

    async fn call<'r>(&'r self, call: Call<'r>) -> Option<Message> {
        let xid = call.header.xid;
        match call.header.procedure {
            CB_PROC_COMPOUND => Some(self.compound(xid, call.args).await),
            0 => {
                let mut e = Encoder::new();
                Seal::None.begin(&mut e, xid);
                Some(e.into())
            }
            _ => call.refuse(AcceptError::ProcUnavail),
        }
    }
}

impl Service for Callbacks {
    async fn call(&self, conn: &ConnHandle, record: Bytes) -> Option<Message> {
        rpc_service::serve(self, &[], conn, &record).await
    }
}
