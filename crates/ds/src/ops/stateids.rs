//! `TEST_STATEID` and `FREE_STATEID` (RFC 8881 §18.48, §18.38): a data server has no stateids of its own.

use nfs4::NfsStatus;
use nfs4::ops::{FreeStateidArgs, FreeStateidRes, TestStateidArgs, TestStateidRes};

pub(super) fn test_stateid(args: &TestStateidArgs) -> TestStateidRes {
    let statuses = vec![NfsStatus::BadStateid; args.stateids.0.len()];
    TestStateidRes {
        statuses: statuses.into(),
    }
}

pub(super) fn free_stateid(_args: FreeStateidArgs) -> Result<FreeStateidRes, NfsStatus> {
    Err(NfsStatus::BadStateid)
}
