//! RENAME (RFC 1813 §3.3.14).

use crate::cx::{Cx, name};
use crate::results::failed;
use fs::Prepared;
use namespace::{Inode, Renamed};
use nfs3::Res;
use nfs3::procs::{RenameArgs, RenameRes, RenameWcc};
use nfs4::NfsStatus;
use std::sync::Arc;

pub(super) async fn rename(cx: &mut Cx<'_>, args: RenameArgs<'_>) -> RenameRes {
    match moved(cx, args).await {
        Ok([from, to]) => Res::Ok(RenameWcc {
            fromdir_wcc: cx.wcc(&from),
            todir_wcc: cx.wcc(&to),
        }),
        Err(status) => {
            let fail = RenameWcc {
                fromdir_wcc: cx.wcc_failed(args.from.dir),
                todir_wcc: cx.wcc_failed(args.to.dir),
            };
            failed(status, fail)
        }
    }
}

/// Returns both directories as they were before.
async fn moved(cx: &mut Cx<'_>, args: RenameArgs<'_>) -> Result<[Arc<Inode>; 2], NfsStatus> {
    cx.actor.check_writable()?;
    let (from, to) = (cx.directory(args.from.dir)?, cx.directory(args.to.dir)?);
    let source = (from.id, name(args.from.name)?);
    let target = (to.id, name(args.to.name)?);
    let keep = |_: &Renamed| Prepared::default();
    fs::rename(cx.fs(), &mut cx.actor, source, target, &keep).await?;
    Ok([from, to])
}
