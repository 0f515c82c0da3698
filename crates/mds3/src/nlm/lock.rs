//! LOCK and NM_LOCK (RFC 1813 §6.3.3, §6.3.18).
//!
//! # Failure
//! A host that restarts may not be heard: its NOTIFY gets lost. The NSM state in its next LOCK says so too, and ends what it held.

use super::cx::{Cx, Later, kind_of, range_of, stats_of};
use super::host::owner_of;
use nfs4::NfsStatus;
use nlm::{Nlm4LockArgs, Nlm4Stats};
use state::{HostLock, LockArgs, NsmState};

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
    let told = NsmState::of_running(args.state);
    cx.enter_in(args.alock.caller_name.0, told).await?;
    let owner = owner_of(args.alock.svid, args.alock.oh);
    let fs = cx.fs();
    fs::lock_by_host(fs, &mut cx.actor, &inode, &owner, (wanted, args.reclaim)).await
}
