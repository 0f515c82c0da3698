//! `WANT_DELEGATION` (RFC 8881 §18.49): a delegation without an open.

use super::open_delegation::{self, Asked};
use crate::Mds;
use crate::cx::{self, Cx};
use namespace::{EXECUTE, READ, WRITE};
use nfs4::NfsStatus;
use nfs4::ops::{
    DelegClaim, Delegation, SHARE_ACCESS_BOTH, SHARE_ACCESS_READ, SHARE_ACCESS_WRITE,
    SHARE_WANT_DELEG_MASK, SHARE_WANT_NO_PREFERENCE, SHARE_WANT_WRITE_DELEG, WantDelegationArgs,
    WantDelegationRes, WhyNoDelegation,
};

pub(super) fn want_delegation(
    mds: &Mds,
    cx: &mut Cx<'_>,
    args: WantDelegationArgs,
) -> Result<WantDelegationRes, NfsStatus> {
    let inode = cx::current(mds, cx)?;
    let want = args.want & SHARE_WANT_DELEG_MASK;
    let access = match want {
        SHARE_WANT_NO_PREFERENCE => return Err(NfsStatus::Inval),
        SHARE_WANT_WRITE_DELEG => SHARE_ACCESS_BOTH,
        _ => SHARE_ACCESS_READ,
    };
    let none = |why| {
        Ok(WantDelegationRes {
            delegation: Delegation::NoneExt(why),
        })
    };
    if inode.is_dir() {
        return none(WhyNoDelegation::IsDir);
    }
    if !inode.is_regular() {
        return none(WhyNoDelegation::NotSuppFtype);
    }
    let reclaim = matches!(args.claim, DelegClaim::Previous(_));
    super::open::check_grace(mds, cx, reclaim)?;
    let asked = Asked {
        access,
        want,
        has_times: false,
    };
    let delegation = match args.claim {
        DelegClaim::DelegPrevFh => return Err(NfsStatus::NotSupp),
        DelegClaim::Previous(kind) => open_delegation::reclaim(mds, cx, &inode, asked, kind)?,
        DelegClaim::Fh => {
            if access & SHARE_ACCESS_WRITE != 0 {
                cx.actor.check_writable()?;
            }
            let rights = cx.actor.cred.rights(&inode);
            let may_write = access & SHARE_ACCESS_WRITE == 0 || rights & WRITE != 0;
            if rights & (READ | EXECUTE) == 0 || !may_write {
                return Err(NfsStatus::Access);
            }
            fs::ensure(&mds.fs, &mut cx.actor)?;
            open_delegation::offer(mds, cx, &inode, asked)?
        }
    };
    Ok(WantDelegationRes { delegation })
}
