//! The table itself: clients by id and by owner, and their sessions.

use std::collections::{BTreeMap, BTreeSet};

use nfs4::{ClientId, SessionId, Verifier};

use super::connection_index::Bindings;
use super::minor_0_record::{Minor0, Minor0Table};
use super::record::Principal;
use crate::{ChannelAttrs, ChannelLimits, Grace, NsmState, Session};

/// A created session: what CREATE_SESSION answers, the first time and for each retry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionCreated {
    /// `csr_sessionid`.
    pub session: SessionId,
    /// `csr_sequence`.
    pub seqid: u32,
    /// CREATE_SESSION4_FLAG_CONN_BACK_CHAN of `csr_flags`. CONN_RDMA is never granted.
    pub back_channel: bool,
    /// CREATE_SESSION4_FLAG_PERSIST of `csr_flags`.
    pub persistent: bool,
    /// `csr_fore_chan_attrs`.
    pub fore: ChannelAttrs,
    /// `csr_back_chan_attrs`.
    pub back: ChannelAttrs,
}

/// What the durable record of a client says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Recorded {
    /// There is none.
    No,
    /// That it holds nothing, or it says more than is true.
    HoldsNothing,
    /// That it may hold something, since the transaction of this number.
    Holds { seq: u64 },
}

/// The limits of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientLimits {
    /// Most confirmed clients. Beyond it a lapsed client gives way, or CREATE_SESSION gets DELAY.
    pub clients_max: usize,
    /// Most hosts of NLM; beyond it one that holds nothing gives way, or its LOCK is refused.
    pub hosts_max: usize,
    /// Most clients between EXCHANGE_ID and CREATE_SESSION; the oldest gives way.
    pub unconfirmed_clients_max: usize,
    /// Most sessions of a client; beyond it CREATE_SESSION gets NOSPC.
    pub sessions_per_client_max: usize,
    /// Most fore slots of all sessions together that clients are asked to use. With the largest reply that a slot keeps this
    /// bounds the reply caches. Each session's share is the same, and it shrinks and grows with their number.
    pub slots_total_max: u32,
    /// Bytes that the replies in all slots may take while clients use more slots than they are asked to. Beyond it such
    /// slots keep none, and those within the share keep only what their clients want kept (see
    /// [`crate::SlotTable::sequence`]).
    pub reply_cache_bytes_max: u64,
    /// Length of a lease in milliseconds.
    pub lease_ms: u64,
    /// How long, in milliseconds after its lease, a client keeps state that nobody else wants.
    pub courtesy_ms: u64,
    /// Most clients kept so; the longest lapsed goes first.
    pub courtesy_clients_max: usize,
    /// What sessions are granted.
    pub channel: ChannelLimits,
    /// Whether this server ever calls back. If not (a data server), sessions get no back channel and
    /// SEQUENCE never complains of its absence, which Linux would try to repair for ever.
    pub callbacks: bool,
}

impl Default for ClientLimits {
    fn default() -> Self {
        Self {
            clients_max: 16_384,
            hosts_max: 4096,
            unconfirmed_clients_max: 4096,
            sessions_per_client_max: 16,
            slots_total_max: 131_072,
            // What as many slots hold at most.
            reply_cache_bytes_max: 512 << 20,
            lease_ms: 90_000,
            courtesy_ms: 24 * 3_600_000,
            courtesy_clients_max: 1024,
            channel: ChannelLimits::default(),
            callbacks: true,
        }
    }
}

/// A client that is no more. See the module for what the caller owes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "the client's state and its durable record must be removed"]
pub struct RemovedClient {
    /// Its id.
    pub client: ClientId,
    /// Its `co_ownerid`.
    pub owner: Vec<u8>,
    /// Its sessions, now gone.
    pub sessions: Vec<SessionId>,
    /// Whether a durable record may exist.
    pub recorded: bool,
}

/// Life of a client record.
///
/// ```text
///   EXCHANGE_ID ─► unconfirmed ─ CREATE_SESSION ─► confirmed ⇄ lapsed (lease over, state kept)
///                     │ lease, replaced                │            │ courtesy over, conflict
///                     ▼                                ▼            ▼
///                   gone        DESTROY_CLIENTID, restart ─────► Removed
/// ```
#[derive(Debug)]
pub(super) struct Client {
    pub(super) owner: std::sync::Arc<[u8]>,
    pub(super) verifier: Verifier,
    pub(super) principal: Principal,
    pub(super) confirmed: bool,
    /// An administrator has ended its lease: its requests are refused, and it goes as soon as none runs.
    pub(super) is_evicted: bool,
    /// A host of NLM: it has no lease and no sessions.
    pub(super) is_host: bool,
    /// The newest NSM state that a host has told.
    pub(super) nsm_state: Option<NsmState>,
    /// Sessions demand bound connections (SP4_MACH_CRED).
    pub(super) bind_enforced: bool,
    /// Last renewal of the lease.
    pub(super) renewed_ms: u64,
    /// The slot of CREATE_SESSION: sequence id of the last one executed, and what became of it.
    pub(super) create_seqid: u32,
    pub(super) create_slot: CreateSlot,
    pub(super) sessions: Vec<SessionId>,
    pub(super) reclaim_complete: bool,
    /// The durable record under this id.
    pub(super) recorded: Recorded,
    /// When it was last about to take state.
    pub(super) took_ms: u64,
    /// Of a client of NFSv4.0.
    pub(super) minor_0: Option<Box<Minor0>>,
}

/// The only slot of the CREATE_SESSION reply cache (RFC 8881 §18.36.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CreateSlot {
    /// Nothing yet: stands for the contrived SEQ_MISORDERED.
    Unused,
    /// Refused, so nothing was made: the same sequence id is executed again, as is the next one. Clients differ in
    /// whether a refusal uses up the id.
    Refused,
    /// Executed.
    Created(SessionCreated),
}

#[derive(Debug, Default, Clone, Copy)]
pub(super) struct OwnerEntry {
    pub(super) confirmed: Option<ClientId>,
    pub(super) unconfirmed: Option<ClientId>,
}

/// The clients of one server run.
#[derive(Debug)]
pub struct Clients {
    pub(super) limits: ClientLimits,
    pub(super) boot: u32,
    pub(super) client_counter: u32,
    pub(super) session_counter: u32,
    pub(super) grace: Grace,
    pub(super) clients: BTreeMap<ClientId, Box<Client>>,
    /// Those of them that are not confirmed.
    pub(super) unconfirmed: BTreeSet<ClientId>,
    pub(super) owners: BTreeMap<Vec<u8>, OwnerEntry>,
    /// Hosts of NLM by name.
    pub(super) hosts: BTreeMap<std::sync::Arc<[u8]>, ClientId>,
    /// Behind pointers: the nodes of a tree are filled by little more than half.
    pub(super) sessions: BTreeMap<SessionId, Box<Session>>,
    pub(super) bindings: Bindings,
    /// Slots that each session was last asked to keep to.
    pub(super) slots_share: u32,
    /// What the slot tables of all sessions hold, or have reserved.
    pub(super) reply_bytes: u64,
    pub(super) minor_0: Minor0Table,
}

impl Clients {
    /// An empty table. `boot` was never used before by this server: it makes ids unique for ever.
    #[must_use]
    pub fn new(limits: ClientLimits, boot: u32, grace: Grace) -> Self {
        Self {
            limits,
            boot,
            client_counter: 0,
            session_counter: 0,
            grace,
            clients: BTreeMap::new(),
            unconfirmed: BTreeSet::new(),
            owners: BTreeMap::new(),
            hosts: BTreeMap::new(),
            sessions: BTreeMap::new(),
            bindings: Bindings::default(),
            slots_share: crate::SLOTS_PER_SESSION_MAX,
            reply_bytes: 0,
            minor_0: Minor0Table::default(),
        }
    }

    /// Its limits.
    #[must_use]
    pub fn limits(&self) -> &ClientLimits {
        &self.limits
    }

    /// `co_ownerid` of a known client.
    #[must_use]
    pub fn owner(&self, client: ClientId) -> Option<&[u8]> {
        self.clients.get(&client).map(|c| &*c.owner)
    }

    /// Principal that created the client.
    #[must_use]
    pub fn principal(&self, client: ClientId) -> Option<&Principal> {
        self.clients.get(&client).map(|c| &c.principal)
    }

    /// Confirmed clients in ascending order, without hosts of NLM.
    pub fn confirmed(&self) -> impl Iterator<Item = ClientId> + '_ {
        self.clients
            .iter()
            .filter(|(_, c)| c.confirmed && !c.is_host)
            .map(|(id, _)| *id)
    }

    /// A session.
    #[must_use]
    pub fn session(&self, id: SessionId) -> Option<&Session> {
        self.sessions.get(&id).map(Box::as_ref)
    }

    /// A session, to be changed.
    pub fn session_mut(&mut self, id: SessionId) -> Option<&mut Session> {
        self.sessions.get_mut(&id).map(Box::as_mut)
    }

    /// Sessions of a client, oldest first.
    #[must_use]
    pub fn sessions_of(&self, client: ClientId) -> &[SessionId] {
        self.clients.get(&client).map_or(&[], |c| &c.sessions)
    }

    /// Sessions of all clients.
    #[must_use]
    pub fn sessions_count(&self) -> usize {
        self.sessions.len()
    }

    /// Bytes of replies that the slots of all sessions hold, those reserved for running requests included.
    #[must_use]
    pub fn reply_cache_bytes(&self) -> u64 {
        self.reply_bytes
    }

    /// Confirmed and unconfirmed clients.
    #[must_use]
    pub fn clients_count(&self) -> usize {
        self.clients.len()
    }

    /// Confirmed clients, without hosts of NLM.
    pub(super) fn confirmed_count(&self) -> usize {
        self.clients.len() - self.unconfirmed.len() - self.hosts.len()
    }

    /// Removes a client of any kind with its sessions.
    pub(super) fn remove(&mut self, id: ClientId) -> Option<RemovedClient> {
        let client = self.clients.remove(&id)?;
        self.unconfirmed.remove(&id);
        for session in &client.sessions {
            self.remove_session(*session);
        }
        if client.is_host {
            self.hosts.remove(&client.owner);
        } else if let Some(entry) = self.owners.get_mut(&*client.owner) {
            if entry.confirmed == Some(id) {
                entry.confirmed = None;
            }
            if entry.unconfirmed == Some(id) {
                entry.unconfirmed = None;
            }
            if entry.confirmed.is_none() && entry.unconfirmed.is_none() {
                self.owners.remove(&*client.owner);
            }
        }
        Some(RemovedClient {
            client: id,
            owner: client.owner.to_vec(),
            sessions: client.sessions,
            recorded: client.recorded != Recorded::No,
        })
    }

    /// Whether a request of this client runs in some slot.
    pub(super) fn is_running(&self, client: &Client) -> bool {
        let in_session = client.sessions.iter().any(|id| {
            self.sessions
                .get(id)
                .is_some_and(|s| s.slots.running_count() > 0)
        });
        in_session || client.minor_0.as_ref().is_some_and(|m| m.running_count > 0)
    }
}
