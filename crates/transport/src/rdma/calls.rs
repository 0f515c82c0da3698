//! Calls of ours: the memory that they expose, and their replies put together in it.
//!
//! A sink for a bulk result leaves room in front of and behind it. When the result is there, the reply around it, which
//! came in the message, is copied into that room. The record is contiguous, and no byte of the result was moved.

use std::collections::BTreeMap;
use std::ops::Range;

use bytes::Bytes;
use fabric::{Buffer, Endpoint, WorkRefusal};
use rpcrdma::{RegionId, ReplyRecord, Segment};
use xdr::padding;

use super::memory::Memory;
use super::pieces::gather;
use crate::message::ReplyRoom;

/// Room in front of a bulk result for the reply's beginning.
const HEAD_BYTES: usize = 1024;
/// Room after it for the rest of the reply.
const TAIL_BYTES: usize = 1024;

/// Calls of ours on one connection.
#[derive(Debug)]
pub(super) struct Calls {
    memory: Memory,
    calls: BTreeMap<u32, Call>,
    /// What is exposed, by key.
    keys: BTreeMap<u32, Exposed>,
    /// Bytes copied to expose scattered arguments, not told of yet.
    copied: usize,
}

#[derive(Debug, Default)]
struct Call {
    room: Option<ReplyRoom>,
    has_result_sink: bool,
    /// Sinks that nobody else touches any more, by the index of their region.
    sinks: BTreeMap<u32, Buffer>,
}

#[derive(Debug, Clone, Copy)]
struct Exposed {
    region: RegionId,
    /// The engine waits for the end of the access.
    invalidating: bool,
}

impl Calls {
    pub(super) const fn new(memory: Memory) -> Self {
        Self {
            memory,
            calls: BTreeMap::new(),
            keys: BTreeMap::new(),
            copied: 0,
        }
    }

    /// A call was accepted by the engine.
    pub(super) fn insert(&mut self, xid: u32, room: Option<ReplyRoom>) {
        let call = Call {
            room,
            ..Call::default()
        };
        self.calls.insert(xid, call);
    }

    /// A call has ended without a reply.
    pub(super) fn forget(&mut self, xid: u32) {
        self.calls.remove(&xid);
    }

    /// Keeps no room for what may come. (An empty table keeps some.)
    pub(super) fn rest(&mut self) {
        if self.calls.is_empty() {
            self.calls = BTreeMap::new();
        }
        if self.keys.is_empty() {
            self.keys = BTreeMap::new();
        }
    }

    /// Exposes memory of a call.
    ///
    /// # Errors
    /// Why the provider refuses.
    pub(super) fn expose(
        &mut self,
        region: RegionId,
        memory: rpcrdma::Exposure,
        endpoint: &mut dyn Endpoint,
    ) -> Result<Segment, WorkRefusal> {
        let (memory, part) = match memory {
            rpcrdma::Exposure::Source(pieces) => {
                let (bytes, copied) = gather(pieces);
                self.copied += copied;
                let part = 0..bytes.len();
                (fabric::Memory::Bytes(bytes), part)
            }
            rpcrdma::Exposure::Sink { bytes } => self.sink(region.xid, bytes as usize),
        };
        let remote = endpoint.expose(memory).map_err(|refused| refused.why)?;
        let [start, len] = [part.start, part.len()].map(|n| u32::try_from(n).ok());
        let exposed = Exposed {
            region,
            invalidating: false,
        };
        self.keys.insert(remote.key, exposed);
        let part = start
            .zip(len)
            .and_then(|(start, len)| remote.part(start, len));
        let remote = part.ok_or(WorkRefusal::TooLong)?;
        Ok(Segment {
            handle: remote.key,
            length: remote.len,
            offset: remote.offset,
        })
    }

    fn sink(&mut self, xid: u32, bytes: usize) -> (fabric::Memory, Range<usize>) {
        let call = self.calls.entry(xid).or_default();
        // The sink of the result is the first one (the engine's order).
        let is_result = call.room.is_some_and(|room| room.result_bytes_max > 0)
            && !std::mem::replace(&mut call.has_result_sink, true);
        let (head, tail) = if is_result {
            (HEAD_BYTES, TAIL_BYTES + padding(bytes))
        } else {
            (0, 0)
        };
        let mut buffer = self.memory.take(head + bytes + tail);
        buffer.set_len(head + bytes);
        (fabric::Memory::Buffer(buffer), head..head + bytes)
    }

    /// The engine asked for the end of the access under `key`.
    pub(super) fn invalidating(&mut self, region: RegionId, key: u32) {
        let invalidating = true;
        self.keys.insert(
            key,
            Exposed {
                region,
                invalidating,
            },
        );
    }

    /// Nobody can touch this memory any more. Returns the region if the engine waits to hear of it.
    pub(super) fn access_ended(
        &mut self,
        key: u32,
        memory: Option<fabric::Memory>,
    ) -> Option<RegionId> {
        let Exposed {
            region,
            invalidating,
        } = *self.keys.get(&key)?;
        if let Some(fabric::Memory::Buffer(buffer)) = memory
            && let Some(call) = self.calls.get_mut(&region.xid)
        {
            call.sinks.insert(region.index, buffer);
        }
        self.keys.remove(&key);
        invalidating.then_some(region)
    }

    /// The record of a reply, and how many of its bytes were copied for it.
    pub(super) fn record(
        &mut self,
        xid: u32,
        reply: rpcrdma::CallReply,
    ) -> Result<(Bytes, usize), &'static str> {
        const LOST: &str = "memory that was placed into did not come back";
        let mut call = self.calls.remove(&xid).unwrap_or_default();
        let mut sink = |region: Option<RegionId>| {
            let index = region.map(|region| region.index);
            index
                .and_then(|index| call.sinks.remove(&index))
                .ok_or(LOST)
        };
        let copied = std::mem::take(&mut self.copied);
        let stream = match reply.record {
            ReplyRecord::Inline(bytes) => bytes,
            ReplyRecord::Chunk(chunk) => sink(chunk.region)?.freeze(0..chunk.bytes as usize),
        };
        let Some(result) = reply.chunks.first().filter(|chunk| chunk.bytes > 0) else {
            return Ok((stream, copied));
        };
        let buffer = sink(result.region)?;
        let locate = call.room.map(|room| room.locate);
        let at = locate.and_then(|locate| locate(&stream));
        let at = at.filter(|at| count_before(&stream, *at) == Some(result.bytes));
        let at = at.ok_or("a result was placed that the reply does not have")?;
        Ok(join(&stream, at, buffer, result.bytes as usize, copied))
    }
}

/// The count that stands before `at`.
fn count_before(stream: &[u8], at: usize) -> Option<u32> {
    let word = stream.get(at.checked_sub(4)?..at)?;
    Some(u32::from_be_bytes(word.try_into().ok()?))
}

/// Puts the reply around the result.
fn join(stream: &[u8], at: usize, mut buffer: Buffer, len: usize, copied: usize) -> (Bytes, usize) {
    let (before, behind) = stream.split_at(at);
    let padded = len + padding(len);
    let end = HEAD_BYTES + padded + behind.len();
    if before.len() <= HEAD_BYTES && end <= buffer.capacity() {
        let start = HEAD_BYTES - before.len();
        buffer.set_len(end);
        buffer[start..HEAD_BYTES].copy_from_slice(before);
        buffer[HEAD_BYTES + len..HEAD_BYTES + padded].fill(0);
        buffer[HEAD_BYTES + padded..].copy_from_slice(behind);
        return (buffer.freeze(start..end), copied);
    }
    let mut record = Vec::with_capacity(stream.len() + padded);
    record.extend_from_slice(before);
    record.extend_from_slice(&buffer[HEAD_BYTES..HEAD_BYTES + len]);
    record.extend_from_slice(&[0; 3][..padding(len)]);
    record.extend_from_slice(behind);
    (record.into(), copied + len)
}
