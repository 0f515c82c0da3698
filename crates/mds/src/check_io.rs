//! Whether an I/O may be done: by an open, or else by permission (RFC 8881 §9.1.2).

use crate::Mds;
use crate::cx::{self, Cx};
use fs::{Clearing, Excluded};
use namespace::Inode;
use nfs4::{NfsStatus, Stateid};
use state::{Ground, Io, StateKind};
use std::sync::Arc;

/// The file of an I/O whose stateid is valid and that the caller may do. The caller may by its open, or else by its
/// permission (RFC 8881 §18.22.3, §9.1.2). A write-only open gets ACCESS, not OPENMODE, from which no client recovers.
/// An I/O without an open stands for one: delegations of others are recalled, and none is granted while the guard lives
/// (§10.4.1).
pub(crate) async fn check_io(
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
pub(crate) async fn check_io_on(
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

/// Whether the caller has the permission for an I/O that no open stands for. An owner may always: it could set the mode.
pub(crate) fn may_do(cx: &Cx<'_>, inode: &Inode, want: u32) -> bool {
    let cred = &cx.actor.cred;
    cred.rights(inode) & want != 0 || cred.owns(inode)
}
