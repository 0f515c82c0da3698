//! Calls of the peer, from the pull of their read chunks to the reply.
//!
//! A reply is planned as a whole before anything of it is posted (RFC 8267 §3.1). Results fill the write chunks in
//! order. What remains goes inline if it fits, else into the reply chunk. A peer that made no room for it gets
//! ERR_CHUNK. Every list of the call comes back with the lengths that were used, unused chunks with zeros (RFC 8166
//! §3.4.6, §4.3).

use std::collections::VecDeque;

use bytes::Bytes;

use crate::chunk::{RecordPlan, fill};
use crate::counters::RefuseReason;
use crate::header::{
    Body, ChunkLists, FixedFields, Header, RdmaError, Segment, VERSION, WriteChunk,
    encode_error_reply, encode_header,
};
use crate::message::{HostBytes, Message, take};

use super::incoming::{Incoming, Planned};
use super::interface::{Event, Record, ReplyRefused, SendWork};
use super::state::{Engine, Queued};

impl Engine {
    /// Sends the reply to the call with its XID.
    ///
    /// # Errors
    /// [`ReplyRefused`]. A reply for which the peer made no room is no error here: it gets ERR_CHUNK.
    pub fn reply(&mut self, message: &Message) -> Result<(), ReplyRefused> {
        let call = self.take_delivered(message.xid())?;
        match self.plan_for(&call, message) {
            Ok(planned) => self.post_reply(&call, message, planned),
            Err(reason) => self.refuse_call(message.xid(), VERSION, reason),
        }
        Ok(())
    }

    /// Answers a call with ERR_CHUNK: it cannot be processed as it was sent.
    ///
    /// # Errors
    /// [`ReplyRefused`].
    pub fn refuse(&mut self, xid: u32) -> Result<(), ReplyRefused> {
        self.take_delivered(xid)?;
        self.refuse_call(xid, VERSION, RefuseReason::UpperLayer);
        Ok(())
    }

    /// A call gets no reply. The peer's credit for it stays taken.
    ///
    /// # Errors
    /// [`ReplyRefused`].
    pub fn forget(&mut self, xid: u32) -> Result<(), ReplyRefused> {
        self.take_delivered(xid).map(drop)
    }

    /// There is a buffer for the record of this call.
    ///
    /// # Panics
    /// When none was asked for.
    pub fn allocated(&mut self, xid: u32) {
        if self.ended {
            return;
        }
        let call = self.incoming.get_mut(&xid);
        let placement = call.and_then(|call| call.placement.take());
        let placement = placement.expect("a buffer is asked for once, before anything is read");
        self.counters.read_chunk_bytes_in += placement.pulled_bytes();
        let work = SendWork::Pull { xid, placement };
        self.work.push_back(Queued::Other(work));
    }

    /// A [`SendWork::Pull`] is complete: the record is whole.
    ///
    /// # Panics
    /// When none was asked for.
    pub fn pulled(&mut self, xid: u32) {
        if self.ended {
            return;
        }
        let call = self.incoming.get_mut(&xid);
        let call = call.expect("a call stays until its record is whole");
        let pulled = !call.delivered && call.placement.is_none();
        assert!(pulled, "a record is pulled once, into its buffer");
        self.read_bytes -= std::mem::take(&mut call.pulling);
        self.deliver(xid, Record::Pulled);
        while let Some((xid, placement)) = self.pulls_waiting.pop_front() {
            if !self.may_pull(&placement) {
                self.pulls_waiting.push_front((xid, placement));
                break;
            }
            self.pull(xid, placement);
        }
    }

    /// Starts or parks the RDMA Reads of a call.
    pub(super) fn pull_when_possible(&mut self, xid: u32, placement: RecordPlan) {
        if self.pulls_waiting.is_empty() && self.may_pull(&placement) {
            self.pull(xid, placement);
        } else {
            self.counters.read_stalls += 1;
            self.pulls_waiting.push_back((xid, placement));
        }
    }

    fn may_pull(&self, placement: &RecordPlan) -> bool {
        let sum = self.read_bytes + placement.pulled_bytes();
        self.read_bytes == 0 || sum <= self.config.read_bytes_max
    }

    fn pull(&mut self, xid: u32, placement: RecordPlan) {
        let call = self.incoming.get_mut(&xid).expect("inserted by the caller");
        call.pulling = placement.pulled_bytes();
        self.read_bytes += call.pulling;
        let bytes = placement.bytes;
        call.placement = Some(placement);
        self.events.push_back(Event::Allocate { xid, bytes });
    }

    pub(super) fn deliver(&mut self, xid: u32, record: Record) {
        let call = self.incoming.get_mut(&xid).expect("found by the caller");
        call.delivered = true;
        self.counters.calls_in += 1;
        self.events.push_back(Event::Call { xid, record });
    }

    /// Queues an RDMA_ERROR that ends the call of this XID.
    pub(super) fn refuse_call(&mut self, xid: u32, version: u32, reason: RefuseReason) {
        self.counters.refused(reason);
        let error = match reason {
            RefuseReason::Version => RdmaError::Version {
                low: VERSION,
                high: VERSION,
            },
            _ => RdmaError::Chunk,
        };
        let to = FixedFields {
            xid,
            version,
            credits: 0,
            procedure: 0,
        };
        self.work.push_back(Queued::Reply {
            header: encode_error_reply(to, 0, error),
            stream: Vec::new(),
            invalidate: None,
        });
    }

    fn take_delivered(&mut self, xid: u32) -> Result<Incoming, ReplyRefused> {
        if self.ended {
            return Err(ReplyRefused::Ended);
        }
        match self.incoming.get(&xid) {
            Some(call) if call.delivered => Ok(self.incoming.remove(&xid).expect("just found")),
            _ => Err(ReplyRefused::UnknownXid),
        }
    }

    fn plan_for(&self, call: &Incoming, message: &Message) -> Result<Planned, RefuseReason> {
        let (writes, places) = fill_write_chunks(&call.writes, message)?;
        let reduced = |i: usize| places[i].is_some();
        let stream_bytes = message.stream_bytes(reduced);
        let unused = |chunk: &WriteChunk| fill(chunk, 0).expect("nothing fits everywhere");
        let mut lists = ChunkLists {
            reads: Vec::new(),
            writes,
            reply: call.reply.as_ref().map(unused),
        };
        let inline_max = self.send_bytes_max() as u64;
        let header_bytes = lists.header_bytes() as u64;
        let long = header_bytes + stream_bytes > inline_max;
        if long {
            let chunk = call.reply.as_ref().filter(|_| header_bytes <= inline_max);
            let filled = chunk.and_then(|chunk| fill(chunk, stream_bytes));
            lists.reply = Some(filled.ok_or(RefuseReason::ReplyTooLong)?);
        }
        Ok(Planned {
            lists,
            places,
            long,
        })
    }

    fn post_reply(&mut self, call: &Incoming, message: &Message, planned: Planned) {
        let Planned {
            lists,
            places,
            long,
        } = planned;
        for (item, place) in message.items().iter().zip(&places) {
            if let Some(chunk) = *place {
                self.counters.write_chunks_out += 1;
                self.counters.write_chunk_bytes_out += u64::from(item.span.len);
                match &item.held {
                    Some(held) => self.write_held(held, &lists.writes[chunk]),
                    None => self.write(item.payload.clone(), &lists.writes[chunk]),
                }
            }
        }
        let reduced = |i: usize| places[i].is_some();
        let mut stream = Vec::new();
        message.stream(reduced, &mut stream);
        let body = if long {
            self.counters.reply_chunks_out += 1;
            self.counters.reply_chunk_bytes_out += message.stream_bytes(reduced);
            let chunk = lists.reply.as_deref().unwrap_or_default();
            self.write(std::mem::take(&mut stream), chunk);
            Body::NoMsg(lists)
        } else {
            self.counters.payload_inline_bytes_out += message.kept_payload_bytes(reduced);
            Body::Msg(lists)
        };
        let header = encode_header(&Header {
            xid: message.xid(),
            credits: 0,
            body,
        });
        self.work.push_back(Queued::Reply {
            header,
            stream,
            invalidate: call.invalidate,
        });
    }

    /// Most bytes that the first result of a call may have so that it is placed into memory of the peer.
    #[must_use]
    pub fn result_room(&self, xid: u32) -> u64 {
        let call = self.incoming.get(&xid).filter(|call| call.delivered);
        let chunk = call.and_then(|call| call.writes.first());
        let lengths = chunk.into_iter().flatten().map(|s| u64::from(s.length));
        lengths.sum()
    }

    fn write_held(&mut self, held: &HostBytes, segments: &[Segment]) {
        let mut offset = 0;
        for &segment in segments.iter().filter(|s| s.length > 0) {
            let held = held.clone();
            self.work.push_back(Queued::Other(SendWork::WriteHeld {
                held,
                offset,
                segment,
            }));
            offset += segment.length;
        }
    }

    /// One RDMA Write for each segment that gets bytes.
    fn write(&mut self, pieces: Vec<Bytes>, segments: &[Segment]) {
        let mut pieces = VecDeque::from(pieces);
        for &segment in segments.iter().filter(|s| s.length > 0) {
            let data = take(&mut pieces, segment.length as usize);
            let work = SendWork::Write { data, segment };
            self.work.push_back(Queued::Other(work));
        }
    }
}

/// The write list as it comes back, and the chunk that each payload fills.
type Filled = (Vec<WriteChunk>, Vec<Option<usize>>);

/// Results take the chunks one by one; an empty chunk sends its result inline (RFC 8166 §4.3.2). A
/// result that its chunk cannot hold must not go elsewhere (§6.1), so there is no reply.
fn fill_write_chunks(chunks: &[WriteChunk], message: &Message) -> Result<Filled, RefuseReason> {
    let mut returned = Vec::with_capacity(chunks.len());
    let mut places = Vec::with_capacity(message.items().len());
    for item in message.items() {
        let chunk = chunks.get(returned.len()).filter(|_| item.ddp_eligible);
        let Some(chunk) = chunk else {
            places.push(None);
            continue;
        };
        places.push((!chunk.is_empty()).then_some(returned.len()));
        let bytes = if chunk.is_empty() { 0 } else { item.span.len };
        let filled = fill(chunk, u64::from(bytes)).ok_or(RefuseReason::WriteChunkShort)?;
        returned.push(filled);
    }
    let rest = chunks[returned.len()..].iter();
    returned.extend(rest.map(|chunk| fill(chunk, 0).expect("nothing fits everywhere")));
    Ok((returned, places))
}
