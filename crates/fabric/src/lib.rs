//! The seam of RDMA providers: connections that place bytes in each other's memory.
//!
//! A [`Fabric`] listens and connects; a connection is an [`Endpoint`], what verbs call a queue pair with its
//! completion queue. It lives in one task and is polled there, so that nothing changes threads on its way.
//! Memory comes from a [`Pool`], whose slabs a provider may register as a whole ([`slab_at`]).
//!
//! # Ownership
//! A work request owns its buffers and a provider owns exposed memory. Each comes back exactly once: by its
//! [`Completion`], by the completion of what ended the remote access, or at teardown. What was refused comes back at
//! once. Hence nobody reads memory that a peer may still write.
//!
//! # Failure
//! The first fault ends a connection: what it had accepted completes as flushed, then
//! [`Endpoint::poll_completions`] says why it [`Ended`]. Other connections never notice.
//!
//! Adapters pass the [`contract`]; [`mem`] is the one without a network.
#![forbid(unsafe_code)]

mod connect;
#[cfg(any(test, feature = "contract"))]
pub mod contract;
mod endpoint;
#[cfg(any(test, feature = "memory"))]
pub mod mem;
mod pool;
mod queue;
mod slab;
mod work;

pub use connect::{
    Blame, ConnectError, Connected, Fabric, Incoming, Listener, PRIVATE_DATA_BYTES_PORTABLE,
    ProviderLimits,
};
pub use endpoint::{Close, Counters, Ended, Endpoint, EndpointConfig, Negotiated, Stall};
pub use pool::{Buffer, Pool, PoolConfig, Spare, Trim, Trimmed};
pub use queue::{Claim, ReceiveQueue};
pub use slab::{Slab, SlabUser, slab_at};
pub use work::{
    Completion, Done, Fault, FileRange, Memory, Part, READ_PARTS_MAX, Receive, Refused, Remote,
    Work, WorkRefusal, WorkStatus,
};

use std::future::Future;
use std::pin::Pin;

/// A future of a trait object.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
