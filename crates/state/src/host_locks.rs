//! Locks and shares of hosts that speak NLM (RFC 1813 Appendix II), which have no opens and no stateids.
//!
//! Owns no table: the locks are in that of all others, so that each version sees those of each other one.
//!
//! # Ordering
//! A waiting request is granted before its host is told. Until the host has answered, its grant is untold. A LOCK, UNLOCK or CANCEL
//! of the same owner ends that: the host knows by itself then, and what it answers to GRANTED does not count any more.

use nfs4::{ClientId, NfsStatus};

use crate::file_states::{FileStates, LockArgs};
use crate::locks::{LockDenied, WaitsBy};
use crate::opens::Share;
use crate::ranges::LockRange;
use crate::untold_grants::HostGrant;
use crate::wanted::Wanted;

/// Answer to LOCK of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostLock {
    /// The host holds the lock.
    Granted,
    /// It waits: it will be granted the lock and told ([`FileStates::unblocked`]). What is in the way now.
    Waits(LockDenied),
    /// What is in the way.
    Denied(LockDenied),
}

impl FileStates {
    /// LOCK of a host. A blocking one that is denied is remembered, once for each range and kind of its owner.
    ///
    /// # Errors
    /// `Resource` at a limit of locks or waiting requests, or for too long an owner.
    pub fn lock_by_host(
        &mut self,
        client: ClientId,
        owner: &[u8],
        file: u64,
        args: LockArgs,
    ) -> Result<HostLock, NfsStatus> {
        if owner.len() > crate::OWNER_BYTES_MAX {
            return Err(NfsStatus::Resource);
        }
        let wanted = Wanted {
            client,
            owner,
            file,
            range: args.range,
            kind: args.kind,
        };
        if let Some(denied) = self.locks.conflict(&wanted) {
            if !args.blocking {
                return Ok(HostLock::Denied(denied));
            }
            let is_remembered = self.locks.remember(&wanted, WaitsBy::Grant);
            return is_remembered
                .then_some(HostLock::Waits(denied))
                .ok_or(NfsStatus::Resource);
        }
        let granted = self.locks.grant(&mut self.source, None, &wanted);
        granted.map_err(|_| NfsStatus::Resource)?;
        self.locks.forget_waiter(&wanted, WaitsBy::Grant);
        self.locks.untold.forget_owner(client, file, owner);
        Ok(HostLock::Granted)
    }

    /// UNLOCK of a host. What is not locked counts as unlocked. Returns whether the owner had locks of the file.
    ///
    /// # Errors
    /// `Resource` when a split would pass the limit.
    pub fn unlock_by_host(
        &mut self,
        client: ClientId,
        owner: &[u8],
        file: u64,
        range: LockRange,
    ) -> Result<bool, NfsStatus> {
        self.locks.untold.forget_owner(client, file, owner);
        let Some(other) = self.locks.of_owner(client, file, owner) else {
            return Ok(false);
        };
        let cleared = self.locks.clear(&other, range);
        cleared.map_err(|_| NfsStatus::Resource)?;
        let is_empty = |l: &crate::locks::LockState| l.ranges.is_empty();
        if self.locks.by_other(&other).is_some_and(is_empty) {
            self.locks.remove(&other);
        }
        Ok(true)
    }

    /// CANCEL of a host: it waits no more. Returns whether it did.
    pub fn cancel_by_host(
        &mut self,
        client: ClientId,
        owner: &[u8],
        file: u64,
        args: LockArgs,
    ) -> bool {
        self.locks.untold.forget_owner(client, file, owner);
        let wanted = Wanted {
            client,
            owner,
            file,
            range: args.range,
            kind: args.kind,
        };
        self.locks.forget_waiter(&wanted, WaitsBy::Grant)
    }

    /// The host has taken the lock of a grant, or cannot be reached. Then it may have taken it, and keeps it.
    pub fn grant_told(&mut self, id: u64) {
        self.locks.untold.take(id);
    }

    /// The host does not want the lock of a grant. It loses the lock, unless it has asked for something since. Returns whether it
    /// lost it: see [`FileStates::unblocked`].
    pub fn grant_refused(&mut self, id: u64) -> bool {
        let Some(grant) = self.locks.untold.take(id) else {
            return false;
        };
        let HostGrant {
            client,
            owner,
            file,
            range,
            ..
        } = grant;
        let unlocked = self.unlock_by_host(client, &owner, file, range);
        unlocked.unwrap_or(false)
    }

    /// SHARE of a host: it replaces the one that its owner has on the file. `access` may be 0 here.
    ///
    /// # Errors
    /// `ShareDenied`; `Resource` at a limit; `Inval` for impossible bits or too long an owner.
    pub fn share_by_host(
        &mut self,
        client: ClientId,
        owner: &[u8],
        file: u64,
        share: Share,
    ) -> Result<(), NfsStatus> {
        if !self.opens.conflicts(client, owner, file, share).is_empty() {
            return Err(NfsStatus::ShareDenied);
        }
        self.unshare_by_host(client, owner, file);
        let source = &mut self.source;
        let shared = self.opens.share(source, client, owner, file, share);
        shared.map(drop).map_err(|status| match status {
            NfsStatus::Delay => NfsStatus::Resource,
            other => other,
        })
    }

    /// UNSHARE of a host. Returns whether nobody has the file open now: an unlinked one may go.
    pub fn unshare_by_host(&mut self, client: ClientId, owner: &[u8], file: u64) -> bool {
        let Some(other) = self.opens.of_owner(client, file, owner) else {
            return false;
        };
        self.opens.remove(&other);
        self.open_count(file) == 0
    }

    /// Ranges that a host has locked, and files that it shares.
    #[must_use]
    pub fn held_by_host(&self, client: ClientId) -> (usize, usize) {
        let ranges = self.locks.ranges_of(client);
        (ranges, self.opens.of_client(client).len())
    }

    /// Whether hosts hold locks of the file, or wait for some.
    #[must_use]
    pub fn has_host_locks(&self, file: u64) -> bool {
        self.locks.has_hosts(file)
    }
}

#[cfg(test)]
#[path = "host_locks_tests.rs"]
mod tests;
