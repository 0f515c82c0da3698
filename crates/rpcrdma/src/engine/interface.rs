//! What goes into an engine and comes out of it. Values only; what they mean is said by [`crate::Engine`].

use bytes::Bytes;

#[cfg(doc)]
use super::credits::CREDITS_MAX;
use crate::chunk::RecordPlan;
use crate::counters::FailReason;
use crate::header::{RdmaError, Segment};
use crate::message::HostBytes;
use crate::private_data::PrivateData;

/// What an engine needs to know at its start.
#[derive(Debug, Clone)]
pub struct EngineConfig {
    /// What we told the peer.
    pub own: PrivateData,
    /// What the peer told us.
    pub peer: PrivateData,
    /// Credits that we ask for: most calls of ours at once. 1 to [`CREDITS_MAX`].
    pub credits_requested: u32,
    /// Credits that we grant at first; see [`crate::Engine::set_grant`]. 1 to [`CREDITS_MAX`].
    pub grant: u32,
    /// Calls above its grant that a peer may send before it is cut off. A client may count the credit of
    /// a call that was interrupted as free while the call is still running here.
    pub overrun: u32,
    /// Most calls of ours that wait for a credit.
    pub calls_waiting_max: usize,
    /// Most bytes of one RPC message, in either direction.
    pub record_bytes_max: u32,
    /// Most bytes of RDMA Reads in progress. One record may always be read.
    pub read_bytes_max: u64,
    /// Most segments in which [`crate::Engine::exposed`] describes one region.
    pub region_segments_max: usize,
    /// Most read chunks in a call of ours, that at position zero not counted. RFC 8267 §6.4.2: a server
    /// need not take more than one.
    pub read_chunks_max: usize,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            own: PrivateData::default(),
            peer: PrivateData::default(),
            credits_requested: 128,
            grant: 32,
            overrun: 8,
            calls_waiting_max: 4096,
            record_bytes_max: 2 << 20,
            read_bytes_max: 16 << 20,
            region_segments_max: 1,
            read_chunks_max: 1,
        }
    }
}

/// A piece of our memory that the peer may touch for one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RegionId {
    /// The call.
    pub xid: u32,
    /// Which of its regions.
    pub index: u32,
}

/// What is to be exposed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exposure {
    /// The peer reads these bytes, one after the other.
    Source(Vec<Bytes>),
    /// The peer writes into new memory of this many bytes.
    Sink {
        /// Bytes.
        bytes: u32,
    },
}

/// For the send queue, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SendWork {
    /// An RDMA Send.
    Send {
        /// The bytes, gathered from these pieces.
        data: Vec<Bytes>,
        /// Memory of the peer that ends with it (Send with Invalidate).
        invalidate: Option<u32>,
        /// Receives that must be posted before this is: a Send may let the peer send more.
        receives: u32,
    },
    /// An RDMA Write.
    Write {
        /// The bytes, gathered from these pieces.
        data: Vec<Bytes>,
        /// Where to; as long as the data.
        segment: Segment,
    },
    /// An RDMA Write out of a result that the host holds.
    WriteHeld {
        /// The result.
        held: HostBytes,
        /// The first of its bytes that goes there.
        offset: u32,
        /// Where to, and how many bytes.
        segment: Segment,
    },
    /// Put the record of a call together in the buffer that was allocated: copy the pieces, and read
    /// the rest into its place. [`crate::Engine::pulled`] once that is complete.
    Pull {
        /// The call.
        xid: u32,
        /// What goes where.
        placement: RecordPlan,
    },
    /// End the peer's access. [`crate::Engine::invalidated`] once that is complete.
    Invalidate {
        /// What was exposed.
        region: RegionId,
        /// The handle of one of its segments.
        handle: u32,
    },
}

/// For this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Expose this, then call [`crate::Engine::exposed`] or [`crate::Engine::expose_failed`].
    Expose {
        /// Its name from now on.
        region: RegionId,
        /// The memory.
        memory: Exposure,
    },
    /// Allocate a buffer for a record of the peer, then call [`crate::Engine::allocated`]. That may take as long
    /// as it likes: nothing else waits for it.
    Allocate {
        /// The call.
        xid: u32,
        /// Bytes of the record.
        bytes: u32,
    },
    /// A call of the peer. Ends with [`crate::Engine::reply`], [`crate::Engine::refuse`] or [`crate::Engine::forget`].
    Call {
        /// XID of the header. A pulled record whose own XID differs is to be refused.
        xid: u32,
        /// The message.
        record: Record,
    },
    /// A call of ours has ended.
    Reply {
        /// Which.
        xid: u32,
        /// How.
        outcome: Result<CallReply, CallError>,
    },
    /// The connection must end.
    Failed(FailReason),
}

/// A whole RPC message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// It was in the Send; the slice keeps its receive buffer.
    Inline(Bytes),
    /// It is in the buffer that was allocated for this XID.
    Pulled,
}

/// The reply to a call of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallReply {
    /// The payload stream, reduced by what is in `chunks`.
    pub record: ReplyRecord,
    /// What came back in each write chunk that was offered. Results fill them in order; a chunk
    /// that was not used, or not offered because the whole reply fits inline, has 0 bytes.
    pub chunks: Vec<ReturnedChunk>,
}

/// Where the payload stream of a reply is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplyRecord {
    /// It was in the Send.
    Inline(Bytes),
    /// It is in the reply chunk.
    Chunk(ReturnedChunk),
}

/// What came back in a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReturnedChunk {
    /// The memory; `None` when none was offered.
    pub region: Option<RegionId>,
    /// How many of its bytes, from the start.
    pub bytes: u32,
}

/// What a reply may need.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReplyRoom {
    /// Most bytes of the reply without the results for which there are write chunks.
    pub reply_bytes_max: u32,
    /// Most bytes of each DDP-eligible result, in order. 0 asks for that result inline (an empty write
    /// chunk, RFC 8166 §4.3.2.3).
    pub write_chunks: Vec<u32>,
}

/// Why a call was not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallRefused {
    /// The connection has ended.
    Ended,
    /// A call with this XID is outstanding.
    DuplicateXid,
    /// Too many calls wait for credits.
    Full,
    /// The message, or the reply that it may have, is above `record_bytes_max`.
    TooLong,
    /// Its chunks do not fit in a header, or are more than a header may have.
    TooManyChunks,
}

/// Why a call of ours has no reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallError {
    /// The peer could not process it. Permanent: not to be sent again as it was (RFC 8166 §4.5).
    Refused(RdmaError),
    /// The chunks of the reply are not those that were offered.
    BadChunks,
    /// Its memory could not be exposed; nothing was sent.
    NotExposed,
    /// The connection ended; it may have been executed.
    Lost,
}

impl std::fmt::Display for CallRefused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Ended => "the connection has ended",
            Self::DuplicateXid => "a call with this XID is outstanding",
            Self::Full => "too many calls wait for credits",
            Self::TooLong => "the call or its reply is too long",
            Self::TooManyChunks => "the call needs too many chunks",
        })
    }
}

impl std::error::Error for CallRefused {}

impl std::fmt::Display for CallError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Refused(RdmaError::Version { low, high }) => {
                write!(f, "the peer speaks RPC-over-RDMA versions {low} to {high}")
            }
            Self::Refused(RdmaError::Chunk) => write!(f, "the peer cannot use the chunks"),
            Self::BadChunks => write!(f, "the reply has other chunks than were offered"),
            Self::NotExposed => write!(f, "memory could not be exposed"),
            Self::Lost => write!(f, "the connection was lost"),
        }
    }
}

impl std::error::Error for CallError {}

/// Why a reply was not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyRefused {
    /// The connection has ended.
    Ended,
    /// No call with this XID awaits a reply.
    UnknownXid,
}

impl std::fmt::Display for ReplyRefused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Ended => "the connection has ended",
            Self::UnknownXid => "no call with this XID awaits a reply",
        })
    }
}

impl std::error::Error for ReplyRefused {}
