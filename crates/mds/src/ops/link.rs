//! LINK (RFC 8881 §18.9): the saved file gets a name in the current directory.

use crate::Mds;
use crate::cx::{self, Cx};
use crate::names;
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
    let name = names::name(args.new_name)?;
    let answer = |linked: &Linked| LinkRes {
        cinfo: names::cinfo(linked.dir),
    };
    let (actor, keeper) = cx.split();
    let keep = |linked: &Linked| cx::prepare(keeper, &answer(linked), None);
    let linked = fs::link(&mds.fs, actor, &file, (dir, name), &keep).await?;
    Ok(answer(&linked))
}
