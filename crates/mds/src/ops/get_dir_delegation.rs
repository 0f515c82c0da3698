//! `GET_DIR_DELEGATION` (RFC 8881 §18.39): directories are never delegated.

use crate::Mds;
use crate::cx::{self, Cx};
use nfs4::NfsStatus;
use nfs4::ops::{GetDirDelegationArgs, GetDirDelegationRes};
use server::Nfsd;

pub(super) fn get_dir_delegation(
    nfsd: &Nfsd<Mds>,
    cx: &mut Cx<'_>,
    _args: GetDirDelegationArgs,
) -> Result<GetDirDelegationRes, NfsStatus> {
    cx::current_dir(nfsd.role(), cx)?;
    Ok(GetDirDelegationRes::Unavail(false))
}
