//! GETXATTR (RFC 8276 §8.4.1).

use super::layout_xattr;
use crate::Mds;
use crate::cx::{self, Cx};
use namespace::XATTR_VALUE_BYTES_MAX;
use nfs4::ops::{GetXattrArgs, GetXattrRes};
use nfs4::{NfsStatus, OpNum, ReplyWriter};
use server::answer;
use xdr::Opaque;

pub(super) async fn getxattr(
    mds: &Mds,
    cx: &mut Cx<'_>,
    args: GetXattrArgs<'_>,
    reply: &mut ReplyWriter<OpNum>,
) -> NfsStatus {
    match value(mds, cx, args).await {
        Ok(value) => answer(
            reply,
            Ok(GetXattrRes {
                value: Opaque(&value),
            }),
        ),
        Err(status) => server::fail(reply, OpNum::GetXattr, status),
    }
}

async fn value(mds: &Mds, cx: &mut Cx<'_>, args: GetXattrArgs<'_>) -> Result<Vec<u8>, NfsStatus> {
    let inode = cx::current(mds, cx)?;
    if args.name.0 == layout_xattr::NAME {
        return layout_xattr::get(mds, cx, &inode).map(String::into_bytes);
    }
    let bytes_max = inode.xattrs().bytes.min(XATTR_VALUE_BYTES_MAX);
    cx.charge_reply(bytes_max).await?;
    cx.actor
        .ns(&mds.fs, |ns, op| ns.xattr(op, inode.id, args.name.0))
}
