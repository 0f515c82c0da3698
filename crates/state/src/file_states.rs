//! All state of all files: opens, locks, delegations, layouts and revoked stateids. They are together because the rules
//! of RFC 8881 §8.2, §9 and §10.4 join them. What concerns delegations is in `file_delegations`.
//!
//! Owns the stateids. Does not own clients: it is told which client calls, from the session, and which
//! are gone ([`FileStates::remove_client`]). File ids are those of inodes, never reused. Stateids that
//! come in have passed [`crate::CurrentStateid::resolve`].

use std::collections::BTreeSet;

use nfs4::{ClientId, NfsStatus, Stateid};

use crate::delegations::{DelegationLimits, Delegations};
use crate::layouts::{IoMode, LayoutLimits, Layouts, Returned};
use crate::locks::{LockDenied, LockLimits, LockOutcome, Locks, Unblocked};
use crate::opens::{
    ACCESS_READ, ACCESS_WRITE, DENY_READ, DENY_WRITE, OpenLimits, Opened, Opens, Share,
};
use crate::ranges::{LockKind, LockRange};
use crate::revoked::{RevokeCause, Revoked};
use crate::stateid::{Other, StateKind, StateidSource, check_seqid};
use crate::wanted::Wanted;

/// READ or WRITE (with SETATTR of the size and the like).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Io {
    /// Reads data.
    Read,
    /// Changes data or size.
    Write,
}

/// What an I/O whose stateid holds rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Ground {
    /// The file was opened for it: its permission was checked then.
    Open,
    /// Nothing but the caller's permission on the file, which is still to be checked.
    Permission,
}

/// The limits of all tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StateLimits {
    /// Of opens.
    pub opens: OpenLimits,
    /// Of byte-range locks.
    pub locks: LockLimits,
    /// Of layouts.
    pub layouts: LayoutLimits,
    /// Of delegations.
    pub delegations: DelegationLimits,
}

/// What CLOSE ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closed {
    /// No open or delegation of the file is left: an unlinked file may go.
    pub last_of_file: bool,
    /// Byte-range locks went with the open: see [`FileStates::unblocked`].
    pub unlocked: bool,
    /// A layout that was to be returned on close.
    pub layout: Option<Returned>,
}

/// What a removed client leaves for the caller to settle.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ClientGone {
    /// Files that it held open or delegated and that nobody has so now, in ascending order.
    pub closed_files: Vec<u64>,
    /// Files where it held locks, in ascending order: see [`FileStates::unblocked`].
    pub unlocked_files: Vec<u64>,
    /// Layouts to fence.
    pub layouts: Vec<Returned>,
}

/// A LOCK: the range, how, and whether the client will wait for CB_NOTIFY_LOCK.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockArgs {
    /// The range.
    pub range: LockRange,
    /// The kind, without its blocking flavour.
    pub kind: LockKind,
    /// READW_LT or WRITEW_LT.
    pub blocking: bool,
}

/// A LAYOUTGET.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayoutWanted {
    /// For reading, or also for writing.
    pub mode: IoMode,
    /// The caller has the permission to read the file, opened or not.
    pub may_read: bool,
    /// The layout goes with the last close.
    pub return_on_close: bool,
}

/// All state of all files.
#[derive(Debug)]
pub struct FileStates {
    pub(crate) source: StateidSource,
    pub(crate) opens: Opens,
    pub(crate) locks: Locks,
    /// Layouts, for everything but LAYOUTGET.
    pub layouts: Layouts,
    /// Delegations, for everything but how one begins and ends.
    pub delegations: Delegations,
    pub(crate) revoked: Revoked,
}

impl FileStates {
    /// Empty tables. `boot` was never used before by this server.
    #[must_use]
    pub fn new(limits: StateLimits, boot: u32) -> Self {
        Self {
            source: StateidSource::new(boot),
            opens: Opens::new(limits.opens),
            locks: Locks::new(limits.locks),
            layouts: Layouts::new(limits.layouts),
            delegations: Delegations::new(limits.delegations),
            revoked: Revoked::default(),
        }
    }

    /// OPEN, once everything else about it is decided.
    ///
    /// # Errors
    /// `ShareDenied` (see [`FileStates::share_conflicts`]), `Inval` for impossible share bits or too
    /// long an owner, `Delay` at a limit.
    pub fn open(
        &mut self,
        client: ClientId,
        owner: &[u8],
        file: u64,
        share: Share,
    ) -> Result<Opened, NfsStatus> {
        self.opens
            .open(&mut self.source, client, owner, file, share)
    }

    /// Clients whose opens deny this one: revoke those that are lapsed, then try again.
    #[must_use]
    pub fn share_conflicts(
        &self,
        client: ClientId,
        owner: &[u8],
        file: u64,
        share: Share,
    ) -> Vec<ClientId> {
        self.opens.conflicts(client, owner, file, share)
    }

    /// OPEN_DOWNGRADE.
    ///
    /// # Errors
    /// Those of the stateid; `Inval` for a share that no OPENs in effect make up.
    pub fn open_downgrade(
        &mut self,
        stateid: Stateid,
        client: ClientId,
        file: u64,
        share: Share,
    ) -> Result<Stateid, NfsStatus> {
        self.check_not_revoked(stateid, client)?;
        self.opens.downgrade(stateid, client, file, share)
    }

    /// CLOSE. Locks taken under the open are released. The reply carries [`Stateid::INVALID`].
    ///
    /// # Errors
    /// Those of the stateid.
    pub fn close(
        &mut self,
        stateid: Stateid,
        client: ClientId,
        file: u64,
    ) -> Result<Closed, NfsStatus> {
        self.check_not_revoked(stateid, client)?;
        self.opens.check(stateid, client, file)?;
        let unlocked = self.end_open(&stateid.other);
        // Under a delegation a client opens without asking, and its layout goes on.
        let layout = if self.client_access(client, file) == 0 {
            self.layouts.closed(client, file)
        } else {
            None
        };
        Ok(Closed {
            last_of_file: self.open_count(file) == 0,
            unlocked,
            layout,
        })
    }

    /// Ends an open and the locks under it; whether any range was locked.
    pub(crate) fn end_open(&mut self, open: &Other) -> bool {
        let mut unlocked = false;
        for other in self.locks.of_open(open) {
            let state = self.locks.remove(&other);
            unlocked |= state.is_some_and(|s| !s.ranges.is_empty());
        }
        self.opens.remove(open);
        unlocked
    }

    /// Checks the stateid of READ, WRITE or SETATTR of the size (RFC 8881 §8.2.5, §18.22, §18.32). A client that opened for writing
    /// alone may read, for the sake of its page cache (§9.1.2). It may not if somebody denies reading, or the caller lacks the
    /// permission.
    ///
    /// # Errors
    /// `Locked` against a deny mode for what was not opened, `OpenMode`, `BadStateid`, `OldStateid`, or
    /// how the state was revoked.
    pub fn check_io(
        &self,
        stateid: Stateid,
        client: ClientId,
        file: u64,
        io: Io,
    ) -> Result<Ground, NfsStatus> {
        if stateid.is_special() {
            return self.check_special_io(stateid, file, io);
        }
        let access = self.access_of(stateid, client, file)?;
        match io {
            Io::Write if access & ACCESS_WRITE == 0 => Err(NfsStatus::OpenMode),
            Io::Read if access & ACCESS_READ == 0 => self.check_deny(file, DENY_READ),
            _ if StateKind::of(&stateid.other) == Some(StateKind::Delegation) => {
                Ok(self.ground_of_delegated(client, file, io))
            }
            _ => Ok(Ground::Open),
        }
    }

    /// Who opened under a delegation was not seen by this server; another open of the same client that it did see will do.
    fn ground_of_delegated(&self, client: ClientId, file: u64, io: Io) -> Ground {
        let needed = match io {
            Io::Read => ACCESS_READ,
            Io::Write => ACCESS_WRITE,
        };
        if self.opens.client_access(client, file) & needed == 0 {
            Ground::Permission
        } else {
            Ground::Open
        }
    }

    /// What the open of a stateid, or the one behind a lock, was opened for, or what a delegation allows.
    fn access_of(&self, stateid: Stateid, client: ClientId, file: u64) -> Result<u32, NfsStatus> {
        self.check_not_revoked(stateid, client)?;
        match StateKind::of(&stateid.other) {
            Some(StateKind::Open) => Ok(self.opens.check(stateid, client, file)?.access()),
            Some(StateKind::Lock) => {
                let lock = self.locks.check(stateid, client, file)?;
                let open = lock.open.and_then(|open| self.opens.by_other(&open));
                Ok(open.ok_or(NfsStatus::BadStateid)?.access())
            }
            Some(StateKind::Delegation) => self.delegated_access(stateid, client, file),
            Some(StateKind::Layout | StateKind::Copy) | None => Err(NfsStatus::BadStateid),
        }
    }

    fn check_special_io(&self, stateid: Stateid, file: u64, io: Io) -> Result<Ground, NfsStatus> {
        let denied = match (stateid, io) {
            (Stateid::READ_BYPASS, Io::Read) => 0,
            (Stateid::ANONYMOUS, Io::Read) => DENY_READ,
            (Stateid::ANONYMOUS | Stateid::READ_BYPASS, Io::Write) => DENY_WRITE,
            _ => return Err(NfsStatus::BadStateid),
        };
        self.check_deny(file, denied)
    }

    fn check_deny(&self, file: u64, denied: u32) -> Result<Ground, NfsStatus> {
        if self.opens.deny(file) & denied != 0 {
            return Err(NfsStatus::Locked);
        }
        Ok(Ground::Permission)
    }

    /// LOCK with `open_to_lock_owner4`. An owner that has a lock state on the file goes on with it.
    ///
    /// # Errors
    /// Those of the open's stateid; `OpenMode` when the open does not allow the kind; `Delay` at a
    /// limit.
    pub fn lock_by_open(
        &mut self,
        open: Stateid,
        client: ClientId,
        owner: &[u8],
        file: u64,
        args: LockArgs,
    ) -> Result<LockOutcome, NfsStatus> {
        self.check_not_revoked(open, client)?;
        let access = self.opens.check(open, client, file)?.access();
        Self::check_lock_mode(access, args.kind)?;
        let wanted = Wanted {
            client,
            owner,
            file,
            range: args.range,
            kind: args.kind,
        };
        self.locks
            .lock(&mut self.source, open.other, &wanted, args.blocking)
    }

    /// LOCK with `exist_lock_owner4`.
    ///
    /// # Errors
    /// As [`FileStates::lock_by_open`], of the lock's stateid.
    pub fn lock_by_owner(
        &mut self,
        lock: Stateid,
        client: ClientId,
        file: u64,
        args: LockArgs,
    ) -> Result<LockOutcome, NfsStatus> {
        self.check_not_revoked(lock, client)?;
        let open = self.locks.check(lock, client, file)?.open;
        let open = open.ok_or(NfsStatus::BadStateid)?;
        let access = self
            .opens
            .by_other(&open)
            .ok_or(NfsStatus::BadStateid)?
            .access();
        Self::check_lock_mode(access, args.kind)?;
        let owner = self
            .locks
            .owner_of(&lock.other)
            .ok_or(NfsStatus::BadStateid)?;
        let wanted = Wanted {
            client,
            owner: &owner,
            file,
            range: args.range,
            kind: args.kind,
        };
        self.locks
            .lock(&mut self.source, open, &wanted, args.blocking)
    }

    fn check_lock_mode(access: u32, kind: LockKind) -> Result<(), NfsStatus> {
        let needed = match kind {
            LockKind::Read => ACCESS_READ,
            LockKind::Write => ACCESS_WRITE,
        };
        if access & needed == 0 {
            return Err(NfsStatus::OpenMode);
        }
        Ok(())
    }

    /// LOCKT: the lock in the way, if any.
    #[must_use]
    pub fn lock_test(
        &self,
        client: ClientId,
        owner: &[u8],
        file: u64,
        range: LockRange,
        kind: LockKind,
    ) -> Option<LockDenied> {
        self.locks.conflict(&Wanted {
            client,
            owner,
            file,
            range,
            kind,
        })
    }

    /// LOCKU.
    ///
    /// # Errors
    /// Those of the stateid; `Delay` when a split would pass the limit.
    pub fn unlock(
        &mut self,
        lock: Stateid,
        client: ClientId,
        file: u64,
        range: LockRange,
    ) -> Result<Stateid, NfsStatus> {
        self.check_not_revoked(lock, client)?;
        self.locks.unlock(lock, client, file, range)
    }

    /// Takes those whose denied blocking lock on the file is free now. Owners of NFSv4 are to be told by CB_NOTIFY_LOCK. Hosts of NLM
    /// hold theirs from now on, and are to be told by GRANTED.
    pub fn unblocked(&mut self, file: u64) -> Unblocked {
        self.locks.unblocked(&mut self.source, file)
    }

    /// LAYOUTGET with a stateid of an open, a lock, a delegation or a layout (RFC 8881 §12.5.2, §18.43.3). Any layout
    /// lets its client read, so it takes an open for reading, or `may_read`: that the caller has the
    /// permission.
    ///
    /// # Errors
    /// Those of the stateid. `OpenMode` to write without an open for writing. `Access` to read, and
    /// `LayoutUnavailable` to write, for one that may not read; else as the layouts say: `RecallConflict`,
    /// `ReturnConflict`, `LayoutTryLater`.
    pub fn layout_get(
        &mut self,
        stateid: Stateid,
        client: ClientId,
        file: u64,
        want: LayoutWanted,
    ) -> Result<Stateid, NfsStatus> {
        if stateid.is_special() {
            return Err(NfsStatus::BadStateid);
        }
        let (layout, access) = if StateKind::of(&stateid.other) == Some(StateKind::Layout) {
            self.check_not_revoked(stateid, client)?;
            (Some(stateid), self.client_access(client, file))
        } else {
            (None, self.access_of(stateid, client, file)?)
        };
        if want.mode == IoMode::ReadWrite && access & ACCESS_WRITE == 0 {
            return Err(NfsStatus::OpenMode);
        }
        if access & ACCESS_READ == 0 {
            let denied = self.opens.deny(file) & DENY_READ != 0;
            match want.mode {
                IoMode::Read if denied => return Err(NfsStatus::Locked),
                IoMode::Read if !want.may_read => return Err(NfsStatus::Access),
                IoMode::ReadWrite if denied || !want.may_read => {
                    return Err(NfsStatus::LayoutUnavailable);
                }
                _ => {}
            }
        }
        self.layouts.get(
            &mut self.source,
            client,
            file,
            layout,
            want.mode,
            want.return_on_close,
        )
    }

    /// Opens and delegations of a file: an unlinked one is kept while there are any.
    #[must_use]
    pub fn open_count(&self, file: u64) -> usize {
        self.opens.count_of_file(file) + self.delegations.count_of_file(file)
    }

    /// Whether anybody has the file open, delegations aside.
    #[must_use]
    pub fn is_open(&self, file: u64) -> bool {
        self.opens.count_of_file(file) > 0
    }

    /// TEST_STATEID of one stateid (RFC 8881 §18.48).
    #[must_use]
    pub fn test_stateid(&self, stateid: Stateid, client: ClientId) -> NfsStatus {
        if stateid.is_special() {
            return NfsStatus::BadStateid;
        }
        if let Some(cause) = self.revoked.cause(client, &stateid.other) {
            return cause.status();
        }
        let other = &stateid.other;
        let found = match StateKind::of(other) {
            Some(StateKind::Open) => self.opens.by_other(other).map(|o| (o.client, o.seqid)),
            Some(StateKind::Lock) => self.locks.by_other(other).map(|l| (l.client, l.seqid)),
            Some(StateKind::Layout) => self.layouts.by_other(other),
            Some(StateKind::Delegation) => self.delegations.by_other(other),
            Some(StateKind::Copy) | None => None,
        };
        match found {
            Some((holder, seqid)) if holder == client => check_seqid(stateid.seqid, seqid)
                .err()
                .unwrap_or(NfsStatus::Ok),
            _ => NfsStatus::BadStateid,
        }
    }

    /// FREE_STATEID (RFC 8881 §18.38): of a revoked stateid, or of a lock state that locks nothing.
    ///
    /// # Errors
    /// `LocksHeld` for state that is in use, `OldStateid`, `BadStateid`.
    pub fn free_stateid(&mut self, stateid: Stateid, client: ClientId) -> Result<(), NfsStatus> {
        if self.revoked.free(client, &stateid.other) {
            return Ok(());
        }
        match self.test_stateid(stateid, client) {
            NfsStatus::Ok => {}
            status => return Err(status),
        }
        let idle = self
            .locks
            .by_other(&stateid.other)
            .is_some_and(|l| l.ranges.is_empty());
        if !idle {
            return Err(NfsStatus::LocksHeld);
        }
        self.locks.remove(&stateid.other);
        Ok(())
    }

    /// Takes an open (with its locks) or a lock state from a client that lives on, and remembers why.
    /// For layouts see [`Layouts::revoke`]. Returns the file, or `None` if there is no such state.
    pub fn revoke_state(&mut self, other: &Other, cause: RevokeCause) -> Option<u64> {
        if let Some(lock) = self.locks.remove(other) {
            self.revoked.add(lock.client, *other, cause);
            return Some(lock.file);
        }
        let (client, file) = self.opens.by_other(other).map(|o| (o.client, o.file))?;
        for lock in self.locks.of_open(other) {
            self.revoked.add(client, lock, cause);
        }
        self.end_open(other);
        self.revoked.add(client, *other, cause);
        Some(file)
    }

    /// Whether any client has revoked state that it has not freed.
    #[must_use]
    pub fn has_revoked(&self) -> bool {
        !self.revoked.is_empty()
    }

    /// The SEQUENCE status flags of revoked state.
    #[must_use]
    pub fn revoked_flags(&self, client: ClientId) -> u32 {
        self.revoked.status_flags(client)
    }

    /// Whether a client has opens, locks, delegations or layouts.
    #[must_use]
    pub fn has_state(&self, client: ClientId) -> bool {
        self.opens.has_client(client)
            || self.locks.has_client(client)
            || self.delegations.has_client(client)
            || self.layouts.has_client(client)
    }

    /// Drops all state of a client that is gone.
    pub fn remove_client(&mut self, client: ClientId) -> ClientGone {
        let mut files = BTreeSet::new();
        let mut unlocked = BTreeSet::new();
        for other in self.opens.of_client(client) {
            let file = self.opens.by_other(&other).map(|o| o.file);
            let had_locks = self.end_open(&other);
            files.extend(file);
            unlocked.extend(file.filter(|_| had_locks));
        }
        for other in self.locks.of_client(client) {
            unlocked.extend(self.locks.remove(&other).map(|lock| lock.file));
        }
        for other in self.delegations.of_client(client) {
            files.extend(self.delegations.remove(&other).map(|d| d.file));
        }
        self.delegations.forget_client(client);
        self.locks.forget_client(client);
        self.revoked.forget_client(client);
        let layouts = self
            .layouts
            .return_all(client, crate::layouts::IoModes::ANY, None);
        self.layouts.forget_devices_of(client);
        ClientGone {
            closed_files: files
                .into_iter()
                .filter(|f| self.open_count(*f) == 0)
                .collect(),
            unlocked_files: unlocked.into_iter().collect(),
            layouts,
        }
    }

    /// Opens, lock states and layout states, for metrics.
    #[must_use]
    pub fn counts(&self) -> (usize, usize, usize) {
        (self.opens.len(), self.locks.len(), self.layouts.len())
    }

    pub(crate) fn check_not_revoked(
        &self,
        stateid: Stateid,
        client: ClientId,
    ) -> Result<(), NfsStatus> {
        match self.revoked.cause(client, &stateid.other) {
            Some(cause) => Err(cause.status()),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
#[path = "file_states_tests.rs"]
mod tests;
