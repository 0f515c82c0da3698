//! The lock protocols beside NFSv3 on the wire: NLM version 4 (RFC 1813 Appendix II; versions 1 and 3 are in the X/Open XNFS
//! document) and, in [`nsm`], NSM version 1, by which hosts tell each other that they restarted.
//!
//! Entry points: [`NlmProc`], [`NlmCall`] and [`NlmReply`] for the bytes of any procedure, [`NlmRange`] for what a lock covers.
//!
//! The crate knows bytes and limits, not meaning: no RPC header, no file, no table of locks. It calls `xdr` alone.
//! Names and handles are borrowed from the message. No length allocates.
#![forbid(unsafe_code)]

#[macro_use]
mod macros;

mod calls;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub mod fuzz;
mod lock;
pub mod nsm;
mod proc;
mod range;
mod share;
mod stats;

pub use calls::{NlmCall, NlmReply};
pub use lock::{
    CALLER_NAME_BYTES_MAX, CallerName, NETOBJ_BYTES_MAX, Netobj, Nlm4CancArgs, Nlm4Holder,
    Nlm4Lock, Nlm4LockArgs, Nlm4Res, Nlm4TestArgs, Nlm4TestReply, Nlm4TestRes, Nlm4UnlockArgs,
};
pub use proc::NlmProc;
pub use range::{NlmRange, RangeOverflow};
pub use share::{
    Fsh4Access, Fsh4Mode, NOTIFY_NAME_BYTES_MAX, Nlm4Notify, Nlm4Share, Nlm4ShareArgs, Nlm4ShareRes,
};
pub use stats::Nlm4Stats;

/// ONC RPC program number of NLM (RFC 1813 §6.1.2).
pub const PROGRAM: u32 = 100_021;
/// The version that goes with NFSv3 (RFC 1813 §6.1.2).
pub const VERSION: u32 = 4;

#[cfg(test)]
mod tests;
