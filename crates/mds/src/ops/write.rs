//! WRITE (RFC 8881 §18.32) for clients without a layout: the MDS writes to the data servers.

use crate::Mds;
use crate::attrs::IO_BYTES_MAX;
use crate::check_io::check_io;
use crate::cx::{self, Cx};
use fs::WriteJob;
use nfs4::NfsStatus;
use nfs4::ops::{WriteArgs, WriteRes};
use state::Io;

pub(super) async fn write<'r>(
    mds: &Mds,
    cx: &mut Cx<'r>,
    args: WriteArgs<'r>,
) -> Result<WriteRes, NfsStatus> {
    cx.actor.check_writable()?;
    let (inode, _excluded) = check_io(mds, cx, args.stateid, Io::Write).await?;
    // What is beyond `maxwrite` is left to the client's next WRITE (RFC 8881 §18.32.3).
    let limit = usize::try_from(IO_BYTES_MAX).unwrap_or(usize::MAX);
    let bytes = &args.data.0[..args.data.0.len().min(limit)];
    let len = bytes.len() as u64;
    mds.fs.check_range(&inode, args.offset, len)?;
    if len == 0 {
        // Nothing changes (RFC 8881 §18.32.3), and nothing can be lost.
        let write_verifier = fs::commit(&mds.fs, &inode).await?;
        return Ok(WriteRes {
            count: 0,
            committed: args.stable,
            write_verifier,
        });
    }
    let job = WriteJob {
        offset: args.offset,
        stable: args.stable,
        bytes: cx.share(bytes),
    };
    let (actor, keeper) = cx.split();
    let keep = |res: &WriteRes| cx::prepare(keeper, res, None);
    let written = fs::write(&mds.fs, actor, &inode, &job, &keep).await?;
    fs::note_written(&mds.fs, &cx.actor, written.count);
    Ok(written)
}
