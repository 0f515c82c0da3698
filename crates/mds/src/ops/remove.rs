//! REMOVE (RFC 8881 §18.25). A file that is open lives on without a name until its last close.

use crate::cx::{self, Cx};
use crate::delegations::{self, Clearing};
use crate::{Mds, data};
use namespace::{FileId, Removed, What};
use nfs4::NfsStatus;
use nfs4::ops::{RemoveArgs, RemoveRes};
use server::Nfsd;

pub(super) async fn remove(
    nfsd: &Nfsd<Mds>,
    cx: &mut Cx<'_>,
    args: RemoveArgs<'_>,
) -> Result<RemoveRes, NfsStatus> {
    let mds = nfsd.role();
    cx::writable(cx)?;
    let dir = cx::current_dir(mds, cx)?.id;
    let name = super::name(args.target)?;
    nfsd.clients().check_grace_names()?;
    let file = delegations::file_of_name(mds, cx, dir, name);
    let _excluded = match &file {
        Some(file) => Some(delegations::exclude(nfsd, cx, file, Clearing::CHANGE).await?),
        None => None,
    };
    let is_open = |file: FileId| mds.state().open_count(file.0) > 0;
    let answer = |removed: &Removed| RemoveRes {
        cinfo: super::cinfo(removed.dir),
    };
    let kept = |removed: &Removed| (answer(removed), None);
    let removed = cx::change(mds, cx, kept, |ns, op| {
        ns.remove(op, dir, name, What::Any, &is_open)
    })?;
    delegations::missed(nfsd, cx, file.map(|f| f.id), &removed.inode);
    if removed.inode.nlink == 0 && removed.inode.is_regular() && !removed.orphaned {
        data::file_removed(nfsd, cx, &removed.inode).await?;
    }
    Ok(answer(&removed))
}
