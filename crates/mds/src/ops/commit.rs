//! COMMIT (RFC 8881 §18.3) of writes that went through the MDS. The range is not looked at: all of the file is committed.

use crate::cx::{self, Cx};
use crate::{Mds, data};
use nfs4::NfsStatus;
use nfs4::ops::{CommitArgs, CommitRes};
use server::Nfsd;

pub(super) async fn commit(
    nfsd: &Nfsd<Mds>,
    cx: &mut Cx<'_>,
    args: CommitArgs,
) -> Result<CommitRes, NfsStatus> {
    let inode = cx::current_regular(nfsd.role(), cx)?;
    if args.offset.checked_add(u64::from(args.count)).is_none() {
        return Err(NfsStatus::Inval);
    }
    cx::writable(cx)?;
    let write_verifier = data::commit(nfsd, &inode).await?;
    Ok(CommitRes { write_verifier })
}
