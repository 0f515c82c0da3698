//! EXCHANGE_ID: the nine cases of RFC 8881 §18.35.4, and DESTROY_CLIENTID (§18.50).

use nfs4::{ClientId, NfsStatus, Verifier};

use super::record::{OWNER_BYTES_MAX, OWNER_PREFIX, PRINCIPAL_BYTES_MAX, Principal};
use super::table::{Client, Clients, CreateSlot, Recorded, RemovedClient};

/// The arguments that decide about client records.
#[derive(Debug, Clone, Copy)]
pub struct ExchangeArgs<'a> {
    /// `co_ownerid`.
    pub owner: &'a [u8],
    /// `co_verifier`.
    pub verifier: Verifier,
    /// Who asks.
    pub principal: &'a Principal,
    /// EXCHGID4_FLAG_UPD_CONFIRMED_REC_A.
    pub update: bool,
    /// State protection demands that connections be bound (SP4_MACH_CRED).
    pub bind_enforced: bool,
}

/// A successful EXCHANGE_ID.
#[derive(Debug, PartialEq, Eq)]
pub struct Exchanged {
    /// `eir_clientid`.
    pub client: ClientId,
    /// `eir_sequenceid`: of the first (or next) CREATE_SESSION.
    pub create_seqid: u32,
    /// EXCHGID4_FLAG_CONFIRMED_R.
    pub confirmed: bool,
    /// A client whose record gave way.
    pub removed: Option<RemovedClient>,
}

impl Clients {
    /// EXCHANGE_ID. `has_state` tells whether a client has opens, locks, layouts or the like.
    ///
    /// # Errors
    /// `ClidInUse`, `NoEnt`, `NotSame`, `Perm` as the cases say. `Inval` for an empty owner or one
    /// beyond the limits; `Delay` when all client ids of this run are used.
    pub fn exchange_id(
        &mut self,
        args: &ExchangeArgs<'_>,
        now_ms: u64,
        has_state: impl Fn(ClientId) -> bool,
    ) -> Result<Exchanged, NfsStatus> {
        if args.owner.is_empty()
            || args.owner.starts_with(OWNER_PREFIX)
            || args.owner.len() > OWNER_BYTES_MAX
            || args.principal.0.len() > PRINCIPAL_BYTES_MAX
        {
            return Err(NfsStatus::Inval);
        }
        let entry = self.owners.get(args.owner).copied().unwrap_or_default();
        let confirmed = entry
            .confirmed
            .and_then(|id| self.clients.get(&id).map(|c| (id, &**c)));
        if args.update {
            return Self::update(args, confirmed);
        }
        let mut collided = None;
        if let Some((id, client)) = confirmed {
            if client.principal != *args.principal {
                // Case 3: a collision; only a client with live state keeps its name.
                if has_state(id) && !self.is_lapsed(client, now_ms) {
                    return Err(NfsStatus::ClidInUse);
                }
                collided = Some(id);
            } else if client.verifier == args.verifier {
                // Case 2: a retry, or a probe for trunking.
                let create_seqid = client.create_seqid.wrapping_add(1);
                self.drop_unconfirmed(args.owner);
                return Ok(Exchanged {
                    client: id,
                    create_seqid,
                    confirmed: true,
                    removed: None,
                });
            }
            // Else case 5, a restart: the old record stays until CREATE_SESSION confirms the new.
        }
        let id = self.next_client_id()?;
        let removed = collided.and_then(|id| self.remove(id));
        // Case 4, and the second half of case 5.
        self.drop_unconfirmed(args.owner);
        self.add_unconfirmed(id, args, now_ms);
        Ok(Exchanged {
            client: id,
            create_seqid: 1,
            confirmed: false,
            removed,
        })
    }

    /// Cases 6 to 9.
    fn update(
        args: &ExchangeArgs<'_>,
        confirmed: Option<(ClientId, &Client)>,
    ) -> Result<Exchanged, NfsStatus> {
        let (id, client) = confirmed.ok_or(NfsStatus::NoEnt)?;
        if client.verifier != args.verifier {
            return Err(NfsStatus::NotSame);
        }
        if client.principal != *args.principal {
            return Err(NfsStatus::Perm);
        }
        Ok(Exchanged {
            client: id,
            create_seqid: client.create_seqid.wrapping_add(1),
            confirmed: true,
            removed: None,
        })
    }

    pub(super) fn next_client_id(&mut self) -> Result<ClientId, NfsStatus> {
        self.client_counter = self.client_counter.checked_add(1).ok_or(NfsStatus::Delay)?;
        Ok(ClientId {
            value: u64::from(self.boot) << 32 | u64::from(self.client_counter),
        })
    }

    /// An unconfirmed client has no sessions, state or record, so nobody need know.
    pub(super) fn drop_unconfirmed(&mut self, owner: &[u8]) {
        if let Some(id) = self.owners.get(owner).and_then(|e| e.unconfirmed) {
            let _nothing_held = self.remove(id);
        }
    }

    pub(super) fn add_unconfirmed(&mut self, id: ClientId, args: &ExchangeArgs<'_>, now_ms: u64) {
        if self.unconfirmed.len() >= self.limits.unconfirmed_clients_max
            && let Some(oldest) = self.unconfirmed.first()
        {
            // Ids count up, so the first is the oldest.
            let _nothing_held = self.remove(*oldest);
        }
        self.unconfirmed.insert(id);
        self.clients.insert(
            id,
            Box::new(Client {
                owner: args.owner.into(),
                verifier: args.verifier,
                principal: args.principal.clone(),
                confirmed: false,
                is_evicted: false,
                is_host: false,
                nsm_state: None,
                bind_enforced: args.bind_enforced,
                renewed_ms: now_ms,
                create_seqid: 0,
                create_slot: CreateSlot::Unused,
                sessions: Vec::new(),
                reclaim_complete: false,
                recorded: Recorded::No,
                took_ms: now_ms,
                minor_0: None,
            }),
        );
        self.owners
            .entry(args.owner.to_vec())
            .or_default()
            .unconfirmed = Some(id);
    }

    /// DESTROY_CLIENTID.
    ///
    /// # Errors
    /// `StaleClientId` if unknown, `ClientIdBusy` while it has sessions or state.
    pub fn destroy_client(
        &mut self,
        id: ClientId,
        has_state: impl Fn(ClientId) -> bool,
    ) -> Result<RemovedClient, NfsStatus> {
        let known = self.clients.get(&id).filter(|c| c.minor_0.is_none());
        let client = known.ok_or(NfsStatus::StaleClientId)?;
        if !client.sessions.is_empty() || has_state(id) {
            return Err(NfsStatus::ClientIdBusy);
        }
        self.remove(id).ok_or(NfsStatus::StaleClientId)
    }
}
