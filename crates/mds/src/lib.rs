//! The metadata server: NFSv4.1 and 4.2 operations over the file service.
//!
//! [`Mds`] is the [`server::Role`] of the metadata server. `ops` has one file for each operation of RFC 8881, RFC 7862
//! and RFC 8276. It decodes, judges what the protocol says of arguments and stateids, calls the file service and
//! answers. `attrs`, `acl` and [`identities`] translate between inodes and attributes on the wire.
//!
//! May call: `fs`, `server` and what lies below. May not call: data servers directly.
//!
//! Entry points: [`Mds::open`], [`Mds::tick`].
#![forbid(unsafe_code)]

mod acl;
mod actor;
mod attrs;
mod check_io;
mod cx;
pub mod identities;
mod layout_kind;
mod mds;
mod names;
mod ops;
mod role;

pub use mds::{Mds, MdsConfig};
pub use ops::NOT_SUPPORTED;
