//! WRITE (RFC 8881 §18.32) for clients without a layout: the MDS writes to the data servers.

use super::read::check_io;
use crate::attrs::IO_BYTES_MAX;
use crate::cx::{self, Cx};
use crate::{Mds, data};
use nfs4::NfsStatus;
use nfs4::ops::{WriteArgs, WriteRes};
use server::Nfsd;
use state::Io;

pub(super) async fn write<'r>(
    nfsd: &Nfsd<Mds>,
    cx: &mut Cx<'r>,
    args: WriteArgs<'r>,
) -> Result<WriteRes, NfsStatus> {
    cx::writable(cx)?;
    let (inode, _excluded) = check_io(nfsd, cx, args.stateid, Io::Write).await?;
    // What is beyond `maxwrite` is left to the client's next WRITE (RFC 8881 §18.32.3).
    let limit = usize::try_from(IO_BYTES_MAX).unwrap_or(usize::MAX);
    let bytes = &args.data.0[..args.data.0.len().min(limit)];
    let len = bytes.len() as u64;
    nfsd.role().data().check_range(args.offset, len)?;
    if len == 0 {
        // Nothing changes (RFC 8881 §18.32.3), and nothing can be lost.
        let write_verifier = data::commit(nfsd, &inode).await?;
        return Ok(WriteRes {
            count: 0,
            committed: args.stable,
            write_verifier,
        });
    }
    let bytes = cx.share(bytes);
    data::write(nfsd, cx, &inode, args.offset, args.stable, bytes).await
}
