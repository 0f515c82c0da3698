//! COMMIT (RFC 8881 §18.3, §13.7): always the whole object, which is what a sync makes durable anyway.

use nfs4::NfsStatus;
use nfs4::ops::{CommitArgs, CommitRes};
use server::Compound;

use crate::counts::count;
use crate::ds::Ds;
use crate::gate::Want;
use crate::part::Part;

pub(super) async fn commit(
    ds: &Ds,
    cx: &Compound<'_, ()>,
    args: CommitArgs,
) -> Result<CommitRes, NfsStatus> {
    let admitted = match ds.admit(cx, Want::Write) {
        Ok(admitted) => admitted,
        Err(why) => Box::pin(ds.admit_later(cx, Want::Write, why)).await?,
    };
    if args.offset.checked_add(u64::from(args.count)).is_none() {
        return Err(NfsStatus::Inval);
    }
    count(&ds.counts.commits);
    let part = Part::of_handle(&admitted.handle);
    if let Err(fault) = ds.promise_copies(part).await {
        let fault = Box::pin(ds.after_fault(part, admitted, fault)).await;
        ds.note(part.id, &fault);
        return Err(fault.nfs_status());
    }
    // Read after the sync: a sync of this file that failed before has changed it.
    Ok(CommitRes {
        write_verifier: ds.verifier_of(&admitted.handle),
    })
}
