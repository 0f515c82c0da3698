//! LINK (RFC 1813 §3.3.15).

use crate::cx::{Cx, name};
use crate::results::failed;
use fs::Prepared;
use namespace::{Inode, Linked};
use nfs3::Res;
use nfs3::procs::{LinkArgs, LinkRes, LinkWcc};
use nfs4::NfsStatus;
use std::sync::Arc;

pub(super) async fn link(cx: &mut Cx<'_>, args: LinkArgs<'_>) -> LinkRes {
    let linked = named(cx, args).await;
    let file_attributes = cx.attrs_of_handle(args.file).await;
    let tell = |linkdir_wcc| LinkWcc {
        file_attributes,
        linkdir_wcc,
    };
    match linked {
        Ok(dir) => Res::Ok(tell(cx.wcc(&dir))),
        Err(status) => failed(status, tell(cx.wcc_failed(args.link.dir))),
    }
}

/// Returns the directory as it was before.
async fn named(cx: &mut Cx<'_>, args: LinkArgs<'_>) -> Result<Arc<Inode>, NfsStatus> {
    cx.actor.check_writable()?;
    let file = cx.inode(args.file)?;
    let dir = cx.directory(args.link.dir)?;
    let keep = |_: &Linked| Prepared::default();
    let place = (dir.id, name(args.link.name)?);
    fs::link(cx.fs(), &mut cx.actor, &file, place, &keep).await?;
    Ok(dir)
}
