//! SECINFO and `SECINFO_NO_NAME` (RFC 8881 §18.29, §18.45): `AUTH_SYS` everywhere.

use crate::Mds;
use crate::cx::{self, Cx};
use crate::names;
use namespace::FileId;
use nfs4::NfsStatus;
use nfs4::ops::{
    FLAVOR_SYS, SecInfo, SecInfoArgs, SecInfoNoNameArgs, SecInfoNoNameRes, SecInfoRes, SecInfoStyle,
};

/// The current file handle is consumed (§18.29.3), but in NFSv4.0.
fn flavors(cx: &mut Cx<'_>) -> Vec<SecInfo> {
    if cx.minor_version > 0 {
        cx.current_fh = None;
        cx.current_stateid = None;
    }
    vec![SecInfo::Flavor(FLAVOR_SYS)]
}

pub(super) fn secinfo(
    mds: &Mds,
    cx: &mut Cx<'_>,
    args: SecInfoArgs<'_>,
) -> Result<SecInfoRes, NfsStatus> {
    let dir = cx::current_dir(mds, cx)?.id;
    let name = names::name(args.name)?;
    cx.actor.ns(&mds.fs, |ns, op| ns.lookup(op, dir, name))?;
    Ok(SecInfoRes {
        flavors: flavors(cx).into(),
    })
}

pub(super) fn secinfo_no_name(
    mds: &Mds,
    cx: &mut Cx<'_>,
    args: SecInfoNoNameArgs,
) -> Result<SecInfoNoNameRes, NfsStatus> {
    let inode = cx::current(mds, cx)?;
    if args.style == SecInfoStyle::Parent {
        cx::directory(&inode)?;
        if inode.id == FileId::ROOT {
            return Err(NfsStatus::NoEnt);
        }
    }
    Ok(SecInfoNoNameRes {
        flavors: flavors(cx).into(),
    })
}
