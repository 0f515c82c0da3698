//! How a message is sent: what goes inline, and what is exposed.

use crate::header::{
    CHUNK_SEGMENTS_MAX, HEADER_BYTES_MIN, READ_SEGMENT_ITEM_BYTES, READ_SEGMENTS_MAX,
    WRITE_CHUNKS_MAX, chunk_bytes,
};
use crate::message::{Message, padded_bytes};

use super::interface::{CallRefused, ReplyRoom};
use super::plan::Plan;
use super::state::Engine;

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
