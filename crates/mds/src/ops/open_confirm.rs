//! OPEN_CONFIRM of NFSv4.0 (RFC 7530 §16.18). The engine knows whether the owner must.

use crate::Mds;
use crate::cx::{self, Cx};
use nfs4::NfsStatus;
use nfs4::ops::{OpenConfirmArgs, OpenConfirmRes};

pub(super) fn open_confirm(
    mds: &Mds,
    cx: &mut Cx<'_>,
    args: OpenConfirmArgs,
) -> Result<OpenConfirmRes, NfsStatus> {
    let client = cx.client()?;
    let file = cx::current_regular(mds, cx)?.id;
    let mut state = mds.fs.state();
    let open_stateid = state.confirm_open(args.open_stateid, client, file.0)?;
    Ok(OpenConfirmRes { open_stateid })
}
