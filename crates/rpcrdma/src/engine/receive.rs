//! What arrives in a Send: direction, credits, and the checks of RFC 8166 §4.5.
//!
//! The direction is that of the RPC message (RFC 8167 §5). Without one in the Send, a read list tells a call, because
//! replies have none (RFC 8166 §4.3.1). A header that tells nothing is a faulty reply if a call of ours with its XID is
//! outstanding, and is discarded. Otherwise it is a faulty call, and is answered.

use super::incoming::Incoming;
use super::interface::{CallError, CallReply, Record, RegionId, ReplyRecord, ReturnedChunk};
use super::outgoing::Outgoing;
use super::plan::Role;
use super::state::Engine;
use bytes::Bytes;
use rpc::MessageType;

use crate::chunk::{place, read_chunks};
use crate::counters::{DiscardReason, FailReason, RefuseReason};
use crate::header::{Body, ChunkLists, Header, HeaderFault, Segment, VERSION};

/// Shortest message in a reply chunk: XID and direction.
const REPLY_BYTES_MIN: u32 = 8;

impl Engine {
    /// A Send arrived; `invalidated` is the handle of ours that it invalidated.
    pub fn received(&mut self, message: &Bytes, invalidated: Option<u32>) {
        if self.ended {
            return;
        }
        self.counters.inline_bytes_in += message.len() as u64;
        let (header, at) = match Header::decode(message) {
            Ok(decoded) => decoded,
            Err(fault) => return self.received_fault(fault, invalidated),
        };
        let xid = header.xid;
        let stream = message.slice(at..);
        match header.body {
            Body::Error(error) => {
                let outcome = |_: &Outgoing| Err(CallError::Refused(error));
                self.received_reply(xid, header.credits, invalidated, outcome);
            }
            Body::Msg(lists) => match rpc::peek(&stream) {
                Ok((inner, MessageType::Call)) if inner == xid => {
                    self.received_call(xid, header.credits, lists, Some(stream), invalidated);
                }
                Ok((inner, MessageType::Reply)) if inner == xid => {
                    let outcome = |call: &Outgoing| reply(xid, call, &lists, Some(stream));
                    self.received_reply(xid, header.credits, invalidated, outcome);
                }
                _ => self.received_faulty(xid, VERSION, RefuseReason::XidDiffers, invalidated),
            },
            Body::NoMsg(lists) if lists.is_empty() || !stream.is_empty() => {
                self.received_faulty(xid, VERSION, RefuseReason::Header, invalidated);
            }
            Body::NoMsg(lists) if lists.reads.is_empty() && self.awaits(xid) => {
                let outcome = |call: &Outgoing| reply(xid, call, &lists, None);
                self.received_reply(xid, header.credits, invalidated, outcome);
            }
            Body::NoMsg(lists) => {
                self.received_call(xid, header.credits, lists, None, invalidated);
            }
        }
    }

    fn received_fault(&mut self, fault: HeaderFault, invalidated: Option<u32>) {
        let (fixed, reason) = match fault {
            HeaderFault::Short => return self.received_nothing(DiscardReason::Short, invalidated),
            HeaderFault::Done(_) => return self.received_nothing(DiscardReason::Done, invalidated),
            HeaderFault::Version(f) => (f, RefuseReason::Version),
            HeaderFault::Padded(f) => (f, RefuseReason::Padded),
            HeaderFault::Malformed(f, _) => (f, RefuseReason::Header),
        };
        if fixed.is_error() {
            // RFC 8166 §4.5: an error that does not decode is discarded, and never answered.
            self.received_nothing(DiscardReason::ReplyHeader, invalidated);
        } else {
            self.received_faulty(fixed.xid, fixed.version, reason, invalidated);
        }
    }

    /// A header that cannot be used.
    fn received_faulty(
        &mut self,
        xid: u32,
        version: u32,
        reason: RefuseReason,
        invalidated: Option<u32>,
    ) {
        if self.awaits(xid) {
            self.received_nothing(DiscardReason::ReplyHeader, invalidated);
        } else if self.admit(invalidated) {
            self.refuse_call(xid, version, reason);
        }
    }

    fn received_nothing(&mut self, reason: DiscardReason, invalidated: Option<u32>) {
        if invalidated.is_some() {
            self.fail(FailReason::ForeignInvalidation);
        } else {
            self.discard(reason);
        }
    }

    fn awaits(&self, xid: u32) -> bool {
        self.outgoing.get(&xid).is_some_and(Outgoing::is_sent)
    }

    /// Whether a call may come at all.
    fn admit(&mut self, invalidated: Option<u32>) -> bool {
        if invalidated.is_some() {
            self.fail(FailReason::ForeignInvalidation);
        } else if !self.responder.received() {
            self.fail(FailReason::CreditFlood);
        }
        !self.ended
    }

    fn received_call(
        &mut self,
        xid: u32,
        credits: u32,
        lists: ChunkLists,
        stream: Option<Bytes>,
        invalidated: Option<u32>,
    ) {
        if !self.admit(invalidated) {
            return;
        }
        if self.incoming.contains_key(&xid) {
            self.fail(FailReason::DuplicateXid);
            return;
        }
        self.responder.requested(credits);
        let chunks = read_chunks(&lists.reads);
        let Ok(placement) = place(stream.as_ref(), &chunks, self.config.record_bytes_max) else {
            self.refuse_call(xid, VERSION, RefuseReason::Chunks);
            return;
        };
        self.counters.read_chunks_in += chunks.len() as u64;
        let call = Incoming {
            invalidate: self.key_to_invalidate(&lists),
            writes: lists.writes,
            reply: lists.reply,
            delivered: false,
            placement: None,
            pulling: 0,
        };
        self.incoming.insert(xid, call);
        match stream {
            Some(stream) if placement.pulls.is_empty() => {
                self.deliver(xid, Record::Inline(stream));
            }
            _ => self.pull_when_possible(xid, placement),
        }
    }

    /// The handle that the reply to a call with these chunks invalidates: any one of them, if both
    /// sides said R (RFC 8797 §4.1). Memory that the reply is written to comes first, since the caller
    /// waits for that.
    fn key_to_invalidate(&self, lists: &ChunkLists) -> Option<u32> {
        if !self.config.own.remote_invalidation || !self.config.peer.remote_invalidation {
            return None;
        }
        let writes = lists.writes.iter().chain(&lists.reply).flatten();
        let reads = lists.reads.iter().map(|r| &r.target);
        writes.chain(reads).map(|s| s.handle).next()
    }

    fn received_reply(
        &mut self,
        xid: u32,
        credits: u32,
        invalidated: Option<u32>,
        outcome: impl FnOnce(&Outgoing) -> Result<CallReply, CallError>,
    ) {
        let Some(call) = self.outgoing.get_mut(&xid).filter(|call| call.is_sent()) else {
            self.received_nothing(DiscardReason::UnknownXid, invalidated);
            return;
        };
        if let Some(handle) = invalidated {
            if !self.config.own.remote_invalidation || !call.owns(handle) {
                self.fail(FailReason::ForeignInvalidation);
                return;
            }
            call.was_invalidated(handle);
            self.counters.invalidations_received += 1;
        }
        self.responder.seen(call.sent_behind());
        let outcome = outcome(call);
        if let Ok(reply) = &outcome {
            self.count_reply(reply);
        }
        self.counters.replies_in += 1;
        self.counters.zero_grants += u64::from(credits == 0);
        self.requester.granted(credits);
        self.done(xid, outcome);
    }

    fn count_reply(&mut self, reply: &CallReply) {
        for chunk in reply.chunks.iter().filter(|chunk| chunk.bytes > 0) {
            self.counters.write_chunks_in += 1;
            self.counters.write_chunk_bytes_in += u64::from(chunk.bytes);
        }
        if let ReplyRecord::Chunk(chunk) = &reply.record {
            self.counters.reply_chunks_in += 1;
            self.counters.reply_chunk_bytes_in += u64::from(chunk.bytes);
        }
    }
}

/// Checks the chunks of a reply against those that were offered.
fn reply(
    xid: u32,
    call: &Outgoing,
    lists: &ChunkLists,
    stream: Option<Bytes>,
) -> Result<CallReply, CallError> {
    let returned = |chunk: Option<&[Segment]>, role: Role| {
        let index = call.regions.iter().position(|r| r.role == role);
        let region = index.map(|index| RegionId {
            xid,
            index: u32::try_from(index).expect("a call has few regions"),
        });
        let offered = index.map_or(&[][..], |index| &call.regions[index].segments);
        let bytes = chunk.map_or(Some(0), |chunk| returned_bytes(offered, chunk));
        bytes.map(|bytes| ReturnedChunk { region, bytes })
    };
    let writes_fit = lists.writes.is_empty() || lists.writes.len() == call.writes_offered();
    if !lists.reads.is_empty() || !writes_fit {
        return Err(CallError::BadChunks);
    }
    let chunks = (0..call.writes_asked())
        .map(|chunk| {
            let segments = lists.writes.get(chunk).map(Vec::as_slice);
            returned(segments, Role::Write { chunk })
        })
        .collect::<Option<Vec<_>>>();
    let chunk = returned(lists.reply.as_deref(), Role::Reply);
    let record = match (stream, chunk) {
        (Some(stream), Some(ReturnedChunk { bytes: 0, .. })) => ReplyRecord::Inline(stream),
        (None, Some(chunk)) if chunk.bytes >= REPLY_BYTES_MIN => ReplyRecord::Chunk(chunk),
        _ => return Err(CallError::BadChunks),
    };
    let chunks = chunks.ok_or(CallError::BadChunks)?;
    Ok(CallReply { record, chunks })
}

/// Bytes in a chunk that came back: its segments are those that were offered, filled in order.
fn returned_bytes(offered: &[Segment], returned: &[Segment]) -> Option<u32> {
    if offered.len() != returned.len() {
        return None;
    }
    let bytes = crate::chunk::segments_bytes(returned);
    let filled = crate::chunk::fill(offered, bytes)?;
    let lengths_fit = filled
        .iter()
        .zip(returned)
        .all(|(a, b)| a.length == b.length);
    lengths_fit.then(|| u32::try_from(bytes).expect("no more than was offered"))
}
