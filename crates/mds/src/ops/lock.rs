//! LOCK, LOCKT and LOCKU (RFC 8881 §18.10 to §18.12).

use crate::Mds;
use crate::cx::{self, Cx};
use fs::Clearing;
use fs::notify_unblocked;
use nfs4::ops::{
    LockArgs, LockDenied, LockGranted, LockRes, LockTArgs, LockTRes, LockUArgs, LockURes, Locker,
};
use nfs4::{LockType, NfsStatus, OpNum, ReplyWriter, StateOwner, Stateid};
use server::answer;
use server::fail;
use state::{LockKind, LockOutcome, LockRange};
use xdr::Opaque;

/// How often a conflict with a client whose lease is over is settled before the answer is "denied".
const TRIES_MAX: usize = 8;

pub(super) async fn lock(
    mds: &Mds,
    cx: &mut Cx<'_>,
    args: &LockArgs<'_>,
    reply: &mut ReplyWriter<OpNum>,
) -> NfsStatus {
    match grant(mds, cx, args).await {
        Ok(LockOutcome::Granted(lock_stateid)) => {
            cx.current_stateid = Some(lock_stateid);
            answer(reply, Ok(LockRes::Ok(LockGranted { lock_stateid })))
        }
        Ok(LockOutcome::Denied(denied)) => answer(reply, Ok(LockRes::Denied(wire(&denied)))),
        Err(status) => fail(reply, OpNum::Lock, status),
    }
}

async fn grant(mds: &Mds, cx: &mut Cx<'_>, args: &LockArgs<'_>) -> Result<LockOutcome, NfsStatus> {
    let client = cx.client()?;
    let file = cx::current_regular(mds, cx)?.id;
    super::open::check_grace(mds, cx, args.reclaim)?;
    fs::ensure(&mds.fs, &mut cx.actor)?;
    let wanted = state::LockArgs {
        range: LockRange::new(args.offset, args.length)?,
        kind: kind(args.lock_type),
        // NFSv4.0 has no CB_NOTIFY_LOCK.
        blocking: args.lock_type.is_blocking() && cx.minor_0.is_none(),
    };
    for _ in 0..TRIES_MAX {
        let outcome = {
            let mut state = mds.fs.state();
            match &args.locker {
                Locker::New(new) => {
                    let open = cx.resolve(new.open_stateid)?;
                    // A second first lock (RFC 7530 §16.10.4).
                    let owner = new.lock_owner.owner.0;
                    if cx.minor_0.is_some() && state.has_locks(client, owner, file.0) {
                        return Err(NfsStatus::BadSeqid);
                    }
                    state.lock_by_open(open, client, new.lock_owner.owner.0, file.0, wanted)?
                }
                Locker::Exist(exist) => {
                    let lock = cx.resolve(exist.lock_stateid)?;
                    state.lock_by_owner(lock, client, file.0, wanted)?
                }
            }
        };
        let blocked_by = match &outcome {
            LockOutcome::Denied(denied) => denied.client,
            LockOutcome::Granted(_) => return Ok(outcome),
        };
        if !fs::revoke_if_lapsed(&mds.fs, blocked_by).await {
            return Ok(outcome);
        }
    }
    Err(NfsStatus::Delay)
}

pub(super) async fn lockt(
    mds: &Mds,
    cx: &mut Cx<'_>,
    args: &LockTArgs<'_>,
    reply: &mut ReplyWriter<OpNum>,
) -> NfsStatus {
    match test(mds, cx, args).await {
        Ok(None) => answer(reply, Ok(LockTRes::Ok)),
        Ok(Some(denied)) => answer(reply, Ok(LockTRes::Denied(wire(&denied)))),
        Err(status) => fail(reply, OpNum::LockT, status),
    }
}

async fn test(
    mds: &Mds,
    cx: &mut Cx<'_>,
    args: &LockTArgs<'_>,
) -> Result<Option<state::LockDenied>, NfsStatus> {
    let client = cx.client()?;
    let inode = cx::current_regular(mds, cx)?;
    super::open::check_grace(mds, cx, false)?;
    let range = LockRange::new(args.offset, args.length)?;
    // The holder of a write delegation locks without asking (RFC 8881 §10.4.2).
    fs::clear(&mds.fs, &inode, client, Clearing::READ).await?;
    let owner = args.owner.owner.0;
    let kind = kind(args.lock_type);
    Ok(mds
        .fs
        .state()
        .lock_test(client, owner, inode.id.0, range, kind))
}

pub(super) fn locku(mds: &Mds, cx: &mut Cx<'_>, args: LockUArgs) -> Result<LockURes, NfsStatus> {
    let client = cx.client()?;
    let file = cx::current_regular(mds, cx)?.id;
    let stateid = cx.resolve(args.lock_stateid)?;
    let range = LockRange::new(args.offset, args.length)?;
    let lock_stateid: Stateid = mds.fs.state().unlock(stateid, client, file.0, range)?;
    notify_unblocked(&mds.fs, file);
    cx.current_stateid = Some(lock_stateid);
    Ok(LockURes { lock_stateid })
}

fn kind(lock_type: LockType) -> LockKind {
    if lock_type.is_write() {
        LockKind::Write
    } else {
        LockKind::Read
    }
}

fn wire(denied: &state::LockDenied) -> LockDenied<'_> {
    LockDenied {
        offset: denied.range.offset(),
        length: denied.range.length(),
        lock_type: match denied.kind {
            LockKind::Read => LockType::Read,
            LockKind::Write => LockType::Write,
        },
        owner: StateOwner {
            clientid: denied.client,
            owner: Opaque(&denied.owner),
        },
    }
}
