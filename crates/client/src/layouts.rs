//! The layout of one file: asked for when it is needed, used until it fails or is recalled, returned at the last close.
//!
//! # Ordering
//! One LAYOUTGET of a file at a time. A recall that comes meanwhile is answered DELAY, which keeps grant and recall in
//! the server's order (RFC 8881 §12.5.5.2). The newest stateid wins.
//!
//! # Failure
//! A refusal sends I/O through the MDS, for a while when the server says that it has no layout for the file.

use crate::Error;
use crate::backoff::Backoff;
use crate::layout_kind::{Body, KIND};
use crate::state::{Node, Open};
use crate::stats::add;
use crate::stripes::{Grant, Segment};
use nfs4::layout::LENGTH_TO_EOF;
use nfs4::ops::{
    LayoutGetArgs, LayoutGetRes, LayoutReturn, LayoutReturnArgs, LayoutReturnFile, LayoutReturnRes,
    LayoutsGranted, PutFhArgs, PutFhRes,
};
use nfs4::{IoMode, NfsStatus, OpError, Stateid};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use xdr::Opaque;

/// Most segments that are remembered of one file; ours has one.
const SEGMENTS_MAX: usize = 64;
/// How long to wait for a layout that the server wants to give later.
const TRY_LATER: Duration = Duration::from_secs(2);
/// How long a file is done without a layout after the server refused one for good.
const AVOID: Duration = Duration::from_secs(30);
/// Bytes of `LAYOUTGET4resok` that we take.
const LAYOUT_BYTES_MAX: u32 = 256 << 10;

/// How a LAYOUTGET ended.
enum Got {
    Granted,
    /// Ask again, perhaps with another stateid.
    Again,
    /// Not now.
    Refused,
    /// Not for this file.
    Never,
}

impl Node {
    /// The segment to do I/O under; `None` sends it through the MDS.
    pub(crate) async fn segment(
        &self,
        open: &Open,
        offset: u64,
        end: u64,
        write: bool,
    ) -> Result<Option<Arc<Segment>>, Error> {
        if !self.client.config.pnfs {
            return Ok(None);
        }
        let held = |node: &Self| {
            let state = node.layout.lock();
            let found = state.find(offset, end, write);
            (!state.recalled).then_some(found).flatten()
        };
        if let Some(segment) = held(self) {
            return Ok(Some(segment));
        }
        let _one = self.getting.lock().await;
        let mut backoff = Backoff::new(TRY_LATER);
        loop {
            if let Some(segment) = held(self) {
                return Ok(Some(segment));
            }
            if self.layout.lock().is_avoided() {
                return Ok(None);
            }
            match self.layoutget(open, end, write).await? {
                Got::Granted => {
                    let segment = held(self);
                    if segment.is_none() {
                        // Granted, but of no use for this: do not ask for each I/O.
                        self.avoid();
                    }
                    return Ok(segment);
                }
                Got::Again if backoff.wait().await => {}
                Got::Again | Got::Refused => {
                    add(&self.client.stats.layouts_refused, 1);
                    return Ok(None);
                }
                Got::Never => {
                    add(&self.client.stats.layouts_refused, 1);
                    self.avoid();
                    return Ok(None);
                }
            }
        }
    }

    fn avoid(&self) {
        self.layout.lock().avoid_until = Some(Instant::now() + AVOID);
    }

    /// Asks for the whole file; what matters is that `0..end` is granted.
    async fn layoutget(&self, open: &Open, end: u64, write: bool) -> Result<Got, Error> {
        let (held, forgotten) = {
            let state = self.layout.lock();
            (state.stateid, state.forgotten)
        };
        let stateid = held.unwrap_or_else(|| open.stateid());
        let outcome = self
            .client
            .call_once(&|b| {
                b.push(&PutFhArgs {
                    object: Opaque(&self.fh.0),
                });
                b.push(&LayoutGetArgs {
                    signal_layout_avail: false,
                    layout_type: KIND.number(),
                    iomode: if write { IoMode::Rw } else { IoMode::Read },
                    offset: 0,
                    length: LENGTH_TO_EOF,
                    minlength: end,
                    stateid,
                    maxcount: LAYOUT_BYTES_MAX,
                });
                Vec::new()
            })
            .await?;
        let mut reply = outcome.results()?;
        reply.take::<PutFhRes>()?;
        match reply.take::<LayoutGetRes<'_>>() {
            Ok(LayoutGetRes::Ok(granted)) => self.take(granted, forgotten).await,
            Ok(LayoutGetRes::TryLater { .. }) => Ok(Got::Again),
            Err(e) => self.refused(&e, held).ok_or_else(|| e.into()),
        }
    }

    fn refused(&self, e: &OpError, held: Option<Stateid>) -> Option<Got> {
        Some(match e.status()? {
            NfsStatus::RecallConflict | NfsStatus::Delay | NfsStatus::Grace => Got::Again,
            NfsStatus::OldStateid if held.is_some() => Got::Again,
            NfsStatus::BadStateid
            | NfsStatus::Expired
            | NfsStatus::AdminRevoked
            | NfsStatus::StaleStateid
            | NfsStatus::DelegRevoked
                if held.is_some() =>
            {
                self.forget_layout();
                Got::Again
            }
            NfsStatus::LayoutUnavailable
            | NfsStatus::UnknownLayoutType
            | NfsStatus::NotSupp
            | NfsStatus::BadIoMode
            | NfsStatus::BadLayout
            | NfsStatus::TooSmall => Got::Never,
            // The I/O itself finds out through the MDS what is wrong.
            _ => Got::Refused,
        })
    }

    async fn take(&self, granted: LayoutsGranted<'_>, forgotten: u64) -> Result<Got, Error> {
        let mut segments = Vec::new();
        for layout in granted.layouts.0.iter().take(SEGMENTS_MAX) {
            let Some(body) = Body::decode(layout.layout_type, layout.body.0)? else {
                continue;
            };
            let grant = Grant {
                offset: layout.offset,
                length: layout.length,
                iomode: layout.iomode,
                stateid: granted.stateid,
            };
            if let Some(device) = self.client.device(body.device_id()).await? {
                segments.extend(Segment::of(body, grant, device, &self.fh));
            }
        }
        add(&self.client.stats.layouts_granted, 1);
        let mut state = self.layout.lock();
        if state.forgotten != forgotten {
            return Ok(Got::Again);
        }
        state.note(granted.stateid);
        let other = granted.stateid.other;
        state.segments.retain(|s| s.stateid.other == other);
        let room = SEGMENTS_MAX.saturating_sub(segments.len());
        state.segments.truncate(room);
        state.segments.extend(segments.into_iter().map(Arc::new));
        Ok(Got::Granted)
    }

    /// A data server failed I/O under a segment: it is not used any more, nor is what is known of the device. The stateid
    /// stays, so that a LAYOUTCOMMIT can still be sent.
    pub(crate) fn segment_failed(&self, failed: &Arc<Segment>) {
        add(&self.client.stats.ds_failures, 1);
        self.client.devices.forget_all();
        let mut state = self.layout.lock();
        state.segments.retain(|s| !Arc::ptr_eq(s, failed));
    }

    /// Gives the whole layout back. The caller holds `gate` alone and has flushed. A refusal means that the server has
    /// none.
    pub(crate) async fn return_layout(&self) -> Result<(), Error> {
        let stateid = {
            let mut state = self.layout.lock();
            let stateid = state.stateid;
            state.forget();
            stateid
        };
        let Some(stateid) = stateid else {
            return Ok(());
        };
        let outcome = self
            .client
            .call_once(&|b| {
                b.push(&PutFhArgs {
                    object: Opaque(&self.fh.0),
                });
                b.push(&layoutreturn_args(stateid));
                Vec::new()
            })
            .await?;
        let mut reply = outcome.results()?;
        reply.take::<PutFhRes>()?;
        if let Err(e) = reply.take::<LayoutReturnRes>() {
            tracing::debug!("a layout was not taken back: {e}");
        }
        Ok(())
    }
}

/// The return of everything that is held of a file.
pub(crate) fn layoutreturn_args(stateid: Stateid) -> LayoutReturnArgs<'static> {
    LayoutReturnArgs {
        reclaim: false,
        layout_type: KIND.number(),
        iomode: IoMode::Any,
        what: LayoutReturn::File(LayoutReturnFile {
            offset: 0,
            length: LENGTH_TO_EOF,
            stateid,
            body: Opaque(b""),
        }),
    }
}
