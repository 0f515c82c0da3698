//! CLONE (RFC 7862 §15.13): a range of the saved file becomes one of the current file without being copied. Durable when it is answered.

use super::copy::files;
use crate::Mds;
use crate::cx::{self, Cx};
use fs::CloneJob;
use nfs4::NfsStatus;
use nfs4::ops::{CloneArgs, CloneRes};

pub(super) async fn clone(
    mds: &Mds,
    cx: &mut Cx<'_>,
    args: CloneArgs,
) -> Result<CloneRes, NfsStatus> {
    let (src, dst, _excluded) = files(mds, cx, args.src_stateid, args.dst_stateid).await?;
    let job = CloneJob {
        src,
        dst,
        src_offset: args.src_offset,
        dst_offset: args.dst_offset,
        count: args.count,
    };
    let kept = cx::prepared(cx, &CloneRes {}, None);
    fs::clone_range(&mds.fs, &mut cx.actor, &job, &kept).await?;
    Ok(CloneRes {})
}
