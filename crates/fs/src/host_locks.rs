//! Locks and shares of hosts that speak NLM (RFC 1813 Appendix II), on the same files as those of NFSv4.
//!
//! # Ordering
//! A holder of a delegation locks without asking. So delegations in the way are recalled first, and none is granted while a host
//! locks or waits. The durable record of a host precedes the reply that grants its first lock.
//!
//! # Failure
//! A host that is gone without a word keeps its locks: it has no lease. They end with the news of its restart or by an administrator.

use crate::actor::Actor;
use crate::client_end;
use crate::client_record;
use crate::delegations::{Clearing, exclude};
use crate::fs::Fs;
use crate::lock_notify::notify_unblocked;
use crate::removal;
use namespace::{FileId, Inode};
use nfs4::{ClientId, NfsStatus};
use state::{
    FileStates, HostGrant, HostLock, LockArgs, LockDenied, LockKind, LockRange, NsmState,
    RemovedClient, Share,
};
use std::sync::Arc;

/// How often a conflict with a client whose lease is over is settled before the answer is "denied".
const TRIES_MAX: usize = 8;

/// Makes the actor the host of this name. `told` is its NSM state, if it has told one: what it held in an older one goes, unless files
/// that it shares are among it. SHARE tells no state, so they may be of the newer one.
///
/// # Errors
/// `Resource` when there are too many hosts; `Inval` for an impossible name.
pub async fn enter_host(
    fs: &Arc<Fs>,
    actor: &mut Actor,
    name: &[u8],
    told: Option<NsmState>,
) -> Result<ClientId, NfsStatus> {
    let now_ms = fs.clients.now_ms();
    let (entered, restarted) = {
        let mut clients = fs.clients.lock();
        let shares = |host| fs.state().held_by_host(host).1 > 0;
        let may_go = !clients.find_host(name).is_some_and(shares);
        let newer = told.filter(|_| may_go);
        let restarted = newer.and_then(|state| clients.restarted_host(name, state, false));
        let entered = clients.host(name, now_ms, |client| fs.state().has_state(client));
        if let (Ok((client, _)), Some(state)) = (&entered, told) {
            clients.note_nsm_state(*client, state);
        }
        (entered, restarted)
    };
    if let Some(gone) = restarted {
        tracing::info!("a host locks in a newer state: what it held before its restart ends");
        client_end::removed(fs, gone).await;
    }
    let (client, gave_way) = entered?;
    if let Some(gone) = gave_way {
        client_end::removed(fs, gone).await;
    }
    actor.enter(client, Arc::from(name));
    Ok(client)
}

/// LOCK of the host that the actor is.
///
/// # Errors
/// `Grace` and `NoGrace` as the grace period says. `Delay` while delegations are recalled; `Resource` at a limit.
pub async fn lock_by_host(
    fs: &Arc<Fs>,
    actor: &mut Actor,
    inode: &Inode,
    owner: &[u8],
    (args, reclaim): (LockArgs, bool),
) -> Result<HostLock, NfsStatus> {
    let (client, file) = (actor.client()?, inode.id.0);
    client_end::check_grace(fs, client, reclaim)?;
    client_record::ensure(fs, actor)?;
    let _excluded = exclude(fs, actor, inode, clearing(args.kind)).await?;
    for _ in 0..TRIES_MAX {
        // A waiting request would be granted, and told, while a client that has lapsed is removed.
        let now = LockArgs {
            blocking: false,
            ..args
        };
        let tried = fs.state().lock_by_host(client, owner, file, now)?;
        let blocked_by = match tried {
            HostLock::Denied(denied) => denied.client,
            outcome => {
                // It may have become a shared one.
                notify_unblocked(fs, inode.id);
                return Ok(outcome);
            }
        };
        if !client_end::revoke_if_lapsed(fs, blocked_by).await {
            return fs.state().lock_by_host(client, owner, file, args);
        }
    }
    Err(NfsStatus::Delay)
}

/// TEST of the host that the actor is: the lock in the way.
///
/// # Errors
/// As [`lock_by_host`].
pub async fn test_by_host(
    fs: &Arc<Fs>,
    actor: &Actor,
    inode: &Inode,
    owner: &[u8],
    (range, kind): (LockRange, LockKind),
) -> Result<Option<LockDenied>, NfsStatus> {
    let client = actor.client()?;
    client_end::check_grace(fs, client, false)?;
    let _excluded = exclude(fs, actor, inode, clearing(kind)).await?;
    let state = fs.state();
    Ok(state.lock_test(client, owner, inode.id.0, range, kind))
}

/// UNLOCK of a host. The file need not be there any more.
///
/// # Errors
/// `Resource` when a split would pass the limit.
pub fn unlock_by_host(
    fs: &Fs,
    client: ClientId,
    owner: &[u8],
    file: FileId,
    range: LockRange,
) -> Result<(), NfsStatus> {
    let unlocked = fs.state().unlock_by_host(client, owner, file.0, range)?;
    if unlocked {
        notify_unblocked(fs, file);
    }
    Ok(())
}

/// CANCEL of a host.
pub fn cancel_by_host(fs: &Fs, client: ClientId, owner: &[u8], file: FileId, args: LockArgs) {
    fs.state().cancel_by_host(client, owner, file.0, args);
    // Others may have waited behind it alone.
    notify_unblocked(fs, file);
}

/// SHARE of the host that the actor is.
///
/// # Errors
/// `ShareDenied`; else as [`lock_by_host`].
pub async fn share_by_host(
    fs: &Arc<Fs>,
    actor: &mut Actor,
    inode: &Inode,
    owner: &[u8],
    (share, reclaim): (Share, bool),
) -> Result<(), NfsStatus> {
    let (client, file) = (actor.client()?, inode.id.0);
    client_end::check_grace(fs, client, reclaim)?;
    client_record::ensure(fs, actor)?;
    let clearing = Clearing::of(FileStates::in_the_way_of_open(share, false));
    let _excluded = exclude(fs, actor, inode, clearing).await?;
    for _ in 0..TRIES_MAX {
        let conflicts = {
            let mut state = fs.state();
            match state.share_by_host(client, owner, file, share) {
                Err(NfsStatus::ShareDenied) => state.share_conflicts(client, owner, file, share),
                result => return result,
            }
        };
        let mut revoked = false;
        for client in conflicts {
            revoked |= client_end::revoke_if_lapsed(fs, client).await;
        }
        if !revoked {
            return Err(NfsStatus::ShareDenied);
        }
    }
    Err(NfsStatus::Delay)
}

/// UNSHARE of a host.
pub fn unshare_by_host(fs: &Arc<Fs>, client: ClientId, owner: &[u8], file: FileId) {
    let last = fs.state().unshare_by_host(client, owner, file.0);
    if last {
        removal::discard_if_unused(fs, file);
    }
}

/// A host has restarted, or an administrator says that it is gone: what it held goes. Returns whether it was known.
pub async fn host_gone(fs: &Arc<Fs>, name: &[u8]) -> bool {
    let removed: Option<RemovedClient> = {
        let mut clients = fs.clients.lock();
        let host = clients.find_host(name);
        host.and_then(|host| clients.revoke(host))
    };
    match removed {
        Some(gone) => {
            client_end::removed(fs, gone).await;
            true
        }
        None => false,
    }
}

/// A host says by NOTIFY that it has restarted, in this state: what it held goes, unless it had told that state before, or a newer one.
/// Returns whether it does.
pub async fn host_restarted(fs: &Arc<Fs>, name: &[u8], state: NsmState) -> bool {
    let now_ms = fs.clients.now_ms();
    let removed = {
        let mut clients = fs.clients.lock();
        let removed = clients.restarted_host(name, state, true);
        // It stays known without anything, so that a repetition is known too. It has the place that it just left.
        if removed.is_some()
            && let Ok((id, _)) = clients.host(name, now_ms, |_| true)
        {
            clients.note_nsm_state(id, state);
        }
        removed
    };
    match removed {
        Some(gone) => {
            client_end::removed(fs, gone).await;
            true
        }
        None => false,
    }
}

/// The host has answered GRANTED: it takes the lock, does not want it, or nobody knows (`None`).
pub fn grant_answered(fs: &Fs, grant: &HostGrant, takes: Option<bool>) {
    if takes != Some(false) {
        fs.state().grant_told(grant.id);
        return;
    }
    let refused = fs.state().grant_refused(grant.id);
    if refused {
        notify_unblocked(fs, FileId(grant.file));
    }
}

/// A holder of a delegation for writing locks without asking; one for reading takes shared locks so.
const fn clearing(kind: LockKind) -> Clearing {
    match kind {
        LockKind::Read => Clearing::READ,
        LockKind::Write => Clearing::CHANGE,
    }
}
