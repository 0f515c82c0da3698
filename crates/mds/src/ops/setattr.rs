//! SETATTR (RFC 8881 §18.30). A size that may cut data off goes through the data plane (rule R3). A mode or owner that
//! takes access away, or sets a set-id bit, fences what was granted before the reply (rule R10).
//!
//! # Ordering
//! Modification time and set-id bits are set after all layouts for writing are back, the caller's own too: LAYOUTCOMMIT comes
//! before LAYOUTRETURN, so no report of an older write comes after them.

use super::delegated_times;
use crate::attrs::DELEGATED_TIMES;
use crate::cx::{self, Cx};
use crate::{Mds, attrs};
use fs::{Clearing, Prepared, Resized};
use namespace::{Inode, NsError, SET_ID_BITS, SetAttr, SetTime};
use nfs4::ops::{SetAttrArgs, SetAttrRes};
use nfs4::{Bitmap, NfsStatus, Stateid};
use state::{Ground, InTheWay, Io};
use std::sync::Arc;

pub(super) async fn setattr(mds: &Mds, cx: &mut Cx<'_>, args: &SetAttrArgs<'_>) -> SetAttrRes {
    match set(mds, cx, args).await {
        Ok(attrsset) => SetAttrRes {
            status: NfsStatus::Ok,
            attrsset,
        },
        Err(status) => SetAttrRes {
            status,
            attrsset: Bitmap::EMPTY,
        },
    }
}

async fn set(mds: &Mds, cx: &mut Cx<'_>, args: &SetAttrArgs<'_>) -> Result<Bitmap, NfsStatus> {
    let inode = cx::current_ready(mds, cx).await?;
    cx.actor.check_writable()?;
    if !args.attrs.mask.intersection(&DELEGATED_TIMES).is_empty() {
        return delegated_times::set(mds, cx, &inode, args).await;
    }
    let wanted = attrs::to_setattr(
        mds.identities(),
        &attrs::decode(mds, &args.attrs, cx.minor_version).await?,
    )?;
    let opened = match wanted.size {
        Some(_) => check_size_stateid(mds, cx, &inode, args.stateid)?,
        None => false,
    };
    // Others read nothing of it from their caches from here on (RFC 8881 §10.4.4).
    let clearing = Clearing {
        against: InTheWay::All,
        truncates: wanted.size == Some(0),
    };
    let _excluded = if inode.is_regular() {
        Some(fs::exclude(&mds.fs, &cx.actor, &inode, clearing).await?)
    } else {
        None
    };
    fs::ready(&mds.fs, inode.id)?;
    let _held = if inode.is_regular() && must_come_last(&inode, &wanted) {
        Some(fs::writes_reported(&mds.fs, &inode).await?)
    } else {
        None
    };
    let res = SetAttrRes {
        status: NfsStatus::Ok,
        attrsset: args.attrs.mask,
    };
    let kept = cx::prepared(cx, &res, None);
    apply(mds, cx, &inode, &wanted, opened, &kept).await?;
    if wanted.atime.is_some() {
        mds.fs.atimes().was_set(inode.id);
    }
    if wanted.mtime.is_some() {
        let client = cx.client()?;
        mds.fs.state().delegations.note_time_set(inode.id.0, client);
    }
    Ok(args.attrs.mask)
}

/// Whether what was written before may be reported only before these attributes are set. Otherwise the report would
/// take the modification time back, or find set-id bits that the write is not to take away.
fn must_come_last(inode: &Inode, wanted: &SetAttr) -> bool {
    let time = match wanted.mtime {
        Some(SetTime::Client(_)) => true,
        // With a size it is what the cut says itself: Linux sends both for O_TRUNC.
        Some(SetTime::Server) => wanted.size.is_none(),
        None => false,
    };
    let mode = wanted.mode.is_some_and(|mode| mode & SET_ID_BITS != 0);
    let list = wanted.acl.is_some() && inode.mode & SET_ID_BITS != 0;
    time || mode || list
}

/// The stateid of a size change, as for WRITE. Returns whether it stands for an open for writing.
fn check_size_stateid(
    mds: &Mds,
    cx: &mut Cx<'_>,
    inode: &Inode,
    stateid: Stateid,
) -> Result<bool, NfsStatus> {
    cx::regular(inode).map_err(|status| match status {
        NfsStatus::IsDir => NfsStatus::IsDir,
        _ => NfsStatus::Inval,
    })?;
    let stateid = cx.resolve(stateid)?;
    let client = cx.client()?;
    mds.fs
        .clients()
        .lock()
        .check_grace_io(stateid.is_special())?;
    let state = mds.fs.state();
    let ground = state.check_io(stateid, client, inode.id.0, Io::Write)?;
    Ok(ground == Ground::Open)
}

/// Sets attributes of an inode whose stateid was checked. Also used by OPEN with truncation.
pub(super) async fn apply(
    mds: &Mds,
    cx: &mut Cx<'_>,
    inode: &Arc<Inode>,
    wanted: &SetAttr,
    opened_for_write: bool,
    kept: &Prepared,
) -> Result<Arc<Inode>, NfsStatus> {
    if let Some(size) = wanted.size {
        mds.fs.check_end(size)?;
        mds.fs.check_not_truncating(inode.id)?;
    }
    let mut inode = Arc::clone(inode);
    if wanted.size.is_some() && inode.is_inline() {
        let actor = &mut cx.actor;
        let set = fs::set_size_inline(&mds.fs, actor, &inode, wanted, opened_for_write, kept);
        match set.await? {
            Resized::Inline(set) => return Ok(set.inode),
            Resized::Placed(placed) => inode = placed,
        }
    }
    let mut needs_truncate = false;
    let result = cx.actor.change_as(&mds.fs, kept, |ns, op| {
        match ns.setattr(op, inode.id, wanted, opened_for_write) {
            Err(NsError::NeedsTruncate) => {
                needs_truncate = true;
                Err(NsError::NeedsTruncate)
            }
            result => result,
        }
    });
    if needs_truncate {
        return fs::truncate(
            &mds.fs,
            &mut cx.actor,
            &inode,
            wanted,
            opened_for_write,
            kept,
        )
        .await;
    }
    let set = result?;
    if set.access_narrowed {
        fs::access_narrowed(&mds.fs, &mut cx.actor, &set.inode).await?;
    }
    Ok(set.inode)
}
