//! REMOVEXATTR (RFC 8276 §8.4.4).

use super::layout_xattr;
use crate::Mds;
use crate::cx::{self, Cx, ns};
use nfs4::NfsStatus;
use nfs4::ops::{RemoveXattrArgs, RemoveXattrRes};
use server::Nfsd;

pub(super) fn removexattr(
    nfsd: &Nfsd<Mds>,
    cx: &mut Cx<'_>,
    args: RemoveXattrArgs<'_>,
) -> Result<RemoveXattrRes, NfsStatus> {
    let mds = nfsd.role();
    let inode = cx::current(mds, cx)?;
    cx::writable(cx)?;
    let changed = if args.name.0 == layout_xattr::NAME {
        layout_xattr::remove(mds, cx, &inode)?
    } else {
        ns(mds, cx, |ns, op| ns.remove_xattr(op, inode.id, args.name.0))?
    };
    Ok(RemoveXattrRes {
        cinfo: super::cinfo(changed),
    })
}
