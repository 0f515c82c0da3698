//! DELEGRETURN (RFC 8881 §18.6).

use crate::Mds;
use crate::cx::{self, Cx};
use nfs4::NfsStatus;
use nfs4::ops::{DelegReturnArgs, DelegReturnRes};

pub(super) fn delegreturn(
    mds: &Mds,
    cx: &mut Cx<'_>,
    args: DelegReturnArgs,
) -> Result<DelegReturnRes, NfsStatus> {
    let client = cx.client()?;
    let file = cx::current(mds, cx)?.id;
    let stateid = cx.resolve(args.stateid)?;
    let ended = mds.fs.state().return_delegation(stateid, client, file.0)?;
    fs::settle_ended(&mds.fs, Some(ended));
    Ok(DelegReturnRes {})
}
