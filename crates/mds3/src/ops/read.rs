//! READ (RFC 1813 §3.3.6): the metadata server reads from the data servers.

use crate::attrs::IO_BYTES_MAX;
use crate::cx::Cx;
use crate::results::failed;
use fs::Clearing;
use namespace::{EXECUTE, READ};
use nfs3::Res;
use nfs3::procs::{ReadArgs, ReadOkPayload, ReadResPayload};
use nfs4::NfsStatus;
use state::Io;
use std::time::Duration;
use transport::Payload;

/// How long a READ waits for memory that slow readers hold.
const CHARGE_WAIT_MAX: Duration = Duration::from_secs(2);

pub(super) async fn read(cx: &mut Cx<'_>, args: ReadArgs<'_>) -> ReadResPayload {
    let read = data(cx, args).await;
    let file_attributes = cx.attrs_of_handle(args.file).await;
    match read {
        Ok((len, eof)) => Res::Ok(ReadOkPayload {
            file_attributes,
            eof,
            len,
        }),
        Err(status) => failed(status, file_attributes),
    }
}

/// Reads: how many bytes, and whether the file ends after them.
async fn data(cx: &mut Cx<'_>, args: ReadArgs<'_>) -> Result<(u32, bool), NfsStatus> {
    let inode = cx.regular(args.file).await?;
    // Who may execute a program may have it read; the client tells them apart.
    let (fs, cred) = (cx.fs(), &cx.actor.cred);
    if cred.rights(&inode) & (READ | EXECUTE) == 0 && !cred.owns(&inode) {
        return Err(NfsStatus::Access);
    }
    cx.check_undenied(inode.id, Io::Read)?;
    let _excluded = fs::exclude(fs, &cx.actor, &inode, Clearing::READ).await?;
    let count = u64::from(args.count.min(IO_BYTES_MAX));
    let expected = inode.size.saturating_sub(args.offset).min(count);
    let expected = u32::try_from(expected).unwrap_or(u32::MAX);
    let charge = tokio::time::timeout(CHARGE_WAIT_MAX, cx.conn.charge_reply(expected));
    cx.charge = Some(charge.await.map_err(|_| NfsStatus::Delay)?);
    let range = (args.offset, count);
    let (bytes, eof) = fs::read(fs, &mut cx.actor, &inode, range, 0).await?;
    let len = u32::try_from(bytes.len()).map_err(|_| NfsStatus::ServerFault)?;
    cx.actor.note_read(fs, &inode);
    fs::note_read(fs, &cx.actor, len);
    cx.payload = Some(Payload::Bytes(bytes));
    Ok((len, eof))
}
