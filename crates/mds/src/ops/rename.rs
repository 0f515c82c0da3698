//! RENAME (RFC 8881 §18.26): from the saved directory to the current one.

use crate::cx::{self, Cx};
use crate::delegations::{self, Clearing};
use crate::{Mds, data};
use namespace::{FileId, Renamed};
use nfs4::NfsStatus;
use nfs4::ops::{RenameArgs, RenameRes};
use server::Nfsd;

pub(super) async fn rename(
    nfsd: &Nfsd<Mds>,
    cx: &mut Cx<'_>,
    args: RenameArgs<'_>,
) -> Result<RenameRes, NfsStatus> {
    let mds = nfsd.role();
    cx::writable(cx)?;
    let to = cx::current_dir(mds, cx)?.id;
    let source = cx::saved(mds, cx)?;
    cx::directory(&source)?;
    let (old, new) = (super::name(args.old_name)?, super::name(args.new_name)?);
    nfsd.clients().check_grace_names()?;
    let moved = delegations::file_of_name(mds, cx, source.id, old);
    let replaced = delegations::file_of_name(mds, cx, to, new);
    let mut excluded = Vec::with_capacity(2);
    for file in [&moved, &replaced].into_iter().flatten() {
        excluded.push(delegations::exclude(nfsd, cx, file, Clearing::CHANGE).await?);
    }
    let is_open = |file: FileId| mds.state().open_count(file.0) > 0;
    let answer = |renamed: &Renamed| RenameRes {
        source_cinfo: super::cinfo(renamed.from),
        target_cinfo: super::cinfo(renamed.to),
    };
    let kept = |renamed: &Renamed| (answer(renamed), None);
    let renamed = cx::change(mds, cx, kept, |ns, op| {
        ns.rename(op, (source.id, old), (to, new), &is_open)
    })?;
    delegations::missed(nfsd, cx, moved.map(|f| f.id), &renamed.inode);
    if let Some(hit) = &renamed.replaced {
        delegations::missed(nfsd, cx, replaced.map(|f| f.id), hit);
    }
    let res = answer(&renamed);
    if let Some(replaced) = renamed.replaced
        && replaced.nlink == 0
        && replaced.is_regular()
        && !renamed.orphaned
    {
        data::file_removed(nfsd, cx, &replaced).await?;
    }
    Ok(res)
}
