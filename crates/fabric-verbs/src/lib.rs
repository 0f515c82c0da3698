//! RDMA devices through rdma-core: InfiniBand, RoCE, iWARP, and the kernel's software devices.
//!
//! libibverbs and librdmacm are loaded when a provider is opened ([`Verbs::open`]), so that a program that has this crate
//! starts where they are missing. [`survey`] says what devices there are, and in words why RDMA cannot be used.
//!
//! # Ownership
//! What is posted belongs to the device until its completion or until the queue pair is destroyed, which waits for the
//! device. What a peer may touch is registered for itself, for one connection, and deregistered before it is handed back.
//! Slabs of pools are registered once and without rights for peers ([`memory`]). Accepted connections share their receives ([`shared`]).
//!
//! # Ordering
//! A reliable connection completes work in the order posted. Reads are as many at a time as both sides agreed; the device
//! holds back the others.
//!
//! # Failure
//! A failed completion, a word of the device (port down, device gone) or of the peer (disconnect) ends the connection.
//! Completions that are there are taken, the queue pair is destroyed, and all else comes back as flushed. A device that
//! is gone stays open in this process ([`device`]).

mod addresses;
mod cm;
mod context;
mod copies;
mod device;
mod devices;
mod endpoint;
mod library;
mod limits;
mod memory;
mod queue;
mod sends;
mod setup;
mod shared;
mod survey;
mod sys;

pub use addresses::PortAddress;
pub use setup::Verbs;
pub use survey::{DeviceKind, DeviceReport, PortReport, Survey, survey};
