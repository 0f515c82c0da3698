//! Byte-range locks of lock-owners on files (RFC 8881 §9.1 to §9.6, §18.10 to §18.12).
//!
//! Owns one lock state for each (client, lock-owner, file), made under an open and gone with it. Owns the list of clients that were
//! denied a blocking lock. Does not own opens: [`crate::FileStates`] checks them. Memory: about 300 bytes a lock state plus twice
//! the owner, 50 bytes a range, 150 bytes a waiter.

use std::collections::{BTreeMap, BTreeSet};

use nfs4::{ClientId, NfsStatus, Stateid};

use crate::OWNER_BYTES_MAX;
use crate::ranges::{LockKind, LockRange, RangeSet};
use crate::stateid::{Other, StateKind, StateidSource, check_seqid, next_seqid};

/// The limits of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockLimits {
    /// Most lock states of one client.
    pub states_per_client_max: usize,
    /// Most lock states of all clients.
    pub states_total_max: usize,
    /// Most ranges of one owner on one file.
    pub ranges_per_owner_max: usize,
    /// Most ranges of all owners on one file.
    pub ranges_per_file_max: usize,
    /// Most ranges of one client.
    pub ranges_per_client_max: usize,
    /// Most ranges of all clients.
    pub ranges_total_max: usize,
    /// Most denied blocking requests remembered for one file; more are merely not told.
    pub waiters_per_file_max: usize,
    /// Most denied blocking requests remembered in all.
    pub waiters_max: usize,
}

impl Default for LockLimits {
    fn default() -> Self {
        Self {
            states_per_client_max: 262_144,
            states_total_max: 1_048_576,
            ranges_per_owner_max: 16_384,
            ranges_per_file_max: 131_072,
            ranges_per_client_max: 1_048_576,
            ranges_total_max: 4_194_304,
            waiters_per_file_max: 256,
            waiters_max: 65_536,
        }
    }
}

/// Who holds the lock that is in the way (`LOCK4denied`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockDenied {
    /// The range that is held.
    pub range: LockRange,
    /// How it is held.
    pub kind: LockKind,
    /// The holder's client: if it is lapsed, revoke it and try again.
    pub client: ClientId,
    /// The holder's lock-owner.
    pub owner: Vec<u8>,
}

/// Answer to LOCK.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LockOutcome {
    /// The lock is held; its stateid.
    Granted(Stateid),
    /// `NFS4ERR_DENIED`.
    Denied(LockDenied),
}

#[derive(Debug)]
pub(crate) struct LockState {
    pub(crate) client: ClientId,
    pub(crate) file: u64,
    owner: Vec<u8>,
    /// The open under which it was made; its end is the end of the locks.
    pub(crate) open: Other,
    pub(crate) seqid: u32,
    pub(crate) ranges: RangeSet,
}

#[derive(Debug)]
struct Waiter {
    client: ClientId,
    owner: Vec<u8>,
    range: LockRange,
    kind: LockKind,
}

#[derive(Debug, Default)]
struct FileLocks {
    states: BTreeSet<Other>,
    ranges_count: usize,
    /// In the order of their coming.
    waiters: Vec<Waiter>,
}

/// What a client holds.
#[derive(Debug, Default)]
struct Held {
    states_count: usize,
    ranges_count: usize,
}

/// All locks.
#[derive(Debug)]
pub(crate) struct Locks {
    limits: LockLimits,
    states: BTreeMap<Other, LockState>,
    by_owner: BTreeMap<(ClientId, u64, Vec<u8>), Other>,
    by_open: BTreeMap<Other, BTreeSet<Other>>,
    files: BTreeMap<u64, FileLocks>,
    per_client: BTreeMap<ClientId, Held>,
    ranges_count: usize,
    waiters_count: usize,
}

/// A lock that is wanted, by whom, where and how.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) client: ClientId,
    pub(crate) owner: &'a [u8],
    pub(crate) file: u64,
    pub(crate) range: LockRange,
    pub(crate) kind: LockKind,
}

impl Locks {
    pub(crate) fn new(limits: LockLimits) -> Self {
        Self {
            limits,
            states: BTreeMap::new(),
            by_owner: BTreeMap::new(),
            by_open: BTreeMap::new(),
            files: BTreeMap::new(),
            per_client: BTreeMap::new(),
            ranges_count: 0,
            waiters_count: 0,
        }
    }

    /// LOCKT, and the test before LOCK: the lowest lock of another owner in the way.
    pub(crate) fn conflict(&self, wanted: &Wanted<'_>) -> Option<LockDenied> {
        let states = &self.files.get(&wanted.file)?.states;
        states
            .iter()
            .filter_map(|other| self.states.get(other))
            .filter(|s| (s.client, s.owner.as_slice()) != (wanted.client, wanted.owner))
            .filter_map(|s| {
                let (range, kind) = s.ranges.conflict(wanted.range, wanted.kind)?;
                Some((range, kind, s))
            })
            .min_by_key(|(range, _, _)| range.first)
            .map(|(range, kind, s)| LockDenied {
                range,
                kind,
                client: s.client,
                owner: s.owner.clone(),
            })
    }

    /// Locks for an owner, making its state under `open` if it has none on the file.
    pub(crate) fn lock(
        &mut self,
        source: &mut StateidSource,
        open: Other,
        wanted: &Wanted<'_>,
        blocking: bool,
    ) -> Result<LockOutcome, NfsStatus> {
        if wanted.owner.len() > OWNER_BYTES_MAX {
            return Err(NfsStatus::Inval);
        }
        if let Some(denied) = self.conflict(wanted) {
            if blocking {
                self.remember(wanted);
            }
            return Ok(LockOutcome::Denied(denied));
        }
        let other = self.state_for(source, open, wanted)?;
        // A lock adds at most two ranges.
        if !self.has_room(&self.states[&other], 2) {
            let unused = self.states[&other].seqid == 0;
            if unused {
                self.remove(&other);
            }
            return Err(NfsStatus::Delay);
        }
        let stateid = self.change(&other, |ranges| ranges.set(wanted.range, wanted.kind));
        self.forget_waiter(wanted.file, wanted.client, wanted.owner);
        Ok(LockOutcome::Granted(stateid))
    }

    /// Whether a lock state may get so many ranges more.
    fn has_room(&self, state: &LockState, more_count: usize) -> bool {
        let limits = &self.limits;
        let of_file = self.files.get(&state.file);
        let of_client = self.per_client.get(&state.client);
        state.ranges.len() + more_count <= limits.ranges_per_owner_max
            && of_file.map_or(0, |f| f.ranges_count) + more_count <= limits.ranges_per_file_max
            && of_client.map_or(0, |c| c.ranges_count) + more_count <= limits.ranges_per_client_max
            && self.ranges_count + more_count <= limits.ranges_total_max
    }

    /// Changes the ranges of a state that is there, keeps the counts, and gives its next stateid.
    fn change(&mut self, other: &Other, how: impl FnOnce(&mut RangeSet)) -> Stateid {
        let state = self.states.get_mut(other).expect("the state is there");
        let before = state.ranges.len();
        how(&mut state.ranges);
        let after = state.ranges.len();
        state.seqid = next_seqid(state.seqid);
        let stateid = Stateid {
            seqid: state.seqid,
            other: *other,
        };
        let file = self.files.entry(state.file).or_default();
        let client = self.per_client.entry(state.client).or_default();
        for count in [
            &mut file.ranges_count,
            &mut client.ranges_count,
            &mut self.ranges_count,
        ] {
            *count = *count + after - before;
        }
        stateid
    }

    fn state_for(
        &mut self,
        source: &mut StateidSource,
        open: Other,
        wanted: &Wanted<'_>,
    ) -> Result<Other, NfsStatus> {
        let key = (wanted.client, wanted.file, wanted.owner.to_vec());
        if let Some(other) = self.by_owner.get(&key) {
            return Ok(*other);
        }
        let of_client = self.per_client.get(&wanted.client);
        if of_client.map_or(0, |c| c.states_count) >= self.limits.states_per_client_max
            || self.states.len() >= self.limits.states_total_max
        {
            return Err(NfsStatus::Delay);
        }
        self.per_client
            .entry(wanted.client)
            .or_default()
            .states_count += 1;
        let other = source.next(StateKind::Lock);
        self.by_owner.insert(key, other);
        self.by_open.entry(open).or_default().insert(other);
        self.files
            .entry(wanted.file)
            .or_default()
            .states
            .insert(other);
        self.states.insert(
            other,
            LockState {
                client: wanted.client,
                file: wanted.file,
                owner: wanted.owner.to_vec(),
                open,
                seqid: 0,
                ranges: RangeSet::default(),
            },
        );
        Ok(other)
    }

    /// Finds a lock state by stateid, with the checks of RFC 8881 §8.2.4.
    pub(crate) fn check(
        &self,
        stateid: Stateid,
        client: ClientId,
        file: u64,
    ) -> Result<&LockState, NfsStatus> {
        let state = self
            .states
            .get(&stateid.other)
            .filter(|s| s.client == client && s.file == file)
            .ok_or(NfsStatus::BadStateid)?;
        check_seqid(stateid.seqid, state.seqid)?;
        Ok(state)
    }

    pub(crate) fn by_other(&self, other: &Other) -> Option<&LockState> {
        self.states.get(other)
    }

    /// The lock-owner of a state.
    pub(crate) fn owner_of(&self, other: &Other) -> Option<Vec<u8>> {
        self.states.get(other).map(|s| s.owner.clone())
    }

    /// LOCKU. The state stays, even without a lock, until its open ends or FREE_STATEID.
    pub(crate) fn unlock(
        &mut self,
        stateid: Stateid,
        client: ClientId,
        file: u64,
        range: LockRange,
    ) -> Result<Stateid, NfsStatus> {
        self.check(stateid, client, file)?;
        // Only a split adds a range; any other unlock succeeds, or an owner at its limit could never
        // get below it.
        let state = &self.states[&stateid.other];
        if state.ranges.splits(range) && !self.has_room(state, 1) {
            return Err(NfsStatus::Delay);
        }
        Ok(self.change(&stateid.other, |ranges| ranges.clear(range)))
    }

    pub(crate) fn remove(&mut self, other: &Other) -> Option<LockState> {
        let state = self.states.remove(other)?;
        self.by_owner
            .remove(&(state.client, state.file, state.owner.clone()));
        if let Some(set) = self.by_open.get_mut(&state.open) {
            set.remove(other);
            if set.is_empty() {
                self.by_open.remove(&state.open);
            }
        }
        if let Some(file) = self.files.get_mut(&state.file) {
            file.states.remove(other);
            file.ranges_count -= state.ranges.len();
        }
        self.drop_file_if_empty(state.file);
        self.ranges_count -= state.ranges.len();
        if let Some(held) = self.per_client.get_mut(&state.client) {
            held.states_count -= 1;
            held.ranges_count -= state.ranges.len();
            if held.states_count == 0 {
                self.per_client.remove(&state.client);
            }
        }
        Some(state)
    }

    /// Names of the lock states made under an open.
    pub(crate) fn of_open(&self, open: &Other) -> Vec<Other> {
        self.by_open
            .get(open)
            .map_or_else(Vec::new, |set| set.iter().copied().collect())
    }

    fn remember(&mut self, wanted: &Wanted<'_>) {
        self.forget_waiter(wanted.file, wanted.client, wanted.owner);
        let file = self.files.entry(wanted.file).or_default();
        if file.waiters.len() >= self.limits.waiters_per_file_max
            || self.waiters_count >= self.limits.waiters_max
        {
            return;
        }
        self.waiters_count += 1;
        file.waiters.push(Waiter {
            client: wanted.client,
            owner: wanted.owner.to_vec(),
            range: wanted.range,
            kind: wanted.kind,
        });
    }

    fn forget_waiter(&mut self, file: u64, client: ClientId, owner: &[u8]) {
        if let Some(locks) = self.files.get_mut(&file) {
            let before = locks.waiters.len();
            locks
                .waiters
                .retain(|w| (w.client, w.owner.as_slice()) != (client, owner));
            self.waiters_count -= before - locks.waiters.len();
        }
        self.drop_file_if_empty(file);
    }

    fn drop_file_if_empty(&mut self, file: u64) {
        if self
            .files
            .get(&file)
            .is_some_and(|f| f.states.is_empty() && f.waiters.is_empty())
        {
            self.files.remove(&file);
        }
    }

    /// Takes those whose wanted lock is free now, in the order of their coming.
    pub(crate) fn unblocked(&mut self, file: u64) -> Vec<(ClientId, Vec<u8>)> {
        let Some(locks) = self.files.get_mut(&file) else {
            return Vec::new();
        };
        let (ready, waiting): (Vec<_>, Vec<_>) = std::mem::take(&mut locks.waiters)
            .into_iter()
            .partition(|w| {
                self.states
                    .values_of(&locks.states)
                    .filter(|s| (s.client, &s.owner) != (w.client, &w.owner))
                    .all(|s| s.ranges.conflict(w.range, w.kind).is_none())
            });
        locks.waiters = waiting;
        self.waiters_count -= ready.len();
        self.drop_file_if_empty(file);
        ready.into_iter().map(|w| (w.client, w.owner)).collect()
    }

    /// Forgets what a client waits for. Its lock states go with its opens.
    pub(crate) fn forget_client(&mut self, client: ClientId) {
        let mut forgotten = 0;
        self.files.retain(|_, file| {
            let before = file.waiters.len();
            file.waiters.retain(|w| w.client != client);
            forgotten += before - file.waiters.len();
            !(file.states.is_empty() && file.waiters.is_empty())
        });
        self.waiters_count -= forgotten;
    }

    pub(crate) fn len(&self) -> usize {
        self.states.len()
    }

    #[cfg(test)]
    pub(crate) fn waiters_count(&self) -> usize {
        self.waiters_count
    }
}

/// Lookup of several names at once.
trait ValuesOf {
    fn values_of<'a>(&'a self, names: &'a BTreeSet<Other>) -> impl Iterator<Item = &'a LockState>;
}

impl ValuesOf for BTreeMap<Other, LockState> {
    fn values_of<'a>(&'a self, names: &'a BTreeSet<Other>) -> impl Iterator<Item = &'a LockState> {
        names.iter().filter_map(|other| self.get(other))
    }
}
