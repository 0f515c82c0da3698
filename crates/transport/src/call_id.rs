//! Which call is being served: what a line of the log says of the request that it was written for.
//!
//! The engine of a connection sets the id around each poll of a call, for all programs. Code that moves a part of a call to
//! another task or thread passes the id on with [`CallId::carry`] or [`CallId::carry_over`]. The log formatter reads
//! [`CallId::current`].
//!
//! # Cost
//! A poll writes some words twice. Nothing is allocated, and no text is made before a line is written.

use std::future::Future;
use std::net::SocketAddr;

use crate::{ConnHandle, Endpoint};

tokio::task_local! {
    static SERVED: Option<CallId>;
}

/// A call as logs name it: `192.0.2.41:700/0x1a2b3c4d`, the caller's address and the transaction id (RFC 5531 §9). Two calls
/// of one connection have the same only if the caller uses an id again, such as for a call that it repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallId {
    caller: Caller,
    xid: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Caller {
    Socket(SocketAddr),
    /// One without an address, by the number of its connection.
    Connection(u64),
}

impl CallId {
    pub(crate) fn new(conn: &ConnHandle, xid: u32) -> Self {
        let caller = match conn.peer() {
            Endpoint::Socket(address) => Caller::Socket(*address),
            Endpoint::Tunnel(_) | Endpoint::Memory(_) => Caller::Connection(conn.id()),
        };
        Self { caller, xid }
    }

    /// The transaction id.
    pub(crate) const fn xid(self) -> u32 {
        self.xid
    }

    /// The call that this thread is at work on just now.
    #[must_use]
    pub fn current() -> Option<Self> {
        SERVED.try_with(|served| *served).ok().flatten()
    }

    /// Works on the call.
    pub(crate) fn serve<T>(self, work: impl FnOnce() -> T) -> T {
        SERVED.sync_scope(Some(self), work)
    }

    /// A future for another task, which does a part of the current call.
    pub fn carry<F: Future>(work: F) -> impl Future<Output = F::Output> {
        SERVED.scope(Self::current(), work)
    }

    /// Work for another thread, which is a part of the current call.
    pub fn carry_over<T>(work: impl FnOnce() -> T) -> impl FnOnce() -> T {
        let served = Self::current();
        move || SERVED.sync_scope(served, work)
    }
}

impl std::fmt::Display for CallId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.caller {
            Caller::Socket(address) => {
                let address = SocketAddr::new(address.ip().to_canonical(), address.port());
                write!(f, "{address}")?;
            }
            Caller::Connection(id) => write!(f, "connection-{id}")?,
        }
        write!(f, "/{:#010x}", self.xid)
    }
}
