//! Software iWARP: RDMA over TCP in user space, for machines without an RDMA device.
//!
//! Wire-compatible with the kernel's soft iWARP and with iWARP devices: MPA (RFC 5044, 6581), DDP (RFC 5041),
//! RDMAP (RFC 5040). The protocol is [`machine`], a state machine over bytes with the codecs [`mpa`], [`ddp`] and
//! [`rdmap`] below it. [`Iwarp`] puts it on TCP.
#![forbid(unsafe_code)]

mod crc;
pub mod ddp;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
mod keys;
pub mod machine;
pub mod mpa;
pub mod rdmap;
mod term;

mod endpoint;
mod setup;
mod watch;

pub use setup::{Framing, Iwarp};
pub use watch::Owed;
