//! RPC-over-RDMA version 1 (RFC 8166), with calls in both directions (RFC 8167) and private data of
//! the connection manager (RFC 8797), without I/O.
//!
//! The crate owns the transport header, the meaning of chunks, and credits with how connections share them. It owns the course of
//! calls and replies on one connection. It holds no memory, posts nothing and knows no upper layer: [`Engine`] says what is to be
//! posted ([`SendWork`]) and what has happened ([`Event`]).
//!
//! Entry points: [`Engine`], [`CreditPool`], [`Header`], [`PrivateData`], [`reassemble`].
#![forbid(unsafe_code)]

mod chunk;
mod counters;
mod credit_pool;
mod engine;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub mod fuzz;
mod header;
mod message;
mod private_data;

pub use chunk::{
    ChunkError, Piece, Pull, READ_POSITION_MIN, ReadChunk, ReassembleError, RecordPlan, fill,
    place, read_chunks, reassemble, segments_bytes,
};
pub use counters::{Counters, DiscardReason, FailReason, RefuseReason};
pub use credit_pool::{CreditAccount, CreditPool, ROUNDS_MAX, Round};
pub use engine::{
    CREDITS_MAX, CallError, CallRefused, CallReply, Engine, EngineConfig, Event, Exposure, Record,
    RegionId, ReplyRecord, ReplyRefused, ReplyRoom, ReturnedChunk, STRAY_MESSAGES_MAX, SendWork,
};
pub use header::{
    Body, CHUNK_SEGMENTS_MAX, ChunkLists, FixedFields, HEADER_BYTES_MIN, Header, HeaderFault,
    READ_SEGMENTS_MAX, RdmaError, ReadSegment, Segment, VERSION, WRITE_CHUNKS_MAX, WriteChunk,
    encode_error_reply,
};
pub use message::{HostBytes, Item, Message};
pub use private_data::{
    INLINE_BYTES_MAX, INLINE_BYTES_MIN, PRIVATE_DATA_BYTES, PRIVATE_DATA_MAGIC, PrivateData,
};

#[cfg(test)]
mod tests;
