//! The client of each connection, for operations that name no client.
//!
//! Most operations of NFSv4.0 do not name their client. A holder must not be called back for its own GETATTR: Linux sends one
//! with each DELEGRETURN and waits for its end. As a rule a connection belongs to one client. An operation that names the
//! client makes it known.
//!
//! # Ownership
//! One entry for each connection that has named a client, until it closes.

use nfs4::ClientId;
use std::collections::HashMap;
use tracing_mutex::parkinglot::Mutex;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Caller {
    One(ClientId),
    /// Nobody can tell which.
    Several,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Callers(Mutex<HashMap<u64, Caller>>);

impl Callers {
    /// The connection has named a client. `is_known` tells whether one that it named before still is one.
    pub(crate) fn note(
        &self,
        connection: u64,
        client: ClientId,
        is_known: impl FnOnce(ClientId) -> bool,
    ) {
        let mut callers = self.0.lock();
        let caller = callers.entry(connection).or_insert(Caller::One(client));
        *caller = match *caller {
            Caller::One(other) if other != client && is_known(other) => Caller::Several,
            Caller::One(_) => Caller::One(client),
            Caller::Several => Caller::Several,
        };
    }

    /// The client of a connection, if that is known and no other.
    pub(crate) fn of(&self, connection: u64) -> Option<ClientId> {
        match self.0.lock().get(&connection)? {
            Caller::One(client) => Some(*client),
            Caller::Several => None,
        }
    }

    /// The connection is closed.
    pub(crate) fn forget(&self, connection: u64) {
        self.0.lock().remove(&connection);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_of_several_clients_is_that_of_none() {
        let (a, b) = (ClientId { value: 1 }, ClientId { value: 2 });
        let callers = Callers::default();
        assert_eq!(callers.of(7), None);
        callers.note(7, a, |_| true);
        callers.note(7, a, |_| true);
        assert_eq!((callers.of(7), callers.of(8)), (Some(a), None));
        callers.note(7, b, |other| {
            assert_eq!(other, a);
            false
        });
        assert_eq!(callers.of(7), Some(b), "the other one is gone");
        callers.note(7, a, |_| true);
        assert_eq!(callers.of(7), None);
        callers.forget(7);
        callers.note(7, a, |_| true);
        assert_eq!(callers.of(7), Some(a));
    }
}
