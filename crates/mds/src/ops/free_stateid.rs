//! `FREE_STATEID` (RFC 8881 §18.38).

use crate::Mds;
use crate::cx::Cx;
use nfs4::NfsStatus;
use nfs4::ops::{FreeStateidArgs, FreeStateidRes};

pub(super) fn free_stateid(
    mds: &Mds,
    cx: &mut Cx<'_>,
    args: FreeStateidArgs,
) -> Result<FreeStateidRes, NfsStatus> {
    let client = cx.client()?;
    let stateid = cx.resolve(args.stateid)?;
    let all_freed = {
        let mut state = mds.fs.state();
        let before = state.has_revoked_delegations(client);
        state.free_stateid(stateid, client)?;
        before && !state.has_revoked_delegations(client)
    };
    if all_freed {
        // It knows now, so it may reclaim again what it holds after a restart.
        fs::forget_revoked(&mds.fs, &mut cx.actor)?;
    }
    Ok(FreeStateidRes {})
}
