//! The data server: sparse objects behind handles that the MDS signs.
//!
//! [`Ds`] is a [`server::Role`]: READ, WRITE and COMMIT over an object store. Every operation shows a signed handle,
//! which is checked against keys, fences and tombstones (`gate`). High-water marks, floors, tombstones and the identity
//! of the store must survive a crash: they lie in an `index` of its own. One control connection, opened by
//! [`link::run`], ties it to the MDS. Lease, keys and floors come over it; sizes and stable writes are reported over
//! it. Without a valid lease nothing is served.
//!
//! The crate opens no socket and no file: stores and connectors are handed in, so the simulator runs the same code.
//!
//! Entry points: [`Ds::open`], [`link::run`], [`join::join`], [`Ds::status`].
#![forbid(unsafe_code)]

mod announced;
mod apply;
mod blocks;
mod calls;
mod changes;
mod config;
pub mod copies;
mod counts;
mod ds;
mod durable;
mod error;
mod failing;
mod fault;
mod few_copies;
mod floors;
mod gate;
mod given_up;
mod group_versions;
mod handles;
mod in_doubt;
mod index;
pub mod join;
pub mod link;
mod link_end;
mod ops;
mod own_stripes;
mod pace;
mod part;
mod part_index;
mod part_keys;
mod redo_table;
mod repeats;
mod reports;
mod resolving;
mod role;
mod rollback_guard;
mod rows;
mod size_answers;
mod sizes;
mod space_told;
mod stable_writes;
pub mod sums;
mod sync_time;
mod wrote;

pub use config::{DsConfig, LeaseClock, PeerFilter, virtual_lease_clock};
pub use counts::{DsStatus, LeaseState, Refusals};
pub use ds::Ds;
pub use error::{JoinError, LinkError, OpenError};
pub use index::Membership;

#[cfg(test)]
mod tests;
