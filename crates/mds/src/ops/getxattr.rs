//! GETXATTR (RFC 8276 §8.4.1).

use super::layout_xattr;
use crate::Mds;
use crate::cx::{self, Cx, ns};
use namespace::XATTR_VALUE_BYTES_MAX;
use nfs4::ops::{GetXattrArgs, GetXattrRes};
use nfs4::{NfsStatus, OpNum, ReplyWriter};
use server::{Nfsd, answer};
use xdr::Opaque;

pub(super) async fn getxattr(
    nfsd: &Nfsd<Mds>,
    cx: &mut Cx<'_>,
    args: GetXattrArgs<'_>,
    reply: &mut ReplyWriter<OpNum>,
) -> NfsStatus {
    match value(nfsd, cx, args).await {
        Ok(value) => answer(
            reply,
            Ok(GetXattrRes {
                value: Opaque(&value),
            }),
        ),
        Err(status) => super::fail(reply, OpNum::GetXattr, status),
    }
}

async fn value(
    nfsd: &Nfsd<Mds>,
    cx: &mut Cx<'_>,
    args: GetXattrArgs<'_>,
) -> Result<Vec<u8>, NfsStatus> {
    let mds = nfsd.role();
    let inode = cx::current(mds, cx)?;
    if args.name.0 == layout_xattr::NAME {
        return layout_xattr::get(mds, cx, &inode).map(String::into_bytes);
    }
    let bytes_max = inode.xattrs().bytes.min(XATTR_VALUE_BYTES_MAX);
    cx.charge_reply(bytes_max).await?;
    ns(mds, cx, |ns, op| ns.xattr(op, inode.id, args.name.0))
}
