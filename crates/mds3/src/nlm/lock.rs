//! LOCK and NM_LOCK (RFC 1813 §6.3.3, §6.3.18).

use super::cx::{Cx, Later, kind_of, range_of, stats_of};
use super::host::owner_of;
use nfs4::NfsStatus;
use nlm::{Nlm4LockArgs, Nlm4Stats};
use state::{HostLock, LockArgs};

pub(super) async fn lock(cx: &mut Cx<'_>, args: &Nlm4LockArgs<'_>) -> Result<Nlm4Stats, Later> {
    match grant(cx, args).await {
        Ok(HostLock::Granted) => Ok(Nlm4Stats::Granted),
        Ok(HostLock::Waits(_)) => Ok(Nlm4Stats::Blocked),
        Ok(HostLock::Denied(_)) => Ok(Nlm4Stats::Denied),
        Err(status) => stats_of(status),
    }
}

async fn grant(cx: &mut Cx<'_>, args: &Nlm4LockArgs<'_>) -> Result<HostLock, NfsStatus> {
    let wanted = LockArgs {
        range: range_of(&args.alock)?,
        kind: kind_of(args.exclusive),
        blocking: args.block,
    };
    let inode = cx.file(args.alock.fh)?;
    cx.enter(args.alock.caller_name.0).await?;
    let owner = owner_of(args.alock.svid, args.alock.oh);
    let fs = cx.fs();
    fs::lock_by_host(fs, &mut cx.actor, &inode, &owner, (wanted, args.reclaim)).await
}
