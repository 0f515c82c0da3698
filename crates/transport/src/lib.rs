//! Transports: whole RPC messages plus payload over TCP, TLS, RDMA and memory.
//!
//! The crate owns sockets, record marks, back-pressure, the two directions of a connection and the
//! routing of replies by transaction id. It knows no program: a record goes to a [`Service`] as it
//! arrived, and a [`Message`] leaves as it was given. Nothing above this crate may ask for a socket: with
//! RPC-over-RDMA there is none.
//!
//! Entry points: [`Service`], [`ConnHandle`], [`Message`], [`Context`], [`tcp`], [`tls`],
//! [`tunnel`], [`rdma`], [`memory`], [`Connector`], [`workers`].
#![forbid(unsafe_code)]

mod accept;
mod budget;
mod busy_poll;
mod call_id;
mod connector;
mod context;
mod copy_wire;
mod counters;
mod end;
mod endpoint;
mod engine;
mod handle;
mod link;
#[cfg(any(test, feature = "memory"))]
pub mod memory;
mod message;
mod preference;
mod quiet;
pub mod rdma;
mod service;
mod stream;
pub mod tcp;
pub mod tls;
pub mod tunnel;
pub mod workers;

pub use budget::Charge;
pub use call_id::CallId;
pub use connector::{Address, ConnectError, Connector};
pub use context::{Context, TransportLimits};
pub use counters::{CloseReason, Counters, CountersSnapshot};
pub use endpoint::{Endpoint, TlsIdentity, TransportKind};
pub use handle::{CallError, ConnHandle};
pub use message::{FilePayload, Message, Payload, ReplyRoom};
pub use preference::{AnyConnector, Preference};
pub use service::{BoxFuture, DynService, NoService, Service};

/// Most bytes of memory that a received record of so many bytes takes, whatever it came over. Whoever keeps a part of a record
/// keeps all of it.
#[must_use]
pub fn record_buffer_bytes(record_bytes: usize) -> usize {
    rdma::memory::buffer_bytes(record_bytes)
}

#[cfg(test)]
mod tests;
