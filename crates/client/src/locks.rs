//! Byte-range locks (RFC 8881 §9.1, §18.10 to §18.12): advisory, and owned by the open file, as those of an open file
//! description are. What one [`File`] has locked, another one of the same client cannot lock.
//!
//! # Ownership
//! An open knows what it has locked, to reclaim it from a server that was restarted.
//!
//! # Ordering
//! One request about locks of an open is under way at a time. Its effect is noted if the open is still the one that it
//! was sent under. Otherwise a recovery came between, which reclaimed what was noted before, and the request is sent
//! again. Written data are durable before their lock is given up (§10.3.2).
//!
//! # Failure
//! Locks that the server does not give back are lost for good: every further use of the file says so until it is closed.

use crate::Error;
use crate::backoff::Backoff;
use crate::file::File4;
use crate::held_locks::{LockConflict, LockKind, length_of};
use crate::retry::REOPENS_MAX;
use crate::retry::is_stateid_gone;
use crate::state::Inner;
use crate::state::{Node, Open};
use crate::unlock::{ask, regain, unlock};
use nfs4::ops::{
    ExistLockOwner, LockArgs, LockRes, LockTArgs, LockTRes, Locker, OpenToLockOwner, PutFhArgs,
    PutFhRes,
};
use nfs4::{ClientId, StateOwner, Stateid};
use std::ops::Range;
use xdr::Opaque;

impl File4 {
    /// Locks a range, whose end may be `u64::MAX` for all that will ever be after its start. What this file has locked of it
    /// already changes its kind. Waits for others as long as a request is tried.
    ///
    /// # Errors
    /// [`Error::Locked`] when others do not give it up, and as [`File::try_lock`].
    pub(crate) async fn lock(&self, kind: LockKind, range: Range<u64>) -> Result<(), Error> {
        let mut backoff = Backoff::new(self.client.0.config.give_up);
        while self.try_lock(kind, range.clone()).await?.is_some() {
            if !backoff.wait().await {
                return Err(Error::Locked);
            }
        }
        Ok(())
    }

    /// As [`File::lock`], without waiting for others: `Some` is a lock that is in the way.
    ///
    /// # Errors
    /// [`Error::NotOpenFor`] when the file is not open for reading (shared) or writing (exclusive), [`Error::LocksLost`], and others.
    pub(crate) async fn try_lock(
        &self,
        kind: LockKind,
        range: Range<u64>,
    ) -> Result<Option<LockConflict>, Error> {
        match kind {
            LockKind::Shared if !self.open.can_read() => return Err(Error::NotOpenFor("reading")),
            LockKind::Exclusive if !self.open.can_write() => {
                return Err(Error::NotOpenFor("writing"));
            }
            _ => {}
        }
        let length = length_of(&range)?;
        let (node, open) = (&self.node, &self.open);
        let _one = open.locks.asking.lock().await;
        for _ in 0..REOPENS_MAX {
            open.locks.check()?;
            let opened = open.stateid();
            let args = LockArgs {
                lock_type: kind.wire(),
                reclaim: false,
                offset: range.start,
                length,
                locker: locker(open, opened, open.locks.stateid()),
            };
            let outcome = ask(node, &|b| {
                b.push(&args);
            })
            .await?;
            let mut reply = outcome.results()?;
            reply.take::<PutFhRes>()?;
            match reply.take::<LockRes<'_>>() {
                Ok(LockRes::Ok(granted)) => {
                    let is_same = || open.stateid() == opened;
                    if (open.locks).note(is_same, granted.lock_stateid, &range, Some(kind)) {
                        return Ok(None);
                    }
                }
                Ok(LockRes::Denied(denied)) => return Ok(Some(denied.into())),
                Err(e) if is_stateid_gone(&e) => regain(node, open, opened).await?,
                Err(e) => return Err(e.into()),
            }
        }
        Err(Error::OpenLost)
    }

    /// Gives up what this file has locked in a range, after all that was written is durable.
    ///
    /// # Errors
    /// [`Error`]; then the range is locked still.
    pub(crate) async fn unlock(&self, range: Range<u64>) -> Result<(), Error> {
        if self.open.can_write() {
            self.node.flush().await?;
        }
        unlock(&self.node, &self.open, &range).await
    }

    /// A lock of others that [`File::try_lock`] would meet.
    ///
    /// # Errors
    /// [`Error`].
    pub(crate) async fn lock_conflict(
        &self,
        kind: LockKind,
        range: Range<u64>,
    ) -> Result<Option<LockConflict>, Error> {
        let args = LockTArgs {
            lock_type: kind.wire(),
            offset: range.start,
            length: length_of(&range)?,
            owner: owner_of(&self.open),
        };
        let outcome = ask(&self.node, &|b| {
            b.push(&args);
        })
        .await?;
        let mut reply = outcome.results()?;
        reply.take::<PutFhRes>()?;
        match reply.take::<LockTRes<'_>>()? {
            LockTRes::Ok => Ok(None),
            LockTRes::Denied(denied) => Ok(Some(denied.into())),
        }
    }
}

impl Inner {
    /// Reclaims the locks of an open that was just reclaimed. `false` when the server does not give back all.
    ///
    /// # Errors
    /// When the session is lost: the whole is done again.
    pub(crate) async fn reclaim_locks(&self, node: &Node, open: &Open) -> Result<bool, Error> {
        let opened = open.stateid();
        let ranges = {
            let mut held = open.locks.held.lock();
            held.stateid = None;
            held.ranges.clone()
        };
        for (range, kind) in ranges {
            let args = LockArgs {
                lock_type: kind.wire(),
                reclaim: true,
                offset: range.start,
                length: length_of(&range)?,
                locker: locker(open, opened, open.locks.stateid()),
            };
            let outcome = self
                .raw(&|b| {
                    b.push(&PutFhArgs {
                        object: Opaque(&node.fh.0),
                    });
                    b.push(&args);
                    Vec::new()
                })
                .await?;
            let mut reply = outcome.results()?;
            reply.take::<PutFhRes>()?;
            match reply.take::<LockRes<'_>>() {
                Ok(LockRes::Ok(granted)) => {
                    open.locks.held.lock().stateid = Some(granted.lock_stateid);
                }
                Ok(LockRes::Denied(_)) | Err(_) => return Ok(false),
            }
        }
        Ok(true)
    }
}

fn owner_of(open: &Open) -> StateOwner<'_> {
    StateOwner {
        clientid: ClientId::default(),
        owner: Opaque(&open.owner),
    }
}

fn locker(open: &Open, opened: Stateid, locked: Option<Stateid>) -> Locker<'_> {
    match locked {
        Some(lock_stateid) => Locker::Exist(ExistLockOwner {
            lock_stateid,
            lock_seqid: 0,
        }),
        None => Locker::New(OpenToLockOwner {
            open_seqid: 0,
            open_stateid: opened,
            lock_seqid: 0,
            lock_owner: owner_of(open),
        }),
    }
}
