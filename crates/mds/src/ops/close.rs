//! CLOSE (RFC 8881 §18.2). An unlinked file goes with its last open; layouts that were granted "return on close" come back.

use crate::cx::{self, Cx};
use crate::{Mds, data};
use nfs4::ops::{CloseArgs, CloseRes};
use nfs4::{NfsStatus, Stateid};
use server::Nfsd;

pub(super) async fn close(
    nfsd: &Nfsd<Mds>,
    cx: &mut Cx<'_>,
    args: CloseArgs,
) -> Result<CloseRes, NfsStatus> {
    let mds = nfsd.role();
    let client = cx.client()?;
    let file = cx::current_regular(mds, cx)?.id;
    let stateid = cx.resolve(args.open_stateid)?;
    let closed = mds.state().close(stateid, client, file.0)?;
    if closed.unlocked {
        super::notify_lock::notify_unblocked(nfsd, file);
    }
    if let Some(layout) = closed.layout {
        data::layouts_returned(nfsd, cx, vec![layout]).await?;
    }
    if closed.last_of_file {
        data::last_close(nfsd, cx, file).await?;
    }
    cx.current_stateid = Some(Stateid::INVALID);
    Ok(CloseRes {
        open_stateid: Stateid::INVALID,
    })
}
