//! The delegation in the answer of an OPEN, and the claims that present one (RFC 8881 §10.4, §18.16.3).

use crate::Mds;
use crate::cx::Cx;
use fs::Clearing;
use namespace::Inode;
use nfs4::ops::{
    Delegation, DelegationType, ReadDelegation, SHARE_ACCESS_WRITE, SHARE_WANT_CANCEL,
    SHARE_WANT_NO_DELEG, SHARE_WANT_NO_PREFERENCE, SpaceLimit, WhyNoDelegation, WriteDelegation,
};
use nfs4::{Ace, ClientId, NfsStatus, Owner, Stateid};
use server::SessionContext;
use state::{DelegationGranted, DelegationKind, DelegationWanted, NoDelegation, Origin, Share};

/// What a client may modify and keep to itself when it closes a file: nothing. No room can be promised on data servers that
/// others fill too (§10.4.1). Linux returns a recalled delegation without writing first what it has kept.
const KEPT_BYTES_MAX: u64 = 0;
/// ACE4_ACCESS_ALLOWED_ACE_TYPE.
const ACE_ALLOWED: u32 = 0;

/// What is asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    /// `SHARE_ACCESS_*` without wishes.
    pub(super) access: u32,
    /// The wish: bits of `SHARE_WANT_DELEG_MASK`.
    pub(super) want: u32,
    /// A holder for writing shall be the authority for the file's times (RFC 9754 §5).
    pub(super) has_times: bool,
}

/// A delegation, if the caller wants one and nobody can be hurt by it. Looks at tables only.
pub(super) fn offer(
    mds: &Mds,
    cx: &Cx<'_>,
    inode: &Inode,
    asked: Asked,
) -> Result<Delegation, NfsStatus> {
    // Nobody may have to take it back when the open is not confirmed (RFC 7530 §9.1.11).
    if cx.minor_0.is_some_and(|m| m.must_confirm) {
        return Ok(Delegation::None);
    }
    let why = match asked.want {
        SHARE_WANT_NO_DELEG => WhyNoDelegation::NotWanted,
        SHARE_WANT_CANCEL => WhyNoDelegation::Cancelled,
        _ => match try_offer(mds, cx, inode, asked)? {
            Ok(delegation) => {
                mds.fs.note_delegation_granted();
                return Ok(granted(delegation, false));
            }
            Err(NoDelegation::Contention) => WhyNoDelegation::Contention(false),
            Err(NoDelegation::Resource) => WhyNoDelegation::Resource(false),
            Err(NoDelegation::NoUpgrade) => WhyNoDelegation::NotSuppUpgrade,
            Err(NoDelegation::NoDowngrade) => WhyNoDelegation::NotSuppDowngrade,
        },
    };
    // Reasons are for those who named a wish (RFC 8881 §18.16.4).
    Ok(if asked.want == SHARE_WANT_NO_PREFERENCE {
        Delegation::None
    } else {
        Delegation::NoneExt(why)
    })
}

type Offered = Result<DelegationGranted, NoDelegation>;

fn try_offer(mds: &Mds, cx: &Cx<'_>, inode: &Inode, asked: Asked) -> Result<Offered, NfsStatus> {
    let wanted = wanted(cx, inode, asked)?;
    if !mds.fs.grants_delegations() || !mds.fs.clients().can_call_back(wanted.client) {
        return Ok(Err(NoDelegation::Resource));
    }
    if fs::is_unsettled(&mds.fs, inode.id) {
        return Ok(Err(NoDelegation::Contention));
    }
    let now_ms = mds.fs.clients().now_ms();
    Ok(mds.fs.state().offer_delegation(&wanted, now_ms))
}

fn wanted(cx: &Cx<'_>, inode: &Inode, asked: Asked) -> Result<DelegationWanted, NfsStatus> {
    let session = cx.session.as_ref();
    // Nothing tells when a client of NFSv4.0 has its reply.
    let origin = session.map_or(Origin::UNKNOWN, SessionContext::origin);
    Ok(DelegationWanted {
        client: cx.client()?,
        file: inode.id.0,
        access: asked.access,
        origin,
        change: inode.change,
        has_times: asked.has_times,
    })
}

/// What a client held before a restart of this server (§10.2.1). Where delegations are not granted any more it comes with
/// the word that it is recalled.
///
/// # Errors
/// `ReclaimBad` for a client that did not return one in time: others may have changed what it has in its cache.
pub(super) fn reclaim(
    mds: &Mds,
    cx: &mut Cx<'_>,
    inode: &Inode,
    asked: Asked,
    kind: DelegationType,
) -> Result<Delegation, NfsStatus> {
    let asked = Asked {
        has_times: kind == DelegationType::WriteAttrs && mds.fs.delegates_times(),
        ..asked
    };
    let kind = match kind {
        DelegationType::None => return Ok(Delegation::None),
        DelegationType::Read | DelegationType::ReadAttrs => DelegationKind::Read,
        DelegationType::Write | DelegationType::WriteAttrs => DelegationKind::Write,
        DelegationType::NoneExt => return Err(NfsStatus::Inval),
    };
    let wanted = wanted(cx, inode, asked)?;
    if !mds
        .fs
        .clients()
        .lock()
        .may_reclaim_delegations(wanted.client)
    {
        return Err(NfsStatus::ReclaimBad);
    }
    fs::ensure(&mds.fs, &mut cx.actor)?;
    // To a client of NFSv4.0 the way is just being made. RENEW tells it when there is none.
    let has_way = cx.minor_0.is_some() || mds.fs.clients().can_call_back(wanted.client);
    let recall = !mds.fs.grants_delegations() || !has_way;
    let reclaimed = mds.fs.state().reclaim_delegation(&wanted, kind)?;
    mds.fs.note_delegation_granted();
    if recall {
        fs::recall(&mds.fs, inode, None, Clearing::CHANGE);
    }
    Ok(granted(reclaimed, recall))
}

/// Checks the delegation that an OPEN presents: it must allow what is opened.
pub(super) fn check_presented(
    mds: &Mds,
    stateid: Stateid,
    client: ClientId,
    inode: &Inode,
    share: Share,
) -> Result<(), NfsStatus> {
    let kind = mds
        .fs
        .state()
        .check_delegation(stateid, client, inode.id.0)?;
    if kind == DelegationKind::Read && share.access & SHARE_ACCESS_WRITE != 0 {
        return Err(NfsStatus::OpenMode);
    }
    Ok(())
}

fn granted(delegation: DelegationGranted, recall: bool) -> Delegation {
    let stateid = delegation.stateid;
    // Nobody may open without asking ACCESS first: that is how permission is checked for each user (§10.4).
    let permissions = Ace {
        ace_type: ACE_ALLOWED,
        flag: 0,
        access_mask: 0,
        who: Owner::from(b"EVERYONE@".as_slice()),
    };
    if delegation.kind == DelegationKind::Read {
        return Delegation::Read(ReadDelegation {
            stateid,
            recall,
            permissions,
        });
    }
    let write = WriteDelegation {
        stateid,
        recall,
        space_limit: SpaceLimit::Size(KEPT_BYTES_MAX),
        permissions,
    };
    match delegation.has_times {
        true => Delegation::WriteAttrs(write),
        false => Delegation::Write(write),
    }
}
