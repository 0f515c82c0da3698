//! The COMPOUND engine and the session operations that MDS and DS share.
//!
//! [`Nfsd`] is a [`transport::Service`]. It judges the credential and walks over the operations of a COMPOUND. It executes
//! those of sessions (EXCHANGE_ID, CREATE_SESSION, SEQUENCE, ...) and of the current file handle, and gives every other one to
//! its [`Role`]. It owns the use of the reply cache and the size limits of replies.
//!
//! May call: `rpc-service`, `client-table`, `state`. May not know what a file is.
//!
//! Entry points: [`Nfsd`], [`Role`], [`Compound`].
#![forbid(unsafe_code)]

mod actor;
mod answers;
mod compound;
mod counters;
mod execute;
pub mod exports;
mod kept;
mod latency;
mod minor_0;
mod nfsd;
mod ops;
mod persist;
mod role;
mod slot;
mod tables;
mod traces;
mod user;

pub use actor::{Actor, SessionContext};
pub use answers::{answer, effects_lost, fail};
pub use compound::Compound;
pub use counters::Counters;
pub use kept::{KEPT_RESULTS_BYTES_MAX, Keeper};
pub use latency::{LATENCY_BOUNDS_US, LATENCY_BUCKETS, Latencies, LatencyRow, LatencyTransport};
pub use minor_0::context::{Minor0Context, NOBODY};
pub use nfsd::{Nfsd, Programs};
pub use role::{Role, ServerIdentity};
pub use traces::{
    EndedRequest, RequestTrace, Steps, TRACE_STEPS_MAX, TraceReceiver, TraceStep, Traces,
};
pub use user::User;
