//! `FREE_STATEID` (RFC 8881 §18.38).

use crate::Mds;
use crate::cx::Cx;
use nfs4::NfsStatus;
use nfs4::ops::{FreeStateidArgs, FreeStateidRes};
use server::Nfsd;

pub(super) fn free_stateid(
    nfsd: &Nfsd<Mds>,
    cx: &mut Cx<'_>,
    args: FreeStateidArgs,
) -> Result<FreeStateidRes, NfsStatus> {
    let client = cx.client()?;
    let stateid = cx.resolve(args.stateid)?;
    nfsd.role().state().free_stateid(stateid, client)?;
    Ok(FreeStateidRes {})
}
