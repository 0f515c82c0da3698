//! GETATTR (RFC 8881 §18.7).

use crate::cx::{self, Cx};
use crate::{Mds, attrs};
use fs::Fresh;
use nfs4::attr::{FattrOf, SPACE_USED, WRITE_ONLY};
use nfs4::ops::{GetAttrArgs, GetAttrResOf};
use nfs4::{Bitmap, NfsStatus, OpNum, ReplyWriter};
use server::fail;

pub(super) async fn getattr(
    mds: &Mds,
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
    match known(mds, cx, &mask).await {
        Ok(known) => {
            let values = attrs::of_fresh(mds, &known, &mask, cx.minor_version);
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
/// Values, 1.3 kB of them, are made after it, in their place: to move them out of futures cost 5 % of a GETATTR's instructions.
pub(super) async fn known(mds: &Mds, cx: &mut Cx<'_>, mask: &Bitmap) -> Result<Fresh, NfsStatus> {
    let mut inode = cx::current_ready(mds, cx).await?;
    if mask.contains(SPACE_USED) && fs::look_at_space(&mds.fs, inode.id).await {
        inode = cx::current_ready(mds, cx).await?;
    }
    attrs::may_see(&cx.actor.cred, &inode, mask)?;
    let fresh = fs::fresh(&mds.fs, &mut cx.actor, &inode, mask).await?;
    attrs::learn_names(mds, &fresh.inode, mask).await;
    Ok(fresh)
}
