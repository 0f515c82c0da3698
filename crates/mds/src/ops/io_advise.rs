//! `IO_ADVISE` (RFC 7862 §15.5). No hint changes what this server does, and it says so.

use crate::Mds;
use crate::check_io::check_io;
use crate::cx::Cx;
use nfs4::ops::{IoAdviseArgs, IoAdviseRes};
use nfs4::{Bitmap, NfsStatus};
use state::Io;

pub(super) async fn io_advise(
    mds: &Mds,
    cx: &mut Cx<'_>,
    args: &IoAdviseArgs,
) -> Result<IoAdviseRes, NfsStatus> {
    if args.offset.checked_add(args.count).is_none() {
        return Err(NfsStatus::Inval);
    }
    check_io(mds, cx, args.stateid, Io::Read).await?;
    Ok(IoAdviseRes {
        hints: Bitmap::EMPTY,
    })
}
