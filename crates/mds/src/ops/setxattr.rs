//! SETXATTR (RFC 8276 §8.4.2).

use super::layout_xattr;
use crate::Mds;
use crate::cx::{self, Cx};
use crate::names;
use fs::Clearing;
use namespace::{ChangeInfo, SetXattr};
use nfs4::NfsStatus;
use nfs4::ops::{SetXattrArgs, SetXattrOption, SetXattrRes};

pub(super) async fn setxattr(
    mds: &Mds,
    cx: &mut Cx<'_>,
    args: SetXattrArgs<'_>,
) -> Result<SetXattrRes, NfsStatus> {
    let inode = cx::current(mds, cx)?;
    cx.actor.check_writable()?;
    let how = match args.option {
        SetXattrOption::Either => SetXattr::Either,
        SetXattrOption::Create => SetXattr::Create,
        SetXattrOption::Replace => SetXattr::Replace,
    };
    let (name, value) = (args.name.0, args.value.0);
    if name == layout_xattr::NAME && inode.is_regular() {
        // No attribute shows it but this one, which no client keeps.
        layout_xattr::restripe(mds, cx, &inode, value)?;
        return Ok(SetXattrRes {
            cinfo: names::cinfo(ChangeInfo {
                before: inode.change,
                after: inode.change,
            }),
        });
    }
    let policy = match name {
        layout_xattr::NAME => Some(layout_xattr::to_set(mds, &inode, value, how)?),
        _ => None,
    };
    // Those who read have the attributes in their caches (RFC 8881 §10.4.4).
    let _excluded = match inode.is_regular() {
        true => Some(fs::exclude(&mds.fs, &cx.actor, &inode, Clearing::CHANGE).await?),
        false => None,
    };
    let answer = |changed: &ChangeInfo| SetXattrRes {
        cinfo: names::cinfo(*changed),
    };
    let kept = |changed: &ChangeInfo| (answer(changed), None);
    let changed = cx::change(mds, cx, kept, |ns, op| match policy {
        Some((policy, is_foreign)) => ns.set_layout_policy(op, inode.id, Some(policy), is_foreign),
        None => ns.set_xattr(op, inode.id, name, value, how),
    })?;
    Ok(answer(&changed))
}
