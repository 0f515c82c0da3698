//! The form of a call of ours: what stays in the stream, and what is offered to the peer.
//!
//! A call that fits is sent inline. Else payloads leave the stream as read chunks, the largest first,
//! until the rest fits; if it never does, the rest becomes a read chunk at position zero (RFC 8166
//! §3.5.3). Write chunks and a reply chunk are offered only if the reply may not fit inline. Lengths of
//! headers are upper bounds, as the memory is exposed only later.

use super::{CallRefused, Engine, Exposure, ReplyRoom};
use crate::header::{
    CHUNK_SEGMENTS_MAX, HEADER_BYTES_MIN, READ_SEGMENT_ITEM_BYTES, READ_SEGMENTS_MAX,
    WRITE_CHUNKS_MAX, chunk_bytes,
};
use crate::message::{Message, padded_bytes};

/// The form of a call.
#[derive(Debug)]
pub(super) struct Plan {
    /// Payloads that travel as read chunks, by index.
    pub(super) reduced: Vec<usize>,
    /// The rest of the stream is a read chunk at position zero.
    pub(super) long: bool,
    /// Lengths of the write chunks that are offered; empty if the reply fits inline.
    pub(super) writes: Vec<u32>,
    /// How many the caller asked for.
    pub(super) writes_asked: usize,
    /// Length of the reply chunk.
    pub(super) reply: Option<u32>,
}

/// What a region is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Read { position: u32 },
    Write { chunk: usize },
    Reply,
}

impl Engine {
    pub(super) fn plan(&self, message: &Message, room: &ReplyRoom) -> Result<Plan, CallRefused> {
        let limit = u64::from(self.config.record_bytes_max);
        let padded = |len: &u32| padded_bytes(*len);
        let results = room.write_chunks.iter().map(padded).sum::<u64>();
        let reply_bytes = u64::from(room.reply_bytes_max);
        if message.stream_bytes(|_| false) > limit || reply_bytes + results > limit {
            return Err(CallRefused::TooLong);
        }
        if room.write_chunks.len() > WRITE_CHUNKS_MAX as usize
            || self.config.region_segments_max > CHUNK_SEGMENTS_MAX as usize
        {
            return Err(CallRefused::TooManyChunks);
        }
        let mut plan = Plan {
            reduced: Vec::new(),
            long: false,
            writes: Vec::new(),
            writes_asked: room.write_chunks.len(),
            reply: None,
        };
        self.plan_reply(&mut plan, room, results)?;
        self.plan_call(&mut plan, message)?;
        Ok(plan)
    }

    fn plan_reply(
        &self,
        plan: &mut Plan,
        room: &ReplyRoom,
        results: u64,
    ) -> Result<(), CallRefused> {
        let inline_max = u64::from(self.receive_bytes_max());
        let reply_bytes = u64::from(room.reply_bytes_max);
        if HEADER_BYTES_MIN as u64 + reply_bytes + results <= inline_max {
            return Ok(());
        }
        plan.writes.clone_from(&room.write_chunks);
        // Chunks that all ask for their result inline are no different from none.
        if plan.writes.iter().all(|len| *len == 0) {
            plan.writes.clear();
        }
        if self.header_bytes(plan) as u64 + reply_bytes > inline_max {
            plan.reply = Some(room.reply_bytes_max);
            // The reply brings these chunks back in its own header.
            if self.header_bytes(plan) as u64 > inline_max {
                return Err(CallRefused::TooManyChunks);
            }
        }
        Ok(())
    }

    fn plan_call(&self, plan: &mut Plan, message: &Message) -> Result<(), CallRefused> {
        let inline_max = self.send_bytes_max() as u64;
        let fits = |plan: &Plan| {
            let stream = message.stream_bytes(|i| plan.reduced.contains(&i));
            self.header_bytes(plan) as u64 + stream <= inline_max
        };
        let items = message.items();
        let mut largest: Vec<usize> = (0..items.len()).collect();
        largest.retain(|i| items[*i].ddp_eligible && items[*i].span.len > 0);
        largest.sort_by_key(|i| std::cmp::Reverse(items[*i].span.len));
        largest.truncate(self.config.read_chunks_max);
        let mut largest = largest.into_iter();
        while !fits(plan) && !plan.long {
            match largest.next() {
                Some(index) => plan.reduced.push(index),
                None => plan.long = true,
            }
        }
        let segments =
            (plan.reduced.len() + usize::from(plan.long)) * self.config.region_segments_max;
        let header_fits = self.header_bytes(plan) as u64 <= inline_max;
        if segments > READ_SEGMENTS_MAX as usize || !header_fits {
            return Err(CallRefused::TooManyChunks);
        }
        Ok(())
    }

    /// Most bytes of the header of a call with this plan.
    fn header_bytes(&self, plan: &Plan) -> usize {
        let segments = self.config.region_segments_max;
        let reads = plan.reduced.len() + usize::from(plan.long);
        let write = |len: &u32| chunk_bytes(if *len == 0 { 0 } else { segments });
        HEADER_BYTES_MIN
            + reads * segments * READ_SEGMENT_ITEM_BYTES
            + plan.writes.iter().map(write).sum::<usize>()
            + plan.reply.map_or(0, |_| chunk_bytes(segments) - 4)
    }
}

/// What a call exposes: read chunks in the order of the stream, then write chunks, then the reply
/// chunk.
pub(super) fn regions(message: &Message, plan: &Plan) -> Vec<(Role, Exposure)> {
    let mut out = Vec::new();
    if plan.long {
        let mut stream = Vec::new();
        message.stream(|i| plan.reduced.contains(&i), &mut stream);
        out.push((Role::Read { position: 0 }, Exposure::Source(stream)));
    }
    let positions = message.positions();
    for (index, item) in message.items().iter().enumerate() {
        if plan.reduced.contains(&index) {
            let position = u32::try_from(positions[index]).expect("a record is below 2^32 bytes");
            let memory = Exposure::Source(item.payload.clone());
            out.push((Role::Read { position }, memory));
        }
    }
    for (chunk, bytes) in plan.writes.iter().enumerate().filter(|(_, b)| **b > 0) {
        out.push((Role::Write { chunk }, Exposure::Sink { bytes: *bytes }));
    }
    if let Some(bytes) = plan.reply {
        out.push((Role::Reply, Exposure::Sink { bytes }));
    }
    out
}
