//! `OPEN_DOWNGRADE` (RFC 8881 §18.18).

use crate::Mds;
use crate::cx::{self, Cx};
use nfs4::NfsStatus;
use nfs4::ops::{OpenDowngradeArgs, OpenDowngradeRes, SHARE_ACCESS_BOTH};
use state::Share;

pub(super) fn open_downgrade(
    mds: &Mds,
    cx: &mut Cx<'_>,
    args: OpenDowngradeArgs,
) -> Result<OpenDowngradeRes, NfsStatus> {
    let client = cx.client()?;
    let file = cx::current_regular(mds, cx)?.id;
    let stateid = cx.resolve(args.open_stateid)?;
    let share = Share {
        access: args.share_access & SHARE_ACCESS_BOTH,
        deny: args.share_deny,
    };
    let stateid = mds
        .fs
        .state()
        .open_downgrade(stateid, client, file.0, share)?;
    cx.current_stateid = Some(stateid);
    Ok(OpenDowngradeRes {
        open_stateid: stateid,
    })
}
