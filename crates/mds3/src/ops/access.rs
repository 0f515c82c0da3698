//! ACCESS (RFC 1813 §3.3.4): a hint that the client caches; every procedure checks again.

use crate::cx::Cx;
use crate::results::res;
use namespace::{APPEND, DELETE_CHILD, EXECUTE, READ, WRITE};
use nfs3::procs::{
    ACCESS3_DELETE, ACCESS3_EXECUTE, ACCESS3_EXTEND, ACCESS3_LOOKUP, ACCESS3_MODIFY, ACCESS3_READ,
    AccessArgs, AccessOk, AccessRes,
};
use nfs4::NfsStatus;

/// What each bit takes of a directory: any of a mask.
const OF_DIRECTORIES: &[(u32, u32)] = &[
    (ACCESS3_READ, READ),
    (ACCESS3_LOOKUP, EXECUTE),
    (ACCESS3_MODIFY, WRITE),
    (ACCESS3_EXTEND, WRITE | APPEND),
    (ACCESS3_DELETE, DELETE_CHILD),
];
/// The same of others.
const OF_FILES: &[(u32, u32)] = &[
    (ACCESS3_READ, READ),
    (ACCESS3_EXECUTE, EXECUTE),
    (ACCESS3_MODIFY, WRITE),
    (ACCESS3_EXTEND, WRITE),
];
/// What nobody may where changes are refused.
const CHANGES: u32 = ACCESS3_MODIFY | ACCESS3_EXTEND | ACCESS3_DELETE;

pub(super) async fn access(cx: &mut Cx<'_>, args: AccessArgs<'_>) -> AccessRes {
    let granted = granted(cx, args);
    let obj_attributes = cx.attrs_of_handle(args.object).await;
    let ok = |access| AccessOk {
        obj_attributes,
        access,
    };
    res(granted.map(ok), obj_attributes)
}

fn granted(cx: &mut Cx<'_>, args: AccessArgs<'_>) -> Result<u32, NfsStatus> {
    let inode = cx.inode(args.object)?;
    let fs = cx.fs();
    let bits = cx.actor.ns(fs, |ns, op| ns.access(op, inode.id))?;
    let table = match inode.is_dir() {
        true => OF_DIRECTORIES,
        false => OF_FILES,
    };
    let has = table.iter().filter(|(_, any_of)| bits & any_of != 0);
    let granted = has.fold(0, |all, (access, _)| all | access);
    let refused = if cx.actor.read_only { CHANGES } else { 0 };
    Ok(granted & args.access & !refused)
}
