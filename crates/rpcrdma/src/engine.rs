//! The engine of one connection: both sides of RPC-over-RDMA, in both directions.
//!
//! Its driver hands in what happened: a received Send, a message to send, the end of an operation. The driver takes out
//! [`Event`]s, which concern this host, and [`SendWork`], which goes to the send queue of the connection in this order.
//! Work is taken only when the queue has room for it, so a full queue delays no event. Neither queue grows beyond what
//! credits allow.
//!
//! # Ownership
//! Work owns the bytes that it sends. Memory is owned by whoever drives the engine: sinks and exposed
//! memory under their [`RegionId`], records that are being pulled under their XID. A [`Event::Reply`]
//! comes only when nothing of that call is exposed any more (RFC 8166 §4.4.1).
//!
//! # Ordering
//! RDMA Writes stand before the Send that tells of them; the provider keeps that order. A call is
//! delivered when its RDMA Reads have completed. Calls may be delivered, and replies sent, in any
//! order.
//!
//! # Failure
//! A peer that breaks the rules of RFC 8166 is answered as that says, or fails the connection with
//! [`Event::Failed`]. An ended engine ignores what still happens; [`Engine::lost`] then gives a verdict
//! to every call. Memory that was exposed comes back with the end of the connection only.

mod call;
mod credits;
mod incoming;
mod interface;
mod outgoing;
mod plan;
mod planning;
mod receive;
mod reply;
mod state;

pub use credits::CREDITS_MAX;
pub use interface::{
    CallError, CallRefused, CallReply, EngineConfig, Event, Exposure, Record, RegionId,
    ReplyRecord, ReplyRefused, ReplyRoom, ReturnedChunk, SendWork,
};
pub use state::{Engine, STRAY_MESSAGES_MAX};
