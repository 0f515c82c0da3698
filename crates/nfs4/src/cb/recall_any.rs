//! `CB_RECALL_ANY` and `CB_RECALLABLE_OBJ_AVAIL` (RFC 8881 §20.6, §20.7).

use crate::{Bitmap, CbOpNum};

/// Type bit: read delegations.
pub const RCA_RDATA_DLG: u32 = 0;
/// Type bit: write delegations.
pub const RCA_WDATA_DLG: u32 = 1;
/// Type bit: directory delegations.
pub const RCA_DIR_DLG: u32 = 2;
/// Type bit: files layouts.
pub const RCA_FILE_LAYOUT: u32 = 3;
/// Type bit: block layouts.
pub const RCA_BLK_LAYOUT: u32 = 4;
/// Type bit: flexible files layouts for reading (RFC 8435 §13.1).
pub const RCA_FLEX_LAYOUT_READ: u32 = 16;
/// Type bit: flexible files layouts for writing (RFC 8435 §13.1).
pub const RCA_FLEX_LAYOUT_RW: u32 = 17;

xdr::xdr_struct! {
    /// Arguments of `CB_RECALL_ANY`.
    #[derive(Copy)]
    pub struct CbRecallAnyArgs {
        /// How many the client may keep.
        pub objects_to_keep: u32,
        /// Of which types: `RCA_*` bits.
        pub type_mask: Bitmap,
    }

    /// Result of `CB_RECALL_ANY`.
    #[derive(Copy)]
    pub struct CbRecallAnyRes {}

    /// Arguments of `CB_RECALLABLE_OBJ_AVAIL`.
    #[derive(Copy)]
    pub struct CbRecallableObjAvailArgs {
        /// How many the client may hold.
        pub objects_to_keep: u32,
        /// Of which types: `RCA_*` bits.
        pub type_mask: Bitmap,
    }

    /// Result of `CB_RECALLABLE_OBJ_AVAIL`.
    #[derive(Copy)]
    pub struct CbRecallableObjAvailRes {}
}

operations! {
    CbOpNum::RecallAny: CbRecallAnyArgs => CbRecallAnyRes;
    CbOpNum::RecallableObjAvail: CbRecallableObjAvailArgs => CbRecallableObjAvailRes;
}
