//! The grace period after a restart (RFC 8881 §8.4.2, §8.4.3, §18.51).
//!
//! Owns: whose state of the previous run may still be reclaimed, and when the wait for it ends. Does
//! not own the client records on disk. [`crate::Clients`] asks it on behalf of a client.
//!
//! # Ownership
//! The set of owners comes from the records that the previous run left. An owner leaves the set when
//! its client completes its reclaim, or when a new incarnation of it (another verifier) is confirmed.
//! Only those that held something are waited for until time is up. Those that held nothing may reclaim
//! while the period lasts, and have nothing to reclaim: once they alone are missing, it ends.
//!
//! # Ordering
//! While the set counts, only reclaimed locks may be granted. At the end the caller deletes, durably, the records that
//! must not count after another restart. Only then it calls [`crate::Clients::grace_finished`]. Otherwise, after a
//! second restart, a client that could not reclaim in time might reclaim what another client was given in between (the
//! second edge condition of §8.4.3).
//!
//! # Failure
//! If that deletion fails, the machine stays in `Ending` and new locks go on being refused.

use std::collections::{BTreeMap, BTreeSet};

use nfs4::Verifier;

use crate::ClientRecord;

/// Longest time between two reclaims for which the grace period goes on: beyond its length, or although only clients
/// that held nothing are missing.
const RECLAIM_PAUSE_MS: u64 = 1_000;

/// ```text
///  begin(no records) ─────────────────────────────────────────────────────────────► Over
///  begin(records) ──► Running ── all (holders) complete, or deadline ──► Ending ─ finish ─► Over
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Running {
        deadline_ms: u64,
        /// How far reclaims may move the deadline.
        latest_ms: u64,
        /// Until when clients that held nothing are waited for when nobody else is missing.
        quiet_ms: u64,
    },
    Ending,
    Over,
}

/// Why the grace period ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GraceEnd {
    /// Every recorded client has completed its reclaim.
    AllComplete,
    /// Every client that held something has; so many that held nothing had not come.
    HoldersComplete {
        /// Clients that had nothing to reclaim.
        missing_count: usize,
    },
    /// Time is up; this many clients had not.
    Deadline {
        /// Clients that lost what they had not reclaimed.
        missing_count: usize,
    },
}

/// The grace period of one run of the server.
#[derive(Debug)]
pub struct Grace {
    phase: Phase,
    /// The newest record of each owner that has not completed its reclaim.
    waiting: BTreeMap<Vec<u8>, ClientRecord>,
    /// Owners whose delegations are not to be reclaimed.
    lost_delegations: BTreeSet<Vec<u8>>,
}

impl Grace {
    /// Begins a grace period for the clients of `records`, in the order of their ids. With none it is over at once, and
    /// due to be ended at once when none of them held anything. `grace_ms` must be at least the lease of the
    /// previous run (RFC 8881 §8.4.2.1). Records are as many as clients may be ([`crate::ClientLimits::clients_max`]).
    #[must_use]
    pub fn begin(
        records: impl IntoIterator<Item = ClientRecord>,
        now_ms: u64,
        grace_ms: u64,
    ) -> Self {
        // Of one owner the newest counts: whoever has completed a reclaim since holds what that record says.
        let waiting: BTreeMap<_, _> = records.into_iter().map(|r| (r.owner.clone(), r)).collect();
        let lost = waiting.values().filter(|r| r.lost_delegations);
        let lost_delegations = lost.map(|r| r.owner.clone()).collect();
        let phase = if waiting.is_empty() {
            Phase::Over
        } else {
            let deadline_ms = now_ms.saturating_add(grace_ms);
            Phase::Running {
                deadline_ms,
                latest_ms: deadline_ms.saturating_add(grace_ms),
                quiet_ms: now_ms,
            }
        };
        Self {
            phase,
            waiting,
            lost_delegations,
        }
    }

    /// No grace period: for a server that keeps no state to reclaim, such as a data server.
    #[must_use]
    pub fn none() -> Self {
        Self {
            phase: Phase::Over,
            waiting: BTreeMap::new(),
            lost_delegations: BTreeSet::new(),
        }
    }

    /// Whether only reclaims are allowed.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.phase != Phase::Over
    }

    /// Whether reclaims are accepted from anyone: not any more once the records are being cleaned up.
    pub(crate) fn accepts_reclaims(&self) -> bool {
        matches!(self.phase, Phase::Running { .. })
    }

    /// Whether reclaims are accepted from this incarnation of this owner.
    #[must_use]
    pub fn may_reclaim(&self, owner: &[u8], verifier: Verifier, principal: &[u8]) -> bool {
        self.accepts_reclaims()
            && self
                .waiting
                .get(owner)
                .is_some_and(|r| r.verifier == verifier && r.principal.0 == principal)
    }

    /// A client has just reclaimed something. A client may find out late that the server has restarted, and may have much to reclaim.
    /// So while reclaims come the period goes on, up to twice its length.
    pub(crate) fn reclaimed(&mut self, now_ms: u64) {
        if let Phase::Running {
            deadline_ms,
            latest_ms,
            quiet_ms,
        } = &mut self.phase
        {
            let wanted_ms = now_ms.saturating_add(RECLAIM_PAUSE_MS);
            *deadline_ms = wanted_ms.min(*latest_ms).max(*deadline_ms);
            *quiet_ms = wanted_ms;
        }
    }

    /// Whether the owner's delegations were revoked before the restart.
    pub(crate) fn lost_delegations(&self, owner: &[u8]) -> bool {
        self.lost_delegations.contains(owner)
    }

    /// The owner has completed its reclaim.
    pub(crate) fn complete(
        &mut self,
        (owner, verifier, principal): (&[u8], Verifier, &[u8]),
        now_ms: u64,
    ) {
        if self.may_reclaim(owner, verifier, principal) {
            self.waiting.remove(owner);
            if let Phase::Running { quiet_ms, .. } = &mut self.phase {
                *quiet_ms = now_ms.saturating_add(RECLAIM_PAUSE_MS);
            }
        }
    }

    /// A new incarnation of the owner is confirmed: the recorded one is gone with its state. Another
    /// principal proves nothing about the recorded client, and changes nothing.
    pub(crate) fn supersede(&mut self, owner: &[u8], verifier: Verifier, principal: &[u8]) {
        if self
            .waiting
            .get(owner)
            .is_some_and(|r| r.verifier != verifier && r.principal.0 == principal)
        {
            self.waiting.remove(owner);
        }
    }

    /// The owner's recorded incarnation has lost all: it may reclaim nothing, and nobody waits for it.
    pub(crate) fn forget(&mut self, owner: &[u8], verifier: Verifier, principal: &[u8]) {
        if self.may_reclaim(owner, verifier, principal) {
            self.waiting.remove(owner);
        }
    }

    /// Ends the period if it is time; see [`crate::Clients::poll_grace`].
    pub(crate) fn poll(&mut self, now_ms: u64) -> Option<GraceEnd> {
        let Phase::Running {
            deadline_ms,
            quiet_ms,
            ..
        } = self.phase
        else {
            return None;
        };
        let missing_count = self.waiting.len();
        let end = if missing_count == 0 {
            GraceEnd::AllComplete
        } else if now_ms >= quiet_ms && self.waiting.values().all(|r| r.holds_nothing) {
            GraceEnd::HoldersComplete { missing_count }
        } else if now_ms >= deadline_ms {
            GraceEnd::Deadline { missing_count }
        } else {
            return None;
        };
        self.phase = Phase::Ending;
        self.waiting.clear();
        Some(end)
    }

    /// The records are cleaned up: new locks may be granted. Without a `poll` that ended the period
    /// this does nothing.
    pub(crate) fn finish(&mut self) {
        if self.phase == Phase::Ending {
            self.phase = Phase::Over;
        }
    }

    /// Records of this principal that say that their owner holds something, while they may be reclaimed.
    pub(crate) fn holders<'a>(&'a self, principal: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        let records = self.waiting.values();
        records
            .filter(move |r| r.principal.0 == principal && !r.holds_nothing)
            .map(|r| &*r.owner)
    }

    /// The verifier in the record of an owner that may be reclaimed under this principal.
    pub(crate) fn verifier_of(&self, owner: &[u8], principal: &[u8]) -> Option<Verifier> {
        let record = self.waiting.get(owner)?;
        (record.principal.0 == principal).then_some(record.verifier)
    }

    /// Clients that have not yet completed their reclaim.
    #[must_use]
    pub fn waiting_count(&self) -> usize {
        self.waiting.len()
    }
}
