//! Clients of NFSv4.0: SETCLIENTID, SETCLIENTID_CONFIRM and leases without sessions (RFC 7530 §9.1.1, §16.33, §16.34).
//!
//! They are in the same table as the clients of EXCHANGE_ID, with ids of the same counter, so leases, courtesy, revocation and
//! records are those of all clients. Their names are apart from those of EXCHANGE_ID ([`OWNER_PREFIX`]): one machine may
//! use both protocols at a time, and is two clients then.
//!
//! # Ordering
//! NFSv4.0 has no RECLAIM_COMPLETE, so the end of a reclaim is inferred.
//!
//! | A client | has completed its reclaim |
//! |---|---|
//! | without a record of the run before, or confirmed when grace is over | at once |
//! | that takes new state after grace | then: clients do so when they are through with what they had |
//! | whose lease was renewed later than a lease after the end of grace | then: each later reclaim of its has been refused |
//!
//! Until then it has no record after grace ([`Clients::drops_record`]). It may hold a part of what it had, and must not
//! reclaim the rest after another restart, since others may have had that in between (RFC 7530 §9.6.3.4.2). The price: after
//! a second restart within that time a client that took nothing new reclaims nothing.
//!
//! # Failure
//! A client that is gone because its lease was over is remembered a while, to be told `Expired` and not `StaleClientId`.

use std::sync::Arc;

use nfs4::{ClientId, NfsStatus, Verifier};

use super::exchange::ExchangeArgs;
use super::minor_0_record::{CallbackTarget, Minor0};
use super::record::{OWNER_BYTES_MAX, OWNER_PREFIX, PRINCIPAL_BYTES_MAX, Principal};
use super::table::{Clients, RemovedClient};

/// Arguments of SETCLIENTID.
#[derive(Debug)]
pub struct SetClientIdRequest<'a> {
    /// `client.id`.
    pub id: &'a [u8],
    /// `client.verifier`.
    pub verifier: Verifier,
    /// Who asks.
    pub principal: &'a Principal,
    /// Where callbacks go.
    pub callback: CallbackTarget,
    /// For `setclientid_confirm`.
    pub random: u64,
}

/// An answer to SETCLIENTID.
#[derive(Debug, PartialEq, Eq)]
pub enum SetClientId {
    /// The id, and what is to be shown in SETCLIENTID_CONFIRM.
    Set(ClientId, Verifier),
    /// Another principal has the name; its `r_netid` and `r_addr`.
    InUse(Vec<u8>, Vec<u8>),
}

/// A successful SETCLIENTID_CONFIRM.
#[derive(Debug, PartialEq, Eq)]
pub struct ClientIdConfirmed {
    /// Callbacks go to another place from now on.
    pub is_news: bool,
    /// Clients that gave way.
    pub removed: Vec<RemovedClient>,
}

impl Clients {
    /// SETCLIENTID: the cases of RFC 7530 §16.33.5.
    ///
    /// # Errors
    /// `Inval` for an empty name or one beyond the limits; `Delay` when all client ids of this run are used.
    pub fn set_client_id(
        &mut self,
        args: SetClientIdRequest<'_>,
        now_ms: u64,
        has_state: impl Fn(ClientId) -> bool,
    ) -> Result<SetClientId, NfsStatus> {
        let owner = [OWNER_PREFIX, args.id].concat();
        if args.id.is_empty()
            || owner.len() > OWNER_BYTES_MAX
            || args.principal.0.len() > PRINCIPAL_BYTES_MAX
        {
            return Err(NfsStatus::Inval);
        }
        let confirm = Verifier {
            bytes: args.random.to_be_bytes(),
        };
        let confirmed = self.owners.get(&owner).and_then(|e| e.confirmed);
        if let Some(id) = confirmed
            && let Some(client) = self.clients.get(&id).filter(|c| !c.is_ending())
        {
            let is_live = has_state(id) && !self.is_lapsed(client, now_ms);
            let (is_own, is_same) = (
                client.principal == *args.principal,
                client.verifier == args.verifier,
            );
            if !is_own && is_live {
                let callback = client.minor_0.as_ref().map(|m| m.callback.clone());
                let (netid, uaddr) = callback.map_or_else(Default::default, |c| (c.netid, c.uaddr));
                return Ok(SetClientId::InUse(netid, uaddr));
            }
            // Probably another callback. The one in use stays until the new one is confirmed.
            if is_own && is_same {
                self.drop_unconfirmed(&owner);
                let client = self.clients.get_mut(&id);
                if let Some(minor_0) = client.and_then(|c| c.minor_0.as_mut()) {
                    minor_0.pending = Some((confirm, args.callback));
                }
                return Ok(SetClientId::Set(id, confirm));
            }
        }
        let id = self.next_client_id()?;
        self.drop_unconfirmed(&owner);
        let exchange = ExchangeArgs {
            owner: &owner,
            verifier: args.verifier,
            principal: args.principal,
            update: false,
            bind_enforced: false,
        };
        self.add_unconfirmed(id, &exchange, now_ms);
        if let Some(client) = self.clients.get_mut(&id) {
            client.minor_0 = Some(Box::new(Minor0 {
                confirm,
                callback: args.callback,
                pending: None,
                running_count: 0,
                is_ending: false,
            }));
        }
        Ok(SetClientId::Set(id, confirm))
    }

    /// SETCLIENTID_CONFIRM: the cases of RFC 7530 §16.34.5. A new incarnation ends the one before.
    ///
    /// # Errors
    /// `StaleClientId` for what SETCLIENTID did not answer, `ClidInUse` for another principal, `Delay` where there is no
    /// room for one more client.
    pub fn set_client_id_confirm(
        &mut self,
        id: ClientId,
        confirm: Verifier,
        principal: &Principal,
        now_ms: u64,
        has_state: impl Fn(ClientId) -> bool,
    ) -> Result<ClientIdConfirmed, NfsStatus> {
        let stale = NfsStatus::StaleClientId;
        let client = self.clients.get_mut(&id).ok_or(stale)?;
        let minor_0 = client.minor_0.as_mut().ok_or(stale)?;
        let is_pending = matches!(&minor_0.pending, Some((verifier, _)) if *verifier == confirm);
        if !is_pending && minor_0.confirm != confirm {
            return Err(stale);
        }
        if client.principal != *principal {
            return Err(NfsStatus::ClidInUse);
        }
        client.renewed_ms = now_ms;
        if is_pending && let Some((verifier, callback)) = minor_0.pending.take() {
            (minor_0.confirm, minor_0.callback) = (verifier, callback);
        }
        let mut removed = Vec::new();
        let is_news = is_pending || !client.confirmed;
        if !client.confirmed {
            let evicted = self.make_room(id, now_ms, has_state)?;
            self.unconfirmed.remove(&id);
            if let Some(client) = self.clients.get_mut(&id) {
                client.confirmed = true;
            }
            removed.extend(self.confirm(id));
            removed.extend(evicted.and_then(|id| self.remove(id)));
            if let Some(client) = self.clients.get_mut(&id) {
                let (owner, principal) = (&client.owner, &client.principal.0);
                client.reclaim_complete =
                    !self.grace.may_reclaim(owner, client.verifier, principal);
            }
        }
        Ok(ClientIdConfirmed { is_news, removed })
    }

    /// A request of this client begins: its lease is renewed, and goes on until [`Clients::end_minor_0`]. Answers its name, which
    /// requests act under.
    ///
    /// # Errors
    /// `StaleClientId` for a client of no SETCLIENTID that was confirmed, `Expired` for one whose lease was over and
    /// whose state went.
    pub fn begin_minor_0(&mut self, id: ClientId, now_ms: u64) -> Result<Arc<[u8]>, NfsStatus> {
        if (self.clients.get(&id)).is_some_and(|c| c.is_ending() || c.is_evicted) {
            return Err(NfsStatus::Expired);
        }
        let client = self.clients.get_mut(&id).filter(|c| c.confirmed);
        let Some((client, true)) = client.map(|c| {
            let is_minor_0 = c.minor_0.is_some();
            (c, is_minor_0)
        }) else {
            return Err(match self.minor_0.expired.contains(&id) {
                true => NfsStatus::Expired,
                false => NfsStatus::StaleClientId,
            });
        };
        client.renewed_ms = client.renewed_ms.max(now_ms);
        if let Some(minor_0) = &mut client.minor_0 {
            minor_0.running_count += 1;
        }
        Ok(Arc::clone(&client.owner))
    }

    /// A client of NFSv4.0 has lost something with its lease. It is told `Expired` from now on, and the next [`Clients::expire`] ends it.
    /// Other clients are told by flags of their sessions.
    pub fn end_minor_0_soon(&mut self, id: ClientId) {
        if let Some(minor_0) = self.clients.get_mut(&id).and_then(|c| c.minor_0.as_mut()) {
            minor_0.is_ending = true;
        }
    }

    /// A request of this client has ended.
    pub fn end_minor_0(&mut self, id: ClientId) {
        if let Some(minor_0) = self.clients.get_mut(&id).and_then(|c| c.minor_0.as_mut()) {
            minor_0.running_count = minor_0.running_count.saturating_sub(1);
        }
    }

    /// Where a client of NFSv4.0 takes callbacks, and what names this place. `None` for other clients.
    #[must_use]
    pub fn callback_target(&self, id: ClientId) -> Option<(Verifier, &CallbackTarget)> {
        let client = self.clients.get(&id).filter(|c| c.confirmed)?;
        let minor_0 = client.minor_0.as_ref()?;
        Some((minor_0.confirm, &minor_0.callback))
    }

    /// Whether this is a client of NFSv4.0.
    #[must_use]
    pub fn is_minor_0(&self, id: ClientId) -> bool {
        (self.clients.get(&id)).is_some_and(|c| c.minor_0.is_some())
    }

    /// Clients of NFSv4.0 that have shown, by their renewals since the end of grace, that their reclaim is over: see the
    /// module. The caller gives them their records. To be called every few seconds.
    #[must_use]
    pub fn reclaims_over(&mut self, now_ms: u64) -> Vec<ClientId> {
        if self.grace.is_active() {
            return Vec::new();
        }
        let over_ms = *self.minor_0.grace_over_ms.get_or_insert(now_ms);
        let lease_ms = self.limits.lease_ms;
        let mut over = Vec::new();
        for (id, client) in &mut self.clients {
            let has_renewed = client.renewed_ms > over_ms.saturating_add(lease_ms);
            let is_asked = client.minor_0.is_some() && client.confirmed && !client.reclaim_complete;
            if is_asked && has_renewed {
                client.reclaim_complete = true;
                over.push(*id);
            }
        }
        over
    }
}
