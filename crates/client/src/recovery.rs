//! From a lost session to one whose opens are there again.
//!
//! # Ownership
//! One recovery runs at a time; requests wait for it at [`Inner::request`](crate::state::Inner).
//!
//! # Ordering
//! Session, then reclaims (`CLAIM_PREVIOUS`, each with its locks), then `RECLAIM_COMPLETE`. Then what the server would
//! not give back is opened anew (`CLAIM_FH`). Only then come other requests (RFC 8881 §8.4.2.1).
//!
//! # Failure
//! Cut off anywhere, the whole is done again: reclaims may be repeated. A file that cannot be had any more
//! is marked, and its users are told. Layouts do not survive; written data are kept until a COMMIT has answered for
//! them, so they are written again through what comes next.

use crate::Error;
use crate::backoff::Backoff;
use crate::retry::is_busy;
use crate::state::Inner;
use crate::state::{Node, Open};
use crate::stats::add;
use nfs4::ops::{
    GetAttrArgs, GetAttrRes, OpenArgs, OpenClaim, OpenHow, OpenRes, PutFhArgs, PutFhRes,
    PutRootFhArgs, PutRootFhRes, ReclaimCompleteArgs, ReclaimCompleteRes,
    SEQ_STATUS_ADMIN_STATE_REVOKED, SEQ_STATUS_EXPIRED_ALL_STATE_REVOKED,
    SEQ_STATUS_EXPIRED_SOME_STATE_REVOKED, SEQ_STATUS_RECALLABLE_STATE_REVOKED,
    SEQ_STATUS_RESTART_RECLAIM_NEEDED, SHARE_DENY_NONE, SHARE_WANT_NO_DELEG,
};
use nfs4::{Bitmap, ClientId, NfsStatus, StateOwner, attr};
use session_client::{Build, Outcome, SessionError};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use xdr::Opaque;

/// Sessions that are made in a row before recovery gives up.
const ATTEMPTS_MAX: u32 = 16;

impl Inner {
    /// Makes the session if there is none, and reclaims. Returns when requests may go on.
    pub(crate) async fn recover(self: &Arc<Self>) -> Result<(), Error> {
        let mut known = self.recovery.lock().await;
        for _ in 0..ATTEMPTS_MAX {
            let established = self.session.establish().await?;
            if *self.ready.lock() == Some(established.session) {
                return Ok(());
            }
            if known.client.is_some() {
                add(&self.stats.sessions_recovered, 1);
            }
            if known.client != Some(established.client) {
                match self.reclaim().await {
                    Ok(()) => known.client = Some(established.client),
                    Err(Error::Session(SessionError::Lost)) => continue,
                    Err(e) => return Err(e),
                }
            }
            *self.ready.lock() = Some(established.session);
        }
        Err(SessionError::Lost.into())
    }

    async fn reclaim(self: &Arc<Self>) -> Result<(), Error> {
        let nodes = self.live_nodes();
        let mut refused = Vec::new();
        for node in &nodes {
            node.forget_layout();
            for open in node.opens() {
                let previous = OpenClaim::Previous(nfs4::ops::DelegationType::None);
                match self.open_again(node, &open, previous).await {
                    Ok(()) => {
                        if !self.reclaim_locks(node, &open).await? {
                            tracing::warn!("locks of an open file could not be reclaimed");
                            open.locks.lose();
                        }
                    }
                    Err(e @ Error::Session(_)) => return Err(e),
                    Err(_) => refused.push((Arc::clone(node), open)),
                }
            }
        }
        self.reclaim_complete().await?;
        for (node, open) in refused {
            open.locks.lose();
            match self.open_again(&node, &open, OpenClaim::Fh).await {
                Ok(()) => {}
                Err(e @ Error::Session(_)) => return Err(e),
                Err(e) => {
                    tracing::warn!("an open file could not be recovered: {e}");
                    open.mark_lost();
                }
            }
        }
        Ok(())
    }

    async fn reclaim_complete(&self) -> Result<(), Error> {
        let outcome = self
            .raw(&|b| {
                b.push(&ReclaimCompleteArgs { one_fs: false });
                Vec::new()
            })
            .await?;
        match outcome.results()?.take::<ReclaimCompleteRes>() {
            Err(e) if e.status() != Some(NfsStatus::CompleteAlready) => Err(e.into()),
            _ => Ok(()),
        }
    }

    /// Opens a file that was open before, by `claim`.
    async fn open_again(
        &self,
        node: &Node,
        open: &Arc<Open>,
        claim: OpenClaim<'_>,
    ) -> Result<(), Error> {
        let build: &Build<'_> = &|b| {
            b.push(&PutFhArgs {
                object: Opaque(&node.fh.0),
            });
            b.push(&OpenArgs {
                seqid: 0,
                share_access: open.access | SHARE_WANT_NO_DELEG,
                share_deny: SHARE_DENY_NONE,
                owner: StateOwner {
                    clientid: ClientId::default(),
                    owner: Opaque(&open.owner),
                },
                how: OpenHow::NoCreate,
                claim,
            });
            Vec::new()
        };
        let outcome = self.raw(build).await?;
        let mut reply = outcome.results()?;
        reply.take::<PutFhRes>()?;
        let opened = reply.take::<OpenRes>()?;
        open.set_stateid(opened.stateid);
        add(&self.stats.opens_recovered, 1);
        Ok(())
    }

    /// A stateid of `open` was refused although the session lives: opens the file anew.
    ///
    /// # Errors
    /// [`Error::OpenLost`] when the server refuses that.
    pub(crate) async fn reopen(
        self: &Arc<Self>,
        node: &Node,
        open: &Arc<Open>,
    ) -> Result<(), Error> {
        let _one = self.recovery.lock().await;
        match self.open_again(node, open, OpenClaim::Fh).await {
            // With the session the open is gone too: the next request recovers both.
            Ok(()) => {
                open.locks.lose();
                Ok(())
            }
            Err(Error::Session(SessionError::Lost)) => Ok(()),
            Err(Error::Session(e)) => Err(e.into()),
            Err(_) => Err(Error::OpenLost),
        }
    }

    /// A request of recovery itself: DELAY and GRACE are asked again, a lost session is the caller's business.
    pub(crate) async fn raw(&self, build: &Build<'_>) -> Result<Outcome, Error> {
        let mut backoff = Backoff::new(self.config.give_up);
        loop {
            let outcome = self.session.compound_once(&self.caller, build).await?;
            if !is_busy(outcome.results()?.status) || !backoff.wait().await {
                return Ok(outcome);
            }
        }
    }

    /// Asks for the lease time.
    pub(crate) async fn learn_lease(self: &Arc<Self>) -> Result<(), Error> {
        let outcome = self
            .call(&|b| {
                b.push(&PutRootFhArgs {});
                b.push(&GetAttrArgs {
                    attr_request: Bitmap::of(&[attr::LEASE_TIME]),
                });
                Vec::new()
            })
            .await?;
        let mut reply = outcome.results()?;
        reply.take::<PutRootFhRes>()?;
        let got = reply.take::<GetAttrRes<'_>>()?;
        let attrs = got.attributes.attrs();
        let lease_s = attrs.ok().and_then(|a| a.lease_time_s);
        if let Some(lease_s) = lease_s {
            self.lease_s.store(lease_s, Relaxed);
        }
        Ok(())
    }

    /// Acts on `SEQ_STATUS_*` flags (RFC 8881 §18.46.3).
    pub(crate) async fn heed(self: &Arc<Self>, flags: u32) {
        const REVOKED: u32 = SEQ_STATUS_EXPIRED_ALL_STATE_REVOKED
            | SEQ_STATUS_EXPIRED_SOME_STATE_REVOKED
            | SEQ_STATUS_ADMIN_STATE_REVOKED
            | SEQ_STATUS_RECALLABLE_STATE_REVOKED;
        if flags & REVOKED != 0 {
            tracing::warn!("the server revoked state of this client; layouts are asked for anew");
            for node in self.live_nodes() {
                node.forget_layout();
            }
        }
        if flags & SEQ_STATUS_RESTART_RECLAIM_NEEDED != 0 {
            self.recovery.lock().await.client = None;
            *self.ready.lock() = None;
        }
    }
}
