//! RENAME (RFC 8881 §18.26): from the saved directory to the current one.

use crate::Mds;
use crate::cx::{self, Cx};
use crate::names;
use fs::Clearing;
use namespace::{FileId, Renamed};
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
    mds.fs.clients().lock().check_grace_names()?;
    let moved = fs::file_of_name(&mds.fs, &mut cx.actor, source.id, old);
    let replaced = fs::file_of_name(&mds.fs, &mut cx.actor, to, new);
    let mut excluded = Vec::with_capacity(2);
    for file in [&moved, &replaced].into_iter().flatten() {
        excluded.push(fs::exclude(&mds.fs, &cx.actor, file, Clearing::CHANGE).await?);
    }
    let is_open = |file: FileId| mds.fs.state().open_count(file.0) > 0;
    let answer = |renamed: &Renamed| RenameRes {
        source_cinfo: names::cinfo(renamed.from),
        target_cinfo: names::cinfo(renamed.to),
    };
    let kept = |renamed: &Renamed| (answer(renamed), None);
    let renamed = cx::change(mds, cx, kept, |ns, op| {
        ns.rename(op, (source.id, old), (to, new), &is_open)
    })?;
    fs::missed(&mds.fs, &cx.actor, moved.map(|f| f.id), &renamed.inode);
    if let Some(hit) = &renamed.replaced {
        fs::missed(&mds.fs, &cx.actor, replaced.map(|f| f.id), hit);
    }
    let res = answer(&renamed);
    if let Some(replaced) = renamed.replaced
        && replaced.nlink == 0
        && replaced.is_regular()
        && !renamed.orphaned
    {
        fs::file_removed(&mds.fs, &replaced);
    }
    Ok(res)
}
