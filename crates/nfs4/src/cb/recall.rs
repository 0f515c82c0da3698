//! `CB_RECALL` (RFC 8881 §20.2).

use crate::{CbOpNum, FhRef, Stateid};

xdr::xdr_struct! {
    /// Arguments of `CB_RECALL`.
    #[derive(Copy)]
    pub struct CbRecallArgs<'a> {
        /// The delegation.
        pub stateid: Stateid,
        /// Whether the file will be truncated to nothing, so that writing back is of no use.
        pub truncate: bool,
        /// The file.
        pub fh: FhRef<'a>,
    }

    /// Result of `CB_RECALL`.
    #[derive(Copy)]
    pub struct CbRecallRes {}
}

operations! { CbOpNum::Recall: CbRecallArgs<'_> => CbRecallRes; }
