//! The COMPOUND engine and the session operations that MDS and DS share.
//!
//! [`Nfsd`] is a [`transport::Service`]: it judges the RPC header and the credential, walks over the
//! operations of a COMPOUND, executes those that make up sessions (EXCHANGE_ID, CREATE_SESSION, SEQUENCE, ...) and
//! the current file handle, and gives every other one to its [`Role`]. It owns the reply cache's use, the size limits of
//! replies. The clients are in a [`client_table::ClientTable`]. It does not know what a file is.
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
mod nfsd;
mod ops;
mod persist;
mod role;
mod slot;
mod tables;
mod user;

pub use actor::{Actor, SessionContext};
pub use answers::{answer, fail};
pub use compound::Compound;
pub use counters::Counters;
pub use kept::{KEPT_RESULTS_BYTES_MAX, Keeper};
pub use nfsd::{Nfsd, Programs};
pub use role::{Role, ServerIdentity};
pub use user::User;
