//! A call of the peer: what is known of it from its header to its reply.

use crate::chunk::RecordPlan;
use crate::header::{ChunkLists, WriteChunk};

/// A call of the peer.
#[derive(Debug)]
pub(super) struct Incoming {
    /// The write list.
    pub(super) writes: Vec<WriteChunk>,
    /// The reply chunk.
    pub(super) reply: Option<WriteChunk>,
    /// The handle that the reply invalidates.
    pub(super) invalidate: Option<u32>,
    /// The record is at the upper layer.
    pub(super) delivered: bool,
    /// How its record is to be put together, until there is a buffer for that.
    pub(super) placement: Option<RecordPlan>,
    /// Bytes of its share of the RDMA Reads in progress.
    pub(super) pulling: u64,
}

/// A reply that fits.
pub(super) struct Planned {
    pub(super) lists: ChunkLists,
    /// For each payload: the write chunk that it fills.
    pub(super) places: Vec<Option<usize>>,
    /// The stream goes into the reply chunk.
    pub(super) long: bool,
}
