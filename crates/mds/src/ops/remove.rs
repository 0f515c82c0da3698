//! REMOVE (RFC 8881 §18.25). A file that is open lives on without a name until its last close.

use crate::Mds;
use crate::cx::{self, Cx};
use crate::names;
use fs::Clearing;
use namespace::{FileId, RemovedName, What};
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
    mds.fs.clients().lock().check_grace_names()?;
    let file = fs::file_of_name(&mds.fs, &mut cx.actor, dir, name);
    let _excluded = match &file {
        Some(file) => Some(fs::exclude(&mds.fs, &cx.actor, file, Clearing::CHANGE).await?),
        None => None,
    };
    let is_open = |file: FileId| mds.fs.state().open_count(file.0) > 0;
    let answer = |removed: &RemovedName| RemoveRes {
        cinfo: names::cinfo(removed.dir),
    };
    let kept = |removed: &RemovedName| (answer(removed), None);
    let removed = cx::change(mds, cx, kept, |ns, op| {
        ns.remove(op, dir, name, What::Any, &is_open)
    })?;
    fs::missed(&mds.fs, &cx.actor, file.map(|f| f.id), &removed.inode);
    if removed.inode.nlink == 0 && removed.inode.is_regular() && !removed.orphaned {
        fs::file_removed(&mds.fs, &removed.inode);
    }
    Ok(answer(&removed))
}
