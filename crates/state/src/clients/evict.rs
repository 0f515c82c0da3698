//! The end of a client by an administrator: as when its lease runs out, and at once (RFC 8881 §8.4.3).
//!
//! # Ordering
//! [`Clients::begin_eviction`], then [`Clients::evict`] as soon as no request of the client runs. A request that runs beyond that
//! could take state for a client that is gone.

use nfs4::ClientId;

use super::table::{Clients, RemovedClient};

impl Clients {
    /// Refuses the client's requests from now on: BADSESSION on its sessions, `StaleClientId` for CREATE_SESSION, `Expired` in NFSv4.0.
    /// Returns whether it is known.
    pub fn begin_eviction(&mut self, id: ClientId) -> bool {
        let client = self.clients.get_mut(&id);
        client.map(|client| client.is_evicted = true).is_some()
    }

    /// Whether a request of the client runs.
    #[must_use]
    pub fn has_running(&self, id: ClientId) -> bool {
        let client = self.clients.get(&id);
        client.is_some_and(|client| self.is_running(client))
    }

    /// Removes the client. It may reclaim nothing, in a grace period either.
    pub fn evict(&mut self, id: ClientId) -> Option<RemovedClient> {
        let client = self.clients.get(&id)?;
        (self.grace).forget(&client.owner, client.verifier, &client.principal.0);
        self.revoke(id)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{call, create, exchange, mount, table_with};
    use super::*;
    use crate::Sequence;
    use nfs4::NfsStatus;

    #[test]
    fn an_evicted_client_is_refused_and_begins_anew() {
        let mut t = table_with(|_| {});
        let (id, created) = mount(&mut t, "a", 1, 0);
        let (other, others) = mount(&mut t, "b", 1, 0);
        call(&mut t, created.session, 1, 0);
        assert!(t.begin_eviction(id));
        assert!(!t.begin_eviction(ClientId { value: 7 }));
        let next = Sequence {
            seqid: 2,
            slot: 0,
            highest_slot: 0,
            cache_this: false,
            fingerprint: 0,
        };
        let refused = t.sequence(created.session, 1, &next, 0, false);
        assert_eq!(refused.unwrap_err(), NfsStatus::BadSession);
        assert_eq!(create(&mut t, id, 2, "p", 0), Err(NfsStatus::StaleClientId));
        assert!(!t.has_running(id));
        let removed = t.evict(id).unwrap();
        assert_eq!(
            (removed.client, &removed.sessions[..]),
            (id, &[created.session][..])
        );
        let anew = exchange(&mut t, "a", 1, "p", false, 0, &[]).unwrap();
        assert!(anew.client != id && !anew.confirmed);
        assert!(create(&mut t, anew.client, 1, "p", 0).is_ok());
        call(&mut t, others.session, 1, 0);
        assert!(t.view(other, 0).is_some());
    }
}
