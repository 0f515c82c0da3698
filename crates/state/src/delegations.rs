//! Open delegations: which client was promised that nobody else writes, or touches, a file (RFC 8881 §10.4).
//!
//! Owns one delegation for each (client, file) at most, recalls under way, the files that were recalled a short
//! while ago, and holds. Whether a delegation may be granted depends on opens and layouts too: see
//! [`crate::FileStates::offer_delegation`]. Does not send callbacks. Memory: about 350 bytes a delegation.
//!
//! # Ownership
//! A client owns its delegation until it returns it, or until it is revoked or the client is removed.
//!
//! # Ordering
//! A caller that is about to change a file first [holds](Delegations::hold) it: none is granted any more. It recalls what others have,
//! and continues when that is gone. A recall has a deadline of a lease. After it the caller fences the client off the file and
//! revokes.
//!
//! # Failure
//! All of it is lost with the process. Clients reclaim in the grace period (§10.2.1).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use nfs4::{ClientId, NfsStatus, SessionId, Stateid};

use crate::holders::Holders;
use crate::stateid::{Other, StateKind, StateidSource, check_seqid};

/// Most delegations of one client. A Linux kernel that holds 5,000 of all its servers (`delegation_watermark`) returns each
/// further one at its close, which makes two requests more of every open.
const PER_CLIENT_MAX: usize = 4096;
/// Most files that are remembered as recalled a short while ago.
const CONTENDED_FILES_MAX: usize = 65_536;
/// Shortest time in milliseconds between two CB_RECALL_ANY to one client.
const RECALL_ANY_PAUSE_MS: u64 = 30_000;

/// `open_delegation_type4` of a delegation that is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DelegationKind {
    /// Nobody else writes.
    Read,
    /// Nobody else reads or writes.
    Write,
}

/// Delegations that an operation cannot bear.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InTheWay {
    /// Those for writing: the operation reads.
    Writers,
    /// All: the operation writes, or changes what readers cache.
    All,
}

impl InTheWay {
    fn covers(self, kind: DelegationKind) -> bool {
        self == Self::All || kind == DelegationKind::Write
    }
}

/// The request whose reply grants a delegation: a callback that comes before that reply refers to it (RFC 8881 §2.10.6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Origin {
    /// Its session.
    pub session: SessionId,
    /// Its slot.
    pub slot: u32,
    /// Its sequence id.
    pub seqid: u32,
}

impl Origin {
    /// A request outside of sessions: nobody can say whether its client has the reply.
    pub const UNKNOWN: Self = Self {
        session: SessionId { bytes: [0; 16] },
        slot: 0,
        seqid: 0,
    };
}

/// A slot of a session: where the reply of its newest request is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotOf {
    /// The session.
    pub session: SessionId,
    /// `sa_slotid`.
    pub slot: u32,
}

/// The limits of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DelegationLimits {
    /// Most delegations of one client.
    pub per_client_max: usize,
    /// Most delegations in all.
    pub total_max: usize,
    /// How long a file gets none after a recall, in milliseconds: those who take turns are better off without.
    pub contended_ms: u64,
}

impl Default for DelegationLimits {
    fn default() -> Self {
        Self {
            per_client_max: PER_CLIENT_MAX,
            total_max: 1_048_576,
            contended_ms: 30_000,
        }
    }
}

/// A callback to send: CB_RECALL of a delegation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DelegationRecall {
    /// To whom.
    pub client: ClientId,
    /// The file.
    pub file: u64,
    /// The delegation.
    pub stateid: Stateid,
    /// What granted it.
    pub origin: Origin,
    /// When it is to be revoked, by the clock of the caller.
    pub deadline_ms: u64,
}

/// A callback to send: CB_RECALL_ANY.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecallAny {
    /// To whom.
    pub client: ClientId,
    /// How many it may keep.
    pub keep: u32,
}

/// Who may change a file behind the server's back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteHolder {
    /// The client.
    pub client: ClientId,
    /// The delegation.
    pub other: Other,
    /// The change attribute at the grant: what CB_GETATTR answers while nothing is modified (RFC 8881 §10.4.3).
    pub change: u64,
    /// It has answered otherwise before.
    pub modified: bool,
    /// It is the authority for the file's times (RFC 9754 §5).
    pub has_times: bool,
}

#[derive(Debug)]
pub(crate) struct Delegation {
    pub(crate) client: ClientId,
    pub(crate) file: u64,
    pub(crate) kind: DelegationKind,
    /// It was granted to an open that reads: permission was checked for that.
    pub(crate) reads: bool,
    /// Its holder is the authority for the file's times.
    pub(crate) has_times: bool,
    origin: Origin,
    change: u64,
    modified: bool,
    /// Deadline of a recall under way.
    recall_ms: Option<u64>,
}

/// What a grant enters.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) client: ClientId,
    pub(crate) file: u64,
    pub(crate) kind: DelegationKind,
    pub(crate) reads: bool,
    pub(crate) has_times: bool,
    pub(crate) origin: Origin,
    pub(crate) change: u64,
}

/// All delegations.
#[derive(Debug)]
pub struct Delegations {
    limits: DelegationLimits,
    states: BTreeMap<Other, Delegation>,
    holders: Holders,
    /// Recalls under way by deadline.
    recalls: BTreeSet<(u64, Other)>,
    /// Files recalled a short while ago, and until when they count as contended; oldest first in the queue.
    contended: BTreeMap<u64, u64>,
    contended_order: VecDeque<(u64, u64)>,
    /// When a client was last asked to return what it can spare.
    asked_ms: BTreeMap<ClientId, u64>,
}

impl Delegations {
    pub(crate) fn new(limits: DelegationLimits) -> Self {
        Self {
            limits,
            states: BTreeMap::new(),
            holders: Holders::default(),
            recalls: BTreeSet::new(),
            contended: BTreeMap::new(),
            contended_order: VecDeque::new(),
            asked_ms: BTreeMap::new(),
        }
    }

    fn of_file(&self, file: u64) -> impl Iterator<Item = (&Other, &Delegation)> {
        let of_file = self.holders.of_file(file);
        of_file.filter_map(|(_, other)| self.states.get(other).map(|d| (other, d)))
    }

    /// Clients but `except` whose delegations are in the way, in ascending order.
    #[must_use]
    pub fn conflicts(
        &self,
        file: u64,
        against: InTheWay,
        except: Option<ClientId>,
    ) -> Vec<ClientId> {
        self.of_file(file)
            .filter(|(_, d)| against.covers(d.kind) && Some(d.client) != except)
            .map(|(_, d)| d.client)
            .collect()
    }

    /// Recalls what is in the way. Returns the callbacks to send: those under way already are not among them.
    pub fn begin_recall(
        &mut self,
        file: u64,
        against: InTheWay,
        except: Option<ClientId>,
        (now_ms, lease_ms): (u64, u64),
    ) -> Vec<DelegationRecall> {
        let chosen = self.of_file(file).filter(|(_, d)| {
            against.covers(d.kind) && Some(d.client) != except && d.recall_ms.is_none()
        });
        let chosen: Vec<Other> = chosen.map(|(other, _)| *other).collect();
        if !chosen.is_empty() {
            self.note_contention(file, now_ms);
        }
        let deadline_ms = now_ms.saturating_add(lease_ms);
        let mut out = Vec::with_capacity(chosen.len());
        for other in chosen {
            if let Some(d) = self.states.get_mut(&other) {
                d.recall_ms = Some(deadline_ms);
            }
            self.recalls.insert((deadline_ms, other));
            out.extend(self.recall_of(&other, deadline_ms));
        }
        out
    }

    /// What the client holds on the file, to be taken from it without a recall.
    #[must_use]
    pub fn of_holder(&self, client: ClientId, file: u64) -> Option<DelegationRecall> {
        let other = self.holders.find(client, file)?;
        self.recall_of(&other, 0)
    }

    fn recall_of(&self, other: &Other, deadline_ms: u64) -> Option<DelegationRecall> {
        let d = self.states.get(other)?;
        Some(DelegationRecall {
            client: d.client,
            file: d.file,
            stateid: stateid_of(*other),
            origin: d.origin,
            deadline_ms,
        })
    }

    fn note_contention(&mut self, file: u64, now_ms: u64) {
        let is_over = |(until_ms, _): &(u64, u64), len: usize| {
            *until_ms <= now_ms || len >= CONTENDED_FILES_MAX
        };
        while let Some(first) = self.contended_order.front()
            && is_over(first, self.contended_order.len())
        {
            let (until_ms, old) = *first;
            self.contended_order.pop_front();
            // A later recall of the same file has an entry of its own.
            if self.contended.get(&old) == Some(&until_ms) {
                self.contended.remove(&old);
            }
        }
        let until_ms = now_ms.saturating_add(self.limits.contended_ms);
        self.contended.insert(file, until_ms);
        self.contended_order.push_back((until_ms, file));
    }

    /// Whether nothing may be granted on the file just now: it is held, under recall, or was recalled a short while ago.
    pub(crate) fn is_contended(&self, file: u64, now_ms: u64) -> bool {
        let held = self.holders.is_on_hold(file);
        let recently = self.contended.get(&file).is_some_and(|ms| *ms > now_ms);
        held || recently || self.of_file(file).any(|(_, d)| d.recall_ms.is_some())
    }

    /// Whether there is no room for one more of this client.
    pub(crate) fn is_full(&self, client: ClientId) -> bool {
        let of_client = self.holders.count_of_client(client);
        of_client >= self.limits.per_client_max || self.states.len() >= self.limits.total_max
    }

    pub(crate) fn enter(&mut self, source: &mut StateidSource, entry: Entry) -> Stateid {
        let other = source.next(StateKind::Delegation);
        self.holders.enter(entry.client, entry.file, other);
        self.states.insert(
            other,
            Delegation {
                client: entry.client,
                file: entry.file,
                kind: entry.kind,
                reads: entry.reads,
                has_times: entry.has_times,
                origin: entry.origin,
                change: entry.change,
                modified: false,
                recall_ms: None,
            },
        );
        stateid_of(other)
    }

    /// Finds a delegation by stateid, with the checks of RFC 8881 §8.2.4.
    pub(crate) fn check(
        &self,
        stateid: Stateid,
        client: ClientId,
        file: u64,
    ) -> Result<&Delegation, NfsStatus> {
        let found = self
            .states
            .get(&stateid.other)
            .filter(|d| d.client == client && d.file == file)
            .ok_or(NfsStatus::BadStateid)?;
        check_seqid(stateid.seqid, SEQID)?;
        Ok(found)
    }

    /// The client and seqid of a delegation.
    pub(crate) fn by_other(&self, other: &Other) -> Option<(ClientId, u32)> {
        self.states.get(other).map(|d| (d.client, SEQID))
    }

    /// Whether the delegation has neither come back nor been revoked.
    #[must_use]
    pub fn is_out(&self, other: &Other) -> bool {
        self.states.contains_key(other)
    }

    /// What the client holds on the file.
    pub(crate) fn held(&self, client: ClientId, file: u64) -> Option<&Delegation> {
        self.held_with_name(client, file).map(|(_, held)| held)
    }

    /// As [`Delegations::held`], with its stateid.
    pub(crate) fn held_with_name(
        &self,
        client: ClientId,
        file: u64,
    ) -> Option<(Stateid, &Delegation)> {
        let other = self.holders.find(client, file)?;
        Some((stateid_of(other), self.states.get(&other)?))
    }

    /// Delegations of a file.
    pub(crate) fn count_of_file(&self, file: u64) -> usize {
        self.holders.of_file(file).count()
    }

    /// Who holds the file for writing.
    #[must_use]
    pub fn write_holder(&self, file: u64) -> Option<WriteHolder> {
        let mut of_file = self.of_file(file);
        let (other, d) = of_file.find(|(_, d)| d.kind == DelegationKind::Write)?;
        Some(WriteHolder {
            client: d.client,
            other: *other,
            change: d.change,
            modified: d.modified,
            has_times: d.has_times,
        })
    }

    /// The holder has said that it has modified data: that stays so until the delegation is back (RFC 8881 §10.4.3).
    pub fn note_modified(&mut self, other: &Other) {
        if let Some(d) = self.states.get_mut(other) {
            d.modified = true;
        }
    }

    /// The holder for writing has set the modification time itself, after all that it had modified. Only what it
    /// modifies from now on moves the time again.
    pub fn note_time_set(&mut self, file: u64, client: ClientId) {
        let held = self.holders.find(client, file);
        if let Some(d) = held.and_then(|other| self.states.get_mut(&other)) {
            d.modified = false;
        }
    }

    /// Keeps delegations from being granted on the file until [`Delegations::release`] was called as often.
    pub fn hold(&mut self, file: u64) {
        self.holders.hold(file);
    }

    /// Ends one [`Delegations::hold`].
    ///
    /// # Panics
    /// Without one: a bug of the caller.
    pub fn release(&mut self, file: u64) {
        self.holders.release(file);
    }

    /// Recalls whose deadline has passed.
    #[must_use]
    pub fn overdue(&self, now_ms: u64) -> Vec<DelegationRecall> {
        let past = self.recalls.iter().take_while(|(ms, _)| *ms <= now_ms);
        past.filter_map(|(ms, other)| self.recall_of(other, *ms))
            .collect()
    }

    /// Clients that must give some back because the table gets full, and how many they may keep.
    pub fn crowded(&mut self, now_ms: u64) -> Vec<RecallAny> {
        let limits = self.limits;
        let is_full = self.states.len() > limits.total_max / 4 * 3;
        let share = limits.total_max / 2 / self.holders.clients().len().max(1);
        let mut out = Vec::new();
        for (client, held_count) in self.holders.clients() {
            let keep = if held_count > limits.per_client_max / 4 * 3 {
                (limits.per_client_max / 2).min(if is_full { share } else { usize::MAX })
            } else if is_full && held_count > share {
                share
            } else {
                continue;
            };
            let asked = self.asked_ms.get(&client);
            if asked.is_some_and(|ms| now_ms < ms.saturating_add(RECALL_ANY_PAUSE_MS)) {
                continue;
            }
            self.asked_ms.insert(client, now_ms);
            out.push(RecallAny {
                client,
                keep: u32::try_from(keep).unwrap_or(u32::MAX),
            });
        }
        out
    }

    /// Names of a client's delegations.
    pub(crate) fn names_of_client(&self, client: ClientId) -> impl Iterator<Item = &Other> {
        self.holders.of_client(client)
    }

    /// Names of a file's delegations.
    pub(crate) fn names_of_file(&self, file: u64) -> impl Iterator<Item = &Other> {
        self.holders.of_file(file).map(|(_, other)| other)
    }

    /// Names of those under recall, the soonest overdue first.
    pub(crate) fn recalled(&self) -> impl Iterator<Item = &Other> {
        self.recalls.iter().map(|(_, other)| other)
    }

    /// One of them: whose, of which file, which kind, and when its recall is overdue.
    pub(crate) fn seen(
        &self,
        other: &Other,
    ) -> Option<(ClientId, u64, DelegationKind, Option<u64>)> {
        let d = self.states.get(other)?;
        Some((d.client, d.file, d.kind, d.recall_ms))
    }

    /// How many the client holds.
    #[must_use]
    pub fn count_of_client(&self, client: ClientId) -> usize {
        self.holders.count_of_client(client)
    }

    /// Whether the client holds any.
    #[must_use]
    pub fn has_client(&self, client: ClientId) -> bool {
        self.holders.count_of_client(client) > 0
    }

    /// Delegations of a client.
    pub(crate) fn of_client(&self, client: ClientId) -> Vec<Other> {
        self.holders.of_client(client).copied().collect()
    }

    /// The client is gone: what concerns it alone goes. Its delegations were removed before.
    pub(crate) fn forget_client(&mut self, client: ClientId) {
        self.asked_ms.remove(&client);
    }

    /// Delegations in all.
    #[must_use]
    pub fn len(&self) -> usize {
        self.states.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.states.is_empty()
    }

    pub(crate) fn remove(&mut self, other: &Other) -> Option<Delegation> {
        let delegation = self.states.remove(other)?;
        if let Some(ms) = delegation.recall_ms {
            self.recalls.remove(&(ms, *other));
        }
        self.holders
            .leave(delegation.client, delegation.file, other);
        Some(delegation)
    }
}

/// A delegation is never changed, so its stateid has one sequence id.
const SEQID: u32 = 1;

fn stateid_of(other: Other) -> Stateid {
    Stateid {
        seqid: SEQID,
        other,
    }
}
