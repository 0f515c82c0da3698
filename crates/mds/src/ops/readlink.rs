//! READLINK (RFC 8881 §18.24).

use super::fail;
use crate::cx::{self, Cx, ns};
use crate::{Mds, atimes};
use namespace::FileType;
use nfs4::ops::ReadLinkRes;
use nfs4::{NfsStatus, OpNum, ReplyWriter};
use server::Nfsd;
use xdr::Opaque;

pub(super) fn readlink(
    nfsd: &Nfsd<Mds>,
    cx: &mut Cx<'_>,
    reply: &mut ReplyWriter<OpNum>,
) -> NfsStatus {
    let mds = nfsd.role();
    let inode = cx::current(mds, cx).and_then(|inode| match inode.kind {
        FileType::Symlink => ns(mds, cx, |ns, op| ns.readlink(op, inode.id)),
        _ => Err(NfsStatus::WrongType),
    });
    match inode {
        Ok(inode) => {
            atimes::note_read(mds, &cx.caller, &inode);
            let _ = reply.result(&ReadLinkRes {
                link: Opaque(&inode.target.0),
            });
            NfsStatus::Ok
        }
        Err(status) => fail(reply, OpNum::ReadLink, status),
    }
}
