//! SETATTR (RFC 8881 §18.30): what the protocol says of its arguments and its stateid.

use super::delegated_times;
use crate::attrs::DELEGATED_TIMES;
use crate::cx::{self, Cx};
use crate::{Mds, attrs};
use namespace::Inode;
use nfs4::ops::{SetAttrArgs, SetAttrRes};
use nfs4::{Bitmap, NfsStatus, Stateid};
use state::{Ground, Io};

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
    let res = SetAttrRes {
        status: NfsStatus::Ok,
        attrsset: args.attrs.mask,
    };
    let kept = cx::prepared(cx, &res, None);
    fs::set_attributes(&mds.fs, &mut cx.actor, &inode, &wanted, opened, &kept).await?;
    if wanted.mtime.is_some() {
        let client = cx.client()?;
        mds.fs.state().delegations.note_time_set(inode.id.0, client);
    }
    Ok(args.attrs.mask)
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
