//! The metadata server: names, state and layouts over the metadata store, data on the data servers.
//!
//! [`Mds`] is the [`server::Role`] of the metadata server. `ops` has one file for each operation of RFC 8881; `data` is
//! everything that touches data servers: the control connection, placement, layouts' handles, proxy I/O, truncation,
//! removal, fencing and the recovery of sizes. The name space itself is the `namespace` crate, open and lock state is `state`.
//!
//! Entry points: [`Mds::open`], [`exports`].
#![forbid(unsafe_code)]

mod acl;
mod atimes;
mod attrs;
mod cx;
pub mod data;
mod delegations;
pub mod exports;
mod glance;
pub mod identities;
mod mds;
mod ops;
mod persist;

pub use delegations::DelegationCounts;
pub use mds::{Mds, MdsConfig, MdsError, Random, WallClock};
pub use ops::NOT_SUPPORTED;
