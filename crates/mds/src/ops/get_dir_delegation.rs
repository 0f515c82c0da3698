//! `GET_DIR_DELEGATION` (RFC 8881 §18.39): directories are never delegated.

use crate::Mds;
use crate::cx::{self, Cx};
use nfs4::NfsStatus;
use nfs4::ops::{GetDirDelegationArgs, GetDirDelegationRes};

pub(super) fn get_dir_delegation(
    mds: &Mds,
    cx: &mut Cx<'_>,
    _args: GetDirDelegationArgs,
) -> Result<GetDirDelegationRes, NfsStatus> {
    cx::current_dir(mds, cx)?;
    Ok(GetDirDelegationRes::Unavail(false))
}
