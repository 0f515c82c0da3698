//! `CB_WANTS_CANCELLED` (RFC 8881 §20.10).

use crate::CbOpNum;

xdr::xdr_struct! {
    /// Arguments of `CB_WANTS_CANCELLED`.
    #[derive(Copy)]
    pub struct CbWantsCancelledArgs {
        /// Delegation wishes that waited for others to finish.
        pub contended: bool,
        /// Delegation wishes that waited for resources.
        pub resourced: bool,
    }

    /// Result of `CB_WANTS_CANCELLED`.
    #[derive(Copy)]
    pub struct CbWantsCancelledRes {}
}

operations! { CbOpNum::WantsCancelled: CbWantsCancelledArgs => CbWantsCancelledRes; }
