//! `CB_RECALL_SLOT` (RFC 8881 §20.8).

use crate::CbOpNum;

xdr::xdr_struct! {
    /// Arguments of `CB_RECALL_SLOT`.
    #[derive(Copy)]
    pub struct CbRecallSlotArgs {
        /// Highest slot that the client should keep.
        pub target_highest_slot_id: u32,
    }

    /// Result of `CB_RECALL_SLOT`.
    #[derive(Copy)]
    pub struct CbRecallSlotRes {}
}

operations! { CbOpNum::RecallSlot: CbRecallSlotArgs => CbRecallSlotRes; }
