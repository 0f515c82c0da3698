//! GETATTR (RFC 8881 §18.7).

use super::fail;
use crate::cx::{self, Cx};
use crate::{Mds, attrs, data, delegations};
use nfs4::attr::{Attrs, FattrOf, SPACE_USED, WRITE_ONLY};
use nfs4::ops::{GetAttrArgs, GetAttrResOf};
use nfs4::{Bitmap, NfsStatus, OpNum, ReplyWriter};
use server::Nfsd;

pub(super) async fn getattr(
    nfsd: &Nfsd<Mds>,
    cx: &mut Cx<'_>,
    args: &GetAttrArgs,
    reply: &mut ReplyWriter<OpNum>,
) -> NfsStatus {
    if !args.attr_request.intersection(&WRITE_ONLY).is_empty() {
        return fail(reply, OpNum::GetAttr, NfsStatus::Inval);
    }
    let mask = args
        .attr_request
        .intersection(&attrs::supported(cx.minor_version));
    if mask.contains(SPACE_USED)
        && let Ok(inode) = cx::current(nfsd.role(), cx)
    {
        data::look_at_space(nfsd, inode.id).await;
    }
    match values(nfsd, cx, &mask).await {
        Ok(values) => {
            let _ = reply.result(&GetAttrResOf(FattrOf {
                mask: &mask,
                attrs: &values,
            }));
            NfsStatus::Ok
        }
        Err(status) => fail(reply, OpNum::GetAttr, status),
    }
}

/// Attributes of the current file, with what a holder for writing knows better.
pub(super) async fn values(
    nfsd: &Nfsd<Mds>,
    cx: &mut Cx<'_>,
    mask: &Bitmap,
) -> Result<Attrs, NfsStatus> {
    let mds = nfsd.role();
    let inode = cx::current(mds, cx)?;
    data::ready(nfsd, inode.id)?;
    attrs::may_see(&cx.caller.cred, &inode, mask)?;
    let fresh = delegations::fresh(nfsd, cx, &inode, mask).await?;
    attrs::learn_names(mds, &fresh.inode, mask).await;
    Ok(fresh.attrs(mds, mask, cx.minor_version))
}
