//! LOOKUP and LOOKUPP (RFC 8881 §18.13, §18.14).

use crate::Mds;
use crate::cx::{self, Cx};
use crate::names;
use nfs4::NfsStatus;
use nfs4::ops::{LookupArgs, LookupPArgs, LookupPRes, LookupRes};

pub(super) fn lookup(
    mds: &Mds,
    cx: &mut Cx<'_>,
    args: LookupArgs<'_>,
) -> Result<LookupRes, NfsStatus> {
    let dir = cx::current_dir(mds, cx)?.id;
    let name = names::name(args.name)?;
    let inode = cx.actor.ns(&mds.fs, |ns, op| ns.lookup(op, dir, name))?;
    cx.set_fh(mds.fs.handle_of(&inode));
    Ok(LookupRes {})
}

pub(super) fn lookupp(
    mds: &Mds,
    cx: &mut Cx<'_>,
    _args: LookupPArgs,
) -> Result<LookupPRes, NfsStatus> {
    let dir = cx::current_dir(mds, cx)?.id;
    let parent = cx.actor.ns(&mds.fs, |ns, op| ns.lookup_parent(op, dir))?;
    cx.set_fh(mds.fs.handle_of(&parent));
    Ok(LookupPRes {})
}
