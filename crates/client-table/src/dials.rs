//! The connection to a client of NFSv4.0, and how far it has come.

use nfs4::Verifier;
use std::net::SocketAddr;
use transport::{CloseReason, ConnHandle};

/// What is known of a connection.
#[derive(Debug)]
pub(crate) enum DialState {
    Dialing,
    Up(ConnHandle),
    Down { until_ms: u64 },
}

/// The connection to one client.
#[derive(Debug)]
pub(crate) struct Dialed {
    /// Which of the places that the client has named.
    pub(crate) version: Verifier,
    pub(crate) address: SocketAddr,
    pub(crate) state: DialState,
}

impl Dialed {
    pub(crate) fn is_live(&self) -> bool {
        match &self.state {
            DialState::Dialing => true,
            DialState::Up(conn) => !conn.is_closed(),
            DialState::Down { .. } => false,
        }
    }

    pub(crate) fn close(&self) {
        if let DialState::Up(conn) = &self.state {
            conn.close(CloseReason::Asked);
        }
    }
}
