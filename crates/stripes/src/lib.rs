//! I/O of the metadata server on the data servers of a file: the only fan-out.
//!
//! [`Spread`] asks all data servers of a file by the control program: ranges, sizes, cuts, commits. [`Peers`] reads and writes their
//! objects over NFS sessions, for clients without layouts. Both wait for every answer before they tell of a failure. [`status_of`]
//! is the one map from what a data server refuses to what a client is told.
//!
//! May call: `cluster` for who the data servers are, `layout` for where bytes lie, `session-client` for sessions. May
//! not call: the file service. What keeps others off a file meanwhile is its caller's.
#![forbid(unsafe_code)]

mod io;
mod place;
mod remove;
mod spread;
mod stat;
mod status;

pub use io::{Peers, PeersConfig, Target, Written};
pub use place::{object_of, striping_of};
pub use remove::remove;
pub use spread::{Expelled, Spread};
pub use stat::{LOST, modified, stat_group, tells_size};
pub use status::{status_of, told};
