//! The turn of a request: one of an owner runs at a time, and each has the next sequence id (RFC 7530 §9.1.7).
//!
//! # Ownership
//! A [`Turn`] holds the owners of its request until it ends. Dropped, it gives them back as if it had never been.

use super::asked::{Asked, Named, Seq};
use super::table::Minor0;
use nfs4::{ClientId, NfsStatus};
use state::{Other, OwnerChange, OwnerName, OwnerReply, OwnerVerdict};
use std::time::Duration;

/// How long a request waits for the one before it of the same owner.
const BUSY_WAIT_MAX: Duration = Duration::from_secs(5);

/// See the module.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    minor_0: &'a Minor0,
    /// In the order of the request.
    held: Vec<(OwnerName, u32)>,
    /// An open of an owner that was never confirmed, to be closed.
    pub(super) abandoned: Vec<Other>,
}

/// What is to be done with a request that names owners.
#[derive(Debug)]
pub(super) enum Judged<'a> {
    Run(Turn<'a>),
    Replay(OwnerReply),
}

enum Tried<'a> {
    Judged(Judged<'a>),
    Busy,
}

impl<'a> Turn<'a> {
    /// Waits until it is this request's turn.
    ///
    /// # Errors
    /// `BadSeqid`, `BadStateid`; `Resource` where there is no room, or another request of the owner takes too long.
    pub(super) async fn of(
        minor_0: &'a Minor0,
        client: ClientId,
        asked: &Asked,
        opens: bool,
        now_ms: u64,
    ) -> Result<Judged<'a>, NfsStatus> {
        let judged = async {
            loop {
                let ended = minor_0.ended.notified();
                tokio::pin!(ended);
                ended.as_mut().enable();
                match Self::attempt(minor_0, client, asked, opens, now_ms)? {
                    Tried::Judged(judged) => return Ok(judged),
                    Tried::Busy => ended.await,
                }
            }
        };
        let judged = tokio::time::timeout(BUSY_WAIT_MAX, judged).await;
        // Of the failures that leave the client's sequence id as it is.
        judged.unwrap_or(Err(NfsStatus::Resource))
    }

    fn attempt(
        minor_0: &'a Minor0,
        client: ClientId,
        asked: &Asked,
        opens: bool,
        now_ms: u64,
    ) -> Result<Tried<'a>, NfsStatus> {
        let mut turn = Self {
            minor_0,
            held: Vec::with_capacity(asked.seqs.len()),
            abandoned: Vec::new(),
        };
        // Whatever leaves early here drops the turn, and with it the owners that it holds.
        for seq in &asked.seqs {
            let mut owners = minor_0.owners.lock();
            let name = name_of(client, seq, |other| owners.of_state(other).cloned())?;
            let verdict = owners.begin(&name, (seq.seqid, asked.sum), opens, now_ms)?;
            drop(owners);
            match verdict {
                OwnerVerdict::Run { abandoned } => {
                    turn.abandoned.extend(abandoned);
                    turn.held.push((name, seq.seqid));
                }
                OwnerVerdict::Replay(reply) => return Ok(Tried::Judged(Judged::Replay(reply))),
                OwnerVerdict::Busy => return Ok(Tried::Busy),
            }
        }
        Ok(Tried::Judged(Judged::Run(turn)))
    }

    /// The owner that the request is of; the open-owner, where it also names a lock-owner.
    pub(super) fn owner(&self) -> Option<&OwnerName> {
        self.held.first().map(|(name, _)| name)
    }

    /// Whether its open-owner is confirmed.
    pub(super) fn is_confirmed(&self) -> bool {
        let owners = self.minor_0.owners.lock();
        self.owner().is_some_and(|name| owners.is_confirmed(name))
    }

    /// The request has ended. `reply` is `None` for a failure that does not count. What it changed is of the last owner it named.
    pub(super) fn end(mut self, reply: Option<&OwnerReply>, mut change: OwnerChange) {
        let held = std::mem::take(&mut self.held);
        let mut owners = self.minor_0.owners.lock();
        for (name, seqid) in held.iter().rev() {
            let change = std::mem::replace(&mut change, OwnerChange::None);
            owners.end(name, *seqid, reply.cloned(), change);
        }
        drop(owners);
        self.minor_0.ended.notify_waiters();
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let mut owners = self.minor_0.owners.lock();
        for (name, seqid) in &self.held {
            owners.end(name, *seqid, None, OwnerChange::None);
        }
        drop(owners);
        self.minor_0.ended.notify_waiters();
    }
}

fn name_of(
    client: ClientId,
    seq: &Seq,
    of_state: impl Fn(&Other) -> Option<OwnerName>,
) -> Result<OwnerName, NfsStatus> {
    match &seq.named {
        Named::Owner(owner) => Ok(OwnerName {
            client,
            kind: seq.kind,
            owner: owner.clone(),
        }),
        Named::OfState(other) => of_state(other)
            .filter(|name| name.client == client && name.kind == seq.kind)
            .ok_or(NfsStatus::BadStateid),
    }
}
