//! RENAME (RFC 8881 §18.26): from the saved directory to the current one.

use crate::Mds;
use crate::cx::{self, Cx};
use crate::names;
use namespace::Renamed;
use nfs4::NfsStatus;
use nfs4::ops::{RenameArgs, RenameRes};

pub(super) async fn rename(
    mds: &Mds,
    cx: &mut Cx<'_>,
    args: RenameArgs<'_>,
) -> Result<RenameRes, NfsStatus> {
    cx.actor.check_writable()?;
    let to = cx::current_dir(mds, cx)?.id;
    let source = cx::saved(mds, cx)?;
    cx::directory(&source)?;
    let (old, new) = (names::name(args.old_name)?, names::name(args.new_name)?);
    let answer = |renamed: &Renamed| RenameRes {
        source_cinfo: names::cinfo(renamed.from),
        target_cinfo: names::cinfo(renamed.to),
    };
    let (actor, keeper) = cx.split();
    let keep = |renamed: &Renamed| cx::prepare(keeper, &answer(renamed), None);
    let renamed = fs::rename(&mds.fs, actor, (source.id, old), (to, new), &keep).await?;
    Ok(answer(&renamed))
}
