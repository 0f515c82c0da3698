//! Making written data durable: COMMIT at every server that holds some, then LAYOUTCOMMIT (RFC 8881 §12.5.4, §13.7).
//!
//! # Ordering
//! A COMMIT covers the writes that were answered before it was sent; later ones wait for the next. LAYOUTCOMMIT goes
//! last, so the MDS never shows a size whose data could still be lost.
//!
//! # Failure
//! Data are written again if their verifier changed, their server fails, or their LAYOUTCOMMIT is refused. Nothing else writes
//! the file meanwhile. They go through the layout of that moment or the MDS, until the client gives up. They leave the table
//! only when both have answered.

use crate::Error;
use crate::backoff::Backoff;
use crate::layout_kind::KIND;
use crate::retry::is_busy;
use crate::state::{Node, Open, Target};
use crate::stats::add;
use futures_util::future::join_all;
use nfs4::ops::{
    CommitArgs, CommitRes, LayoutCommitArgs, LayoutCommitRes, LayoutUpdate, PutFhArgs, PutFhRes,
};
use nfs4::{NfsStatus, StableHow, Verifier};
use session_client::{Build, SessionError};
use std::sync::Arc;
use xdr::Opaque;

/// Who holds the file's `gate`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gate {
    /// Nobody in particular.
    Open,
    /// The caller, alone.
    Held,
}

impl Node {
    /// Makes everything durable that was written before.
    pub(crate) async fn flush(self: &Arc<Self>) -> Result<(), Error> {
        let _one = self.flushing.lock().await;
        self.flush_alone(Gate::Open).await
    }

    /// As [`Node::flush`], for a caller that holds `flushing`.
    pub(crate) async fn flush_alone(self: &Arc<Self>, gate: Gate) -> Result<(), Error> {
        let mut backoff = Backoff::new(self.client.config.give_up);
        loop {
            let seq = self.dirty.lock().seq();
            if self.dirty.lock().up_to(seq).next().is_none() {
                return Ok(());
            }
            self.commit(seq).await?;
            self.layoutcommit(seq).await?;
            let lost = {
                let mut dirty = self.dirty.lock();
                dirty.settle(seq);
                !dirty.lost().is_empty()
            };
            if !lost {
                return Ok(());
            }
            if !backoff.wait().await {
                return Err(Error::NotCommitted);
            }
            let _alone = match gate {
                Gate::Open => Some(self.gate.write().await),
                Gate::Held => None,
            };
            self.write_again().await?;
        }
    }

    /// Sends lost data again. Nobody else writes meanwhile, so nothing newer can be overwritten.
    async fn write_again(self: &Arc<Self>) -> Result<(), Error> {
        let lost = self.dirty.lock().lost();
        let bytes = lost.iter().map(|(_, d)| d.len() as u64).sum();
        add(&self.client.stats.resent_bytes, bytes);
        let open: Arc<Open> = self.writable_open().ok_or(Error::OpenLost)?;
        self.write_ranges(&open, lost, StableHow::Unstable).await
    }

    /// Commits the pieces up to `seq` and marks those that may be lost.
    async fn commit(self: &Arc<Self>, seq: u64) -> Result<(), Error> {
        let mut targets: Vec<Target> = Vec::new();
        for (_, piece) in self.dirty.lock().up_to(seq) {
            if !targets.contains(&piece.target) {
                targets.push(piece.target.clone());
            }
        }
        let commits = targets.iter().map(|t| self.commit_at(t));
        for (target, verifier) in targets.iter().zip(join_all(commits).await) {
            let verifier = verifier?;
            let mut dirty = self.dirty.lock();
            dirty.lose(seq, |p| p.target == *target && Some(p.verifier) != verifier);
        }
        Ok(())
    }

    /// The verifier of a COMMIT; `None` when the data must be taken for lost.
    async fn commit_at(self: &Arc<Self>, target: &Target) -> Result<Option<Verifier>, Error> {
        let fh = match target {
            Target::Ds(_, fh) => fh,
            Target::Mds | Target::ThroughMds => &self.fh,
        };
        let build: &Build<'_> = &|b| {
            b.push(&PutFhArgs {
                object: Opaque(&fh.0),
            });
            b.push(&CommitArgs {
                offset: 0,
                count: 0,
            });
            Vec::new()
        };
        let outcome = match target {
            Target::Ds(ds, _) => {
                let mut backoff = Backoff::new(self.client.config.ds_give_up);
                let _waiting = self.client.waits.enter(ds.wait());
                loop {
                    match ds.call(&self.client.caller, build).await {
                        Ok(o) if is_busy(o.results()?.status) => {
                            if !backoff.wait().await {
                                return Ok(self.ds_failed());
                            }
                        }
                        Ok(o) => break o,
                        Err(e) => {
                            tracing::debug!("a data server did not commit: {e}");
                            return Ok(self.ds_failed());
                        }
                    }
                }
            }
            Target::Mds | Target::ThroughMds => self.client.call(build).await?,
        };
        let mut reply = outcome.results()?;
        let committed = reply.take::<PutFhRes>();
        match committed.and_then(|_| reply.take::<CommitRes>()) {
            Ok(res) => Ok(Some(res.write_verifier)),
            Err(e) => match (target, e.status()) {
                (_, Some(s @ (NfsStatus::NoSpc | NfsStatus::DQuot | NfsStatus::Io))) => {
                    Err(Error::Status(s))
                }
                (Target::Ds(..), Some(_)) => Ok(self.ds_failed()),
                _ => Err(e.into()),
            },
        }
    }

    /// The layout is used no more: a server of it does not commit.
    fn ds_failed(&self) -> Option<Verifier> {
        add(&self.client.stats.ds_failures, 1);
        self.layout.lock().drop_segments();
        None
    }

    /// Tells the MDS of the data up to `seq` that are durable at data servers. When it refuses they count as lost.
    async fn layoutcommit(self: &Arc<Self>, seq: u64) -> Result<(), Error> {
        let (mut start, mut end) = (u64::MAX, 0);
        for (at, piece) in self.dirty.lock().up_to(seq) {
            if piece.target.needs_layoutcommit() {
                start = start.min(at);
                end = end.max(at + piece.data.len() as u64);
            }
        }
        if end == 0 {
            return Ok(());
        }
        let stateid = self.layout.lock().stateid;
        let refused = match stateid {
            None => true,
            Some(stateid) => self.send_layoutcommit(stateid, start, end).await?,
        };
        if refused {
            self.forget_layout();
            let mut dirty = self.dirty.lock();
            dirty.lose(seq, |p| p.target.needs_layoutcommit());
        }
        Ok(())
    }

    /// Whether the MDS refused it because the layout is not what it was.
    async fn send_layoutcommit(
        self: &Arc<Self>,
        stateid: nfs4::Stateid,
        start: u64,
        end: u64,
    ) -> Result<bool, Error> {
        let outcome = self
            .client
            .call_once(&|b| {
                b.push(&PutFhArgs {
                    object: Opaque(&self.fh.0),
                });
                b.push(&LayoutCommitArgs {
                    offset: start,
                    length: end - start,
                    reclaim: false,
                    stateid,
                    last_write_offset: Some(end - 1),
                    time_modify: None,
                    layout_update: LayoutUpdate {
                        layout_type: KIND.number(),
                        body: Opaque(b""),
                    },
                });
                Vec::new()
            })
            .await;
        let outcome = match outcome {
            Err(Error::Session(SessionError::Lost)) => return Ok(true),
            other => other?,
        };
        let mut reply = outcome.results()?;
        reply.take::<PutFhRes>()?;
        match reply.take::<LayoutCommitRes>() {
            Ok(_) => Ok(false),
            Err(e) => match e.status() {
                Some(
                    NfsStatus::BadStateid
                    | NfsStatus::OldStateid
                    | NfsStatus::StaleStateid
                    | NfsStatus::Expired
                    | NfsStatus::AdminRevoked
                    | NfsStatus::DelegRevoked
                    | NfsStatus::BadLayout
                    | NfsStatus::NoMatchingLayout
                    | NfsStatus::UnknownLayoutType
                    | NfsStatus::BadIoMode,
                ) => Ok(true),
                _ => Err(e.into()),
            },
        }
    }
}
