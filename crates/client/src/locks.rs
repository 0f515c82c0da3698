//! Byte-range locks (RFC 8881 §9.1, §18.10 to §18.12): advisory, and owned by the open file, as those of an open file
//! description are. What one [`File`] has locked, another one of the same client cannot lock.
//!
//! # Ownership
//! An open knows what it has locked, to reclaim it from a server that was restarted.
//!
//! # Ordering
//! One request about locks of an open is under way at a time. Its effect is noted if the open is still the one that it was sent
//! under; otherwise a recovery came between, which reclaimed what was noted before, and the request is sent again. Written data are
//! durable before their lock is given up (§10.3.2).
//!
//! # Failure
//! Locks that the server does not give back are lost for good: every further use of the file says so until it is closed.

use crate::backoff::Backoff;
use crate::client::Inner;
use crate::file::REOPENS_MAX;
use crate::node::{Node, Open};
use crate::recovery::is_stateid_gone;
use crate::{Error, File};
use nfs4::ops::{
    ExistLockOwner, LockArgs, LockDenied, LockRes, LockTArgs, LockTRes, LockUArgs, LockURes,
    Locker, OpenToLockOwner, PutFhArgs, PutFhRes,
};
use nfs4::{ClientId, LockType, NfsStatus, StateOwner, Stateid};
use parking_lot::Mutex;
use session_client::{Build, Outcome};
use std::ops::Range;
use std::sync::Arc;
use tokio::sync::Mutex as AsyncMutex;
use xdr::Opaque;

/// Where ranges end that go on after every byte.
const NO_END: u64 = u64::MAX;

/// Whether a lock goes together with others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockKind {
    /// With others of this kind.
    Shared,
    /// With none.
    Exclusive,
}

impl LockKind {
    const fn wire(self) -> LockType {
        match self {
            Self::Shared => LockType::Read,
            Self::Exclusive => LockType::Write,
        }
    }
}

/// Somebody else's lock that is in the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockConflict {
    /// Its kind.
    pub kind: LockKind,
    /// Its bytes; the end is `u64::MAX` where it has none.
    pub range: Range<u64>,
}

impl From<LockDenied<'_>> for LockConflict {
    fn from(denied: LockDenied<'_>) -> Self {
        Self {
            kind: match denied.lock_type.is_write() {
                true => LockKind::Exclusive,
                false => LockKind::Shared,
            },
            range: denied.offset..denied.offset.saturating_add(denied.length),
        }
    }
}

/// The locks of one open.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    asking: AsyncMutex<()>,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    /// Names them at the server, once there was one.
    stateid: Option<Stateid>,
    /// No two overlap.
    ranges: Vec<(Range<u64>, LockKind)>,
    lost: bool,
}

impl Held {
    /// Sets what the range is locked for.
    fn set(&mut self, range: &Range<u64>, kind: Option<LockKind>) {
        let mut left = Vec::with_capacity(self.ranges.len() + 2);
        for (old, kind) in self.ranges.drain(..) {
            let before = old.start..old.end.min(range.start);
            let behind = old.start.max(range.end)..old.end;
            left.extend([before, behind].map(|part| (part, kind)));
        }
        left.extend(kind.map(|kind| (range.clone(), kind)));
        left.retain(|(part, _)| !part.is_empty());
        self.ranges = left;
    }
}

impl Locks {
    /// # Errors
    /// [`Error::LocksLost`].
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.held.lock().lost {
            Err(Error::LocksLost)
        } else {
            Ok(())
        }
    }

    /// The server has forgotten what was locked.
    pub(crate) fn lose(&self) {
        let mut held = self.held.lock();
        held.lost |= !held.ranges.is_empty();
        held.ranges.clear();
        held.stateid = None;
    }

    fn stateid(&self) -> Option<Stateid> {
        self.held.lock().stateid
    }

    /// Notes what a request that was sent under `opened` has done, unless a recovery came between.
    fn note(
        &self,
        (open, opened): (&Open, Stateid),
        stateid: Stateid,
        range: &Range<u64>,
        kind: Option<LockKind>,
    ) -> bool {
        let mut held = self.held.lock();
        let is_same = open.stateid() == opened;
        if is_same {
            held.stateid = Some(stateid);
            held.set(range, kind);
        }
        is_same
    }
}

impl File {
    /// Locks a range, whose end may be `u64::MAX` for all that will ever be after its start. What this file has locked of it
    /// already changes its kind. Waits for others as long as a request is tried.
    ///
    /// # Errors
    /// [`Error::Locked`] when others do not give it up, and as [`File::try_lock`].
    pub async fn lock(&self, kind: LockKind, range: Range<u64>) -> Result<(), Error> {
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
    pub async fn try_lock(
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
                    let at = (&**open, opened);
                    if (open.locks).note(at, granted.lock_stateid, &range, Some(kind)) {
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
    pub async fn unlock(&self, range: Range<u64>) -> Result<(), Error> {
        if self.open.can_write() {
            self.node.flush().await?;
        }
        unlock(&self.node, &self.open, &range).await
    }

    /// A lock of others that [`File::try_lock`] would meet.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn lock_conflict(
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

/// Gives up everything that an open has locked, before it is closed.
pub(crate) async fn unlock_all(node: &Arc<Node>, open: &Arc<Open>) -> Result<(), Error> {
    let holds_any = !open.locks.held.lock().ranges.is_empty();
    if holds_any && !open.is_lost() {
        unlock(node, open, &(0..NO_END)).await?;
    }
    Ok(())
}

async fn unlock(node: &Arc<Node>, open: &Arc<Open>, range: &Range<u64>) -> Result<(), Error> {
    let length = length_of(range)?;
    let _one = open.locks.asking.lock().await;
    for _ in 0..REOPENS_MAX {
        open.locks.check()?;
        let opened = open.stateid();
        let Some(lock_stateid) = open.locks.stateid() else {
            return Ok(());
        };
        let args = LockUArgs {
            lock_type: LockType::Write,
            seqid: 0,
            lock_stateid,
            offset: range.start,
            length,
        };
        let outcome = ask(node, &|b| {
            b.push(&args);
        })
        .await?;
        let mut reply = outcome.results()?;
        reply.take::<PutFhRes>()?;
        match reply.take::<LockURes>() {
            Ok(left) => {
                if (open.locks).note((&**open, opened), left.lock_stateid, range, None) {
                    return Ok(());
                }
            }
            Err(e) if is_stateid_gone(&e) => regain(node, open, opened).await?,
            Err(e) => return Err(e.into()),
        }
    }
    Err(Error::OpenLost)
}

/// Sends one operation about locks. Once more it does what it did.
async fn ask(
    node: &Arc<Node>,
    push: &(dyn Fn(&mut nfs4::CompoundBuilder) + Send + Sync),
) -> Result<Outcome, Error> {
    let build: &Build<'_> = &|b| {
        b.push(&PutFhArgs {
            object: Opaque(&node.fh.0),
        });
        push(b);
        Vec::new()
    };
    node.client.call_once(build).await
}

/// A stateid was refused: a recovery has brought another, or the open is made anew.
async fn regain(node: &Arc<Node>, open: &Arc<Open>, opened: Stateid) -> Result<(), Error> {
    if open.is_lost() {
        return Err(Error::OpenLost);
    }
    if open.stateid() == opened {
        node.client.reopen(node, open).await?;
    }
    Ok(())
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

/// Bytes of a range as LOCK counts them: all ones for one without an end.
fn length_of(range: &Range<u64>) -> Result<u64, Error> {
    match range.end {
        _ if range.is_empty() => Err(Error::Status(NfsStatus::Inval)),
        NO_END => Ok(u64::MAX),
        end => Ok(end - range.start),
    }
}
