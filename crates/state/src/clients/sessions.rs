//! CREATE_SESSION, DESTROY_SESSION and SEQUENCE (RFC 8881 §18.36, §18.37, §18.46).

use nfs4::{ClientId, NfsStatus, SessionId};

use super::record::Principal;
use super::table::{Clients, CreateSlot, RemovedClient, SessionCreated};
use crate::{
    BindRequest, BoundDirection, CallbackSecurity, ChannelAttrs, Channels, Sequence, Session,
    SessionName, SlotToken, Verdict, status_flags,
};

/// The arguments of CREATE_SESSION, and where it came from.
#[derive(Debug, Clone)]
pub struct CreateSessionArgs<'a> {
    /// `csa_clientid`.
    pub client: ClientId,
    /// `csa_sequence`.
    pub seqid: u32,
    /// Who asks.
    pub principal: &'a Principal,
    /// `csa_fore_chan_attrs`.
    pub fore: ChannelAttrs,
    /// `csa_back_chan_attrs`.
    pub back: ChannelAttrs,
    /// CREATE_SESSION4_FLAG_CONN_BACK_CHAN, where the connection's transport can do it.
    pub back_channel: bool,
    /// CREATE_SESSION4_FLAG_PERSIST, where the server can do it.
    pub persistent: bool,
    /// `csa_cb_program`.
    pub callback_program: u32,
    /// The first usable of `csa_sec_parms`.
    pub callback_security: CallbackSecurity,
    /// The connection.
    pub connection: u64,
    /// Random bits for the session id, so that it cannot be guessed.
    pub random: u64,
    /// What the caller found wrong with arguments that are no business of the table. It is answered
    /// in its turn, after the client and the sequence id.
    pub refused: Option<NfsStatus>,
}

/// Outcome of CREATE_SESSION.
#[derive(Debug, PartialEq, Eq)]
pub enum CreateSession {
    /// Executed now.
    New {
        /// The answer.
        created: SessionCreated,
        /// The previous incarnation, which this confirmation replaces, or lapsed clients that gave
        /// way.
        removed: Vec<RemovedClient>,
    },
    /// A retry: the answer of the first time.
    Replay(SessionCreated),
}

/// A SEQUENCE that did not fail for want of a session.
#[derive(Debug, PartialEq, Eq)]
pub struct Sequenced {
    /// The client of the session.
    pub client: ClientId,
    /// Its `co_ownerid`.
    pub owner: std::sync::Arc<[u8]>,
    /// What to do.
    pub verdict: Verdict,
    /// `sr_highest_slotid`.
    pub highest_slot: u32,
    /// `sr_target_highest_slotid`.
    pub target_highest_slot: u32,
    /// `sr_status_flags`, without those of revoked state and devices, which the caller adds.
    pub status_flags: u32,
}

impl Clients {
    /// CREATE_SESSION, in the four phases of RFC 8881 §18.36.4. The principal matters for the confirmation only, unless
    /// state is protected. It is checked before the sequence id, so that a stranger cannot use up the client's.
    ///
    /// # Errors
    /// `StaleClientId`, `ClidInUse`, `SeqMisordered` and `Delay` leave no trace. After `TooSmall`, `Inval`, `NoEnt`
    /// and `NoSpc` both the same sequence id and the next one are good.
    pub fn create_session(
        &mut self,
        args: CreateSessionArgs<'_>,
        now_ms: u64,
        has_state: impl Fn(ClientId) -> bool,
    ) -> Result<CreateSession, NfsStatus> {
        let client = self
            .clients
            .get(&args.client)
            .filter(|c| c.minor_0.is_none() && !c.is_evicted)
            .ok_or(NfsStatus::StaleClientId)?;
        let proves_owner = !client.confirmed || client.bind_enforced;
        if proves_owner && client.principal != *args.principal {
            return Err(NfsStatus::ClidInUse);
        }
        let is_same = args.seqid == client.create_seqid;
        let is_next = args.seqid == client.create_seqid.wrapping_add(1);
        match client.create_slot {
            CreateSlot::Created(created) if is_same => return Ok(CreateSession::Replay(created)),
            CreateSlot::Refused if is_same => {}
            _ if is_next => {}
            _ => return Err(NfsStatus::SeqMisordered),
        }
        let evicted = if client.confirmed {
            None
        } else {
            self.make_room(args.client, now_ms, has_state)?
        };
        let id = args.client;
        let seqid = args.seqid;
        let result = self.establish(args);
        let client = self
            .clients
            .get_mut(&id)
            .expect("the client was found above and nothing was removed since");
        client.create_seqid = seqid;
        client.create_slot = result.map_or(CreateSlot::Refused, CreateSlot::Created);
        let created = result?;
        client.renewed_ms = now_ms;
        let mut removed = Vec::new();
        if !client.confirmed {
            client.confirmed = true;
            self.unconfirmed.remove(&id);
            removed.extend(self.confirm(id));
            removed.extend(evicted.and_then(|id| self.remove(id)));
        }
        Ok(CreateSession::New { created, removed })
    }

    /// The new record replaces a confirmed one of the same owner.
    pub(super) fn confirm(&mut self, id: ClientId) -> Option<RemovedClient> {
        let client = self.clients.get(&id)?;
        let (owner, verifier, principal) = (
            client.owner.to_vec(),
            client.verifier,
            client.principal.0.clone(),
        );
        self.grace.supersede(&owner, verifier, &principal);
        let old = self.owners.get(&owner).and_then(|e| e.confirmed);
        let removed = old.and_then(|old| self.remove(old));
        let entry = self.owners.entry(owner).or_default();
        entry.confirmed = Some(id);
        entry.unconfirmed = None;
        removed
    }

    fn establish(&mut self, args: CreateSessionArgs<'_>) -> Result<SessionCreated, NfsStatus> {
        if let Some(status) = args.refused {
            return Err(status);
        }
        let fore = self.limits.channel.fore(&args.fore)?;
        let back = self.limits.channel.back(&args.back);
        let back_slots = match self.limits.callbacks {
            true => self.limits.channel.back_slots(&args.back),
            false => 0,
        };
        let client = self
            .clients
            .get_mut(&args.client)
            .ok_or(NfsStatus::StaleClientId)?;
        if client.sessions.len() >= self.limits.sessions_per_client_max {
            return Err(NfsStatus::NoSpc);
        }
        self.session_counter = self
            .session_counter
            .checked_add(1)
            .ok_or(NfsStatus::NoSpc)?;
        let id = SessionName {
            boot: self.boot,
            is_persistent: args.persistent,
        };
        let id = id.with(self.session_counter, args.random);
        let channels = Channels {
            fore,
            back,
            back_slots,
        };
        let mut session = Session::new(id, args.client, channels, client.bind_enforced);
        session.persistent = args.persistent;
        session.callback_program = args.callback_program;
        session.callback_security = args.callback_security;
        let request = if args.back_channel {
            BindRequest::ForeOrBoth
        } else {
            BindRequest::Fore
        };
        let direction = session.bind(args.connection, request, args.back_channel)?;
        client.sessions.push(id);
        self.sessions.insert(id, Box::new(session));
        self.bindings.add(args.connection, id);
        self.share_slots();
        self.limit_slots(id);
        Ok(SessionCreated {
            session: id,
            seqid: args.seqid,
            back_channel: direction == BoundDirection::Both,
            persistent: args.persistent,
            fore,
            back,
        })
    }

    /// DESTROY_SESSION. `own_requests_count` is 1 when the COMPOUND began with a SEQUENCE of this very session, else 0.
    /// It must come on a connection of the session (RFC 8881 §18.37.3), unless none is left. Then nobody else is there
    /// to be protected, and the client need not bind one first.
    ///
    /// # Errors
    /// `BadSession`; `ConnNotBoundToSession`; `Delay` while other requests run in it;
    /// `BackChanBusy`
    /// while callbacks are unanswered.
    pub fn destroy_session(
        &mut self,
        id: SessionId,
        connection: u64,
        own_requests_count: u32,
    ) -> Result<(), NfsStatus> {
        let session = self.sessions.get(&id).ok_or(NfsStatus::BadSession)?;
        let is_orphan = session.connections().next().is_none() && !session.bind_enforced;
        if session.direction(connection).is_none() && !is_orphan {
            return Err(NfsStatus::ConnNotBoundToSession);
        }
        if session.slots.running_count() > own_requests_count {
            return Err(NfsStatus::Delay);
        }
        // A callback that only waits for a lost connection would keep the session for ever.
        if session.back_channel.outstanding_count() > 0 && session.has_back_channel() {
            return Err(NfsStatus::BackChanBusy);
        }
        let session = self.remove_session(id).ok_or(NfsStatus::BadSession)?;
        if let Some(client) = self.clients.get_mut(&session.client) {
            client.sessions.retain(|s| *s != id);
        }
        Ok(())
    }

    /// SEQUENCE. Renews the lease when it succeeds, unless `all_revoked` says that the reply will
    /// carry SEQ4_STATUS_EXPIRED_ALL_STATE_REVOKED (RFC 8881 §18.46.3).
    ///
    /// # Errors
    /// `BadSession`, `ConnNotBoundToSession`.
    pub fn sequence(
        &mut self,
        id: SessionId,
        connection: u64,
        request: &Sequence,
        now_ms: u64,
        all_revoked: bool,
    ) -> Result<Sequenced, NfsStatus> {
        let session = self.sessions.get_mut(&id).ok_or(NfsStatus::BadSession)?;
        if (self.clients.get(&session.client)).is_none_or(|c| c.is_evicted) {
            return Err(NfsStatus::BadSession);
        }
        if session.admit(connection)? {
            self.bindings.add(connection, id);
        }
        let before = session.slots.held_bytes();
        let room = (self.limits.reply_cache_bytes_max).saturating_sub(self.reply_bytes);
        let verdict = session.slots.sequence(request, room);
        self.reply_bytes = self.reply_bytes - before + session.slots.held_bytes();
        let client_id = session.client;
        let target_highest_slot = session.slots.highest_target();
        let highest_slot = match room < u64::from(session.fore.response_cached_bytes_max) {
            // No more than that is served any longer to a client that wants its replies kept.
            true => target_highest_slot,
            false => session.slots.highest_enforced(),
        };
        let succeeded = matches!(
            verdict,
            Verdict::New(_) | Verdict::Replay(_) | Verdict::Uncached
        );
        let client = self
            .clients
            .get_mut(&client_id)
            .ok_or(NfsStatus::BadSession)?;
        if succeeded && !all_revoked {
            client.renewed_ms = client.renewed_ms.max(now_ms);
        }
        let owner = std::sync::Arc::clone(&client.owner);
        Ok(Sequenced {
            client: client_id,
            owner,
            verdict,
            highest_slot,
            target_highest_slot,
            status_flags: self.sequence_flags(id),
        })
    }

    /// Ends the request of `token` (see [`crate::SlotTable::complete`]). Returns whether the reply is
    /// kept; false also when the session is gone.
    pub fn complete(
        &mut self,
        id: SessionId,
        token: SlotToken,
        reply: Option<std::sync::Arc<[u8]>>,
    ) -> bool {
        let Some(session) = self.sessions.get_mut(&id) else {
            return false;
        };
        let before = session.slots.held_bytes();
        let room = (self.limits.reply_cache_bytes_max).saturating_sub(self.reply_bytes);
        let is_kept = session.slots.complete(token, reply, room);
        self.reply_bytes = self.reply_bytes - before + session.slots.held_bytes();
        is_kept
    }

    /// The status flags of a session that follow from connections and from the restart.
    #[must_use]
    pub fn sequence_flags(&self, id: SessionId) -> u32 {
        let Some(session) = self.sessions.get(&id) else {
            return 0;
        };
        let Some(client) = self.clients.get(&session.client) else {
            return 0;
        };
        let mut flags = 0;
        if self.limits.callbacks {
            flags |= session.status_flags();
            let any_back = client
                .sessions
                .iter()
                .any(|s| self.sessions.get(s).is_some_and(|s| s.has_back_channel()));
            if !any_back {
                flags |= status_flags::CB_PATH_DOWN;
            }
        }
        if !client.reclaim_complete
            && self
                .grace
                .may_reclaim(&client.owner, client.verifier, &client.principal.0)
        {
            flags |= status_flags::RESTART_RECLAIM_NEEDED;
        }
        flags
    }
}
