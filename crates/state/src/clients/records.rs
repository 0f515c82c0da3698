//! Which durable record a client needs, and when it may say that its client holds nothing (RFC 8881 §8.4.3).
//!
//! # Ordering
//! A record goes from "holds nothing" to "holds" before the reply that grants state. It goes back only while the client
//! holds nothing and none of its requests runs. A request that begins later finds it so and makes it "holds" again.
//!
//! # Failure
//! A record that says "holds" for too long costs other clients a wait after a restart. It costs nobody its state.

use nfs4::ClientId;

use super::record::ClientRecord;
use super::table::{Clients, Recorded};
use crate::NsmState;

impl Clients {
    /// The record to write for a client that may take state from now on (RECLAIM_COMPLETE), or that is about to (`takes`). `None`
    /// when it is there already. The caller writes it, then calls [`Clients::record_stored`]. A reply that grants state waits until
    /// it is durable.
    ///
    /// A client that has not completed its reclaim when the grace period is over gets no record. It holds at best a
    /// part of what it had, and must not reclaim after another restart. It gets one once it says RECLAIM_COMPLETE,
    /// which is before it can be granted anything new. Ask again inside the transaction that writes the record: the
    /// grace period may have ended meanwhile.
    #[must_use]
    pub fn record_needed(&self, id: ClientId, takes: bool) -> Option<ClientRecord> {
        let client = self.clients.get(&id)?;
        let lacks = match client.recorded {
            Recorded::No => true,
            Recorded::HoldsNothing => takes,
            Recorded::Holds { .. } => false,
        };
        let reliable = client.reclaim_complete || self.grace.accepts_reclaims();
        (client.confirmed && lacks && reliable).then(|| ClientRecord {
            client: id,
            owner: client.owner.to_vec(),
            verifier: match client.is_host {
                true => NsmState::to_verifier(client.nsm_state),
                false => client.verifier,
            },
            principal: client.principal.clone(),
            lost_delegations: false,
            holds_nothing: !takes,
        })
    }

    /// The record of [`Clients::record_needed`] is in the store since transaction `seq`, or its fate is unknown.
    pub fn record_stored(&mut self, id: ClientId, holds_nothing: bool, seq: u64) {
        if let Some(client) = self.clients.get_mut(&id) {
            match client.recorded {
                Recorded::No if holds_nothing => client.recorded = Recorded::HoldsNothing,
                Recorded::No | Recorded::HoldsNothing if !holds_nothing => {
                    client.recorded = Recorded::Holds { seq };
                }
                _ => {}
            }
        }
    }

    /// The client is about to take state. Returns the transaction since which its record says so, if it does.
    pub fn takes_state(&mut self, id: ClientId, now_ms: u64) -> Option<u64> {
        let grace_over = !self.grace.is_active();
        let client = self.clients.get_mut(&id)?;
        // What NFSv4.0 has in place of RECLAIM_COMPLETE.
        client.reclaim_complete |= client.minor_0.is_some() && grace_over;
        client.took_ms = client.took_ms.max(now_ms);
        match client.recorded {
            Recorded::Holds { seq } => Some(seq),
            Recorded::No | Recorded::HoldsNothing => None,
        }
    }

    /// Clients whose record says that they hold something, and that have taken nothing for `idle_ms`. Whether they hold
    /// anything the caller finds out, then asks [`Clients::turns_idle`].
    #[must_use]
    pub fn may_be_idle(&self, now_ms: u64, idle_ms: u64) -> Vec<ClientId> {
        let quiet = |took_ms: u64| took_ms.saturating_add(idle_ms) <= now_ms;
        let clients = self.clients.iter().filter(|(_, c)| {
            matches!(c.recorded, Recorded::Holds { .. }) && c.reclaim_complete && quiet(c.took_ms)
        });
        clients.map(|(id, _)| *id).collect()
    }

    /// To be called inside the transaction that makes the client's record say that it holds nothing: whether that is so. From
    /// now on the client needs another record before it takes state, whether this one is ever written or not.
    pub fn turns_idle(&mut self, id: ClientId, has_state: impl Fn(ClientId) -> bool) -> bool {
        let Some(client) = self.clients.get(&id) else {
            return false;
        };
        let idle = client.recorded != Recorded::No
            && client.reclaim_complete
            && !self.is_running(client)
            && !has_state(id);
        if idle && let Some(client) = self.clients.get_mut(&id) {
            client.recorded = Recorded::HoldsNothing;
        }
        idle
    }
}
