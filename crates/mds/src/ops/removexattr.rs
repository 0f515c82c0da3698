//! REMOVEXATTR (RFC 8276 §8.4.4).

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
    let file = cx::current(mds, cx)?.id;
    cx::writable(cx)?;
    let changed = ns(mds, cx, |ns, op| ns.remove_xattr(op, file, args.name.0))?;
    Ok(RemoveXattrRes {
        cinfo: super::cinfo(changed),
    })
}
