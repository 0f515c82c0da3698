//! SETXATTR (RFC 8276 §8.4.2).

use super::layout_xattr;
use crate::Mds;
use crate::cx::{self, Cx, ns};
use namespace::SetXattr;
use nfs4::NfsStatus;
use nfs4::ops::{SetXattrArgs, SetXattrOption, SetXattrRes};
use server::Nfsd;

pub(super) fn setxattr(
    nfsd: &Nfsd<Mds>,
    cx: &mut Cx<'_>,
    args: SetXattrArgs<'_>,
) -> Result<SetXattrRes, NfsStatus> {
    let mds = nfsd.role();
    let inode = cx::current(mds, cx)?;
    cx::writable(cx)?;
    let how = match args.option {
        SetXattrOption::Either => SetXattr::Either,
        SetXattrOption::Create => SetXattr::Create,
        SetXattrOption::Replace => SetXattr::Replace,
    };
    let (name, value) = (args.name.0, args.value.0);
    let changed = if name == layout_xattr::NAME {
        layout_xattr::set(mds, cx, &inode, value, how)?
    } else {
        ns(mds, cx, |ns, op| {
            ns.set_xattr(op, inode.id, name, value, how)
        })?
    };
    Ok(SetXattrRes {
        cinfo: super::cinfo(changed),
    })
}
