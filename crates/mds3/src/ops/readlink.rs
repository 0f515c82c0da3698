//! READLINK (RFC 1813 §3.3.5).

use crate::cx::Cx;
use crate::results::failed;
use namespace::{FileType, Inode};
use nfs3::procs::{ReadLinkArgs, ReadLinkOk, ReadLinkRes};
use nfs4::NfsStatus;
use std::sync::Arc;
use xdr::{Encode, Encoder};

pub(super) async fn readlink(cx: &mut Cx<'_>, args: ReadLinkArgs<'_>, e: &mut Encoder) {
    let read = read(cx, args);
    let symlink_attributes = cx.attrs_of_handle(args.symlink).await;
    match read {
        Ok(inode) => ReadLinkRes::Ok(ReadLinkOk {
            symlink_attributes,
            data: xdr::Opaque(&inode.target.0),
        })
        .encode(e),
        Err(status) => failed::<ReadLinkOk<'_>, _>(status, symlink_attributes).encode(e),
    }
}

fn read(cx: &mut Cx<'_>, args: ReadLinkArgs<'_>) -> Result<Arc<Inode>, NfsStatus> {
    let inode = cx.inode(args.symlink)?;
    if inode.kind != FileType::Symlink {
        return Err(NfsStatus::Inval);
    }
    let fs = cx.fs();
    let inode = cx.actor.ns(fs, |ns, op| ns.readlink(op, inode.id))?;
    cx.actor.note_read(fs, &inode);
    Ok(inode)
}
