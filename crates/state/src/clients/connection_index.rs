//! Connections and the sessions that they carry.
//!
//! Each [`Session`] knows its connections, of which there are at most [`crate::CONNECTIONS_PER_SESSION_MAX`]. [`Bindings`] is the same
//! from the other side, so that a connection that ends costs what it carried and not a walk over all sessions. Only
//! `Clients` changes both, together.

use std::collections::BTreeSet;

use nfs4::SessionId;

use crate::Session;

/// Every connection of every session.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Bindings(BTreeSet<(u64, SessionId)>);

impl Bindings {
    pub(super) fn add(&mut self, connection: u64, session: SessionId) {
        self.0.insert((connection, session));
    }

    pub(super) fn remove(&mut self, connection: u64, session: SessionId) {
        self.0.remove(&(connection, session));
    }

    /// A session that is no more.
    pub(super) fn remove_session(&mut self, session: &Session) {
        for connection in session.connections() {
            self.remove(connection, session.id());
        }
    }

    /// The sessions of a connection, in ascending order.
    pub(super) fn of(&self, connection: u64) -> impl Iterator<Item = SessionId> + '_ {
        let first = (connection, SessionId { bytes: [0; 16] });
        let last = (connection, SessionId { bytes: [0xff; 16] });
        self.0.range(first..=last).map(|(_, session)| *session)
    }
}
