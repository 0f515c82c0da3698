//! ACCESS (RFC 8881 §18.1): a hint that the client caches; every operation checks again.

use crate::Mds;
use crate::cx::{self, Cx};
use namespace::{APPEND, DELETE_CHILD, EXECUTE, READ, READ_XATTRS, WRITE, WRITE_XATTRS};
use nfs4::NfsStatus;
use nfs4::ops::{
    ACCESS_DELETE, ACCESS_EXECUTE, ACCESS_EXTEND, ACCESS_LOOKUP, ACCESS_MODIFY, ACCESS_READ,
    ACCESS_XALIST, ACCESS_XAREAD, ACCESS_XAWRITE, AccessArgs, AccessRes,
};

pub(super) fn access(mds: &Mds, cx: &mut Cx<'_>, args: AccessArgs) -> Result<AccessRes, NfsStatus> {
    let inode = cx::current(mds, cx)?;
    let bits = cx.actor.ns(&mds.fs, |ns, op| ns.access(op, inode.id))?;
    // What each bit takes: any of a mask. Who may write a file may make it longer (RFC 8881 §6.2.1.3.1).
    let read = (ACCESS_READ, READ);
    let table = if inode.is_dir() {
        [
            read,
            (ACCESS_LOOKUP, EXECUTE),
            (ACCESS_MODIFY, WRITE),
            (ACCESS_EXTEND, WRITE | APPEND),
            (ACCESS_DELETE, DELETE_CHILD),
        ]
    } else {
        [
            read,
            (ACCESS_EXECUTE, EXECUTE),
            (ACCESS_MODIFY, WRITE),
            (ACCESS_EXTEND, WRITE),
            (0, 0),
        ]
    };
    let of_xattrs = [
        (ACCESS_XAREAD, READ_XATTRS),
        (ACCESS_XALIST, READ_XATTRS),
        (ACCESS_XAWRITE, WRITE_XATTRS),
    ];
    let of_xattrs = if cx.minor_version >= 2 {
        &of_xattrs[..]
    } else {
        &[]
    };
    let mut never = 0;
    if cx.actor.read_only {
        never |= ACCESS_MODIFY | ACCESS_EXTEND | ACCESS_DELETE | ACCESS_XAWRITE;
    }
    if !inode.is_dir() && !inode.is_regular() {
        never |= ACCESS_XAWRITE;
    }
    let (mut supported, mut granted) = (0, 0);
    for (access, any_of) in table.iter().chain(of_xattrs) {
        supported |= access;
        if bits & any_of != 0 {
            granted |= access & !never;
        }
    }
    let supported = supported & args.access;
    Ok(AccessRes {
        supported,
        access: granted & supported,
    })
}
