//! READ (RFC 8881 §18.22) for clients without a layout: the MDS reads from the data servers.

use crate::Mds;
use crate::attrs::IO_BYTES_MAX;
use crate::cx::{self, Cx};
use fs::{Clearing, Excluded};
use namespace::Inode;
use nfs4::ops::{ReadArgs, ReadResPayload};
use nfs4::{NfsStatus, Stateid};
use state::{Ground, Io, StateKind};
use std::sync::Arc;
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
    cx.payloads.push(Payload::Bytes(bytes));
    Ok(ReadResPayload { eof, len })
}

/// The file of an I/O whose stateid holds, and that the caller may do: by his open, or else by his permission (RFC 8881
/// §18.22.3, §9.1.2). Who opened for writing alone is told ACCESS and not OPENMODE, which no client can mend. An I/O without
/// an open stands for one: delegations of others are recalled and kept away while the guard lives (§10.4.1).
pub(super) async fn check_io(
    mds: &Mds,
    cx: &mut Cx<'_>,
    stateid: Stateid,
    io: Io,
) -> Result<(Arc<Inode>, Option<Excluded>), NfsStatus> {
    let inode = cx::current_regular(mds, cx)?;
    let stateid = cx.resolve(stateid)?;
    let excluded = check_io_on(mds, cx, &inode, stateid, io).await?;
    Ok((inode, excluded))
}

/// As [`check_io`], on a file that need not be the current one.
pub(super) async fn check_io_on(
    mds: &Mds,
    cx: &Cx<'_>,
    inode: &Inode,
    stateid: Stateid,
    io: Io,
) -> Result<Option<Excluded>, NfsStatus> {
    let client = cx.client()?;
    mds.fs
        .clients()
        .lock()
        .check_grace_io(stateid.is_special())?;
    let delegated = StateKind::of(&stateid.other) == Some(StateKind::Delegation);
    let want = match io {
        // Whoever may execute a program may have it read; others cannot be told apart under a delegation.
        Io::Read if delegated => namespace::READ | namespace::EXECUTE,
        Io::Read => namespace::READ,
        Io::Write => namespace::WRITE,
    };
    let ground = mds.fs.state().check_io(stateid, client, inode.id.0, io)?;
    if ground == Ground::Permission && !may_do(cx, inode, want) {
        return Err(NfsStatus::Access);
    }
    if !stateid.is_special() {
        return Ok(None);
    }
    let clearing = match io {
        Io::Read => Clearing::READ,
        Io::Write => Clearing::CHANGE,
    };
    let excluded = fs::exclude(&mds.fs, &cx.actor, inode, clearing).await?;
    Ok(Some(excluded))
}

/// Whether the caller has the permission for an I/O that no open stands for. An owner may always: he could set the mode.
pub(super) fn may_do(cx: &Cx<'_>, inode: &Inode, want: u32) -> bool {
    let cred = &cx.actor.cred;
    cred.rights(inode) & want != 0 || cred.owns(inode)
}
