//! `TEST_STATEID` (RFC 8881 §18.48).

use xdr::List;

use crate::{NfsStatus, OpNum, Stateid};

/// Most stateids of one request.
pub const TEST_STATEIDS_MAX: u32 = 1024;

xdr::xdr_struct! {
    /// Arguments of `TEST_STATEID`.
    pub struct TestStateidArgs {
        /// To be tested.
        pub stateids: List<Stateid, TEST_STATEIDS_MAX>,
    }

    /// Result of `TEST_STATEID`.
    pub struct TestStateidRes {
        /// One for each stateid.
        pub statuses: List<NfsStatus, TEST_STATEIDS_MAX>,
    }
}

operations! { OpNum::TestStateid: TestStateidArgs => TestStateidRes; }
