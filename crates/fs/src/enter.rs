//! How work on the bytes of a file begins: past its gate, with a look at it as it is then.
//!
//! May call: the name space, and `size_recovery`. Nothing that reads or writes bytes.

use crate::actor::Actor;
use crate::fs::Fs;
use crate::size_recovery::{ready, until_ready};
use namespace::Inode;
use nfs4::NfsStatus;
use std::sync::Arc;
use tokio::sync::OwnedRwLockReadGuard;

/// Keeps truncations out while the file is worked on, and takes a look at it as it is then.
pub(crate) async fn enter(
    fs: &Arc<Fs>,
    actor: &mut Actor,
    inode: &Inode,
) -> Result<(OwnedRwLockReadGuard<()>, Arc<Inode>), NfsStatus> {
    until_ready(fs, inode.id).await?;
    let shared = fs.layouts.gate(inode.id).read_owned().await;
    fs.check_not_truncating(inode.id)?;
    fs.offloads.lock().stopped(inode.id)?;
    ready(fs, inode.id)?;
    let inode = actor.ns(fs, |ns, op| ns.getattr(op, inode.id))?;
    Ok((shared, inode))
}

/// Takes the set-id bits off that a write by the actor takes off, durably.
pub(crate) async fn without_privileges(
    fs: &Fs,
    actor: &mut Actor,
    inode: Arc<Inode>,
) -> Result<Arc<Inode>, NfsStatus> {
    if !inode.has_privileges() {
        return Ok(inode);
    }
    let inode = actor.ns(fs, |ns, op| ns.drop_privileges(op, inode.id))?;
    fs.durable(actor.observed).await?;
    Ok(inode)
}
