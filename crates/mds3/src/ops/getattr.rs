//! GETATTR (RFC 1813 §3.3.1).

use crate::cx::Cx;
use crate::results::res;
use nfs3::procs::{GetAttrArgs, GetAttrOk, GetAttrRes};
use nfs4::NfsStatus;

pub(super) async fn getattr(cx: &mut Cx<'_>, args: GetAttrArgs<'_>) -> GetAttrRes {
    res(known(cx, args).await, ())
}

async fn known(cx: &mut Cx<'_>, args: GetAttrArgs<'_>) -> Result<GetAttrOk, NfsStatus> {
    let mut inode = cx.ready(args.object).await?;
    if fs::look_at_space(cx.fs(), inode.id).await {
        inode = cx.ready(args.object).await?;
    }
    let obj_attributes = cx.fresh(&inode).await?;
    Ok(GetAttrOk { obj_attributes })
}
