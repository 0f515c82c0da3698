//! Locking by a worker: a few small ranges of the files it has open.

use super::Worker;
use super::shared::{HeldLock, OpenKey, lock_type, owner, taken};
use nfs4::ops::{ExistLockOwner, LockArgs, LockRes, LockUArgs, LockURes, Locker, OpenToLockOwner};

/// Ranges are chunks of this many bytes, of so many.
const CHUNK_BYTES: u64 = 100;
const CHUNKS: u64 = 3;
/// Locks that a worker holds on one open.
const LOCKS_MAX: usize = 2;

impl Worker {
    /// Tries to lock a range that this worker has not locked yet.
    pub(super) async fn lock(&mut self, key: &OpenKey) {
        let Some(open) = self.client.open_of(key) else {
            return;
        };
        let start = self.rng.below(CHUNKS) * CHUNK_BYTES;
        let range = (start, start + CHUNK_BYTES);
        if open.locks.len() >= LOCKS_MAX || open.locks.iter().any(|l| l.range == range) {
            return;
        }
        let is_exclusive = self.rng.chance(600);
        let locker = match open.lock_stateid {
            Some(lock_stateid) => Locker::Exist(ExistLockOwner {
                lock_stateid,
                lock_seqid: 0,
            }),
            None => Locker::New(OpenToLockOwner {
                open_seqid: 0,
                open_stateid: open.stateid,
                lock_seqid: 0,
                lock_owner: owner(&self.name),
            }),
        };
        let args = LockArgs {
            lock_type: lock_type(is_exclusive),
            reclaim: false,
            offset: range.0,
            length: CHUNK_BYTES,
            locker,
        };
        let done = self.client.on(&open.fh, |b| {
            b.push(&args);
        });
        let Ok(done) = done.await else { return };
        match taken::<LockRes<'_>>(&done) {
            Ok(LockRes::Ok(granted)) => {
                let from = self.client.now();
                let lock = HeldLock {
                    range,
                    is_exclusive,
                    from,
                };
                self.client.with_open(key, done.generation, |open| {
                    open.lock_stateid = Some(granted.lock_stateid);
                    open.locks.push(lock);
                });
            }
            Ok(LockRes::Denied(_)) => {}
            Err(e) => self.state_lost("LOCK", key, &open, &e),
        }
    }

    /// Gives up one lock.
    pub(super) async fn unlock(&mut self, key: &OpenKey) {
        let generation = self.client.generation();
        let Some(open) = self.client.open_of(key) else {
            return;
        };
        let (Some(lock_stateid), Some(lock)) = (open.lock_stateid, open.locks.last()) else {
            return;
        };
        let to = self.client.now();
        self.client.released(key, lock, to);
        self.client.with_open(key, generation, |open| {
            open.locks.pop();
        });
        let done = self.client.on(&open.fh, |b| {
            b.push(&LockUArgs {
                lock_type: lock_type(lock.is_exclusive),
                seqid: 0,
                lock_stateid,
                offset: lock.range.0,
                length: CHUNK_BYTES,
            });
        });
        let Ok(done) = done.await else { return };
        match taken::<LockURes>(&done) {
            Ok(unlocked) => self.client.with_open(key, done.generation, |open| {
                open.lock_stateid = Some(unlocked.lock_stateid);
            }),
            Err(e) => self.state_lost("LOCKU", key, &open, &e),
        }
    }
}
