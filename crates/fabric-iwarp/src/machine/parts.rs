//! What a stream keeps of work, and of memory that the peer may name.

use super::gather::Gather;
use fabric::{Buffer, Memory, Part, Remote};
use std::collections::VecDeque;

#[derive(Debug)]
pub(super) enum Exposure {
    /// And one past the last byte of it that the peer has written.
    Memory(Memory, usize),
    /// The sink of a read of ours, which only its response may fill.
    Sink,
}

/// A work request until its completion.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) id: u64,
    pub(super) signalled: bool,
    pub(super) op: Op,
    /// Where its last octet stands in the outgoing stream, once that is known.
    pub(super) end: Option<u64>,
}

#[derive(Debug)]
pub(super) enum Op {
    Send {
        data: Gather,
        invalidate: Option<u32>,
    },
    Write {
        data: Gather,
        remote: Remote,
    },
    Read {
        /// `None` while it is under way: then it is in [`Machine::sinks`].
        sink: Option<Buffer>,
        /// Not asked for yet.
        parts: VecDeque<Part>,
    },
    Invalidate {
        key: u32,
    },
}

/// A Read Request of ours that the peer has to answer.
#[derive(Debug)]
pub(super) struct ReadOut {
    pub(super) stag: u32,
    pub(super) part: Part,
    pub(super) placed: u32,
    pub(super) whose: Whose,
}

/// What a Read Request belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    /// To nobody: it is the RTR indication.
    Rtr,
    /// To the read of the first of [`Machine::sinks`], when its turn has come.
    Work { is_last: bool },
}
