//! Byte-range locks of lock-owners on files (RFC 8881 §9.1 to §9.6, §18.10 to §18.12).
//!
//! Owns one lock state for each (client, lock-owner, file). It is made under an open and gone with it, or it is that of a host of NLM,
//! which has no opens ([`crate::host_locks`]). Owns the list of those who were denied a blocking lock. Does not own opens:
//! [`crate::FileStates`] checks them. Memory: about 300 bytes a lock state plus twice the owner, 50 bytes a range, 150 bytes a waiter.

use std::collections::{BTreeMap, BTreeSet};

use nfs4::{ClientId, NfsStatus, Stateid};

use crate::OWNER_BYTES_MAX;
use crate::ranges::{LockKind, LockRange, RangeSet};
use crate::stateid::{Other, StateKind, StateidSource, check_seqid, next_seqid};
use crate::untold_grants::{HostGrant, UntoldGrants};
use crate::wanted::Wanted;

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
    /// Most denied blocking requests remembered for one file; more are merely not told, or refused where they must be.
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
    pub(crate) owner: Vec<u8>,
    /// The open under which it was made; its end is the end of the locks. `None` of a host.
    pub(crate) open: Option<Other>,
    pub(crate) seqid: u32,
    pub(crate) ranges: RangeSet,
}

/// Who was denied a blocking lock.
#[derive(Debug)]
struct Waiter {
    client: ClientId,
    owner: Vec<u8>,
    range: LockRange,
    kind: LockKind,
    by: WaitsBy,
}

/// How a denied blocking request ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitsBy {
    /// Its client asks again; it is told when that may help (NFSv4).
    Asking,
    /// It is granted, and its client is told (NLM).
    Grant,
}

#[derive(Debug, Default)]
struct FileLocks {
    states: BTreeSet<Other>,
    /// Those of them without an open.
    host_states_count: usize,
    ranges_count: usize,
    /// In the order of their coming.
    waiters: Vec<Waiter>,
}

/// What a release of locks brings to those who wait.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Unblocked {
    /// Owners of NFSv4 whose wanted lock is free now. They may have lost interest, or find it taken again.
    pub free: Vec<(ClientId, Vec<u8>)>,
    /// Locks that hosts hold from now on, and do not know of yet.
    pub granted: Vec<HostGrant>,
}

/// What a client holds.
#[derive(Debug, Default)]
struct OfClient {
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
    per_client: BTreeMap<ClientId, OfClient>,
    ranges_count: usize,
    waiters_count: usize,
    pub(crate) untold: UntoldGrants,
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
            untold: UntoldGrants::default(),
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
                self.remember(wanted, WaitsBy::Asking);
            }
            return Ok(LockOutcome::Denied(denied));
        }
        let stateid = self.grant(source, Some(open), wanted)?;
        self.forget_waiter(wanted, WaitsBy::Asking);
        Ok(LockOutcome::Granted(stateid))
    }

    /// Locks what nobody else has locked.
    pub(crate) fn grant(
        &mut self,
        source: &mut StateidSource,
        open: Option<Other>,
        wanted: &Wanted<'_>,
    ) -> Result<Stateid, NfsStatus> {
        let other = self.state_for(source, open, wanted)?;
        // A lock adds at most two ranges.
        if !self.has_room(&self.states[&other], 2) {
            let unused = self.states[&other].seqid == 0;
            if unused {
                self.remove(&other);
            }
            return Err(NfsStatus::Delay);
        }
        Ok(self.change(&other, |ranges| ranges.set(wanted.range, wanted.kind)))
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
        open: Option<Other>,
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
        let file = self.files.entry(wanted.file).or_default();
        file.states.insert(other);
        match open {
            Some(open) => {
                self.by_open.entry(open).or_default().insert(other);
            }
            None => file.host_states_count += 1,
        }
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

    pub(crate) fn has_ranges(&self, client: ClientId, owner: &[u8], file: u64) -> bool {
        let other = self.by_owner.get(&(client, file, owner.to_vec()));
        let state = other.and_then(|other| self.states.get(other));
        state.is_some_and(|state| !state.ranges.is_empty())
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
        self.clear(&stateid.other, range)
    }

    /// Unlocks a range of a state that is there.
    pub(crate) fn clear(&mut self, other: &Other, range: LockRange) -> Result<Stateid, NfsStatus> {
        // Only a split adds a range; any other unlock succeeds, or an owner at its limit could never
        // get below it.
        let state = &self.states[other];
        if state.ranges.splits(range) && !self.has_room(state, 1) {
            return Err(NfsStatus::Delay);
        }
        Ok(self.change(other, |ranges| ranges.clear(range)))
    }

    pub(crate) fn remove(&mut self, other: &Other) -> Option<LockState> {
        let state = self.states.remove(other)?;
        self.by_owner
            .remove(&(state.client, state.file, state.owner.clone()));
        if let Some(open) = state.open
            && let Some(set) = self.by_open.get_mut(&open)
        {
            set.remove(other);
            if set.is_empty() {
                self.by_open.remove(&open);
            }
        }
        if let Some(file) = self.files.get_mut(&state.file) {
            file.states.remove(other);
            file.host_states_count -= usize::from(state.open.is_none());
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

    /// Remembers who was denied. An owner of NFSv4 has one such request for each file, the newest. One of NLM has one for each range
    /// and kind, which keeps its place when it comes again. Returns whether it is remembered: not beyond the limits.
    pub(crate) fn remember(&mut self, wanted: &Wanted<'_>, by: WaitsBy) -> bool {
        if by == WaitsBy::Asking {
            self.forget_waiter(wanted, by);
        }
        let file = self.files.entry(wanted.file).or_default();
        if file.waiters.iter().any(|w| w.is_of(wanted, by)) {
            return true;
        }
        let has_room = file.waiters.len() < self.limits.waiters_per_file_max
            && self.waiters_count < self.limits.waiters_max;
        if has_room {
            self.waiters_count += 1;
            file.waiters.push(Waiter {
                client: wanted.client,
                owner: wanted.owner.to_vec(),
                range: wanted.range,
                kind: wanted.kind,
                by,
            });
        }
        self.drop_file_if_empty(wanted.file);
        has_room
    }

    /// Forgets a request that was denied. Returns whether there was one.
    pub(crate) fn forget_waiter(&mut self, wanted: &Wanted<'_>, by: WaitsBy) -> bool {
        let Some(locks) = self.files.get_mut(&wanted.file) else {
            return false;
        };
        let before = locks.waiters.len();
        locks.waiters.retain(|w| !w.is_of(wanted, by));
        let forgotten = before - locks.waiters.len();
        self.waiters_count -= forgotten;
        self.drop_file_if_empty(wanted.file);
        forgotten > 0
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

    /// Takes those whose wanted lock is free now, in the order of their coming. Hosts are granted theirs.
    pub(crate) fn unblocked(&mut self, source: &mut StateidSource, file: u64) -> Unblocked {
        let mut unblocked = Unblocked::default();
        let Some(locks) = self.files.get_mut(&file) else {
            return unblocked;
        };
        let waiters = std::mem::take(&mut locks.waiters);
        let mut waiting = Vec::new();
        for waiter in waiters {
            let wanted = waiter.wanted(file);
            if self.conflict(&wanted).is_some() {
                waiting.push(waiter);
                continue;
            }
            match waiter.by {
                WaitsBy::Asking => unblocked.free.push((waiter.client, waiter.owner)),
                // At a limit it waits on.
                WaitsBy::Grant => match self.grant_untold(source, &wanted) {
                    Ok(grant) => unblocked.granted.push(grant),
                    Err(_) => waiting.push(waiter),
                },
            }
        }
        self.waiters_count -= unblocked.free.len() + unblocked.granted.len();
        self.files.entry(file).or_default().waiters = waiting;
        self.drop_file_if_empty(file);
        unblocked
    }

    fn grant_untold(
        &mut self,
        source: &mut StateidSource,
        wanted: &Wanted<'_>,
    ) -> Result<HostGrant, NfsStatus> {
        self.untold.check_room(self.limits.waiters_max)?;
        self.grant(source, None, wanted)?;
        Ok(self.untold.add(wanted))
    }

    /// Whether hosts hold locks of the file, or wait for some.
    pub(crate) fn has_hosts(&self, file: u64) -> bool {
        self.files.get(&file).is_some_and(|f| {
            f.host_states_count > 0 || f.waiters.iter().any(|w| w.by == WaitsBy::Grant)
        })
    }

    /// The lock state of an owner on a file.
    pub(crate) fn of_owner(&self, client: ClientId, file: u64, owner: &[u8]) -> Option<Other> {
        let key = (client, file, owner.to_vec());
        self.by_owner.get(&key).copied()
    }

    /// Names of a client's lock states.
    pub(crate) fn of_client(&self, client: ClientId) -> Vec<Other> {
        self.by_owner
            .range((client, 0, Vec::new())..)
            .take_while(|((c, _, _), _)| *c == client)
            .map(|(_, other)| *other)
            .collect()
    }

    /// At most `max` lock states of a client, by file and owner.
    pub(crate) fn of_client_by_file(
        &self,
        client: ClientId,
        max: usize,
    ) -> impl Iterator<Item = &LockState> {
        let of_client = self.by_owner.range((client, 0, Vec::new())..).take(max);
        let of_client = of_client.take_while(move |((c, _, _), _)| *c == client);
        of_client.filter_map(|(_, other)| self.states.get(other))
    }

    /// At most `max` lock states of a file.
    pub(crate) fn of_file(&self, file: u64, max: usize) -> impl Iterator<Item = &LockState> {
        let of_file = self.files.get(&file).into_iter().flat_map(|f| &f.states);
        of_file.take(max).filter_map(|other| self.states.get(other))
    }

    /// Requests that wait, in the order of their coming.
    pub(crate) fn waiting(&self, file: u64) -> impl Iterator<Item = Wanted<'_>> {
        let of_file = self.files.get(&file).into_iter();
        let waiters = of_file.flat_map(|f| &f.waiters);
        waiters.map(move |waiter| waiter.wanted(file))
    }

    /// Ranges that a client has locked.
    pub(crate) fn ranges_of(&self, client: ClientId) -> usize {
        self.per_client.get(&client).map_or(0, |c| c.ranges_count)
    }

    /// Whether a client has lock states.
    pub(crate) fn has_client(&self, client: ClientId) -> bool {
        self.per_client.contains_key(&client)
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
        self.untold.forget_client(client);
    }

    pub(crate) fn len(&self) -> usize {
        self.states.len()
    }

    #[cfg(test)]
    pub(crate) fn waiters_count(&self) -> usize {
        self.waiters_count
    }
}

impl Waiter {
    fn wanted(&self, file: u64) -> Wanted<'_> {
        Wanted {
            client: self.client,
            owner: &self.owner,
            file,
            range: self.range,
            kind: self.kind,
        }
    }

    fn is_of(&self, wanted: &Wanted<'_>, by: WaitsBy) -> bool {
        let is_owner = (self.client, self.owner.as_slice()) == (wanted.client, wanted.owner);
        let is_request = match by {
            WaitsBy::Asking => true,
            WaitsBy::Grant => (self.range, self.kind) == (wanted.range, wanted.kind),
        };
        self.by == by && is_owner && is_request
    }
}
