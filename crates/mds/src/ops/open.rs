//! OPEN (RFC 8881 §18.16): find or make the file, judge who may, take the share reservation, offer a delegation.
//!
//! # Ordering
//! Existence and permission come from the name space, the share from the file states. Looking again after the share is
//! taken finds a file that was removed between the two. Delegations of others are looked for under the lock under which
//! the share is taken.
//!
//! # Failure
//! A file that was made stays when its share is refused, as on any POSIX system.

use super::open_delegation::{self, Asked};
use crate::cx::{self, Cx};
use crate::names;
use crate::{Mds, attrs};
use fs::{Clearing, Excluded};
use namespace::{Created, EXECUTE, Existing, How, Inode, READ, SetAttr, WRITE};
use nfs4::attr::Attrs;
use nfs4::ops::{
    ClaimDelegateCur, CreateHow, Delegation, OPEN_RESULT_CONFIRM, OPEN_RESULT_LOCKTYPE_POSIX,
    OPEN_RESULT_MAY_NOTIFY_LOCK, OPEN_RESULT_NO_OPEN_STATEID, OPEN_RESULT_PRESERVE_UNLINKED,
    OpenArgs, OpenClaim, OpenHow, OpenRes, SHARE_ACCESS_BOTH, SHARE_ACCESS_READ,
    SHARE_ACCESS_WRITE, SHARE_DENY_BOTH, SHARE_WANT_DELEG_MASK, SHARE_WANT_DELEG_TIMESTAMPS,
    SHARE_WANT_OPEN_XOR_DELEGATION,
};
use nfs4::{Bitmap, ChangeInfo, ClientId, Fattr, NfsStatus, Stateid};
use state::{FileStates, Share};
use std::sync::Arc;

/// Mode of a file whose creator named none.
const MODE_DEFAULT: u32 = 0o644;
/// How often a share conflict with a client whose lease is over is settled before the answer is "denied".
const TRIES_MAX: usize = 8;

/// A file found or made.
struct Found {
    inode: Arc<Inode>,
    cinfo: ChangeInfo,
    attrset: Bitmap,
    /// It was made by this OPEN: its creator may use it whatever its mode says.
    created: bool,
    /// UNCHECKED with size 0 on an existing file.
    truncate: bool,
    /// Of a file that was made by this OPEN, for NFSv4.0.
    first_size: Option<u64>,
}

pub(super) async fn open(
    mds: &Mds,
    cx: &mut Cx<'_>,
    args: &OpenArgs<'_>,
) -> Result<OpenRes, NfsStatus> {
    let client = cx.client()?;
    let share = share_of(args)?;
    // NFSv4.0 has no wishes.
    if cx.minor_0.is_some() && args.share_access & !SHARE_ACCESS_BOTH != 0 {
        return Err(NfsStatus::Inval);
    }
    check_claim_grace(mds, cx, &args.claim)?;
    let writes = share.access & SHARE_ACCESS_WRITE != 0;
    if writes || matches!(args.how, OpenHow::Create(_)) {
        cx.actor.check_writable()?;
    }
    // Before a file is made: the open that a retry after a restart is told of can be reclaimed.
    fs::ensure(&mds.fs, &mut cx.actor)?;
    let found = find(mds, cx, args).await?;
    cx::regular(&found.inode)?;
    check_right(mds, cx, args, &found, share)?;
    // A truncation is none of an open for reading: nobody may be told meanwhile that the file stays as it is.
    let _excluded = (found.truncate).then(|| Excluded::new(&mds.fs, found.inode.id));
    let is_reclaim = matches!(args.claim, OpenClaim::Previous(_));
    if cx.minor_0.is_some() && !is_reclaim {
        let (owner, file) = (args.owner.owner.0, found.inode.id.0);
        let state = mds.fs.state();
        if state.own_share_conflict(client, owner, file, share) {
            return Err(NfsStatus::ShareDenied);
        }
    }
    let opened = take_share(mds, client, args.owner.owner.0, &found, share).await?;
    let done = finish(mds, cx, args, &found, (share, opened.stateid)).await;
    let (inode, delegation) = done.inspect_err(|status| {
        // One that was open before stays so, unless the file is gone.
        if opened.is_new || *status == NfsStatus::Stale {
            let _undone = mds
                .fs
                .state()
                .close(opened.stateid, client, found.inode.id.0);
        }
    })?;
    cx.set_fh(mds.fs.handle_of(&inode));
    let held = match wants(cx, args, SHARE_WANT_OPEN_XOR_DELEGATION) {
        true => alone(mds, &args.claim, (client, &inode), opened, &delegation),
        false => None,
    };
    cx.current_stateid = Some(held.unwrap_or(opened.stateid));
    let mut res = result(&found, opened.stateid, delegation);
    if let Some(minor_0) = &cx.minor_0 {
        res.rflags = rflags_0(minor_0.must_confirm);
    }
    if held.is_some() {
        res.stateid = Stateid::default();
        res.rflags |= OPEN_RESULT_NO_OPEN_STATEID;
    }
    Ok(res)
}

/// Whether the caller asks for what RFC 9754 adds to NFSv4.2.
fn wants(cx: &Cx<'_>, args: &OpenArgs<'_>, flag: u32) -> bool {
    cx.minor_version >= 2 && args.share_access & flag != 0
}

/// Gives up the open in favour of the delegation that came with it, for a client that needs only one of the two (RFC 9754 §4).
/// Returns the stateid of that delegation. An open of before stays: its client counts on it.
fn alone(
    mds: &Mds,
    claim: &OpenClaim<'_>,
    (client, inode): (ClientId, &Inode),
    opened: state::Opened,
    delegation: &Delegation,
) -> Option<Stateid> {
    let is_reclaim = matches!(claim, OpenClaim::Previous(_));
    let held = match delegation {
        Delegation::Read(read) | Delegation::ReadAttrs(read) => read.stateid,
        Delegation::Write(write) | Delegation::WriteAttrs(write) => write.stateid,
        Delegation::None | Delegation::NoneExt(_) => return None,
    };
    if is_reclaim || !opened.is_new {
        return None;
    }
    // A parallel OPEN of the same owner may have made it newer.
    let closed = mds.fs.state().close(opened.stateid, client, inode.id.0);
    closed.is_ok().then_some(held)
}

fn result(found: &Found, stateid: Stateid, delegation: Delegation) -> OpenRes {
    OpenRes {
        stateid,
        cinfo: found.cinfo,
        rflags: OPEN_RESULT_LOCKTYPE_POSIX
            | OPEN_RESULT_PRESERVE_UNLINKED
            | OPEN_RESULT_MAY_NOTIFY_LOCK,
        attrset: found.attrset,
        delegation,
    }
}

/// The flags that NFSv4.0 has (RFC 7530 §16.16.3).
fn rflags_0(must_confirm: bool) -> u32 {
    let confirm = if must_confirm { OPEN_RESULT_CONFIRM } else { 0 };
    OPEN_RESULT_LOCKTYPE_POSIX | confirm
}

/// Whether a file must be cut to have nothing, and objects for what comes.
async fn must_cut(mds: &Mds, inode: &Inode) -> bool {
    inode.size > 0 || fs::may_have_data(&mds.fs, inode.id) || fs::is_lost(&mds.fs, inode).await
}

/// What follows the share: the file is still there, is cut if that is asked, and may be delegated.
async fn finish(
    mds: &Mds,
    cx: &mut Cx<'_>,
    args: &OpenArgs<'_>,
    found: &Found,
    (share, opened): (Share, Stateid),
) -> Result<(Arc<Inode>, Delegation), NfsStatus> {
    let file = found.inode.id;
    cx.fh()?;
    if found.created {
        // The share keeps the file: others may change it meanwhile, or take its name away.
        fs::make_objects(&mds.fs, &cx.actor, &found.inode).await?;
    }
    let there = cx.actor.ns(&mds.fs, |ns, op| ns.getattr(op, file));
    let mut inode = there.map_err(|_| NfsStatus::Stale)?;
    if found.truncate && must_cut(mds, &found.inode).await {
        let empty = SetAttr {
            size: Some(0),
            ..SetAttr::default()
        };
        let res = result(found, opened, Delegation::None);
        let kept = cx::prepared(cx, &res, Some(mds.fs.handle_of(&found.inode)));
        let actor = &mut cx.actor;
        inode = fs::apply_attributes(&mds.fs, actor, &found.inode, &empty, true, &kept).await?;
    }
    if let Some(size) = found.first_size {
        let sized = SetAttr {
            size: Some(size),
            ..SetAttr::default()
        };
        let (kept, actor) = (fs::Prepared::default(), &mut cx.actor);
        inode = fs::apply_attributes(&mds.fs, actor, &inode, &sized, true, &kept).await?;
    }
    let asked = Asked {
        access: share.access,
        want: args.share_access & SHARE_WANT_DELEG_MASK,
        // Only what the holder made has no times that others may have seen: it may also give it older ones.
        has_times: found.created
            && wants(cx, args, SHARE_WANT_DELEG_TIMESTAMPS)
            && mds.fs.delegates_times(),
    };
    let delegation = match args.claim {
        OpenClaim::Previous(kind) => open_delegation::reclaim(mds, cx, &inode, asked, kind)?,
        OpenClaim::DelegateCur(_) | OpenClaim::DelegCurFh(_) => Delegation::None,
        _ => open_delegation::offer(mds, cx, &inode, asked)?,
    };
    Ok((inode, delegation))
}

fn share_of(args: &OpenArgs<'_>) -> Result<Share, NfsStatus> {
    let access = args.share_access & SHARE_ACCESS_BOTH;
    if access == 0 || args.share_deny & !SHARE_DENY_BOTH != 0 {
        return Err(NfsStatus::Inval);
    }
    Ok(Share {
        access,
        deny: args.share_deny,
    })
}

/// Whether new state may be granted now, or reclaimed.
pub(super) fn check_grace(mds: &Mds, cx: &Cx<'_>, reclaim: bool) -> Result<(), NfsStatus> {
    fs::check_grace(&mds.fs, cx.client()?, reclaim)
}

/// As [`check_grace`]. An open under a delegation that was just reclaimed is one of those that are reclaimed (§10.2.1).
fn check_claim_grace(mds: &Mds, cx: &Cx<'_>, claim: &OpenClaim<'_>) -> Result<(), NfsStatus> {
    match claim {
        OpenClaim::Previous(_) => check_grace(mds, cx, true),
        OpenClaim::DelegateCur(_) | OpenClaim::DelegCurFh(_) => {
            check_grace(mds, cx, true).or_else(|_| check_grace(mds, cx, false))
        }
        _ => check_grace(mds, cx, false),
    }
}

/// Whether the caller may open what was found: by permission, unless it made it or had it before.
fn check_right(
    mds: &Mds,
    cx: &mut Cx<'_>,
    args: &OpenArgs<'_>,
    found: &Found,
    share: Share,
) -> Result<(), NfsStatus> {
    let presented = match &args.claim {
        OpenClaim::Previous(_) => return Ok(()),
        OpenClaim::DelegateCur(claim) => claim.stateid,
        OpenClaim::DelegCurFh(stateid) => *stateid,
        _ if found.created => return Ok(()),
        _ => return check_access(mds, cx, &found.inode, share.access, found.truncate),
    };
    let stateid = cx.resolve(presented)?;
    open_delegation::check_presented(mds, stateid, cx.client()?, &found.inode, share)?;
    // Opened long ago: the owner may have removed its own permission since, as in open().
    if cx.actor.cred.owns(&found.inode) {
        return Ok(());
    }
    check_access(mds, cx, &found.inode, share.access, false)
}

async fn find(mds: &Mds, cx: &mut Cx<'_>, args: &OpenArgs<'_>) -> Result<Found, NfsStatus> {
    match (&args.claim, &args.how) {
        (OpenClaim::Null(name), OpenHow::Create(how)) => {
            let dir = cx::current_dir(mds, cx)?;
            create(mds, cx, &dir, names::name(*name)?, how).await
        }
        (
            OpenClaim::Null(name) | OpenClaim::DelegateCur(ClaimDelegateCur { name, .. }),
            OpenHow::NoCreate,
        ) => {
            let dir = cx::current_dir(mds, cx)?;
            let name = names::name(*name)?;
            let inode = cx.actor.ns(&mds.fs, |ns, op| ns.lookup(op, dir.id, name))?;
            let change = ChangeInfo {
                atomic: true,
                before: dir.change,
                after: dir.change,
            };
            Ok(existing(inode, change))
        }
        (OpenClaim::Fh | OpenClaim::Previous(_) | OpenClaim::DelegCurFh(_), OpenHow::NoCreate) => {
            let inode = cx::current_to_open(mds, cx).await?;
            Ok(existing(inode, ChangeInfo::default()))
        }
        (
            OpenClaim::Fh
            | OpenClaim::Previous(_)
            | OpenClaim::DelegateCur(_)
            | OpenClaim::DelegCurFh(_),
            OpenHow::Create(_),
        ) => Err(NfsStatus::Inval),
        (OpenClaim::DelegatePrev(_) | OpenClaim::DelegPrevFh, _) => Err(NfsStatus::NotSupp),
    }
}

fn existing(inode: Arc<Inode>, cinfo: ChangeInfo) -> Found {
    Found {
        inode,
        cinfo,
        attrset: Bitmap::EMPTY,
        created: false,
        truncate: false,
        first_size: None,
    }
}

async fn create(
    mds: &Mds,
    cx: &mut Cx<'_>,
    dir: &Inode,
    name: &[u8],
    how: &CreateHow<'_>,
) -> Result<Found, NfsStatus> {
    let none = Fattr::default();
    let (fattr, how) = match how {
        CreateHow::Unchecked(fattr) => (fattr, How::Unchecked),
        CreateHow::Guarded(fattr) => (fattr, How::Guarded),
        CreateHow::Exclusive(verifier) => (&none, How::Exclusive(verifier.bytes)),
        CreateHow::Exclusive41(both) => (&both.attrs, How::Exclusive(both.verifier.bytes)),
    };
    let wanted = attrs::decode(mds, fattr, cx.minor_version).await?;
    let first_size = wanted.size.filter(|size| *size != 0);
    // Persistent sessions keep one transaction of a reply; NFSv4.0 keeps none.
    if first_size.is_some() && cx.minor_version != 0 {
        return Err(NfsStatus::Inval);
    }
    let new = attrs::to_new_node(mds.identities(), &wanted, MODE_DEFAULT)?;
    // The state is not durable: a retry after a restart gets an open of then, which the client reclaims, and no delegation.
    let lost = state::lost_open(mds.fs.namespace().boot());
    let (actor, keeper) = cx.split();
    let keep = |created: &Created| {
        let found = found(created, fattr.mask, &wanted);
        let made = mds.fs.handle_of(&created.inode);
        cx::prepare(keeper, &result(&found, lost, Delegation::None), Some(made))
    };
    let created = fs::create(&mds.fs, actor, (dir, name), (&new, how), &keep)?;
    Ok(found(&created, fattr.mask, &wanted))
}

fn found(created: &Created, asked: Bitmap, wanted: &Attrs) -> Found {
    let found = existing(Arc::clone(&created.inode), names::cinfo(created.dir));
    match created.existing {
        Existing::No | Existing::Replay => Found {
            attrset: asked,
            created: true,
            first_size: wanted.size.filter(|size| *size != 0),
            ..found
        },
        Existing::Yes => Found {
            attrset: if wanted.size == Some(0) {
                Bitmap::of(&[nfs4::attr::SIZE])
            } else {
                Bitmap::EMPTY
            },
            truncate: wanted.size == Some(0),
            ..found
        },
    }
}

/// Permission to open (RFC 8881 §18.16.3). A program file may be read by whoever may execute it, because clients read it to run it.
fn check_access(
    mds: &Mds,
    cx: &mut Cx<'_>,
    inode: &Inode,
    access: u32,
    truncate: bool,
) -> Result<(), NfsStatus> {
    let bits = cx.actor.ns(&mds.fs, |ns, op| ns.access(op, inode.id))?;
    let may_read = bits & (READ | EXECUTE) != 0;
    let may_write = bits & WRITE != 0;
    if access & SHARE_ACCESS_READ != 0 && !may_read {
        return Err(NfsStatus::Access);
    }
    if (access & SHARE_ACCESS_WRITE != 0 || truncate) && !may_write {
        return Err(NfsStatus::Access);
    }
    Ok(())
}

async fn take_share(
    mds: &Mds,
    client: ClientId,
    owner: &[u8],
    found: &Found,
    share: Share,
) -> Result<state::Opened, NfsStatus> {
    let file = found.inode.id.0;
    let clearing = Clearing {
        against: FileStates::in_the_way_of_open(share, found.truncate),
        truncates: found.truncate,
    };
    for _ in 0..TRIES_MAX {
        let (delegated, conflicts) = {
            let mut state = mds.fs.state();
            let delegated = state
                .delegations
                .conflicts(file, clearing.against, Some(client));
            if delegated.is_empty() {
                match state.open(client, owner, file, share) {
                    Err(NfsStatus::ShareDenied) => {
                        (delegated, state.share_conflicts(client, owner, file, share))
                    }
                    result => return result,
                }
            } else {
                (delegated, Vec::new())
            }
        };
        if !delegated.is_empty() {
            fs::clear(&mds.fs, &found.inode, client, clearing).await?;
            continue;
        }
        let mut revoked = false;
        for client in conflicts {
            revoked |= fs::revoke_if_lapsed(&mds.fs, client).await;
        }
        if !revoked {
            return Err(NfsStatus::ShareDenied);
        }
    }
    Err(NfsStatus::Delay)
}
