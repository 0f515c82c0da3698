//! REMOVE and RMDIR (RFC 1813 §3.3.12, §3.3.13).

use crate::cx::{Cx, name};
use crate::results::failed;
use fs::Prepared;
use namespace::{Inode, RemovedName, What};
use nfs3::procs::{RemoveArgs, RemoveRes, RmDirArgs, RmDirRes};
use nfs3::{DirOpArgs, Res};
use nfs4::NfsStatus;
use std::sync::Arc;

pub(super) async fn remove(cx: &mut Cx<'_>, args: RemoveArgs<'_>) -> RemoveRes {
    match gone(cx, args.object, What::File).await {
        Ok(dir) => Res::Ok(cx.wcc(&dir)),
        Err(status) => failed(status, cx.wcc_failed(args.object.dir)),
    }
}

pub(super) async fn rmdir(cx: &mut Cx<'_>, args: RmDirArgs<'_>) -> RmDirRes {
    match gone(cx, args.object, What::Directory).await {
        Ok(dir) => Res::Ok(cx.wcc(&dir)),
        Err(status) => failed(status, cx.wcc_failed(args.object.dir)),
    }
}

/// Returns the directory as it was before.
async fn gone(cx: &mut Cx<'_>, object: DirOpArgs<'_>, what: What) -> Result<Arc<Inode>, NfsStatus> {
    cx.actor.check_writable()?;
    let dir = cx.directory(object.dir)?;
    let keep = |_: &RemovedName| Prepared::default();
    let place = (dir.id, name(object.name)?);
    fs::remove(cx.fs(), &mut cx.actor, place, what, &keep).await?;
    Ok(dir)
}
