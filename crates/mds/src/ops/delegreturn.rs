//! DELEGRETURN (RFC 8881 §18.6).

use crate::Mds;
use crate::cx::{self, Cx};
use nfs4::NfsStatus;
use nfs4::ops::{DelegReturnArgs, DelegReturnRes, FreeStateidArgs};

pub(super) fn delegreturn(
    mds: &Mds,
    cx: &mut Cx<'_>,
    args: DelegReturnArgs,
) -> Result<DelegReturnRes, NfsStatus> {
    let client = cx.client()?;
    let file = cx::current(mds, cx)?.id;
    let stateid = cx.resolve(args.stateid)?;
    let returned = mds.fs.state().return_delegation(stateid, client, file.0);
    match returned {
        Ok(ended) => fs::settle_ended(&mds.fs, Some(ended)),
        // NFSv4.0 has no FREE_STATEID: this says as well that the client does not go on with it.
        Err(NfsStatus::DelegRevoked) if cx.minor_0.is_some() => {
            super::free_stateid::free_stateid(mds, cx, FreeStateidArgs { stateid })?;
        }
        Err(status) => return Err(status),
    }
    Ok(DelegReturnRes {})
}
