//! READLINK (RFC 8881 §18.24).

use crate::Mds;
use crate::cx::{self, Cx};
use namespace::FileType;
use nfs4::ops::ReadLinkRes;
use nfs4::{NfsStatus, OpNum, ReplyWriter};
use server::fail;
use xdr::Opaque;

pub(super) fn readlink(mds: &Mds, cx: &mut Cx<'_>, reply: &mut ReplyWriter<OpNum>) -> NfsStatus {
    let inode = cx::current(mds, cx).and_then(|inode| match inode.kind {
        FileType::Symlink => cx.actor.ns(&mds.fs, |ns, op| ns.readlink(op, inode.id)),
        _ => Err(NfsStatus::WrongType),
    });
    match inode {
        Ok(inode) => {
            cx.actor.note_read(&mds.fs, &inode);
            let _ = reply.result(&ReadLinkRes {
                link: Opaque(&inode.target.0),
            });
            NfsStatus::Ok
        }
        Err(status) => fail(reply, OpNum::ReadLink, status),
    }
}
