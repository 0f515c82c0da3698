//! ALLOCATE and DEALLOCATE (RFC 7862 §15.1, §15.4). Both are durable when they are answered.

use super::read::check_io_on;
use crate::cx::{self, Cx};
use crate::delegations::Excluded;
use crate::{Mds, data};
use control::Range;
use namespace::{FileType, Inode};
use nfs4::ops::{AllocateArgs, AllocateRes, DeallocateArgs, DeallocateRes};
use nfs4::{NfsStatus, Stateid};
use server::Nfsd;
use state::Io;
use std::sync::Arc;

pub(super) async fn allocate(
    nfsd: &Nfsd<Mds>,
    cx: &mut Cx<'_>,
    args: AllocateArgs,
) -> Result<AllocateRes, NfsStatus> {
    let (inode, _excluded) = check(nfsd, cx, args.stateid).await?;
    let range = range(args.offset, args.length)?;
    nfsd.role().data().check_end(range.end)?;
    data::allocate(nfsd, cx, &inode, range).await?;
    Ok(AllocateRes {})
}

pub(super) async fn deallocate(
    nfsd: &Nfsd<Mds>,
    cx: &mut Cx<'_>,
    args: DeallocateArgs,
) -> Result<DeallocateRes, NfsStatus> {
    let (inode, _excluded) = check(nfsd, cx, args.stateid).await?;
    let range = range(args.offset, args.length)?;
    data::deallocate(nfsd, cx, &inode, range).await?;
    Ok(DeallocateRes {})
}

/// The current file, which must be a regular one that the caller may write.
async fn check<'n>(
    nfsd: &'n Nfsd<Mds>,
    cx: &mut Cx<'_>,
    stateid: Stateid,
) -> Result<(Arc<Inode>, Option<Excluded<'n>>), NfsStatus> {
    cx::writable(cx)?;
    let inode = cx::current(nfsd.role(), cx)?;
    if inode.kind != FileType::Regular {
        return Err(NfsStatus::WrongType);
    }
    let stateid = cx.resolve(stateid)?;
    let excluded = check_io_on(nfsd, cx, &inode, stateid, Io::Write).await?;
    Ok((inode, excluded))
}

/// A range that is one.
fn range(start: u64, length: u64) -> Result<Range, NfsStatus> {
    let end = start.checked_add(length);
    let end = end.filter(|end| *end > start).ok_or(NfsStatus::Inval)?;
    Ok(Range { start, end })
}
