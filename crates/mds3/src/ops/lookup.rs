//! LOOKUP (RFC 1813 §3.3.3), of `.` and `..` too.

use crate::cx::{Cx, name};
use crate::results::failed;
use namespace::{FileId, Inode};
use nfs3::procs::{LookupArgs, LookupOk, LookupRes};
use nfs4::NfsStatus;
use std::sync::Arc;
use xdr::{Encode, Encoder};

pub(super) async fn lookup(cx: &mut Cx<'_>, args: LookupArgs<'_>, e: &mut Encoder) {
    let found = find(cx, args);
    let dir_attributes = cx.attrs_of_handle(args.what.dir).await;
    match found {
        Ok(inode) => {
            let obj_attributes = cx.attrs(inode.id).await;
            let handle = cx.handle_of(&inode);
            let found = LookupOk {
                object: xdr::Opaque(&handle.0),
                obj_attributes,
                dir_attributes,
            };
            LookupRes::Ok(found).encode(e);
        }
        Err(status) => failed::<LookupOk<'_>, _>(status, dir_attributes).encode(e),
    }
}

fn find(cx: &mut Cx<'_>, args: LookupArgs<'_>) -> Result<Arc<Inode>, NfsStatus> {
    let dir = cx.directory(args.what.dir)?;
    let (fs, name) = (cx.fs(), name(args.what.name)?);
    match name {
        b"." => Ok(dir),
        // Above the root is the root.
        b".." if dir.id == FileId::ROOT => Ok(dir),
        b".." => cx.actor.ns(fs, |ns, op| ns.lookup_parent(op, dir.id)),
        name => cx.actor.ns(fs, |ns, op| ns.lookup(op, dir.id, name)),
    }
}
