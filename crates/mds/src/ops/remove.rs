//! REMOVE (RFC 8881 §18.25). A file that is open lives on without a name until its last close.

use crate::Mds;
use crate::cx::{self, Cx};
use crate::names;
use namespace::{RemovedName, What};
use nfs4::NfsStatus;
use nfs4::ops::{RemoveArgs, RemoveRes};

pub(super) async fn remove(
    mds: &Mds,
    cx: &mut Cx<'_>,
    args: RemoveArgs<'_>,
) -> Result<RemoveRes, NfsStatus> {
    cx.actor.check_writable()?;
    let dir = cx::current_dir(mds, cx)?.id;
    let name = names::name(args.target)?;
    let answer = |removed: &RemovedName| RemoveRes {
        cinfo: names::cinfo(removed.dir),
    };
    let (actor, keeper) = cx.split();
    let keep = |removed: &RemovedName| cx::prepare(keeper, &answer(removed), None);
    let removed = fs::remove(&mds.fs, actor, (dir, name), What::Any, &keep).await?;
    Ok(answer(&removed))
}
