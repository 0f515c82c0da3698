//! LOOKUP and LOOKUPP (RFC 8881 §18.13, §18.14).

use crate::Mds;
use crate::cx::{self, Cx, ns};
use nfs4::NfsStatus;
use nfs4::ops::{LookupArgs, LookupPArgs, LookupPRes, LookupRes};
use server::Nfsd;

pub(super) fn lookup(
    nfsd: &Nfsd<Mds>,
    cx: &mut Cx<'_>,
    args: LookupArgs<'_>,
) -> Result<LookupRes, NfsStatus> {
    let mds = nfsd.role();
    let dir = cx::current_dir(mds, cx)?.id;
    let name = super::name(args.name)?;
    let inode = ns(mds, cx, |ns, op| ns.lookup(op, dir, name))?;
    cx.set_fh(cx::handle_of(mds, &inode));
    Ok(LookupRes {})
}

pub(super) fn lookupp(
    nfsd: &Nfsd<Mds>,
    cx: &mut Cx<'_>,
    _args: LookupPArgs,
) -> Result<LookupPRes, NfsStatus> {
    let mds = nfsd.role();
    let dir = cx::current_dir(mds, cx)?.id;
    let parent = ns(mds, cx, |ns, op| ns.lookup_parent(op, dir))?;
    cx.set_fh(cx::handle_of(mds, &parent));
    Ok(LookupPRes {})
}
