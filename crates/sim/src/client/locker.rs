//! A worker on a few files that all lockers share: it opens them, with deny modes too, locks ranges, and reads and writes under its locks.
//!
//! How it does so is a [`Locking`]: one of NFSv4.0, of NFSv4.1, or a host of NFSv3 with NLM. What it was promised is the same.

use crate::check::data::NEVER;
use crate::check::delegations::{How, Use};
use crate::check::guarded::Access;
use crate::check::linear::Moment;
use crate::check::locks::Hold;
use crate::check::shares::ShareHold;
use crate::history::History;
use crate::injected_bug::InjectedBug;
use crate::mds_node::LEASE_MS;
use crate::rng::Rng;
use nfs4::ops::{SHARE_ACCESS_READ, SHARE_ACCESS_WRITE};
use nfs4::{FileHandle, NfsStatus, Stateid};
use std::time::Duration;
use tokio::time::Instant;

/// Files that lockers share, and the ranges that are locked in each.
pub(crate) const FILES: usize = 2;
pub(crate) const RANGES: u64 = 3;
pub(crate) const RANGE_BYTES: u32 = 100;
/// Longest rest between two steps in milliseconds, the longest of the rare long ones, and how rare these are.
const REST_MS_MAX: u64 = 200;
const LONG_REST_MS_MAX: u64 = 12_000;
const LONG_PER_MILLE: u32 = 40;
/// Between two renewals.
const RENEW_MS: u64 = 2_000;
/// What sets the numbers of these files apart from those of holders.
const USES: usize = 1_000;
/// How long one with a bug goes on relying on what it has given up.
const KEEPS_MS: u64 = 5_000;

/// The name of a file.
pub(crate) fn name(file: usize) -> String {
    format!("l{file}")
}

/// A file, as all lockers know it from the start.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) fh: FileHandle,
    pub(crate) id: u64,
}

/// Access and what is denied to others.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Share {
    pub(crate) access: u32,
    pub(crate) deny: u32,
}

/// A lock on one range.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HeldRange {
    pub(crate) range: u64,
    pub(crate) is_exclusive: bool,
    pub(crate) from: Moment,
}

impl HeldRange {
    pub(crate) fn offset(&self) -> u64 {
        self.range * u64::from(RANGE_BYTES)
    }
}

/// An open.
#[derive(Debug, Clone)]
pub(crate) struct HeldOpen {
    pub(crate) share: Share,
    pub(crate) from: Moment,
    pub(crate) stateid: Stateid,
    pub(crate) lock_stateid: Option<Stateid>,
    pub(crate) locks: Vec<HeldRange>,
}

impl HeldOpen {
    pub(crate) fn new(share: Share, stateid: Stateid, from: Moment) -> Self {
        Self {
            share,
            from,
            stateid,
            lock_stateid: None,
            locks: Vec::new(),
        }
    }

    /// What I/O names.
    pub(crate) fn io_stateid(&self) -> Stateid {
        self.lock_stateid.unwrap_or(self.stateid)
    }
}

/// A delegation.
#[derive(Debug, Clone)]
pub(crate) struct HeldDelegation {
    pub(crate) stateid: Stateid,
    pub(crate) how: How,
    pub(crate) from: Moment,
}

/// A file as a locker has it.
#[derive(Debug)]
pub(crate) struct HeldFile {
    pub(crate) place: Place,
    pub(crate) open: Option<HeldOpen>,
    pub(crate) delegation: Option<HeldDelegation>,
}

/// What a locker holds, and the history of what it held.
pub(crate) struct Held {
    pub(crate) who: String,
    pub(crate) history: History,
    pub(crate) bug: Option<InjectedBug>,
    pub(crate) files: Vec<HeldFile>,
    /// When the last request was sent that shows that all that is held is held.
    pub(crate) renewed: Moment,
    /// Whether it goes when it is not renewed. Else it goes with the server, unless it is reclaimed.
    pub(crate) is_leased: bool,
}

impl Held {
    pub(crate) fn new(
        who: &str,
        history: &History,
        bug: Option<InjectedBug>,
        places: Vec<Place>,
    ) -> Self {
        let files = places.into_iter().map(|place| HeldFile {
            place,
            open: None,
            delegation: None,
        });
        Self {
            who: who.to_owned(),
            renewed: history.now(),
            history: history.clone(),
            is_leased: true,
            bug,
            files: files.collect(),
        }
    }

    fn unlocked(&self, file: usize, lock: &HeldRange, mut to: Moment) {
        if self.bug == Some(InjectedBug::KeepLocks) {
            to.0 += KEEPS_MS;
        }
        self.history.hold(Hold {
            who: self.who.clone(),
            file: self.files[file].place.id,
            range: (lock.offset(), lock.offset() + u64::from(RANGE_BYTES)),
            is_exclusive: lock.is_exclusive,
            from: lock.from,
            to,
        });
    }

    fn used(&self, file: usize, how: How, from: Moment, to: Moment) {
        self.history.used(Use {
            who: self.who.clone(),
            file: USES + file,
            how,
            from,
            to,
        });
    }

    /// An open is given up, or was lost at that time, with its locks.
    pub(crate) fn drop_open(&mut self, file: usize, to: Moment) {
        let Some(open) = self.files[file].open.take() else {
            return;
        };
        for lock in &open.locks {
            self.unlocked(file, lock, to);
        }
        let Share { access, deny } = open.share;
        let is_writer = access & SHARE_ACCESS_WRITE != 0;
        let how = if is_writer { How::Writes } else { How::Reads };
        self.used(file, how, open.from, to);
        self.history.share(ShareHold {
            who: self.who.clone(),
            file: self.files[file].place.id,
            access,
            deny,
            from: open.from,
            to,
        });
    }

    /// A delegation is given up, or was lost at that time.
    pub(crate) fn drop_delegation(&mut self, file: usize, to: Moment) -> Option<HeldDelegation> {
        let held = self.files[file].delegation.take()?;
        self.used(file, held.how, held.from, to);
        Some(held)
    }

    /// Nothing is held any more since then.
    pub(crate) fn drop_all(&mut self, to: Moment) {
        for file in 0..self.files.len() {
            self.drop_delegation(file, to);
            self.drop_open(file, to);
        }
    }

    pub(crate) fn open(&self, file: usize) -> Option<&HeldOpen> {
        self.files[file].open.as_ref()
    }

    /// Whether the trouble of some disk explains this end of I/O that began `since`.
    pub(crate) fn is_explained(&self, status: Option<NfsStatus>, since: Instant) -> bool {
        status.is_some_and(|status| self.history.disk_explains(status, since))
    }

    /// Whether nothing is held.
    pub(crate) fn is_empty(&self) -> bool {
        let mut files = self.files.iter();
        files.all(|file| file.open.is_none() && file.delegation.is_none())
    }

    /// Whether the lease is certainly not over.
    pub(crate) fn has_lease(&self) -> bool {
        !self.is_leased || self.history.now().0 < self.renewed.0 + LEASE_MS
    }

    /// Until when what is given up now could be relied on. A late answer may have come from what was kept, after the lease.
    pub(crate) fn until(&self) -> Moment {
        match (self.is_leased, self.has_lease()) {
            (true, false) => self.renewed,
            (true, true) => self.history.now(),
            // Whether it will be reclaimed is not known yet.
            (false, _) => self.restarted().unwrap_or_else(|| self.history.now()),
        }
    }

    /// When the server lost its power first since it was known that all that is held is held.
    pub(crate) fn restarted(&self) -> Option<Moment> {
        self.history.next_cut(self.renewed)
    }
}

/// The request came to nothing, or nobody knows what became of it. What is held says what is left.
#[derive(Debug)]
pub(crate) struct Again;

/// A way to open, lock, read and write.
pub(crate) trait Locking: Send + 'static {
    /// What is held.
    fn held(&mut self) -> &mut Held;

    /// Opens a file that is not open. `None`: another's open is in the way.
    fn open(
        &mut self,
        file: usize,
        share: Share,
    ) -> impl Future<Output = Result<Option<Stateid>, Again>> + Send;

    /// Closes an open without locks, that is held no more.
    fn close(
        &mut self,
        file: usize,
        open: HeldOpen,
    ) -> impl Future<Output = Result<(), Again>> + Send;

    /// Locks a range that is not locked. False: another's lock is in the way.
    fn lock(
        &mut self,
        file: usize,
        range: u64,
        is_exclusive: bool,
    ) -> impl Future<Output = Result<bool, Again>> + Send;

    /// Unlocks a range, which is held no more.
    fn unlock(
        &mut self,
        file: usize,
        lock: HeldRange,
    ) -> impl Future<Output = Result<(), Again>> + Send;

    /// Asks whether a range could be locked.
    fn test(&mut self, file: usize, range: u64) -> impl Future<Output = Result<(), Again>> + Send;

    /// Reads a range.
    fn read(
        &mut self,
        file: usize,
        range: u64,
    ) -> impl Future<Output = Result<Vec<u8>, Again>> + Send;

    /// Writes a range, and has it durable.
    fn write(
        &mut self,
        file: usize,
        range: u64,
        data: Vec<u8>,
    ) -> impl Future<Output = Result<(), Again>> + Send;

    /// Renews the lease, and does what the server asks for.
    fn renew(&mut self) -> impl Future<Output = Result<(), Again>> + Send;

    /// What else may be done now and then.
    fn extra(&mut self, rng: u64) -> impl Future<Output = Result<(), Again>> + Send;
}

/// A worker.
pub(crate) struct Locker<L> {
    rng: Rng,
    how: L,
}

impl<L: Locking> Locker<L> {
    pub(crate) fn with(how: L, rng: Rng) -> Self {
        Self { rng, how }
    }

    pub(crate) async fn work(mut self, steps: u32) {
        for _ in 0..steps {
            // What is held afterwards is what the next step begins with.
            let _ = self.step().await;
            let _ = self.rest().await;
        }
        let held = self.how.held();
        let until = held.until();
        held.drop_all(until);
    }

    fn now(&mut self) -> Moment {
        self.how.held().history.now()
    }

    async fn step(&mut self) -> Result<(), Again> {
        let file = self.rng.index(FILES);
        let range = self.rng.below(RANGES);
        if self.how.held().open(file).is_none() {
            return self.open(file).await;
        }
        match self.rng.below(100) {
            0..35 => self.lock(file, range).await,
            35..55 => self.unlock(file).await,
            55..85 => self.access(file).await,
            85..91 => self.how.test(file, range).await,
            91..95 => {
                let bits = self.rng.bits();
                self.how.extra(bits).await
            }
            _ => self.close(file).await,
        }
    }

    async fn rest(&mut self) -> Result<(), Again> {
        let most = match self.rng.chance(LONG_PER_MILLE) {
            true => LONG_REST_MS_MAX,
            false => REST_MS_MAX,
        };
        let end = Instant::now() + Duration::from_millis(self.rng.within(0, most));
        loop {
            let next = Instant::now() + Duration::from_millis(RENEW_MS);
            tokio::time::sleep_until(next.min(end)).await;
            self.how.renew().await?;
            if Instant::now() >= end {
                return Ok(());
            }
        }
    }

    async fn open(&mut self, file: usize) -> Result<(), Again> {
        let share = Share {
            access: u32::try_from(self.rng.within(1, 3)).unwrap_or(1)
                | u32::from(self.rng.chance(500)),
            deny: match self.rng.below(100) {
                0..12 => SHARE_ACCESS_WRITE,
                12..16 => SHARE_ACCESS_READ,
                16..20 => SHARE_ACCESS_READ | SHARE_ACCESS_WRITE,
                _ => 0,
            },
        };
        if let Some(stateid) = self.how.open(file, share).await? {
            let now = self.now();
            self.how.held().files[file].open = Some(HeldOpen::new(share, stateid, now));
        }
        Ok(())
    }

    async fn close(&mut self, file: usize) -> Result<(), Again> {
        while self
            .how
            .held()
            .open(file)
            .is_some_and(|o| !o.locks.is_empty())
        {
            self.unlock(file).await?;
        }
        let Some(open) = self.how.held().open(file).cloned() else {
            return Ok(());
        };
        let held = self.how.held();
        let until = held.until();
        held.drop_open(file, until);
        self.how.close(file, open).await
    }

    async fn lock(&mut self, file: usize, range: u64) -> Result<(), Again> {
        let is_exclusive = self.rng.chance(600);
        let needs = match is_exclusive {
            true => SHARE_ACCESS_WRITE,
            false => SHARE_ACCESS_READ,
        };
        let Some(open) = self.how.held().open(file) else {
            return Ok(());
        };
        let is_held = open.locks.iter().any(|l| l.range == range);
        if is_held || open.share.access & needs == 0 {
            return Ok(());
        }
        if self.how.lock(file, range, is_exclusive).await? {
            let from = self.now();
            if let Some(open) = &mut self.how.held().files[file].open {
                open.locks.push(HeldRange {
                    range,
                    is_exclusive,
                    from,
                });
            }
        }
        Ok(())
    }

    async fn unlock(&mut self, file: usize) -> Result<(), Again> {
        let held = self.how.held();
        let until = held.until();
        let open = held.files[file].open.as_mut();
        let Some(lock) = open.and_then(|open| open.locks.pop()) else {
            return Ok(());
        };
        held.unlocked(file, &lock, until);
        self.how.unlock(file, lock).await
    }

    async fn access(&mut self, file: usize) -> Result<(), Again> {
        let Some(open) = self.how.held().open(file) else {
            return Ok(());
        };
        let Some(lock) = open.locks.last().copied() else {
            return Ok(());
        };
        let access = open.share.access;
        if lock.is_exclusive && self.rng.chance(600) {
            self.write(file, lock.range).await?;
        }
        if access & SHARE_ACCESS_READ != 0 {
            self.read(file, lock.range).await?;
        }
        Ok(())
    }

    async fn write(&mut self, file: usize, range: u64) -> Result<(), Again> {
        let start = self.now();
        let tag = self.how.held().history.next_tag();
        let data = tag.to_be_bytes().repeat(RANGE_BYTES as usize / 4);
        let done = self.how.write(file, range, data).await;
        let end = if done.is_ok() { self.now() } else { NEVER };
        self.note(file, range, (Some(tag), true), (start, end));
        done
    }

    async fn read(&mut self, file: usize, range: u64) -> Result<(), Again> {
        let start = self.now();
        let data = self.how.read(file, range).await?;
        let end = self.now();
        let first = data.first_chunk::<4>().copied();
        let is_one = data.len() == RANGE_BYTES as usize
            && data
                .chunks(4)
                .all(|word| Some(word) == first.as_ref().map(|f| &f[..]));
        let tag = first.filter(|_| is_one).map(u32::from_be_bytes);
        self.note(file, range, (tag, false), (start, end));
        Ok(())
    }

    fn note(
        &mut self,
        file: usize,
        range: u64,
        (tag, is_write): (Option<u32>, bool),
        (start, end): (Moment, Moment),
    ) {
        let held = self.how.held();
        held.history.accessed(Access {
            who: held.who.clone(),
            at: (held.files[file].place.id, range),
            tag,
            is_write,
            start,
            end,
        });
    }
}
