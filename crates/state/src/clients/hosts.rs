//! Hosts of NLM in the table of clients: who may hold locks without a session (RFC 1813 Appendix II).
//!
//! Owns who they are. A host has no lease: its locks end with UNLOCK, with the news that it has restarted, or by an administrator.
//! Its durable record is that of any client, under a principal that no caller has ([`HOST_PRINCIPAL`]). The newest NSM state that the host
//! has told is its verifier there.
//!
//! # Ordering
//! A host cannot say that it has reclaimed all. So the grace period takes its time when hosts held locks, and all hosts count as
//! complete at its end.
//!
//! # Failure
//! A host is known as long as it holds something, and for a lease after that. A state that it tells later is the first one.

use nfs4::{ClientId, NfsStatus};

use super::record::{OWNER_BYTES_MAX, Principal};
use super::table::{Client, Clients, CreateSlot, Recorded, RemovedClient};
use crate::NsmState;

/// Principal of the record of a host: no caller of NFSv4 has it.
pub const HOST_PRINCIPAL: &[u8] = b"NLM host";

impl Clients {
    /// The host of this name, which is known from now on. It gets a new id when it was not. A host without state may have
    /// given way, which the caller settles.
    ///
    /// # Errors
    /// `Resource` when there are too many; `Inval` for an impossible name.
    pub fn host(
        &mut self,
        name: &[u8],
        now_ms: u64,
        has_state: impl Fn(ClientId) -> bool,
    ) -> Result<(ClientId, Option<RemovedClient>), NfsStatus> {
        if let Some(id) = self.hosts.get(name).copied()
            && let Some(host) = self.clients.get_mut(&id)
        {
            host.renewed_ms = now_ms;
            return Ok((id, None));
        }
        if name.is_empty() || name.len() > OWNER_BYTES_MAX {
            return Err(NfsStatus::Inval);
        }
        let idlest = match self.hosts.len() < self.limits.hosts_max {
            true => None,
            false => Some(self.idlest_host(has_state).ok_or(NfsStatus::Resource)?),
        };
        let id = self.next_client_id()?;
        let removed = idlest.and_then(|id| self.remove(id));
        self.hosts.insert(name.into(), id);
        let verifier = self.grace.verifier_of(name, HOST_PRINCIPAL);
        let verifier = verifier.unwrap_or_default();
        let host = Client {
            owner: name.into(),
            verifier,
            principal: Principal(HOST_PRINCIPAL.to_vec()),
            confirmed: true,
            is_evicted: false,
            is_host: true,
            nsm_state: NsmState::of_verifier(verifier),
            minor_0: None,
            bind_enforced: false,
            renewed_ms: now_ms,
            create_seqid: 0,
            create_slot: CreateSlot::Unused,
            sessions: Vec::new(),
            reclaim_complete: !self.grace.is_active(),
            recorded: Recorded::No,
            took_ms: now_ms,
        };
        self.clients.insert(id, Box::new(host));
        Ok((id, removed))
    }

    fn idlest_host(&self, has_state: impl Fn(ClientId) -> bool) -> Option<ClientId> {
        let idle = self.hosts.values().filter(|id| !has_state(**id));
        let renewed_ms = |id: &ClientId| self.clients.get(id).map(|c| c.renewed_ms);
        idle.min_by_key(|id| renewed_ms(id)).copied()
    }

    /// A host of this name, if it is known. Nothing is renewed.
    #[must_use]
    pub fn find_host(&self, name: &[u8]) -> Option<ClientId> {
        self.hosts.get(name).copied()
    }

    /// Removes a host if `told` is a newer NSM state than the one that is known of it: it has restarted, and may reclaim nothing.
    /// `is_news` says whether it has where none is known.
    pub fn restarted_host(
        &mut self,
        name: &[u8],
        told: NsmState,
        is_news: bool,
    ) -> Option<RemovedClient> {
        let id = self.find_host(name)?;
        let known = self.clients.get(&id)?.nsm_state;
        match known.map_or(is_news, |known| told.is_newer_than(known)) {
            true => self.evict(id),
            false => None,
        }
    }

    /// Whether a host of this name is known, and has told no state that is as new as `told`.
    #[must_use]
    pub fn is_news_of_host(&self, name: &[u8], told: NsmState) -> bool {
        let host = self.find_host(name).and_then(|id| self.clients.get(&id));
        let known = host.map(|host| host.nsm_state);
        known.is_some_and(|known| known.is_none_or(|known| told.is_newer_than(known)))
    }

    /// A host has told its NSM state: it is remembered if none is known, or an older one. Its next record has it.
    pub fn note_nsm_state(&mut self, id: ClientId, told: NsmState) {
        let Some(host) = self.clients.get_mut(&id).filter(|c| c.is_host) else {
            return;
        };
        if host
            .nsm_state
            .is_some_and(|known| !told.is_newer_than(known))
        {
            return;
        }
        host.nsm_state = Some(told);
        if matches!(host.recorded, Recorded::Holds { .. }) {
            host.recorded = Recorded::HoldsNothing;
        }
    }

    /// Names of hosts and their ids, in the order of names.
    pub fn hosts(&self) -> impl Iterator<Item = (&[u8], ClientId)> {
        self.hosts.iter().map(|(name, id)| (&**name, *id))
    }

    /// Names of hosts that held something when the server ended, and may reclaim it.
    pub fn hosts_to_notify(&self) -> impl Iterator<Item = &[u8]> {
        self.grace.holders(HOST_PRINCIPAL)
    }

    /// Whether a host has not asked for anything for the time of a lease. It is forgotten then, unless it has state.
    pub(super) fn is_idle_host(&self, client: &Client, now_ms: u64) -> bool {
        client.is_host && now_ms > client.renewed_ms.saturating_add(self.limits.lease_ms)
    }

    /// The grace period is over: what hosts have not reclaimed is lost.
    pub(super) fn hosts_have_reclaimed(&mut self) {
        for id in self.hosts.values() {
            if let Some(host) = self.clients.get_mut(id) {
                host.reclaim_complete = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ClientLimits, ClientRecord, Grace};
    use nfs4::Verifier;

    const fn state(state: i32) -> NsmState {
        NsmState::new(state)
    }

    fn record(name: &[u8], holds_nothing: bool) -> ClientRecord {
        ClientRecord {
            client: ClientId { value: 7 },
            owner: name.to_vec(),
            verifier: Verifier::default(),
            principal: Principal(HOST_PRINCIPAL.to_vec()),
            lost_delegations: false,
            holds_nothing,
        }
    }

    fn table(grace: Grace) -> Clients {
        let limits = ClientLimits {
            hosts_max: 2,
            ..ClientLimits::default()
        };
        Clients::new(limits, 2, grace)
    }

    #[test]
    fn a_host_keeps_its_id_and_never_lapses() {
        let mut clients = table(Grace::none());
        let (id, _) = clients.host(b"a", 0, |_| false).unwrap();
        assert_eq!(clients.host(b"a", 5, |_| false), Ok((id, None)));
        assert!(!clients.lapsed(id, u64::MAX));
        assert_eq!(clients.confirmed().count(), 0);
        assert_eq!(clients.find_host(b"a"), Some(id));
    }

    #[test]
    fn an_idle_host_gives_way_and_one_with_locks_does_not() {
        let mut clients = table(Grace::none());
        let (first, _) = clients.host(b"a", 0, |_| false).unwrap();
        let (second, _) = clients.host(b"b", 1, |_| false).unwrap();
        assert_eq!(
            clients.host(b"c", 2, |_| true).unwrap_err(),
            NfsStatus::Resource
        );
        let (_, removed) = clients.host(b"c", 2, |id| id == first).unwrap();
        assert_eq!(removed.map(|r| r.client), Some(second));
        assert_eq!(clients.find_host(b"b"), None);
    }

    #[test]
    fn a_host_without_state_is_forgotten_after_a_lease() {
        let mut clients = table(Grace::none());
        let (id, _) = clients.host(b"a", 0, |_| false).unwrap();
        let later_ms = clients.limits().lease_ms + 1;
        assert!(clients.expire(later_ms, |_| true).is_empty());
        let gone = clients.expire(later_ms, |_| false);
        assert_eq!(gone.len(), 1);
        assert_eq!((gone[0].client, clients.hosts().count()), (id, 0));
    }

    #[test]
    fn only_a_host_that_held_something_may_reclaim_and_is_told_of_the_restart() {
        let records = [record(b"a", false), record(b"b", true)];
        let mut clients = table(Grace::begin(records, 0, 1000));
        let told: Vec<&[u8]> = clients.hosts_to_notify().collect();
        assert_eq!(told, [b"a"]);
        let (known, _) = clients.host(b"a", 0, |_| false).unwrap();
        let (unknown, _) = clients.host(b"x", 0, |_| false).unwrap();
        assert_eq!(clients.check_grace(known, true), Ok(()));
        assert_eq!(clients.check_grace(known, false), Err(NfsStatus::Grace));
        assert_eq!(clients.check_grace(unknown, true), Err(NfsStatus::NoGrace));
        assert!(clients.poll_grace(5000).is_some());
        assert!(!clients.drops_record(known));
        clients.grace_finished();
        assert_eq!(clients.check_grace(known, true), Err(NfsStatus::NoGrace));
        assert_eq!(clients.check_grace(known, false), Ok(()));
        assert_eq!(clients.check_grace(unknown, false), Ok(()));
    }
    #[test]
    fn a_host_that_tells_a_newer_state_has_restarted() {
        let mut clients = table(Grace::none());
        assert!(clients.restarted_host(b"a", state(3), true).is_none());
        let (id, _) = clients.host(b"a", 0, |_| false).unwrap();
        assert!(clients.restarted_host(b"a", state(3), false).is_none());
        clients.note_nsm_state(id, state(3));
        clients.note_nsm_state(id, state(1));
        for late in [1, 3] {
            assert!(!clients.is_news_of_host(b"a", state(late)));
            assert!(clients.restarted_host(b"a", state(late), true).is_none());
        }
        assert!(clients.is_news_of_host(b"a", state(5)));
        assert!(!clients.is_news_of_host(b"b", state(5)));
        let gone = clients.restarted_host(b"a", state(5), false).unwrap();
        assert_eq!((gone.client, clients.find_host(b"a")), (id, None));
        let (unknown, _) = clients.host(b"a", 0, |_| false).unwrap();
        let gone = clients.restarted_host(b"a", state(1), true).unwrap();
        assert_eq!(gone.client, unknown);
    }

    #[test]
    fn a_record_has_the_newest_state_and_a_state_that_comes_later_asks_for_another() {
        let mut clients = table(Grace::none());
        let (id, _) = clients.host(b"a", 0, |_| false).unwrap();
        let wanted = |clients: &Clients| {
            let record = clients.record_needed(id, true)?;
            Some(NsmState::of_verifier(record.verifier))
        };
        assert_eq!(wanted(&clients), Some(None));
        clients.record_stored(id, false, 7);
        assert_eq!(wanted(&clients), None);
        clients.note_nsm_state(id, state(3));
        assert_eq!(wanted(&clients), Some(Some(state(3))));
        clients.record_stored(id, false, 8);
        clients.note_nsm_state(id, state(3));
        assert_eq!(wanted(&clients), None);
    }

    #[test]
    fn what_a_host_told_before_a_restart_is_known_after_it() {
        let records = [ClientRecord {
            verifier: NsmState::to_verifier(Some(state(5))),
            ..record(b"a", false)
        }];
        let mut clients = table(Grace::begin(records, 0, 1000));
        let (id, _) = clients.host(b"a", 0, |_| false).unwrap();
        assert_eq!(clients.check_grace(id, true), Ok(()));
        assert!(clients.restarted_host(b"a", state(5), true).is_none());
        assert!(clients.restarted_host(b"a", state(7), true).is_some());
        let (anew, _) = clients.host(b"a", 0, |_| false).unwrap();
        assert_eq!(clients.check_grace(anew, true), Err(NfsStatus::NoGrace));
    }
}
