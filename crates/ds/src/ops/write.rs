//! WRITE (RFC 8881 §18.32, §13.6, §13.7; rules R2, R9, R11).
//!
//! # Ownership
//! The data lie in the request's record; nothing is copied before the object store, which may keep them as they are.
//!
//! # Ordering
//! Verifier, data, then what makes them durable: a redo record, or a sync of the object. For `FILE_SYNC` the MDS learns
//! of it meanwhile. Then the reply. Fences and truncations of the file wait for all of it. No report of a write may come
//! after a truncation and make the file long again. The MDS therefore never lets WROTE wait for a fence or a truncation.
//!
//! # Failure
//! Data may be in the object, even durable, when the client is told of an error; it writes them again.

use nfs4::ops::{WriteArgs, WriteRes};
use nfs4::{NfsStatus, StableHow};
use server::Compound;

use super::stateids::check_stateid;
use crate::apply::{Applied, Change};
use crate::copies::table::Passed;
use crate::counts::{add, count};
use crate::ds::Ds;
use crate::fault::Fault;
use crate::gate::{Admitted, Want};
use crate::part::Part;

pub(super) async fn write<'r>(
    ds: &Ds,
    cx: &Compound<'r, ()>,
    args: WriteArgs<'r>,
) -> Result<WriteRes, NfsStatus> {
    let stateid = cx.resolve(args.stateid)?;
    let admitted = match ds.admit(cx, Want::Write) {
        Ok(admitted) => admitted,
        Err(why) => Box::pin(ds.admit_later(cx, Want::Write, why)).await?,
    };
    check_stateid(ds, stateid, admitted.is_proxy)?;
    count(&ds.counts.writes);
    let data = args.data.0;
    let len = u32::try_from(data.len()).map_err(|_| NfsStatus::Inval)?;
    let range = admitted.check_range(args.offset, u64::from(len));
    range.map_err(|refused| ds.refused(refused))?;
    let verifier = ds.verifier_of(&admitted.handle);
    let written = WriteRes {
        count: len,
        committed: args.stable,
        write_verifier: verifier,
    };
    let (handle, is_proxy) = (admitted.handle, admitted.is_proxy);
    // A stable WRITE of nothing by the MDS makes the object (eager creation).
    let is_making = is_proxy && args.stable != StableHow::Unstable;
    if data.is_empty() && !is_making {
        return Ok(written);
    }
    let part = Part::of_handle(&handle);
    let is_stable = args.stable != StableHow::Unstable;
    let is_reported = args.stable == StableHow::FileSync && !is_proxy;
    let change = Change::Write {
        offset: args.offset,
        data: &cx.share(data),
        buffer_bytes: cx.buffer_bytes(),
        is_stable,
        is_reported,
    };
    let (applied, passed) = match ds.change(part, change, admitted.alone).await {
        Ok(changed) => changed,
        Err(fault) => return Err(Box::pin(failed(ds, part, admitted, fault)).await),
    };
    if is_stable {
        let end_offset = args.offset.saturating_add(u64::from(len));
        let report = is_reported.then_some(end_offset);
        // In a box of its own: else each WRITE would carry along what only stable ones need.
        let reign = handle.place.map_or(0, |place| place.reign);
        match Box::pin(durable(ds, (part, reign), (applied, passed), report)).await {
            Ok(told) => told?,
            Err(fault) => return Err(Box::pin(failed(ds, part, admitted, fault)).await),
        }
    }
    let counter = if is_proxy {
        &ds.counts.proxy_written_bytes
    } else {
        &ds.counts.client_written_bytes
    };
    add(counter, data.len());
    drop(admitted);
    Ok(written)
}

/// Makes a stable write durable. With `report` the MDS is told of it, up to this offset of the file; returns what came of
/// that.
async fn durable(
    ds: &Ds,
    (part, reign): (Part, u32),
    (applied, passed): (Applied, Passed),
    report: Option<u64>,
) -> Result<Result<(), NfsStatus>, Fault> {
    let id = part.id;
    let durable = async {
        let here = async {
            match applied.record {
                Some(number) => ds.record_durable(number).await,
                None => ds.sync(id).await,
            }
        };
        let (here, there) = tokio::join!(here, passed.acknowledged());
        here.and(there)
            .and_then(|()| ds.check_kept(&applied))
            .and_then(|()| ds.check_reign(part, reign))
            .and_then(|()| ds.check_copies(part))
    };
    let Some(end_offset) = report else {
        return durable.await.map(Ok);
    };
    // Both at once: the MDS tells of it what this server could still lose, but nothing that a client was promised.
    let (told, durable) = tokio::join!(ds.report(id, end_offset, applied), durable);
    durable.map(|()| told)
}

#[cold]
async fn failed(ds: &Ds, part: Part, admitted: Admitted, fault: Fault) -> NfsStatus {
    let fault = ds.after_fault(part, admitted, fault).await;
    ds.note(part.id, &fault);
    fault.nfs_status()
}
