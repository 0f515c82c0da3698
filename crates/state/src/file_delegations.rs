//! Delegations among opens and layouts: when one may be granted, what an OPEN meets, and how one ends
//! (RFC 8881 §10.4, §18.16, §18.6).

use nfs4::{ClientId, NfsStatus, Stateid};

use crate::delegations::{DelegationKind, Entry, InTheWay, Origin};
use crate::file_states::FileStates;
use crate::layouts::{IoModes, Returned};
use crate::opens::{ACCESS_READ, ACCESS_WRITE, DENY_READ, Share};
use crate::revoked::RevokeCause;
use crate::stateid::Other;

/// A delegation that would suit an open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DelegationWanted {
    /// For whom.
    pub client: ClientId,
    /// The file.
    pub file: u64,
    /// ACCESS bits of the open that it comes with.
    pub access: u32,
    /// The request that asks.
    pub origin: Origin,
    /// The file's change attribute.
    pub change: u64,
    /// If it is for writing, the client shall be the authority for the file's times (RFC 9754 §5).
    pub has_times: bool,
}

/// A delegation as granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DelegationGranted {
    /// Its stateid.
    pub stateid: Stateid,
    /// For reading or writing.
    pub kind: DelegationKind,
    /// Its holder is the authority for the file's times.
    pub has_times: bool,
}

/// Why there is none (`why_no_delegation4`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoDelegation {
    /// Others use the file, or did a short while ago.
    Contention,
    /// The table is full.
    Resource,
    /// The client has one for reading, which stays as it is.
    NoUpgrade,
    /// The client has one already.
    NoDowngrade,
}

/// A delegation that is no more.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct DelegationEnded {
    /// Whose it was.
    pub client: ClientId,
    /// The file.
    pub file: u64,
    /// Nobody has the file open or delegated now: an unlinked file may go.
    pub last_of_file: bool,
    /// A layout that was to be returned on close, of a client that has no open.
    pub layout: Option<Returned>,
}

impl FileStates {
    /// The delegations that stand against an OPEN. `truncates` says that it sets the size.
    #[must_use]
    pub fn in_the_way_of_open(share: Share, truncates: bool) -> InTheWay {
        let writes = share.access & ACCESS_WRITE != 0 || truncates;
        // A holder for reading opens for reading without asking.
        if writes || share.deny & DENY_READ != 0 {
            InTheWay::All
        } else {
            InTheWay::Writers
        }
    }

    /// Grants a delegation with an open that was just granted, if nobody else can be hurt by it. It is for writing when
    /// nobody else has the file open, for reading when nobody has it open for writing.
    ///
    /// # Errors
    /// Why there is none.
    pub fn offer_delegation(
        &mut self,
        wanted: &DelegationWanted,
        now_ms: u64,
    ) -> Result<DelegationGranted, NoDelegation> {
        let (client, file) = (wanted.client, wanted.file);
        let kind = if wanted.access & ACCESS_WRITE != 0 {
            DelegationKind::Write
        } else {
            DelegationKind::Read
        };
        if let Some(held) = self.delegations.held(client, file) {
            return Err(if held.kind < kind {
                NoDelegation::NoUpgrade
            } else {
                NoDelegation::NoDowngrade
            });
        }
        if self.delegations.is_contended(file, now_ms) || !self.suits_others(client, file, kind) {
            return Err(NoDelegation::Contention);
        }
        if self.delegations.is_full(client) || self.has_revoked_delegations(client) {
            return Err(NoDelegation::Resource);
        }
        let reads = wanted.access & ACCESS_READ != 0;
        Ok(self.enter_delegation(wanted, kind, reads))
    }

    fn enter_delegation(
        &mut self,
        wanted: &DelegationWanted,
        kind: DelegationKind,
        reads: bool,
    ) -> DelegationGranted {
        let has_times = wanted.has_times && kind == DelegationKind::Write;
        let stateid = self.delegations.enter(
            &mut self.source,
            Entry {
                client: wanted.client,
                file: wanted.file,
                kind,
                reads,
                has_times,
                origin: wanted.origin,
                change: wanted.change,
            },
        );
        DelegationGranted {
            stateid,
            kind,
            has_times,
        }
    }

    /// Whether opens, layouts and delegations of others allow it. A holder locks without asking, so no host may have locks.
    fn suits_others(&self, client: ClientId, file: u64, kind: DelegationKind) -> bool {
        let (against, modes, open) = match kind {
            DelegationKind::Write => (
                InTheWay::All,
                IoModes::ANY,
                self.opens.others_access(client, file) != 0,
            ),
            DelegationKind::Read => (
                InTheWay::Writers,
                IoModes::RW,
                self.opens.access(file) & ACCESS_WRITE != 0,
            ),
        };
        !open
            && !self.locks.has_hosts(file)
            && !self.layouts.is_held(file, modes, Some(client))
            && (self.delegations)
                .conflicts(file, against, Some(client))
                .is_empty()
    }

    /// Grants again, in the grace period, what a client says that it held (RFC 8881 §10.2.1).
    ///
    /// # Errors
    /// `ReclaimConflict` when others have reclaimed what stands against it; `Delay` at a limit.
    pub fn reclaim_delegation(
        &mut self,
        wanted: &DelegationWanted,
        kind: DelegationKind,
    ) -> Result<DelegationGranted, NfsStatus> {
        let (client, file) = (wanted.client, wanted.file);
        if let Some((other, held)) = self.delegations.held_with_name(client, file)
            && held.kind == kind
        {
            // Reclaimed before, by another open of the same client.
            return Ok(DelegationGranted {
                stateid: other,
                kind,
                has_times: held.has_times,
            });
        }
        let writers = self.opens.others_access(client, file) & ACCESS_WRITE != 0;
        let fits = match kind {
            DelegationKind::Write => self.suits_others(client, file, kind),
            DelegationKind::Read => {
                let others = (self.delegations).conflicts(file, InTheWay::Writers, Some(client));
                !writers && others.is_empty() && !self.locks.has_hosts(file)
            }
        };
        if !fits || self.delegations.held(client, file).is_some() {
            return Err(NfsStatus::ReclaimConflict);
        }
        if self.delegations.is_full(client) {
            return Err(NfsStatus::Delay);
        }
        Ok(self.enter_delegation(wanted, kind, true))
    }

    /// The kind of a delegation that a client presents (CLAIM_DELEGATE_CUR).
    ///
    /// # Errors
    /// Those of the stateid.
    pub fn check_delegation(
        &self,
        stateid: Stateid,
        client: ClientId,
        file: u64,
    ) -> Result<DelegationKind, NfsStatus> {
        self.check_not_revoked(stateid, client)?;
        Ok(self.delegations.check(stateid, client, file)?.kind)
    }

    /// The delegation under which a client says what a file's times are (RFC 9754 §5).
    ///
    /// # Errors
    /// Those of the stateid; `Inval` for a delegation whose holder is no authority for times.
    pub fn check_delegated_times(
        &self,
        stateid: Stateid,
        client: ClientId,
        file: u64,
    ) -> Result<(), NfsStatus> {
        self.check_not_revoked(stateid, client)?;
        if self.delegations.check(stateid, client, file)?.has_times {
            Ok(())
        } else {
            Err(NfsStatus::Inval)
        }
    }

    /// DELEGRETURN.
    ///
    /// # Errors
    /// Those of the stateid.
    pub fn return_delegation(
        &mut self,
        stateid: Stateid,
        client: ClientId,
        file: u64,
    ) -> Result<DelegationEnded, NfsStatus> {
        self.check_delegation(stateid, client, file)?;
        self.end_delegation(&stateid.other)
            .ok_or(NfsStatus::BadStateid)
    }

    /// Ends a delegation that its client does not have (any more), as it says itself.
    pub fn end_delegation(&mut self, other: &Other) -> Option<DelegationEnded> {
        let ended = self.delegations.remove(other)?;
        let (client, file) = (ended.client, ended.file);
        let layout = if self.opens.client_access(client, file) == 0 {
            self.layouts.closed(client, file)
        } else {
            None
        };
        Some(DelegationEnded {
            client,
            file,
            last_of_file: self.open_count(file) == 0,
            layout,
        })
    }

    /// Whether the client has lost delegations by not returning them, and has not said FREE_STATEID of each.
    #[must_use]
    pub fn has_revoked_delegations(&self, client: ClientId) -> bool {
        self.revoked_flags(client) & crate::status_flags::RECALLABLE_STATE_REVOKED != 0
    }

    /// Takes a delegation whose recall was not answered, and remembers that. The caller has fenced the client off the file.
    pub fn revoke_delegation(&mut self, other: &Other) -> Option<DelegationEnded> {
        let ended = self.end_delegation(other)?;
        self.revoked.add(ended.client, *other, RevokeCause::Recall);
        Some(ended)
    }

    /// What a delegation allows as an open would: reading only as far as the open was for it that it came with.
    pub(crate) fn delegated_access(
        &self,
        stateid: Stateid,
        client: ClientId,
        file: u64,
    ) -> Result<u32, NfsStatus> {
        let held = self.delegations.check(stateid, client, file)?;
        Ok(access_of(held.kind, held.reads))
    }

    /// ACCESS bits of a client on a file, by its opens and its delegation.
    pub(crate) fn client_access(&self, client: ClientId, file: u64) -> u32 {
        let delegated = self.delegations.held(client, file);
        let delegated = delegated.map_or(0, |d| access_of(d.kind, d.reads));
        self.opens.client_access(client, file) | delegated
    }
}

fn access_of(kind: DelegationKind, reads: bool) -> u32 {
    let reading = if reads { ACCESS_READ } else { 0 };
    match kind {
        DelegationKind::Read => ACCESS_READ,
        DelegationKind::Write => ACCESS_WRITE | reading,
    }
}

#[cfg(test)]
#[path = "file_delegations_tests.rs"]
mod tests;
