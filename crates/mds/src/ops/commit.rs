//! COMMIT (RFC 8881 §18.3) of writes that went through the MDS. The range is not looked at: all of the file is committed.

use crate::Mds;
use crate::cx::{self, Cx};
use nfs4::NfsStatus;
use nfs4::ops::{CommitArgs, CommitRes};

pub(super) async fn commit(
    mds: &Mds,
    cx: &mut Cx<'_>,
    args: CommitArgs,
) -> Result<CommitRes, NfsStatus> {
    let inode = cx::current_regular(mds, cx)?;
    if args.offset.checked_add(u64::from(args.count)).is_none() {
        return Err(NfsStatus::Inval);
    }
    cx.actor.check_writable()?;
    let write_verifier = fs::commit(&mds.fs, &inode).await?;
    Ok(CommitRes { write_verifier })
}
