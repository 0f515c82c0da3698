//! `RECLAIM_COMPLETE` (RFC 8881 §18.51).

use crate::OpNum;

xdr::xdr_struct! {
    /// Arguments of `RECLAIM_COMPLETE`.
    #[derive(Copy)]
    pub struct ReclaimCompleteArgs {
        /// Whether this is about the current file system only.
        pub one_fs: bool,
    }

    /// Result of `RECLAIM_COMPLETE`.
    #[derive(Copy)]
    pub struct ReclaimCompleteRes {}
}

operations! { OpNum::ReclaimComplete: ReclaimCompleteArgs => ReclaimCompleteRes; }
