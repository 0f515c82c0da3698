//! READ (RFC 8881 §18.22) for clients without a layout: the MDS reads from the data servers.

use crate::attrs::IO_BYTES_MAX;
use crate::cx::{self, Cx};
use crate::delegations::{self, Clearing, Excluded};
use crate::{Mds, atimes, data};
use namespace::Inode;
use nfs4::ops::{ReadArgs, ReadResPayload};
use nfs4::{NfsStatus, Stateid};
use server::Nfsd;
use state::{Ground, Io, StateKind};
use std::sync::Arc;
use transport::Payload;

/// Room that a reply needs beside the bytes of READ.
const RESULT_BYTES: usize = 256;

pub(super) async fn read(
    nfsd: &Nfsd<Mds>,
    cx: &mut Cx<'_>,
    args: ReadArgs,
) -> Result<ReadResPayload, NfsStatus> {
    let (inode, _excluded) = check_io(nfsd, cx, args.stateid, Io::Read).await?;
    let room = u64::try_from(cx.room(RESULT_BYTES)).unwrap_or(u64::MAX);
    let count = u64::from(args.count).min(IO_BYTES_MAX).min(room);
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    let expected = inode.size.saturating_sub(args.offset).min(u64::from(count));
    cx.charge_reply(u32::try_from(expected).unwrap_or(u32::MAX))
        .await?;
    let (bytes, eof) = data::read(nfsd, cx, &inode, args.offset, count).await?;
    let len = u32::try_from(bytes.len()).map_err(|_| NfsStatus::ServerFault)?;
    atimes::note_read(nfsd.role(), &cx.caller, &inode);
    cx.payloads.push(Payload::Bytes(bytes));
    Ok(ReadResPayload { eof, len })
}

/// The file of an I/O whose stateid holds, and that the caller may do: by his open, or else by his permission (RFC 8881
/// §18.22.3, §9.1.2). Who opened for writing alone is told ACCESS and not OPENMODE, which no client can mend. An I/O without
/// an open stands for one: delegations of others are recalled and kept away while the guard lives (§10.4.1).
pub(super) async fn check_io<'n>(
    nfsd: &'n Nfsd<Mds>,
    cx: &mut Cx<'_>,
    stateid: Stateid,
    io: Io,
) -> Result<(Arc<Inode>, Option<Excluded<'n>>), NfsStatus> {
    let inode = cx::current_regular(nfsd.role(), cx)?;
    let stateid = cx.resolve(stateid)?;
    let excluded = check_io_on(nfsd, cx, &inode, stateid, io).await?;
    Ok((inode, excluded))
}

/// As [`check_io`], on a file that need not be the current one.
pub(super) async fn check_io_on<'n>(
    nfsd: &'n Nfsd<Mds>,
    cx: &Cx<'_>,
    inode: &Inode,
    stateid: Stateid,
    io: Io,
) -> Result<Option<Excluded<'n>>, NfsStatus> {
    let client = cx.client()?;
    nfsd.clients().check_grace_io(stateid.is_special())?;
    let delegated = StateKind::of(&stateid.other) == Some(StateKind::Delegation);
    let want = match io {
        // Whoever may execute a program may have it read; others cannot be told apart under a delegation.
        Io::Read if delegated => namespace::READ | namespace::EXECUTE,
        Io::Read => namespace::READ,
        Io::Write => namespace::WRITE,
    };
    let ground = nfsd
        .role()
        .state()
        .check_io(stateid, client, inode.id.0, io)?;
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
    let excluded = delegations::exclude(nfsd, cx, inode, clearing).await?;
    Ok(Some(excluded))
}

/// Whether the caller has the permission for an I/O that no open stands for. An owner may always: he could set the mode.
pub(super) fn may_do(cx: &Cx<'_>, inode: &Inode, want: u32) -> bool {
    let cred = &cx.caller.cred;
    cred.rights(inode) & want != 0 || cred.owns(inode)
}
