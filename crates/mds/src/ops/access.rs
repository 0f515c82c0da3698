//! ACCESS (RFC 8881 §18.1): a hint that the client caches; every operation checks again.

use crate::Mds;
use crate::cx::{self, Cx, ns};
use namespace::{EXECUTE, READ, WRITE};
use nfs4::NfsStatus;
use nfs4::ops::{
    ACCESS_DELETE, ACCESS_EXECUTE, ACCESS_EXTEND, ACCESS_LOOKUP, ACCESS_MODIFY, ACCESS_READ,
    ACCESS_XALIST, ACCESS_XAREAD, ACCESS_XAWRITE, AccessArgs, AccessRes,
};
use server::Nfsd;

pub(super) fn access(
    nfsd: &Nfsd<Mds>,
    cx: &mut Cx<'_>,
    args: AccessArgs,
) -> Result<AccessRes, NfsStatus> {
    let inode = cx::current(nfsd.role(), cx)?;
    let bits = ns(nfsd.role(), cx, |ns, op| ns.access(op, inode.id))?;
    let mut granted = 0;
    let mut supported = ACCESS_READ | ACCESS_MODIFY | ACCESS_EXTEND;
    if bits & READ != 0 {
        granted |= ACCESS_READ;
    }
    if bits & WRITE != 0 && !cx.caller.read_only {
        granted |= ACCESS_MODIFY | ACCESS_EXTEND;
    }
    if inode.is_dir() {
        supported |= ACCESS_LOOKUP | ACCESS_DELETE;
        if bits & EXECUTE != 0 {
            granted |= ACCESS_LOOKUP;
        }
        if bits & WRITE != 0 && !cx.caller.read_only {
            granted |= ACCESS_DELETE;
        }
    } else {
        supported |= ACCESS_EXECUTE;
        if bits & EXECUTE != 0 {
            granted |= ACCESS_EXECUTE;
        }
    }
    if cx.minor_version >= 2 {
        supported |= ACCESS_XAREAD | ACCESS_XAWRITE | ACCESS_XALIST;
        if bits & READ != 0 {
            granted |= ACCESS_XAREAD | ACCESS_XALIST;
        }
        let has_xattrs = inode.is_dir() || inode.is_regular();
        if bits & WRITE != 0 && has_xattrs && !cx.caller.read_only {
            granted |= ACCESS_XAWRITE;
        }
    }
    let supported = supported & args.access;
    Ok(AccessRes {
        supported,
        access: granted & supported,
    })
}
