//! CLOSE (RFC 8881 §18.2). An unlinked file goes with its last open; layouts that were granted "return on close" come back.

use crate::Mds;
use crate::cx::{self, Cx};
use nfs4::ops::{CloseArgs, CloseRes};
use nfs4::{NfsStatus, Stateid};

pub(super) fn close(mds: &Mds, cx: &mut Cx<'_>, args: CloseArgs) -> Result<CloseRes, NfsStatus> {
    let client = cx.client()?;
    let file = cx::current_regular(mds, cx)?.id;
    let stateid = cx.resolve(args.open_stateid)?;
    let closed = mds.fs.state().close(stateid, client, file.0)?;
    if closed.unlocked {
        fs::notify_unblocked(&mds.fs, file);
    }
    if let Some(layout) = closed.layout {
        fs::settle_returned(&mds.fs, vec![layout]);
    }
    if closed.last_of_file {
        fs::last_close(&mds.fs, &mut cx.actor, file)?;
    }
    cx.current_stateid = Some(Stateid::INVALID);
    Ok(CloseRes {
        open_stateid: Stateid::INVALID,
    })
}
