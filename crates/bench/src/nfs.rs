//! Ropewalk as a subject: the real program as a cluster on this machine, and the requests made to it.
//!
//! [`cluster`] starts and stops the processes and adds up their CPU time. [`client`] makes files and finds out where
//! they lie, over `session-client`. [`wire`] is the cheapest client there can be: one blocking socket, one slot, no
//! task. It is built like the clients of the bare servers, and a ratio to them compares servers. [`server`] says what
//! carries requests, [`providers`] by which RDMA provider, [`host`] which server is asked. The subjects are [`io`],
//! [`metadata`], [`create`], [`stripes`], [`foreign`], [`library`], [`idle`], [`reconnect`], [`commits`], [`failover`],
//! [`absence`], [`filling`] and [`scrape`]. [`requests3`] are those of NFSv3.

pub mod absence;
pub mod client;
pub mod cluster;
pub mod commits;
pub mod create;
pub mod failover;
pub mod filling;
pub mod foreign;
pub mod host;
pub mod idle;
pub mod io;
pub mod library;
pub mod metadata;
pub(crate) mod providers;
pub mod reconnect;
pub mod requests3;
mod rpc_socket;
pub mod scrape;
pub mod server;
pub mod stripes;
pub(crate) mod transport;
pub mod wire;
mod wire3;

/// How the client of a subject waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A blocking socket per connection: TCP only.
    Wire,
    /// A `session-client` session on a runtime of its own per connection.
    Session,
}
