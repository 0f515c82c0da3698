//! GETATTR (RFC 8881 §18.7).

use super::fail;
use crate::cx::Cx;
use crate::delegations::{self, Fresh};
use crate::{Mds, attrs, data};
use nfs4::attr::{FattrOf, SPACE_USED, WRITE_ONLY};
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
    match known(nfsd, cx, &mask).await {
        Ok(known) => {
            let values = known.attrs(nfsd.role(), &mask, cx.minor_version);
            let _ = reply.result(&GetAttrResOf(FattrOf {
                mask: &mask,
                attrs: &values,
            }));
            NfsStatus::Ok
        }
        Err(status) => fail(reply, OpNum::GetAttr, status),
    }
}

/// The current file with what a holder for writing knows better, and the names that its attributes have learned: all that is waited for.
/// Values, 1.3 kB of them, are made behind it, in their place: to move them out of futures cost 5 % of a GETATTR's instructions.
pub(super) async fn known(
    nfsd: &Nfsd<Mds>,
    cx: &mut Cx<'_>,
    mask: &Bitmap,
) -> Result<Fresh, NfsStatus> {
    let mds = nfsd.role();
    let mut inode = data::current(nfsd, cx).await?;
    if mask.contains(SPACE_USED) && data::look_at_space(nfsd, inode.id).await {
        inode = data::current(nfsd, cx).await?;
    }
    attrs::may_see(&cx.caller.cred, &inode, mask)?;
    let fresh = delegations::fresh(nfsd, cx, &inode, mask).await?;
    attrs::learn_names(mds, &fresh.inode, mask).await;
    Ok(fresh)
}
