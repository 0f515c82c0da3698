//! COMMIT (RFC 1813 §3.3.21). The range is not looked at: all of the file is committed.

use crate::cx::Cx;
use crate::results::failed;
use namespace::Inode;
use nfs3::procs::{CommitArgs, CommitOk, CommitRes};
use nfs3::{Res, WriteVerf};
use nfs4::NfsStatus;
use std::sync::Arc;

pub(super) async fn commit(cx: &mut Cx<'_>, args: CommitArgs<'_>) -> CommitRes {
    match committed(cx, args).await {
        Ok((before, verf)) => Res::Ok(CommitOk {
            file_wcc: cx.wcc(&before),
            verf,
        }),
        Err(status) => failed(status, cx.wcc_failed(args.file)),
    }
}

async fn committed(
    cx: &mut Cx<'_>,
    args: CommitArgs<'_>,
) -> Result<(Arc<Inode>, WriteVerf), NfsStatus> {
    let inode = cx.regular(args.file).await?;
    cx.actor.check_writable()?;
    let verifier = fs::commit(cx.fs(), &inode).await?;
    Ok((inode, verifier.bytes))
}
