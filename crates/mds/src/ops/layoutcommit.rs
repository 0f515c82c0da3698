//! LAYOUTCOMMIT (RFC 8881 §18.42): raises size, change and mtime; never shrinks a file (rules R3, R12).

use crate::cx::{self, Cx};
use crate::{Mds, data};
use namespace::{SizeCommit, Time};
use nfs4::NfsStatus;
use nfs4::layout::{LAYOUT_NFSV4_1_FILES, LENGTH_TO_EOF};
use nfs4::ops::{LayoutCommitArgs, LayoutCommitRes};
use server::Nfsd;

/// Nanoseconds of a second.
const NANOS: u32 = 1_000_000_000;

pub(super) async fn layoutcommit(
    nfsd: &Nfsd<Mds>,
    cx: &mut Cx<'_>,
    args: &LayoutCommitArgs<'_>,
) -> Result<LayoutCommitRes, NfsStatus> {
    let inode = cx::current_regular(nfsd.role(), cx)?;
    cx::writable(cx)?;
    if args.layout_update.layout_type != LAYOUT_NFSV4_1_FILES {
        return Err(NfsStatus::UnknownLayoutType);
    }
    let overflows = args.length != LENGTH_TO_EOF && args.offset.checked_add(args.length).is_none();
    if overflows {
        return Err(NfsStatus::Inval);
    }
    if args.reclaim {
        // The size of every file that was out for writing is taken from the data servers instead (R1).
        let in_grace = nfsd.clients().in_grace();
        return Err(if in_grace {
            NfsStatus::ReclaimBad
        } else {
            NfsStatus::NoGrace
        });
    }
    let new_end = match args.last_write_offset {
        Some(last) => Some(last.checked_add(1).ok_or(NfsStatus::Inval)?),
        None => None,
    };
    let mtime = match args.time_modify {
        Some(t) if t.nanoseconds >= NANOS => return Err(NfsStatus::Inval),
        Some(t) => Some(Time {
            secs: t.seconds,
            nanos: t.nanoseconds,
        }),
        None => None,
    };
    let stateid = cx.resolve(args.stateid)?;
    let commit = SizeCommit {
        new_end,
        mtime,
        space_used: None,
    };
    let after = data::commit_layout(nfsd, cx, &inode, stateid, commit).await?;
    Ok(data::layout_committed(&inode, &after))
}
