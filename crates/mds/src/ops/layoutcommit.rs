//! LAYOUTCOMMIT (RFC 8881 §18.42): raises size, change and mtime; never shrinks a file (rules R3, R12).

use crate::Mds;
use crate::cx::{self, Cx};
use crate::layout_kind::kind_of;
use namespace::{Inode, SizeCommit, Time};
use nfs4::NfsStatus;
use nfs4::layout::LENGTH_TO_EOF;
use nfs4::ops::{LayoutCommitArgs, LayoutCommitRes};
use std::sync::Arc;

/// Nanoseconds of a second.
const NANOS: u32 = 1_000_000_000;

pub(super) async fn layoutcommit(
    mds: &Mds,
    cx: &mut Cx<'_>,
    args: &LayoutCommitArgs<'_>,
) -> Result<LayoutCommitRes, NfsStatus> {
    let inode = cx::current_regular(mds, cx)?;
    cx.actor.check_writable()?;
    kind_of(args.layout_update.layout_type)?;
    let overflows = args.length != LENGTH_TO_EOF && args.offset.checked_add(args.length).is_none();
    if overflows {
        return Err(NfsStatus::Inval);
    }
    if args.reclaim {
        // The size of every file that was out for writing is taken from the data servers instead (R1).
        let in_grace = mds.fs.clients().lock().in_grace();
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
        None => fs::kept_mtime(&mds.fs, &cx.actor, &inode).await,
    };
    let stateid = cx.resolve(args.stateid)?;
    let commit = SizeCommit {
        new_end,
        mtime,
        ..SizeCommit::default()
    };
    let (actor, keeper) = cx.split();
    let keep = |after: &Arc<Inode>| cx::prepare(keeper, &committed(&inode, after), None);
    let after = fs::commit_layout(&mds.fs, actor, &inode, (stateid, commit), &keep).await?;
    Ok(committed(&inode, &after))
}

fn committed(before: &Inode, after: &Inode) -> LayoutCommitRes {
    LayoutCommitRes {
        new_size: (after.size > before.size).then_some(after.size),
    }
}
