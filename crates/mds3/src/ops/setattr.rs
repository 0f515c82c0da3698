//! SETATTR (RFC 1813 §3.3.2).

use crate::attrs::{attrs_of, to_setattr};
use crate::cx::Cx;
use crate::results::failed;
use fs::Prepared;
use namespace::Inode;
use nfs3::Res;
use nfs3::procs::{SetAttrArgs, SetAttrRes};
use nfs4::NfsStatus;
use state::Io;
use std::sync::Arc;

pub(super) async fn setattr(cx: &mut Cx<'_>, args: SetAttrArgs<'_>) -> SetAttrRes {
    match set(cx, args).await {
        Ok(before) => Res::Ok(cx.wcc(&before)),
        Err(status) => failed(status, cx.wcc_failed(args.object)),
    }
}

/// Returns the object as it was before.
async fn set(cx: &mut Cx<'_>, args: SetAttrArgs<'_>) -> Result<Arc<Inode>, NfsStatus> {
    let inode = cx.ready(args.object).await?;
    cx.actor.check_writable()?;
    if let Some(guard) = args.guard
        && attrs_of(cx.fs(), &inode).ctime != guard
    {
        return Err(NfsStatus::NotSame);
    }
    let wanted = to_setattr(&args.new_attributes);
    if wanted.size.is_some() {
        let is_file = match inode.is_dir() {
            true => Err(NfsStatus::IsDir),
            false if inode.is_regular() => Ok(()),
            false => Err(NfsStatus::Inval),
        };
        is_file?;
        cx.check_undenied(inode.id, Io::Write)?;
    }
    let kept = Prepared::default();
    fs::set_attributes(cx.fs(), &mut cx.actor, &inode, &wanted, false, &kept).await?;
    Ok(inode)
}
