//! `OFFLOAD_CANCEL` and `OFFLOAD_STATUS` (RFC 7862 §15.8, §15.9).

use crate::{NfsStatus, OpNum, Stateid};

xdr::xdr_struct! {
    /// Arguments of `OFFLOAD_CANCEL`.
    #[derive(Copy)]
    pub struct OffloadCancelArgs {
        /// The copy.
        pub stateid: Stateid,
    }

    /// Result of `OFFLOAD_CANCEL`.
    #[derive(Copy)]
    pub struct OffloadCancelRes {}

    /// Arguments of `OFFLOAD_STATUS`.
    #[derive(Copy)]
    pub struct OffloadStatusArgs {
        /// The copy.
        pub stateid: Stateid,
    }

    /// Result of `OFFLOAD_STATUS`.
    #[derive(Copy)]
    pub struct OffloadStatusRes {
        /// Bytes copied.
        pub count: u64,
        /// How it ended; absent while it goes on (an array of at most one item).
        pub complete: Option<NfsStatus>,
    }
}

operations! {
    OpNum::OffloadCancel: OffloadCancelArgs => OffloadCancelRes;
    OpNum::OffloadStatus: OffloadStatusArgs => OffloadStatusRes;
}
