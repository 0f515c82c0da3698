//! `CB_PUSH_DELEG` (RFC 8881 §20.5).

use crate::{CbOpNum, FhRef, ops::Delegation};

xdr::xdr_struct! {
    /// Arguments of `CB_PUSH_DELEG`.
    pub struct CbPushDelegArgs<'a> {
        /// The file.
        pub fh: FhRef<'a>,
        /// The delegation.
        pub delegation: Delegation,
    }

    /// Result of `CB_PUSH_DELEG`.
    #[derive(Copy)]
    pub struct CbPushDelegRes {}
}

operations! { CbOpNum::PushDeleg: CbPushDelegArgs<'_> => CbPushDelegRes; }
