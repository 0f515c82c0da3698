//! DELEGRETURN (RFC 8881 §18.6).

use crate::cx::{self, Cx};
use crate::{Mds, delegations};
use nfs4::NfsStatus;
use nfs4::ops::{DelegReturnArgs, DelegReturnRes};
use server::Nfsd;

pub(super) async fn delegreturn(
    nfsd: &Nfsd<Mds>,
    cx: &mut Cx<'_>,
    args: DelegReturnArgs,
) -> Result<DelegReturnRes, NfsStatus> {
    let mds = nfsd.role();
    let client = cx.client()?;
    let file = cx::current(mds, cx)?.id;
    let stateid = cx.resolve(args.stateid)?;
    let ended = mds.state().return_delegation(stateid, client, file.0)?;
    delegations::settle_ended(nfsd, Some(ended)).await;
    Ok(DelegReturnRes {})
}
