//! `TEST_STATEID` and `FREE_STATEID` (RFC 8881 §18.48, §18.38): a data server has no stateids of its own.

use crate::counts::count;
use crate::ds::Ds;
use nfs4::ops::{FreeStateidArgs, FreeStateidRes, TestStateidArgs, TestStateidRes};
use nfs4::{NfsStatus, Stateid};

/// `other[4]` of a layout stateid of this cluster's MDS (docs/formats.md, "Stateids").
const KIND_LAYOUT: u8 = 3;
const KIND_AT: usize = 4;

pub(super) fn test_stateid(args: &TestStateidArgs) -> TestStateidRes {
    let statuses = vec![NfsStatus::BadStateid; args.stateids.0.len()];
    TestStateidRes {
        statuses: statuses.into(),
    }
}

pub(super) fn free_stateid(_args: FreeStateidArgs) -> Result<FreeStateidRes, NfsStatus> {
    Err(NfsStatus::BadStateid)
}

/// Refuses the stateids that RFC 8881 §13.9.1 forbids at a data server. Others are not known here: the handle
/// decides. The MDS itself has judged the stateid of the client for which it asks.
pub(super) fn check_stateid(ds: &Ds, stateid: Stateid, is_proxy: bool) -> Result<(), NfsStatus> {
    if !is_proxy && (stateid.is_special() || stateid.other[KIND_AT] == KIND_LAYOUT) {
        count(&ds.counts.stateids);
        return Err(NfsStatus::BadStateid);
    }
    Ok(())
}
