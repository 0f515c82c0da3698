//! Calls of one NFSv3 server, of its MOUNT service and of its port mapper (RFC 1813, RFC 1833 §3).
//!
//! [`Nfs3Client`] has a method for each procedure, [`MountClient`] for those of MOUNT that a client needs, and [`get_port`] asks a
//! port mapper. All of them call through a [`RpcPeer`], which bounds the calls in flight, connects again when a
//! connection is lost, and sends a call again with the same transaction id. A server that keeps replies then answers
//! it from there, and does not do it twice.
//!
//! # Failure
//! Version 3 has no sessions. A server without kept replies, or that restarted, does a repeated call again: then a
//! REMOVE whose first reply was lost ends with `NFS3ERR_NOENT`. That is the protocol's own limit (RFC 1813 §4.5).
//!
//! The crate may call `transport` and the codecs. It knows no file, no path and no cache: its callers do.
#![forbid(unsafe_code)]

mod config;
mod connections;
mod error;
mod message;
mod mount;
mod pauses;
mod portmap;
mod procs;
mod replies;
mod rpc_peer;

pub use config::{CONNECTIONS_MAX, CallerAuth, RpcPeerConfig};
pub use error::{Nfs3Error, RpcError};
pub use mount::{Export, MountClient, Mounted};
pub use pauses::{JUKEBOX_PAUSE, JUKEBOX_PAUSE_MAX, TRY_PAUSE, TRY_PAUSE_MAX};
pub use portmap::{PORTMAP_PORT, get_port};
pub use procs::Nfs3Client;
pub use replies::{DirEntry3, DirPage3, Fh, FoundObject, MadeObject, ReadData3};
pub use rpc_peer::RpcPeer;

#[cfg(test)]
mod tests;
