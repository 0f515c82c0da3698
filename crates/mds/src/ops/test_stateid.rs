//! `TEST_STATEID` (RFC 8881 §18.48).

use crate::Mds;
use crate::cx::Cx;
use nfs4::NfsStatus;
use nfs4::ops::{TestStateidArgs, TestStateidRes};

pub(super) fn test_stateid(
    mds: &Mds,
    cx: &mut Cx<'_>,
    args: &TestStateidArgs,
) -> Result<TestStateidRes, NfsStatus> {
    let client = cx.client()?;
    let state = mds.fs.state();
    let statuses: Vec<_> = args
        .stateids
        .0
        .iter()
        .map(|stateid| state.test_stateid(*stateid, client))
        .collect();
    Ok(TestStateidRes {
        statuses: statuses.into(),
    })
}
