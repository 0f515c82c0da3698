//! ALLOCATE and DEALLOCATE (RFC 7862 §15.1, §15.4). Both are durable when they are answered.

use crate::Mds;
use crate::check_io::check_io_on;
use crate::cx::{self, Cx};
use control::Range;
use fs::Excluded;
use namespace::{FileType, Inode};
use nfs4::ops::{AllocateArgs, AllocateRes, DeallocateArgs, DeallocateRes};
use nfs4::{NfsStatus, Stateid};
use state::Io;
use std::sync::Arc;

pub(super) async fn allocate(
    mds: &Mds,
    cx: &mut Cx<'_>,
    args: AllocateArgs,
) -> Result<AllocateRes, NfsStatus> {
    let (inode, _excluded) = check(mds, cx, args.stateid).await?;
    let range = range(args.offset, args.length)?;
    mds.fs.check_end(&inode, range.end)?;
    let res = AllocateRes {};
    let kept = cx::prepared(cx, &res, None);
    fs::allocate(&mds.fs, &mut cx.actor, &kept, &inode, range).await?;
    Ok(res)
}

pub(super) async fn deallocate(
    mds: &Mds,
    cx: &mut Cx<'_>,
    args: DeallocateArgs,
) -> Result<DeallocateRes, NfsStatus> {
    let (inode, _excluded) = check(mds, cx, args.stateid).await?;
    let range = range(args.offset, args.length)?;
    let res = DeallocateRes {};
    let kept = cx::prepared(cx, &res, None);
    fs::deallocate(&mds.fs, &mut cx.actor, &kept, &inode, (range, true)).await?;
    Ok(res)
}

/// The current file, which must be a regular one that the caller may write.
async fn check(
    mds: &Mds,
    cx: &mut Cx<'_>,
    stateid: Stateid,
) -> Result<(Arc<Inode>, Option<Excluded>), NfsStatus> {
    cx.actor.check_writable()?;
    let inode = cx::current(mds, cx)?;
    if inode.kind != FileType::Regular {
        return Err(NfsStatus::WrongType);
    }
    let stateid = cx.resolve(stateid)?;
    let excluded = check_io_on(mds, cx, &inode, stateid, Io::Write).await?;
    Ok((inode, excluded))
}

/// A range that is one.
fn range(start: u64, length: u64) -> Result<Range, NfsStatus> {
    let end = start.checked_add(length);
    let end = end.filter(|end| *end > start).ok_or(NfsStatus::Inval)?;
    Ok(Range { start, end })
}
