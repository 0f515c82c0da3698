//! Leases, courtesy, and reclaim after a restart (RFC 8881 §8.3, §8.4, §18.51).

use nfs4::{ClientId, NfsStatus};

use super::table::{Client, Clients, Recorded, RemovedClient};
use crate::GraceEnd;

impl Client {
    /// Whether it is one of NFSv4.0 that has lost something with its lease.
    pub(super) fn is_ending(&self) -> bool {
        self.minor_0.as_ref().is_some_and(|m| m.is_ending)
    }
}

impl Clients {
    pub(super) fn is_lapsed(&self, client: &Client, now_ms: u64) -> bool {
        !client.is_host
            && now_ms > client.renewed_ms.saturating_add(self.limits.lease_ms)
            && !self.is_running(client)
    }

    /// Whether the client's lease is over. Its state then yields to any conflict: call
    /// [`Clients::revoke`], delete its record, and grant what was in conflict. An unknown client is
    /// lapsed.
    #[must_use]
    pub fn lapsed(&self, id: ClientId, now_ms: u64) -> bool {
        self.clients
            .get(&id)
            .is_none_or(|c| self.is_lapsed(c, now_ms))
    }

    /// Removes a client because its state is in the way, or an administrator says so.
    pub fn revoke(&mut self, id: ClientId) -> Option<RemovedClient> {
        self.minor_0.note_expired(id);
        self.remove(id)
    }

    /// Ends what is over: unconfirmed clients after a lease, and lapsed clients without state. Lapsed clients with
    /// state end after the courtesy time, or beyond the courtesy count, longest lapsed first. Slots that are free then
    /// are shared out anew. To be called every few seconds; a pass looks at every client once.
    #[must_use = "the clients' state and durable records must be removed"]
    pub fn expire(
        &mut self,
        now_ms: u64,
        has_state: impl Fn(ClientId) -> bool,
    ) -> Vec<RemovedClient> {
        let mut unconfirmed = Vec::new();
        let mut gone = Vec::new();
        let mut kept = Vec::new();
        for (id, client) in &self.clients {
            if self.is_idle_host(client, now_ms) && !has_state(*id) {
                gone.push(*id);
            }
            if client.is_ending() {
                gone.push(*id);
                continue;
            }
            if !self.is_lapsed(client, now_ms) {
                continue;
            }
            let courtesy_end_ms = client
                .renewed_ms
                .saturating_add(self.limits.lease_ms)
                .saturating_add(self.limits.courtesy_ms);
            if !client.confirmed {
                unconfirmed.push(*id);
            } else if now_ms > courtesy_end_ms || !has_state(*id) {
                gone.push(*id);
            } else {
                kept.push((client.renewed_ms, *id));
            }
        }
        kept.sort_unstable();
        let surplus = kept.len().saturating_sub(self.limits.courtesy_clients_max);
        gone.extend(kept.into_iter().take(surplus).map(|(_, id)| id));
        for id in unconfirmed {
            let _nothing_held = self.remove(id);
        }
        let removed = gone.into_iter().filter_map(|id| self.revoke(id)).collect();
        self.share_slots();
        removed
    }

    /// The lapsed client that must give way to one more confirmed client, if any must: without state
    /// first, then the longest lapsed.
    pub(super) fn make_room(
        &self,
        newcomer: ClientId,
        now_ms: u64,
        has_state: impl Fn(ClientId) -> bool,
    ) -> Result<Option<ClientId>, NfsStatus> {
        let replaces_one = self
            .clients
            .get(&newcomer)
            .and_then(|c| self.owners.get(&*c.owner))
            .is_some_and(|e| e.confirmed.is_some());
        if replaces_one || self.confirmed_count() < self.limits.clients_max {
            return Ok(None);
        }
        let oldest = self
            .clients
            .iter()
            .filter(|(_, c)| c.confirmed && self.is_lapsed(c, now_ms))
            .map(|(id, c)| (has_state(*id), c.renewed_ms, *id))
            .min();
        let (_, _, id) = oldest.ok_or(NfsStatus::Delay)?;
        Ok(Some(id))
    }

    /// RECLAIM_COMPLETE with `rca_one_fs` false.
    ///
    /// # Errors
    /// `CompleteAlready`; `StaleClientId` if unknown.
    pub fn reclaim_complete(&mut self, id: ClientId, now_ms: u64) -> Result<(), NfsStatus> {
        let client = self.clients.get_mut(&id).ok_or(NfsStatus::StaleClientId)?;
        if client.reclaim_complete {
            return Err(NfsStatus::CompleteAlready);
        }
        client.reclaim_complete = true;
        let who = (&*client.owner, client.verifier, &*client.principal.0);
        self.grace.complete(who, now_ms);
        Ok(())
    }

    /// Whether the client may take a lock, open or delegation now; `reclaim` for CLAIM_PREVIOUS and
    /// the like.
    ///
    /// # Errors
    /// `NoGrace` for a reclaim after RECLAIM_COMPLETE, outside the grace period, or by a client that
    /// is not known to have held anything. `Grace` for a new lock in the grace period or before
    /// RECLAIM_COMPLETE (RFC 8881 §8.4.2.1, §18.51.3).
    pub fn check_grace(&self, id: ClientId, reclaim: bool) -> Result<(), NfsStatus> {
        let client = self.clients.get(&id).ok_or(NfsStatus::StaleClientId)?;
        if reclaim {
            let may = !client.reclaim_complete
                && self
                    .grace
                    .may_reclaim(&client.owner, client.verifier, &client.principal.0);
            return if may { Ok(()) } else { Err(NfsStatus::NoGrace) };
        }
        // NFSv4.0 has no RECLAIM_COMPLETE.
        let is_through = client.reclaim_complete || client.minor_0.is_some();
        if is_through && !self.grace.is_active() {
            Ok(())
        } else {
            Err(NfsStatus::Grace)
        }
    }

    /// Notes that a client has just been allowed to reclaim something. The grace period goes on while reclaims come, up
    /// to twice its length (see [`crate::Grace`]).
    pub fn reclaimed(&mut self, now_ms: u64) {
        self.grace.reclaimed(now_ms);
    }

    /// Whether a client that may reclaim may reclaim delegations too (RFC 8881 §10.2.1).
    #[must_use]
    pub fn may_reclaim_delegations(&self, id: ClientId) -> bool {
        self.clients
            .get(&id)
            .is_some_and(|c| !self.grace.lost_delegations(&c.owner))
    }

    /// Whether REMOVE and RENAME may run now: what somebody is about to reclaim must still be there. Neither takes a
    /// lock, so neither waits for RECLAIM_COMPLETE (RFC 8881 §18.51.3).
    ///
    /// # Errors
    /// `Grace`.
    pub fn check_grace_names(&self) -> Result<(), NfsStatus> {
        self.check_grace_io(true)
    }

    /// Whether READ, WRITE and SETATTR of size may run now. Byte-range locks are advisory, so a
    /// stateid of a reclaimed open suffices. A special stateid could pass a deny mode that is still
    /// to be reclaimed.
    ///
    /// # Errors
    /// `Grace`.
    pub fn check_grace_io(&self, special_stateid: bool) -> Result<(), NfsStatus> {
        if special_stateid && self.grace.is_active() {
            Err(NfsStatus::Grace)
        } else {
            Ok(())
        }
    }

    /// Whether the grace period is on.
    #[must_use]
    pub fn in_grace(&self) -> bool {
        self.grace.is_active()
    }

    /// Ends the grace period if it is time. On `Some` the caller deletes, in one durable transaction
    /// that looks at every record there is, those that [`Clients::drops_record`] names, then
    /// calls [`Clients::grace_finished`]. Until then new locks are refused.
    pub fn poll_grace(&mut self, now_ms: u64) -> Option<GraceEnd> {
        self.grace.poll(now_ms)
    }

    /// Whether the record under this id must not outlive the grace period. It is of an earlier run, or its client has
    /// not completed its reclaim. Such a client may have reclaimed a part (the second edge condition of RFC 8881
    /// §8.4.3). A host of NLM has no word for that it is done, and reclaims later only what it knows to have. Call this inside the
    /// transaction that deletes it: from now on that client has none.
    pub fn drops_record(&mut self, id: ClientId) -> bool {
        match self.clients.get_mut(&id) {
            Some(client) if client.reclaim_complete || client.is_host => false,
            Some(client) => {
                client.recorded = Recorded::No;
                true
            }
            None => true,
        }
    }

    /// The records that had to go are gone, durably; new locks may be granted.
    pub fn grace_finished(&mut self) {
        self.grace.finish();
        self.hosts_have_reclaimed();
    }
}
