//! Open-owners and lock-owners of NFSv4.0: their sequence ids, and the last reply of each (RFC 7530 §9.1.7 to §9.1.11).
//!
//! NFSv4.1 has slots for this, and knows owners only as names. The states of an owner are in [`crate::FileStates`] as ever. Here is
//! whose they are, so that a request that names one finds its client and its sequence.
//!
//! # Ownership
//! An owner is made by its first OPEN or LOCK. It is forgotten [`OwnerLimits::idle_ms`] after its last request when it has no state
//! any more, or makes room for others before that. Memory: about 300 bytes, its name twice, and a reply of up to
//! [`OWNER_REPLY_BYTES_MAX`].
//!
//! # Ordering
//! One request of an owner runs at a time. [`Owners::begin`] answers `Busy` to others until [`Owners::end`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nfs4::{ClientId, FileHandle, NfsStatus};

use crate::stateid::Other;

/// Longest result that is kept for a retry. Only a LOCK that tells of a holder with a long name is longer.
pub const OWNER_REPLY_BYTES_MAX: usize = 1536;

/// The limits of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnerLimits {
    /// Most owners of one client.
    pub per_client_max: usize,
    /// Most owners of all clients.
    pub total_max: usize,
    /// How long an owner without state is remembered after its last request.
    pub idle_ms: u64,
}

impl Default for OwnerLimits {
    fn default() -> Self {
        Self {
            per_client_max: 65_536,
            total_max: 1_048_576,
            idle_ms: 180_000,
        }
    }
}

/// Which of the two name spaces of owners.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum OwnerKind {
    /// An open-owner.
    Open,
    /// A lock-owner.
    Lock,
}

/// The name of an owner.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct OwnerName {
    /// Its client.
    pub client: ClientId,
    /// Which name space.
    pub kind: OwnerKind,
    /// Its name there.
    pub owner: Arc<[u8]>,
}

/// What is kept of the last request of an owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnerReply {
    /// Tells a retry from another request under the same sequence id.
    pub sum: u64,
    /// The result, from the number of its operation on; `None` when it was too long.
    pub result: Option<Arc<[u8]>>,
    /// How the operation ended.
    pub status: NfsStatus,
    /// The file handle that it made current.
    pub made_current: Option<FileHandle>,
}

/// What is to be done with a request.
#[derive(Debug, PartialEq, Eq)]
pub enum OwnerVerdict {
    /// It is the next one, or the first one of the owner, and runs from now on.
    Run {
        /// An open of an owner that was never confirmed: it counts no more, and is to be closed.
        abandoned: Vec<Other>,
    },
    /// It was answered so.
    Replay(OwnerReply),
    /// Another request of the owner runs.
    Busy,
}

/// What a request has done to its owner.
#[derive(Debug)]
pub enum OwnerChange {
    /// Neither made nor ended a state.
    None,
    /// The owner has this state.
    Has(Other),
    /// An open of an owner that must be confirmed.
    MustConfirm(Other),
    /// The owner is confirmed.
    Confirmed,
    /// The state is closed; a retry may name it.
    Closed(Other),
}

#[derive(Debug, Default)]
struct Owner {
    seqid: u32,
    /// No request of it has counted yet.
    is_new: bool,
    is_confirmed: bool,
    is_running: bool,
    reply: Option<OwnerReply>,
    states: BTreeSet<Other>,
    /// The state that the last request has closed.
    closed: Option<Other>,
    used_ms: u64,
}

/// The owners of all clients.
#[derive(Debug, Default)]
pub struct Owners {
    limits: OwnerLimits,
    owners: BTreeMap<OwnerName, Owner>,
    by_state: BTreeMap<Other, OwnerName>,
    per_client: BTreeMap<ClientId, usize>,
}

impl Owners {
    /// An empty table.
    #[must_use]
    pub fn new(limits: OwnerLimits) -> Self {
        Self {
            limits,
            ..Self::default()
        }
    }

    /// Whose state this is, or was until it was closed.
    #[must_use]
    pub fn of_state(&self, other: &Other) -> Option<&OwnerName> {
        self.by_state.get(other)
    }

    /// Whether the owner is known and confirmed.
    #[must_use]
    pub fn is_confirmed(&self, name: &OwnerName) -> bool {
        self.owners.get(name).is_some_and(|o| o.is_confirmed)
    }

    /// The states of an owner.
    #[must_use]
    pub fn states_of(&self, name: &OwnerName) -> Vec<Other> {
        let owner = self.owners.get(name);
        owner.map_or_else(Vec::new, |o| o.states.iter().copied().collect())
    }

    /// A request with sequence id `seqid` comes. `sum` tells it from others. `opens` for OPEN, which begins anew with an
    /// owner that was never confirmed.
    ///
    /// # Errors
    /// `BadSeqid`; `Resource` when there is no room for one more owner.
    pub fn begin(
        &mut self,
        name: &OwnerName,
        (seqid, sum): (u32, u64),
        opens: bool,
        now_ms: u64,
    ) -> Result<OwnerVerdict, NfsStatus> {
        let abandoned = match self.owners.get_mut(name) {
            None => {
                self.make(name, now_ms)?;
                Vec::new()
            }
            Some(owner) if owner.is_running => return Ok(OwnerVerdict::Busy),
            Some(owner) => {
                owner.used_ms = now_ms;
                let is_retry = !owner.is_new && seqid == owner.seqid;
                match owner.reply.as_ref().filter(|_| is_retry) {
                    Some(reply) if reply.sum == sum => {
                        return Ok(OwnerVerdict::Replay(reply.clone()));
                    }
                    _ => {}
                }
                // Linux forgets a lock-owner whose first LOCK was denied, and uses its name again.
                let is_empty = name.kind == OwnerKind::Lock && owner.states.is_empty();
                let begins = owner.is_new || is_empty || (opens && !owner.is_confirmed);
                if !begins && seqid != owner.seqid.wrapping_add(1) {
                    return Err(NfsStatus::BadSeqid);
                }
                match opens && !owner.is_confirmed {
                    true => owner.states.iter().copied().collect(),
                    false => Vec::new(),
                }
            }
        };
        for other in &abandoned {
            self.forget_state(name, other);
        }
        if let Some(owner) = self.owners.get_mut(name) {
            owner.is_running = true;
        }
        Ok(OwnerVerdict::Run { abandoned })
    }

    fn make(&mut self, name: &OwnerName, now_ms: u64) -> Result<(), NfsStatus> {
        let of_client = self.per_client.get(&name.client).copied().unwrap_or(0);
        if of_client >= self.limits.per_client_max || self.owners.len() >= self.limits.total_max {
            self.drop_idle_of(name.client);
        }
        let of_client = self.per_client.entry(name.client).or_default();
        if *of_client >= self.limits.per_client_max || self.owners.len() >= self.limits.total_max {
            return Err(NfsStatus::Resource);
        }
        *of_client += 1;
        let owner = Owner {
            is_new: true,
            // Lock-owners come with an open, whose owner is confirmed.
            is_confirmed: name.kind == OwnerKind::Lock,
            used_ms: now_ms,
            ..Owner::default()
        };
        self.owners.insert(name.clone(), owner);
        Ok(())
    }

    /// A request that [`Owners::begin`] let run has ended. With `reply` it has used its sequence id; without, the failure
    /// is one that does not count (RFC 7530 §9.1.7).
    pub fn end(
        &mut self,
        name: &OwnerName,
        seqid: u32,
        reply: Option<OwnerReply>,
        change: OwnerChange,
    ) {
        let Some(owner) = self.owners.get_mut(name) else {
            return;
        };
        owner.is_running = false;
        let Some(mut reply) = reply else {
            // An owner that nothing is known of was not there.
            if owner.is_new && owner.states.is_empty() {
                self.remove(name);
            }
            return;
        };
        let fits = |r: &Arc<[u8]>| r.len() <= OWNER_REPLY_BYTES_MAX;
        reply.result = reply.result.filter(fits);
        (owner.seqid, owner.is_new, owner.reply) = (seqid, false, Some(reply));
        let closed_before = owner.closed.take();
        match change {
            OwnerChange::None => {}
            OwnerChange::Has(other) | OwnerChange::MustConfirm(other) => {
                if matches!(change, OwnerChange::Has(_)) {
                    owner.is_confirmed = true;
                }
                owner.states.insert(other);
                self.by_state.insert(other, name.clone());
            }
            OwnerChange::Confirmed => owner.is_confirmed = true,
            OwnerChange::Closed(other) => {
                owner.states.remove(&other);
                owner.closed = Some(other);
            }
        }
        if let Some(other) = closed_before {
            self.by_state.remove(&other);
        }
    }

    fn forget_state(&mut self, name: &OwnerName, other: &Other) {
        self.by_state.remove(other);
        if let Some(owner) = self.owners.get_mut(name) {
            owner.states.remove(other);
        }
    }

    /// Forgets an owner.
    pub fn remove(&mut self, name: &OwnerName) {
        let Some(owner) = self.owners.remove(name) else {
            return;
        };
        for other in owner.states.iter().chain(&owner.closed) {
            self.by_state.remove(other);
        }
        if let Some(count) = self.per_client.get_mut(&name.client) {
            *count -= 1;
            if *count == 0 {
                self.per_client.remove(&name.client);
            }
        }
    }

    fn names_of(&self, client: ClientId) -> Vec<OwnerName> {
        let first = OwnerName {
            client,
            kind: OwnerKind::Open,
            owner: Arc::default(),
        };
        let of_client = self.owners.range(first..);
        let of_client = of_client.take_while(|(name, _)| name.client == client);
        of_client.map(|(name, _)| name.clone()).collect()
    }

    fn drop_idle_of(&mut self, client: ClientId) {
        for name in self.names_of(client) {
            let is_idle = |o: &Owner| o.states.is_empty() && !o.is_running;
            if self.owners.get(&name).is_some_and(is_idle) {
                self.remove(&name);
            }
        }
    }

    /// What time brings, to owners that are idle too long: they go when they have no state any more, or their client is gone.
    /// States that are there no more are forgotten. Answers the opens of owners that were not confirmed in time; they are to be closed.
    /// To be called every few seconds; a pass looks at every owner once.
    pub fn expire(
        &mut self,
        now_ms: u64,
        is_there: impl Fn(ClientId) -> bool,
        has_state: impl Fn(&Other) -> bool,
    ) -> Vec<(ClientId, Other)> {
        let mut unconfirmed = Vec::new();
        let mut gone = Vec::new();
        let mut ended = Vec::new();
        for (name, owner) in &mut self.owners {
            if owner.is_running {
                continue;
            }
            let is_over = owner.used_ms.saturating_add(self.limits.idle_ms) <= now_ms;
            if !is_over {
                continue;
            }
            let is_known = is_there(name.client);
            owner.states.retain(|other| {
                // What a client held that is gone is told to be so, for a while.
                let stays = !is_known || has_state(other);
                if !stays {
                    ended.push(*other);
                }
                stays
            });
            if !is_known {
                gone.push(name.clone());
            } else if !owner.is_confirmed {
                unconfirmed.extend(owner.states.iter().map(|other| (name.client, *other)));
                gone.push(name.clone());
            } else if owner.states.is_empty() {
                gone.push(name.clone());
            }
        }
        for other in ended {
            self.by_state.remove(&other);
        }
        for name in gone {
            self.remove(&name);
        }
        unconfirmed
    }

    /// Owners in the table.
    #[must_use]
    pub fn len(&self) -> usize {
        self.owners.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.owners.is_empty()
    }
}

#[cfg(test)]
#[path = "owners_tests.rs"]
mod tests;
