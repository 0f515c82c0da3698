//! The walk over a COMPOUND: from its header to its reply (RFC 8881 §16.2, §2.10.6).
//!
//! # Ownership
//! A running request owns its slot through a [`RunningSlot`], which is completed on every path.
//!
//! # Ordering
//! SEQUENCE judges a retry before anything is executed. Room for the result of an operation with effects is proved before
//! it is executed. A reply enters the cache before it is sent, and after everything that it observed is durable.
//!
//! # Failure
//! When the store cannot make the effects durable the connection is closed without a reply: the client
//! retries and finds whatever survived.

use crate::answers::effects_lost;
use crate::kept::{Kept, Persist};
use crate::latency::main_op;
use crate::minor_0::walk::Request;
use crate::slot::{RunningSlot, Slots};
use crate::tables::{ERROR_RESULT_BYTES, effect_bytes, is_engine_op, is_read_only};
use crate::traces::{EndedRequest, is_fault, version_4};
use crate::user::User;
use crate::{Actor, Compound, Counters, Nfsd, Role, SessionContext};
use bytes::Bytes;
use nfs4::ops::{SequenceArgs, SequenceRes};
use nfs4::{CompoundHeader, NfsStatus, OpNum, OpReader, ReplyWriter};
use rpc::AcceptError;
use rpc_service::{refusal, replay};
use state::{RemovedClient, Sequence, SlotToken, Verdict};
use std::sync::Arc;
use tokio::time::Instant;
use transport::{ConnHandle, Message};
use xdr::{Decode, Decoder, Encoder};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Bytes after SEQUENCE that tell a request from another one under the same slot and sequence id. They are as many as
/// XXH3 takes in its short form.
const FINGERPRINT_BYTES: usize = 240;
/// First size of a reply's buffer: most replies are smaller, so they are one allocation.
const REPLY_BYTES: usize = 512;
/// Bytes of the result of SEQUENCE.
const SEQUENCE_RESULT_BYTES: usize = 44;

impl<R: Role> Nfsd<R> {
    pub(crate) async fn compound(
        &self,
        conn: &ConnHandle,
        xid: u32,
        (actor, user, began): (R::Actor, User, Instant),
        record: &Bytes,
        mut d: Decoder<'_>,
    ) -> Option<Message> {
        let start = Start::of(record, &user, d.rest());
        let Ok(header) = CompoundHeader::decode(&mut d) else {
            Counters::add(&self.counters().malformed);
            return Some(refusal(xid, AcceptError::GarbageArgs.into()));
        };
        Counters::add(&self.counters().compounds);
        let mut e = Encoder::with_buffer(Vec::with_capacity(REPLY_BYTES));
        let seal = user.seal();
        seal.begin(&mut e, xid);
        let header_bytes = e.len();
        let mut reply = ReplyWriter::new(e, header.tag.0);
        if let Some(status) = self.refuses(&header) {
            return Some(reply.finish(status).into());
        }
        if header.minorversion == 0 {
            let request = Request {
                xid,
                ops: OpReader::new(d, header.ops_count),
                ops_count: header.ops_count,
                seal,
                header_bytes,
            };
            let by = (conn, record, actor, user, began);
            return Box::pin(self.compound_0(by, request, reply)).await;
        }
        let mut cx = Compound::new(conn, record, actor, user, header.minorversion, began);
        cx.steps = self.traces().choose();
        let mut walk = Walk {
            ops: OpReader::new(d, header.ops_count),
            ops_count: header.ops_count,
        };
        let first = self.first_op(&mut cx, &mut walk, &mut reply, &start);
        let (status, slot) = match first.await {
            First::Replay(cached) => return Some(replay(seal, xid, &cached)),
            First::Done(status) => (status, None),
            First::Revived(kept) => {
                let request = (start.body, walk.ops_count);
                let status = self.resume(&mut cx, *kept, request, &mut reply).await;
                self.keep_whole(&mut cx, &reply, status);
                (status, None)
            }
            First::Sequenced(slot) => {
                let status = self.operations(&mut cx, &mut walk.ops, &mut reply).await;
                self.keep_whole(&mut cx, &reply, status);
                (status, Some(slot))
            }
        };
        let settled = self.settle(&mut cx).await;
        let message = Message::new(reply.finish(status), std::mem::take(&mut cx.payloads))
            .with_charge(cx.charge.take());
        let kept = || settled.is_ok().then(|| kept(&cx, &message, header_bytes));
        if !slot.is_none_or(|slot| slot.complete(kept().flatten())) {
            Box::pin(self.sweep(&cx)).await;
        }
        self.note_end(&mut cx, xid, status);
        settled
            .map(|()| message)
            .map_err(|why| effects_lost(conn, xid, why))
            .ok()
    }

    /// Waits until what the request observed and did is durable.
    pub(crate) async fn settle(&self, cx: &mut Compound<'_, R::Actor>) -> Result<(), NfsStatus> {
        if let Some(steps) = &mut cx.steps {
            steps.settle();
        }
        self.role().settle(&cx.actor).await
    }

    /// The request ends, whether it is answered or not.
    pub(crate) fn note_end(&self, cx: &mut Compound<'_, R::Actor>, xid: u32, status: NfsStatus) {
        if status == NfsStatus::BadXdr {
            Counters::add(&self.counters().malformed);
        }
        let Some(op) = cx.main_op else { return };
        let latencies = &self.counters().latencies;
        latencies.ended(op as usize, cx.conn.kind(), cx.began);
        if let Some(steps) = cx.steps.take() {
            let request = EndedRequest {
                name: op.name(),
                version: version_4(cx.minor_version),
                xid,
                conn: cx.conn,
                status: Some(status.name()),
                failed: is_fault(status),
                began: cx.began,
            };
            self.traces().ended(*steps, request);
        }
    }

    /// Why a COMPOUND of this header is not looked at.
    fn refuses(&self, header: &CompoundHeader<'_>) -> Option<NfsStatus> {
        let first = u32::from(!self.role().serves_minor_0());
        if !(first..=2).contains(&header.minorversion) {
            return Some(NfsStatus::MinorVersMismatch);
        }
        (!is_text(header.tag.0)).then_some(NfsStatus::Inval)
    }

    /// The session went while its request ran. If the whole client went, the request may have made state after
    /// that of the client was removed: it is removed once more.
    async fn sweep(&self, cx: &Compound<'_, R::Actor>) {
        let Some(session) = &cx.session else { return };
        if self.clients().lock().owner(session.client).is_some() {
            return;
        }
        let removed = RemovedClient {
            client: session.client,
            owner: session.owner.to_vec(),
            sessions: Vec::new(),
            recorded: true,
        };
        self.role().client_removed(removed).await;
    }

    /// Executes the first operation: SEQUENCE, or one that stands alone (RFC 8881 §2.10.2, §18.46.3).
    async fn first_op<'r>(
        &'r self,
        cx: &mut Compound<'r, R::Actor>,
        walk: &mut Walk<'r>,
        reply: &mut ReplyWriter<OpNum>,
        start: &Start<'_>,
    ) -> First<'r> {
        let op = match self.next_op(cx, &mut walk.ops, reply) {
            None => return First::Done(NfsStatus::Ok),
            Some(Err(status)) => return First::Done(status),
            Some(Ok(op)) => op,
        };
        let refused = match op {
            OpNum::Sequence => return self.begin(cx, walk, reply, start),
            OpNum::ExchangeId
            | OpNum::CreateSession
            | OpNum::DestroySession
            | OpNum::DestroyClientId
            | OpNum::BindConnToSession
                if walk.ops_count == 1 =>
            {
                return First::Done(self.session_op(cx, op, &mut walk.ops, reply).await);
            }
            OpNum::ExchangeId
            | OpNum::CreateSession
            | OpNum::DestroySession
            | OpNum::DestroyClientId
            | OpNum::BindConnToSession => NfsStatus::NotOnlyOp,
            _ => NfsStatus::OpNotInSession,
        };
        reply.error(op, refused);
        First::Done(refused)
    }

    /// SEQUENCE, and what follows from it: a new request, an old reply, or the news that it was not kept.
    fn begin<'r>(
        &'r self,
        cx: &mut Compound<'r, R::Actor>,
        walk: &mut Walk<'r>,
        reply: &mut ReplyWriter<OpNum>,
        start: &Start<'_>,
    ) -> First<'r> {
        let begun = match walk.ops.args::<SequenceArgs>() {
            Err(_) => Err(NfsStatus::BadXdr),
            Ok(args) => {
                let fingerprint = fingerprint(start.user, walk.ops.rest());
                let sizes = (start.request_bytes, reply.wire_len());
                match self.sequence(cx, &args, fingerprint, walk.ops_count, sizes) {
                    Err(NfsStatus::BadSession) => self
                        .revive(cx, &args, fingerprint)
                        .map(|kept| Begun::Revived(Box::new(kept))),
                    begun => begun,
                }
            }
        };
        match begun {
            Err(status) => {
                reply.error(OpNum::Sequence, status);
                First::Done(status)
            }
            Ok(Begun::Replay(cached)) => First::Replay(cached),
            Ok(Begun::Revived(kept)) => {
                Counters::add(&self.counters().replays);
                First::Revived(kept)
            }
            Ok(Begun::New(token, res)) => {
                let slot = RunningSlot::new(Slots(self.clients()), (res.session_id, token));
                let _ = reply.result(&res);
                First::Sequenced(slot)
            }
            // Never an answer to SEQUENCE itself (RFC 8881 §2.10.6.1.3).
            Ok(Begun::Uncached(res)) => {
                let _ = reply.result(&res);
                First::Done(match self.next_op(cx, &mut walk.ops, reply) {
                    None => NfsStatus::Ok,
                    Some(Err(status)) => status,
                    Some(Ok(op)) => {
                        reply.error(op, NfsStatus::RetryUncachedRep);
                        NfsStatus::RetryUncachedRep
                    }
                })
            }
        }
    }

    /// Executes the operations after SEQUENCE.
    async fn operations<'r>(
        &'r self,
        cx: &mut Compound<'r, R::Actor>,
        ops: &mut OpReader<'r>,
        reply: &mut ReplyWriter<OpNum>,
    ) -> NfsStatus {
        while let Some(next) = self.next_op(cx, ops, reply) {
            let op = match next {
                Ok(op) => op,
                Err(status) => return status,
            };
            let before = reply.checkpoint();
            let payloads_count = cx.payloads.len();
            let begun = cx.check_size(reply.wire_len() + effect_bytes(op));
            let begun = begun.and_then(|()| match is_read_only(op) {
                true => Ok(()),
                false => cx.begin_change(reply),
            });
            if let Err(refused) = begun {
                reply.error(op, refused);
                return refused;
            }
            let status = self.execute(cx, op, ops, reply).await;
            let is_last = !status.is_ok() || ops.left() == 0;
            let tail = if is_last { 0 } else { ERROR_RESULT_BYTES };
            if let Err(too_big) = cx.check_size(reply.wire_len() + tail) {
                reply.rewind(before);
                cx.payloads.truncate(payloads_count);
                reply.error(op, too_big);
                return too_big;
            }
            if !status.is_ok() {
                return status;
            }
        }
        NfsStatus::Ok
    }

    pub(crate) async fn execute<'r>(
        &'r self,
        cx: &mut Compound<'r, R::Actor>,
        op: OpNum,
        ops: &mut OpReader<'r>,
        reply: &mut ReplyWriter<OpNum>,
    ) -> NfsStatus {
        if is_engine_op(op) {
            self.session_op(cx, op, ops, reply).await
        } else {
            self.role().perform(cx, op, ops, reply).await
        }
    }

    /// The next operation if this minor version has it; else its error result is written.
    pub(crate) fn next_op(
        &self,
        cx: &mut Compound<'_, R::Actor>,
        ops: &mut OpReader<'_>,
        reply: &mut ReplyWriter<OpNum>,
    ) -> Option<Result<OpNum, NfsStatus>> {
        let Ok(raw) = ops.next_op()? else {
            reply.error(OpNum::Illegal, NfsStatus::BadXdr);
            return Some(Err(NfsStatus::BadXdr));
        };
        let known = OpNum::from_u32(raw).filter(|op| {
            let last = match cx.minor_version {
                0 => OpNum::ReleaseLockOwner as u32,
                1 => OpNum::ReclaimComplete as u32,
                _ => u32::MAX,
            };
            *op != OpNum::Illegal && *op as u32 <= last
        });
        let Some(op) = known else {
            reply.illegal();
            return Some(Err(NfsStatus::OpIllegal));
        };
        self.counters().op(op);
        if let Some(steps) = &mut cx.steps {
            steps.step(op.name());
        }
        cx.main_op = Some(main_op(cx.main_op, op));
        Some(Ok(op))
    }

    /// SEQUENCE (RFC 8881 §18.46): the session, then the sizes, which leave the slot alone, then the slot.
    fn sequence(
        &self,
        cx: &mut Compound<'_, R::Actor>,
        args: &SequenceArgs,
        fingerprint: u64,
        ops_count: u32,
        (request_bytes, reply_bytes): (usize, usize),
    ) -> Result<Begun, NfsStatus> {
        let request = Sequence {
            slot: args.slot_id,
            seqid: args.sequence_id,
            highest_slot: args.highest_slot_id,
            cache_this: args.cache_this,
            fingerprint,
        };
        let mut clients = self.clients().lock();
        let session = clients
            .session(args.session_id)
            .ok_or(NfsStatus::BadSession)?;
        let fore = *session.fore();
        if request_bytes > fore.request_bytes_max as usize {
            return Err(NfsStatus::ReqTooBig);
        }
        if ops_count > fore.operations_max || ops_count > nfs4::OPS_MAX {
            return Err(NfsStatus::TooManyOps);
        }
        let mut context = SessionContext {
            id: args.session_id,
            slot: args.slot_id,
            seqid: args.sequence_id,
            client: session.client(),
            owner: Arc::default(),
            response_bytes_max: fore.response_bytes_max,
            response_cached_bytes_max: fore.response_cached_bytes_max,
            cache_this: args.cache_this,
        };
        let next = if ops_count > 1 { ERROR_RESULT_BYTES } else { 0 };
        context.check_size(reply_bytes + SEQUENCE_RESULT_BYTES + next)?;
        let persistent = session.persistent;
        let now_ms = self.clients().now_ms();
        let done = clients.sequence(args.session_id, cx.conn.id(), &request, now_ms, false)?;
        drop(clients);
        let res = SequenceRes {
            session_id: args.session_id,
            sequence_id: args.sequence_id,
            slot_id: args.slot_id,
            highest_slot_id: done.highest_slot,
            target_highest_slot_id: done.target_highest_slot,
            status_flags: done.status_flags,
        };
        match done.verdict {
            Verdict::New(token) => {
                context.owner = done.owner;
                cx.enter(context);
                cx.persist = persistent.then(|| Persist::new(args, fingerprint));
                Ok(Begun::New(token, self.flagged(res, done.client)))
            }
            Verdict::Replay(cached) => {
                Counters::add(&self.counters().replays);
                Ok(Begun::Replay(cached))
            }
            Verdict::Uncached => Ok(Begun::Uncached(self.flagged(res, done.client))),
            Verdict::InProgress => Err(NfsStatus::Delay),
            Verdict::Misordered => Err(NfsStatus::SeqMisordered),
            Verdict::BadSlot => Err(NfsStatus::BadSlot),
            Verdict::BadHighSlot => Err(NfsStatus::BadHighSlot),
            Verdict::FalseRetry => Err(NfsStatus::SeqFalseRetry),
        }
    }

    fn flagged(&self, mut res: SequenceRes, client: nfs4::ClientId) -> SequenceRes {
        res.status_flags |= self.role().sequence_flags(client);
        res
    }
}

/// A request before its first operation.
struct Start<'r> {
    request_bytes: usize,
    user: u64,
    /// From the tag on.
    body: &'r [u8],
}

impl<'r> Start<'r> {
    fn of(record: &Bytes, user: &User, body: &'r [u8]) -> Self {
        Self {
            request_bytes: record.len(),
            user: user.fingerprint(),
            body,
        }
    }
}

struct Walk<'r> {
    ops: OpReader<'r>,
    /// As sent; the reader stops earlier if that is too many.
    ops_count: u32,
}

enum First<'a> {
    Replay(Arc<[u8]>),
    /// Of an earlier run.
    Revived(Box<Kept>),
    Done(NfsStatus),
    Sequenced(RunningSlot<'a>),
}

enum Begun {
    Replay(Arc<[u8]>),
    Revived(Box<Kept>),
    Uncached(SequenceRes),
    New(SlotToken, SequenceRes),
}

/// Whether a tag is UTF-8 without the code points that are no characters (RFC 8881 §16.2.3, §14.1).
fn is_text(tag: &[u8]) -> bool {
    let is_character =
        |c: char| !matches!(u32::from(c), 0xfdd0..=0xfdef) && u32::from(c) & 0xfffe != 0xfffe;
    std::str::from_utf8(tag).is_ok_and(|tag| tag.chars().all(is_character))
}

/// What tells a retry from another request under the same slot and sequence id: the user, and length and first bytes of what follows
/// SEQUENCE. Another user under them must never see the reply (RFC 8881 §2.10.6.1.3.1). SEQUENCE itself is no part of it: Linux
/// re-encodes it on a retry, with its current highest slot. It is kept on disk with the reply of a
/// persistent session, so no other build may count differently: the algorithm is named here.
fn fingerprint(user: u64, operations: &[u8]) -> u64 {
    let seed = user << 31 ^ operations.len() as u64;
    let first = &operations[..operations.len().min(FINGERPRINT_BYTES)];
    xxh3_64_with_seed(first, seed)
}

/// The bytes for the reply cache. Every small reply is kept, asked for or not, which makes a retry after a broken
/// connection exact. Payloads are kept only on request, since they are copied for it.
fn kept<A: Actor>(
    cx: &Compound<'_, A>,
    message: &Message,
    header_bytes: usize,
) -> Option<Arc<[u8]>> {
    let session = cx.session.as_ref()?;
    let bytes = message.wire_len() - header_bytes;
    if bytes > session.response_cached_bytes_max as usize {
        return None;
    }
    if message.payloads().is_empty() {
        return Some(Arc::from(&message.head()[header_bytes..]));
    }
    if !session.cache_this {
        return None;
    }
    let flat = message.flatten().ok()?;
    Some(Arc::from(&flat[header_bytes..]))
}

#[cfg(test)]
mod tests {
    use super::{FINGERPRINT_BYTES, fingerprint};

    /// It is on disk. The numbers are those of another implementation of XXH3.
    #[test]
    fn a_fingerprint_is_the_same_for_ever() {
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(
            fingerprint(1 << 32 | 1000, &bytes[..40]),
            7_666_850_060_919_435_603
        );
        assert_eq!(
            fingerprint(1 << 32 | 1000, &bytes),
            16_851_320_911_057_183_223
        );
    }

    #[test]
    fn user_length_and_first_bytes_make_a_fingerprint() {
        let of = |user, length, changed: usize| {
            let mut bytes = vec![0; length];
            bytes[changed] = 1;
            fingerprint(user, &bytes)
        };
        let usual = of(7, 300, 0);
        assert_ne!(usual, of(8, 300, 0));
        assert_ne!(usual, of(7, 304, 0));
        assert_ne!(usual, of(7, 300, FINGERPRINT_BYTES - 1));
        assert_eq!(of(7, 300, FINGERPRINT_BYTES), of(7, 300, 299));
    }
}
