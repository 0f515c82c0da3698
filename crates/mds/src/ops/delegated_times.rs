//! SETATTR of `time_deleg_access` and `time_deleg_modify`: the holder of a delegation tells the times that it kept (RFC 9754 §5).
//!
//! # Ordering
//! As for any modification time, all layouts for writing come back first. Linux sends LAYOUTRETURN, SETATTR and DELEGRETURN
//! in one COMPOUND.

use crate::attrs::DELEGATED_TIMES;
use crate::cx::{self, Cx};
use crate::{Mds, attrs};
use namespace::{DelegatedTimes, Inode};
use nfs4::ops::{SetAttrArgs, SetAttrRes};
use nfs4::{Bitmap, NfsStatus};
use std::sync::Arc;

/// Sets what the holder tells. Returns which attributes were set.
///
/// # Errors
/// `Inval` with other attributes beside them, and for a delegation that does not keep times; those of the stateid.
pub(super) async fn set(
    mds: &Mds,
    cx: &mut Cx<'_>,
    inode: &Arc<Inode>,
    args: &SetAttrArgs<'_>,
) -> Result<Bitmap, NfsStatus> {
    let told = attrs::checked(&args.attrs, &DELEGATED_TIMES, cx.minor_version)?;
    cx::regular(inode)?;
    let client = cx.client()?;
    let stateid = cx.resolve(args.stateid)?;
    let file = inode.id;
    let holds = mds
        .fs
        .state()
        .check_delegated_times(stateid, client, file.0);
    holds?;
    let _held = match told.time_deleg_modify {
        Some(_) => Some(fs::writes_reported(&mds.fs, inode).await?),
        None => None,
    };
    let times = DelegatedTimes {
        atime: told.time_deleg_access.map(attrs::of_time),
        mtime: told.time_deleg_modify.map(attrs::of_time),
        is_modified: false,
    };
    let res = SetAttrRes {
        status: NfsStatus::Ok,
        attrsset: args.attrs.mask,
    };
    let kept = cx::prepared(cx, &res, None);
    let set = |ns: &namespace::Namespace, op: &mut namespace::Op<'_>| {
        ns.set_delegated_times(op, file, times)
    };
    cx.actor.change_as(&mds.fs, &kept, set)?;
    if times.atime.is_some() {
        mds.fs.atimes().was_set(file);
    }
    if times.mtime.is_some() {
        mds.fs.state().delegations.note_time_set(file.0, client);
    }
    Ok(res.attrsset)
}
