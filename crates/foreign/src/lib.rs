//! NFSv3 servers of others as data servers of flexible files (RFC 8435, loosely coupled).
//!
//! [`probe()`] tries on a server what a metadata server and its clients would do there, and says in words what is missing. Nothing
//! here places files on such a server yet.
//!
//! Clients get synthetic user and group ids. The owner of a data file may write it, its group may read it, and nobody else may do
//! either (RFC 8435 §2.2). To fence clients off, the metadata server gives the file other ids. So a server must let root give files
//! away, must keep to their modes, and must keep what COMMIT has promised.
//!
//! May call: `nfs3-client`. Knows no file of ours.
#![forbid(unsafe_code)]

mod error;
mod ids;
mod probe;
mod report;
mod trial;

pub use error::ProbeError;
pub use probe::probe;
pub use report::{Check, Finding, ProbeReport};
