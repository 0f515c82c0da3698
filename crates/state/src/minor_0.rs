//! What NFSv4.0 asks of opens, locks and delegations that NFSv4.1 does not.

use nfs4::{ClientId, NfsStatus, Stateid};

use crate::stateid::{Other, StateKind};
use crate::{FileStates, Share};

impl FileStates {
    /// Whether a stateid was given by this run of the server.
    #[must_use]
    pub fn is_of_this_boot(&self, other: &Other) -> bool {
        self.source.is_of_this_boot(other)
    }

    /// Who has an open, a lock state or a delegation, or had a delegation that was revoked.
    #[must_use]
    pub fn client_of(&self, other: &Other) -> Option<ClientId> {
        match StateKind::of(other)? {
            StateKind::Open => self.opens.by_other(other).map(|o| o.client),
            StateKind::Lock => self.locks.by_other(other).map(|l| l.client),
            StateKind::Delegation => {
                let held = self.delegations.by_other(other).map(|(client, _)| client);
                held.or_else(|| self.revoked.client_of(other))
            }
            StateKind::Layout | StateKind::Copy => None,
        }
    }

    /// Whether a client has delegations.
    #[must_use]
    pub fn has_delegations(&self, client: ClientId) -> bool {
        self.delegations.has_client(client)
    }

    /// OPEN_CONFIRM (RFC 7530 §16.18): the stateid of the open from now on.
    ///
    /// # Errors
    /// Those of the stateid.
    pub fn confirm_open(
        &mut self,
        stateid: Stateid,
        client: ClientId,
        file: u64,
    ) -> Result<Stateid, NfsStatus> {
        self.check_not_revoked(stateid, client)?;
        self.opens.confirm(stateid, client, file)
    }

    /// Closes an open that its client never confirmed. Answers the file when nobody else has it open.
    pub fn abandon_open(&mut self, client: ClientId, open: &Other) -> Option<u64> {
        let file = (self.opens.by_other(open).filter(|o| o.client == client))?.file;
        self.end_open(open);
        (self.open_count(file) == 0).then_some(file)
    }

    /// Whether a lock-owner has anything locked on the file.
    #[must_use]
    pub fn has_locks(&self, client: ClientId, owner: &[u8], file: u64) -> bool {
        self.locks.has_ranges(client, owner, file)
    }

    /// Whether an owner's own open stands against its OPEN: in NFSv4.0 it does (RFC 7530 §9.9).
    #[must_use]
    pub fn own_share_conflict(
        &self,
        client: ClientId,
        owner: &[u8],
        file: u64,
        share: Share,
    ) -> bool {
        self.opens.own_conflict(client, owner, file, share)
    }

    /// RELEASE_LOCKOWNER of an owner with these lock states: they go.
    ///
    /// # Errors
    /// `LocksHeld` when any range of them is locked; nothing is released then.
    pub fn release_lock_owner(
        &mut self,
        client: ClientId,
        states: &[Other],
    ) -> Result<(), NfsStatus> {
        let of_client = |other: &Other| {
            let state = self.locks.by_other(other)?;
            (state.client == client).then_some(state)
        };
        let holds = |other: &Other| of_client(other).is_some_and(|s| !s.ranges.is_empty());
        if states.iter().any(holds) {
            return Err(NfsStatus::LocksHeld);
        }
        let released: Vec<_> = states.iter().filter(|o| of_client(o).is_some()).collect();
        for other in released {
            self.locks.remove(other);
        }
        Ok(())
    }
}
