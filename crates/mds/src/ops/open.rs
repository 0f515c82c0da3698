//! OPEN (RFC 8881 §18.16): find or make the file, judge who may, take the share reservation, answer without a delegation.
//!
//! # Ordering
//! Existence and permission come from the name space, the share from the file states; a file that is removed between the two is found
//! by looking again after the share is taken.
//!
//! # Failure
//! A file that was made stays when its share is refused, as on any POSIX system.

use crate::cx::{self, Cx, Prepared, ns};
use crate::{Mds, attrs, data};
use namespace::{Created, EXECUTE, Existing, FileId, How, Inode, READ, SetAttr, WRITE};
use nfs4::attr::Attrs;
use nfs4::ops::{
    CreateHow, Delegation, OPEN_RESULT_LOCKTYPE_POSIX, OPEN_RESULT_MAY_NOTIFY_LOCK,
    OPEN_RESULT_PRESERVE_UNLINKED, OpenArgs, OpenClaim, OpenHow, OpenRes, SHARE_ACCESS_BOTH,
    SHARE_ACCESS_READ, SHARE_ACCESS_WRITE, SHARE_DENY_BOTH, SHARE_WANT_DELEG_MASK,
    SHARE_WANT_NO_DELEG, WhyNoDelegation,
};
use nfs4::{Bitmap, ChangeInfo, ClientId, Fattr, NfsStatus, Stateid};
use server::Nfsd;
use state::Share;
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
}

pub(super) async fn open(
    nfsd: &Nfsd<Mds>,
    cx: &mut Cx<'_>,
    args: &OpenArgs<'_>,
) -> Result<OpenRes, NfsStatus> {
    let mds = nfsd.role();
    let client = cx.client()?;
    let share = share_of(args)?;
    let reclaim = matches!(args.claim, OpenClaim::Previous(_));
    check_grace(nfsd, cx, reclaim)?;
    let writes = share.access & SHARE_ACCESS_WRITE != 0;
    if writes || matches!(args.how, OpenHow::Create(_)) {
        cx::writable(cx)?;
    }
    let found = find(nfsd, cx, args).await?;
    cx::regular(&found.inode)?;
    if !found.created && !reclaim {
        check_access(mds, cx, &found.inode, share.access, found.truncate)?;
    }
    super::client_record::ensure(nfsd, cx)?;
    let file = found.inode.id;
    let opened = take_share(nfsd, client, args.owner.owner.0, file, share).await?;
    let still_there = cx.current_fh.is_some() && ns(mds, cx, |ns, op| ns.getattr(op, file)).is_ok();
    if !still_there {
        let _gone = mds.state().close(opened.stateid, client, file.0);
        return Err(NfsStatus::Stale);
    }
    if found.truncate && (found.inode.size > 0 || data::may_have_data(nfsd, file)) {
        let empty = SetAttr {
            size: Some(0),
            ..SetAttr::default()
        };
        let res = result(&found, opened.stateid, args);
        let kept = Prepared::new(cx, &res, Some(cx::handle_of(mds, &found.inode)));
        let cut = super::setattr::apply(nfsd, cx, &found.inode, &empty, true, &kept).await;
        if let Err(status) = cut {
            if opened.is_new {
                let _undone = mds.state().close(opened.stateid, client, file.0);
            }
            return Err(status);
        }
    }
    cx.set_fh(cx::handle_of(mds, &found.inode));
    cx.current_stateid = Some(opened.stateid);
    Ok(result(&found, opened.stateid, args))
}

fn result(found: &Found, stateid: Stateid, args: &OpenArgs<'_>) -> OpenRes {
    OpenRes {
        stateid,
        cinfo: found.cinfo,
        rflags: OPEN_RESULT_LOCKTYPE_POSIX
            | OPEN_RESULT_PRESERVE_UNLINKED
            | OPEN_RESULT_MAY_NOTIFY_LOCK,
        attrset: found.attrset,
        delegation: no_delegation(args.share_access),
    }
}

/// Delegations are not given yet; a client that named a wish is told why (RFC 8881 §18.16.4).
fn no_delegation(share_access: u32) -> Delegation {
    match share_access & SHARE_WANT_DELEG_MASK {
        0 => Delegation::None,
        SHARE_WANT_NO_DELEG => Delegation::NoneExt(WhyNoDelegation::NotWanted),
        _ => Delegation::NoneExt(WhyNoDelegation::Resource(false)),
    }
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
pub(super) fn check_grace(nfsd: &Nfsd<Mds>, cx: &Cx<'_>, reclaim: bool) -> Result<(), NfsStatus> {
    let client = cx.client()?;
    let now_ms = nfsd.now_ms();
    let mut clients = nfsd.clients();
    clients.check_grace(client, reclaim)?;
    if reclaim {
        clients.reclaimed(now_ms);
    }
    Ok(())
}

async fn find(nfsd: &Nfsd<Mds>, cx: &mut Cx<'_>, args: &OpenArgs<'_>) -> Result<Found, NfsStatus> {
    let mds = nfsd.role();
    match (&args.claim, &args.how) {
        (OpenClaim::Null(name), OpenHow::Create(how)) => {
            let dir = cx::current_dir(mds, cx)?;
            create(nfsd, cx, args, &dir, super::name(*name)?, how).await
        }
        (OpenClaim::Null(name), OpenHow::NoCreate) => {
            let dir = cx::current_dir(mds, cx)?;
            let name = super::name(*name)?;
            let inode = ns(mds, cx, |ns, op| ns.lookup(op, dir.id, name))?;
            let change = ChangeInfo {
                atomic: true,
                before: dir.change,
                after: dir.change,
            };
            Ok(existing(inode, change))
        }
        (OpenClaim::Fh | OpenClaim::Previous(_), OpenHow::NoCreate) => {
            let inode = cx::current(mds, cx)?;
            data::ready_for_open(nfsd, inode.id)?;
            Ok(existing(inode, ChangeInfo::default()))
        }
        (OpenClaim::Fh | OpenClaim::Previous(_), OpenHow::Create(_)) => Err(NfsStatus::Inval),
        // No delegation was ever given.
        (OpenClaim::DelegateCur(_) | OpenClaim::DelegCurFh(_), _) => Err(NfsStatus::BadStateid),
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
    }
}

async fn create(
    nfsd: &Nfsd<Mds>,
    cx: &mut Cx<'_>,
    args: &OpenArgs<'_>,
    dir: &Inode,
    name: &[u8],
    how: &CreateHow<'_>,
) -> Result<Found, NfsStatus> {
    let mds = nfsd.role();
    let none = Fattr::default();
    let (fattr, how) = match how {
        CreateHow::Unchecked(fattr) => (fattr, How::Unchecked),
        CreateHow::Guarded(fattr) => (fattr, How::Guarded),
        CreateHow::Exclusive(verifier) => (&none, How::Exclusive(verifier.bytes)),
        CreateHow::Exclusive41(both) => (&both.attrs, How::Exclusive(both.verifier.bytes)),
    };
    let wanted = attrs::decode(mds, fattr, cx.minor_version).await?;
    if wanted.size.is_some_and(|size| size != 0) {
        return Err(NfsStatus::Inval);
    }
    let new = attrs::to_new_node(mds.identities(), &wanted, MODE_DEFAULT)?;
    let policy = dir.layout_policy().unwrap_or_default();
    let dir = dir.id;
    // The state is not durable: a retry after a restart gets an open of then, which the client reclaims.
    let lost = state::lost_open(mds.namespace().boot());
    let kept = |created: &Created| {
        let found = found(created, fattr.mask, &wanted);
        let made = cx::handle_of(mds, &created.inode);
        (result(&found, lost, args), Some(made))
    };
    let created = match mds.data().place(policy) {
        Ok(place) => cx::change(mds, cx, kept, |ns, op| {
            ns.create(op, dir, name, &new, how, Some(place))
        })?,
        // Without a place for a new file those that exist still open.
        Err(status) => {
            ns(mds, cx, |ns, op| ns.find_for_create(op, dir, name, how))?.ok_or(status)?
        }
    };
    Ok(found(&created, fattr.mask, &wanted))
}

fn found(created: &Created, asked: Bitmap, wanted: &Attrs) -> Found {
    let found = existing(Arc::clone(&created.inode), super::cinfo(created.dir));
    match created.existing {
        Existing::No | Existing::Replay => Found {
            attrset: asked,
            created: true,
            ..found
        },
        Existing::Yes => Found {
            attrset: if wanted.size.is_some() {
                Bitmap::of(&[nfs4::attr::SIZE])
            } else {
                Bitmap::EMPTY
            },
            truncate: wanted.size.is_some(),
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
    let bits = ns(mds, cx, |ns, op| ns.access(op, inode.id))?;
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
    nfsd: &Nfsd<Mds>,
    client: ClientId,
    owner: &[u8],
    file: FileId,
    share: Share,
) -> Result<state::Opened, NfsStatus> {
    let mds = nfsd.role();
    for _ in 0..TRIES_MAX {
        let conflicts = {
            let mut state = mds.state();
            match state.open(client, owner, file.0, share) {
                Err(NfsStatus::ShareDenied) => state.share_conflicts(client, owner, file.0, share),
                result => return result,
            }
        };
        let now_ms = nfsd.now_ms();
        let lapsed: Vec<ClientId> = {
            let clients = nfsd.clients();
            conflicts
                .into_iter()
                .filter(|c| clients.lapsed(*c, now_ms))
                .collect()
        };
        if lapsed.is_empty() {
            return Err(NfsStatus::ShareDenied);
        }
        for client in lapsed {
            revoke_lapsed(nfsd, client).await;
        }
    }
    Err(NfsStatus::Delay)
}

/// Takes everything from a client whose lease is over, because somebody else wants it.
pub(super) async fn revoke_lapsed(nfsd: &Nfsd<Mds>, client: ClientId) {
    let removed = nfsd.clients().revoke(client);
    if let Some(removed) = removed {
        super::client_record::removed(nfsd, removed).await;
    }
}
