//! The client, the stateid and the sequence ids of owners that the arguments of an operation name.

use nfs4::ops::{
    CloseArgs, CreateHow, DelegReturnArgs, LockArgs, LockTArgs, LockUArgs, Locker, OpenArgs,
    OpenClaim, OpenConfirmArgs, OpenDowngradeArgs, OpenHow, ReadArgs, ReleaseLockOwnerArgs,
    RenewArgs, SetAttrArgs, WriteArgs,
};
use nfs4::{ClientId, NfsStatus, OpNum, OpReader, Stateid};
use state::{Other, OwnerKind};
use std::sync::Arc;
use xdr::Decode;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Which owner a sequence id is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Named {
    /// The one of this name.
    Owner(Arc<[u8]>),
    /// The one that has this state.
    OfState(Other),
}

/// One sequence id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seq {
    pub(super) kind: OwnerKind,
    pub(super) named: Named,
    pub(super) seqid: u32,
}

/// See the module.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) client: Option<ClientId>,
    pub(super) stateid: Option<Stateid>,
    /// One, or those of an open-owner and a lock-owner.
    pub(super) seqs: Vec<Seq>,
    /// Tells the request from others under the same sequence id.
    pub(super) sum: u64,
    /// A reclaim of before a restart, which nobody has to confirm.
    pub(super) is_reclaim: bool,
}

impl Asked {
    fn by(client: ClientId) -> Self {
        Self {
            client: Some(client),
            ..Self::default()
        }
    }

    fn with(stateid: Stateid) -> Self {
        Self {
            stateid: Some(stateid),
            ..Self::default()
        }
    }

    fn of_state(kind: OwnerKind, stateid: Stateid, seqid: u32) -> Self {
        Self {
            seqs: vec![Seq {
                kind,
                named: Named::OfState(stateid.other),
                seqid,
            }],
            ..Self::with(stateid)
        }
    }
}

/// Looks at the arguments of the operation that `ops` stands at, and leaves it there.
///
/// # Errors
/// `BadXdr`, also for claims and create modes that NFSv4.0 does not have.
pub(super) fn asked(op: OpNum, ops: &OpReader<'_>) -> Result<Asked, NfsStatus> {
    let mut ops = ops.clone();
    let before = ops.rest();
    let mut asked = match op {
        OpNum::Open => open(&args(&mut ops)?)?,
        OpNum::OpenConfirm => {
            let a: OpenConfirmArgs = args(&mut ops)?;
            Asked::of_state(OwnerKind::Open, a.open_stateid, a.seqid)
        }
        OpNum::OpenDowngrade => {
            let a: OpenDowngradeArgs = args(&mut ops)?;
            Asked::of_state(OwnerKind::Open, a.open_stateid, a.seqid)
        }
        OpNum::Close => {
            let a: CloseArgs = args(&mut ops)?;
            Asked::of_state(OwnerKind::Open, a.open_stateid, a.seqid)
        }
        OpNum::Lock => lock(&args(&mut ops)?),
        OpNum::LockU => {
            let a: LockUArgs = args(&mut ops)?;
            Asked::of_state(OwnerKind::Lock, a.lock_stateid, a.seqid)
        }
        OpNum::LockT => Asked::by(args::<LockTArgs<'_>>(&mut ops)?.owner.clientid),
        OpNum::ReleaseLockOwner => {
            Asked::by(args::<ReleaseLockOwnerArgs<'_>>(&mut ops)?.owner.clientid)
        }
        OpNum::Renew => Asked::by(args::<RenewArgs>(&mut ops)?.clientid),
        OpNum::Read => Asked::with(args::<ReadArgs>(&mut ops)?.stateid),
        OpNum::Write => Asked::with(args::<WriteArgs<'_>>(&mut ops)?.stateid),
        OpNum::SetAttr => Asked::with(args::<SetAttrArgs<'_>>(&mut ops)?.stateid),
        OpNum::DelegReturn => Asked::with(args::<DelegReturnArgs>(&mut ops)?.stateid),
        _ => Asked::default(),
    };
    if !asked.seqs.is_empty() {
        let args = &before[..before.len() - ops.rest().len()];
        asked.sum = xxh3_64_with_seed(args, op as u64);
    }
    Ok(asked)
}

fn args<'r, T: Decode<'r>>(ops: &mut OpReader<'r>) -> Result<T, NfsStatus> {
    ops.args().map_err(|_| NfsStatus::BadXdr)
}

fn open(a: &OpenArgs<'_>) -> Result<Asked, NfsStatus> {
    // NFSv4.1 added the others.
    let is_of_0 = matches!(
        a.claim,
        OpenClaim::Null(_)
            | OpenClaim::Previous(_)
            | OpenClaim::DelegateCur(_)
            | OpenClaim::DelegatePrev(_)
    );
    if !is_of_0 || matches!(a.how, OpenHow::Create(CreateHow::Exclusive41(_))) {
        return Err(NfsStatus::BadXdr);
    }
    Ok(Asked {
        seqs: vec![Seq {
            kind: OwnerKind::Open,
            named: Named::Owner(Arc::from(a.owner.owner.0)),
            seqid: a.seqid,
        }],
        is_reclaim: matches!(a.claim, OpenClaim::Previous(_) | OpenClaim::DelegatePrev(_)),
        ..Asked::by(a.owner.clientid)
    })
}

fn lock(a: &LockArgs<'_>) -> Asked {
    match &a.locker {
        Locker::Exist(exist) => {
            Asked::of_state(OwnerKind::Lock, exist.lock_stateid, exist.lock_seqid)
        }
        Locker::New(new) => {
            let mut asked = Asked::of_state(OwnerKind::Open, new.open_stateid, new.open_seqid);
            asked.client = Some(new.lock_owner.clientid);
            asked.seqs.push(Seq {
                kind: OwnerKind::Lock,
                named: Named::Owner(Arc::from(new.lock_owner.owner.0)),
                seqid: new.lock_seqid,
            });
            asked
        }
    }
}
