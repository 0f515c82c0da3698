//! GETATTR (RFC 8881 §18.7).

use super::fail;
use crate::cx::{self, Cx};
use crate::{Mds, attrs, data};
use nfs4::attr::{FattrOf, WRITE_ONLY};
use nfs4::ops::{GetAttrArgs, GetAttrResOf};
use nfs4::{NfsStatus, OpNum, ReplyWriter};
use server::Nfsd;

pub(super) async fn getattr(
    nfsd: &Nfsd<Mds>,
    cx: &mut Cx<'_>,
    args: &GetAttrArgs,
    reply: &mut ReplyWriter<OpNum>,
) -> NfsStatus {
    let mds = nfsd.role();
    if !args.attr_request.intersection(&WRITE_ONLY).is_empty() {
        return fail(reply, OpNum::GetAttr, NfsStatus::Inval);
    }
    let inode = match cx::current(mds, cx) {
        Ok(inode) => inode,
        Err(status) => return fail(reply, OpNum::GetAttr, status),
    };
    if let Err(status) = data::ready(nfsd, inode.id) {
        return fail(reply, OpNum::GetAttr, status);
    }
    let mask = args
        .attr_request
        .intersection(&attrs::supported(cx.minor_version));
    if let Err(status) = attrs::may_see(&cx.caller.cred, &inode, &mask) {
        return fail(reply, OpNum::GetAttr, status);
    }
    attrs::learn_names(mds, &inode, &mask).await;
    let values = attrs::of(mds, &inode, &mask, cx.minor_version);
    let _ = reply.result(&GetAttrResOf(FattrOf {
        mask: &mask,
        attrs: &values,
    }));
    NfsStatus::Ok
}
