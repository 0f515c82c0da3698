//! LINK (RFC 8881 §18.9): the saved file gets a name in the current directory.

use crate::Mds;
use crate::cx::{self, Cx};
use crate::names;
use fs::Clearing;
use namespace::Linked;
use nfs4::NfsStatus;
use nfs4::ops::{LinkArgs, LinkRes};

pub(super) async fn link(
    mds: &Mds,
    cx: &mut Cx<'_>,
    args: LinkArgs<'_>,
) -> Result<LinkRes, NfsStatus> {
    cx.actor.check_writable()?;
    let dir = cx::current_dir(mds, cx)?.id;
    let file = cx::saved(mds, cx)?;
    if file.is_dir() {
        return Err(NfsStatus::IsDir);
    }
    let name = names::name(args.new_name)?;
    let _excluded = if file.is_regular() {
        Some(fs::exclude(&mds.fs, &cx.actor, &file, Clearing::CHANGE).await?)
    } else {
        None
    };
    let answer = |linked: &Linked| LinkRes {
        cinfo: names::cinfo(linked.dir),
    };
    let kept = |linked: &Linked| (answer(linked), None);
    let linked = cx::change(mds, cx, kept, |ns, op| ns.link(op, file.id, dir, name))?;
    Ok(answer(&linked))
}
