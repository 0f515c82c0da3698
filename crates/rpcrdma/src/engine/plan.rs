//! The form of a call of ours: what stays in the stream, and what is offered to the peer.
//!
//! A call that fits is sent inline. Otherwise payloads leave the stream as read chunks, the largest first, until the
//! rest fits. If it never does, the rest becomes a read chunk at position zero (RFC 8166 §3.5.3). Write chunks and a
//! reply chunk are offered only if the reply may not fit inline. Lengths of headers are upper bounds, as the memory is
//! exposed only later.

use crate::message::Message;

use super::interface::Exposure;

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
