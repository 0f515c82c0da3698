//! REMOVEXATTR (RFC 8276 §8.4.4).

use super::layout_xattr;
use crate::Mds;
use crate::cx::{self, Cx};
use crate::names;
use fs::Clearing;
use namespace::ChangeInfo;
use nfs4::NfsStatus;
use nfs4::ops::{RemoveXattrArgs, RemoveXattrRes};

pub(super) async fn removexattr(
    mds: &Mds,
    cx: &mut Cx<'_>,
    args: RemoveXattrArgs<'_>,
) -> Result<RemoveXattrRes, NfsStatus> {
    let inode = cx::current(mds, cx)?;
    cx.actor.check_writable()?;
    let name = args.name.0;
    let is_policy = name == layout_xattr::NAME;
    if is_policy && !layout_xattr::is_set(&inode) {
        return Err(NfsStatus::NoXattr);
    }
    // Those who read have the attributes in their caches (RFC 8881 §10.4.4).
    let _excluded = match inode.is_regular() {
        true => Some(fs::exclude(&mds.fs, &cx.actor, &inode, Clearing::CHANGE).await?),
        false => None,
    };
    let answer = |changed: &ChangeInfo| RemoveXattrRes {
        cinfo: names::cinfo(*changed),
    };
    let kept = |changed: &ChangeInfo| (answer(changed), None);
    let changed = cx::change(mds, cx, kept, |ns, op| match is_policy {
        true => ns.set_layout_policy(op, inode.id, None, None),
        false => ns.remove_xattr(op, inode.id, name),
    })?;
    Ok(answer(&changed))
}
