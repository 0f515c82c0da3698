//! The client of NFSv3 (RFC 1813): any server, without sessions, opens, layouts and locks.
//!
//! `state` has what a client remembers. `exports` finds the handle that a path begins at, `names` follows it, `open`, `file` and `dir` do the rest. Calls go through
//! [`nfs3_client`], which sends them again and waits for busy servers. This module may not know of NFSv4 more than the types
//! of the interface, which are its own.

mod attrs;
mod client;
mod dir;
mod exports;
mod file;
mod names;
mod node;
mod open;
mod ports;
mod state;

pub(crate) use dir::ReadDir3;
pub(crate) use file::File3;
pub(crate) use state::Client3;
