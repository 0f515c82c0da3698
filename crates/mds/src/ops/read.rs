//! READ (RFC 8881 §18.22) for clients without a layout: the MDS reads from the data servers.

use crate::Mds;
use crate::attrs::IO_BYTES_MAX;
use crate::check_io::check_io;
use crate::cx::Cx;
use nfs4::NfsStatus;
use nfs4::ops::{ReadArgs, ReadResPayload};
use state::Io;
use transport::Payload;

/// Room that a reply needs beside the bytes of READ.
const RESULT_BYTES: usize = 256;

pub(super) async fn read(
    mds: &Mds,
    cx: &mut Cx<'_>,
    args: ReadArgs,
) -> Result<ReadResPayload, NfsStatus> {
    let (inode, _excluded) = check_io(mds, cx, args.stateid, Io::Read).await?;
    let room = u64::try_from(cx.room(RESULT_BYTES)).unwrap_or(u64::MAX);
    let count = u64::from(args.count).min(IO_BYTES_MAX).min(room);
    let expected = inode.size.saturating_sub(args.offset).min(count);
    cx.charge_reply(u32::try_from(expected).unwrap_or(u32::MAX))
        .await?;
    let (bytes, eof) = fs::read(&mds.fs, &mut cx.actor, &inode, (args.offset, count), 0).await?;
    let len = u32::try_from(bytes.len()).map_err(|_| NfsStatus::ServerFault)?;
    cx.actor.note_read(&mds.fs, &inode);
    fs::note_read(&mds.fs, &cx.actor, len);
    cx.payloads.push(Payload::Bytes(bytes));
    Ok(ReadResPayload { eof, len })
}
