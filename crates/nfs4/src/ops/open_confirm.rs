//! `OPEN_CONFIRM` of NFSv4.0 (RFC 7530 §16.18).

use crate::{OpNum, Stateid};

xdr::xdr_struct! {
    /// Arguments of `OPEN_CONFIRM`.
    #[derive(Copy)]
    pub struct OpenConfirmArgs {
        /// The open.
        pub open_stateid: Stateid,
        /// The owner's next one.
        pub seqid: u32,
    }

    /// Result of `OPEN_CONFIRM`.
    #[derive(Copy)]
    pub struct OpenConfirmRes {
        /// The open from now on.
        pub open_stateid: Stateid,
    }
}

operations! { OpNum::OpenConfirm: OpenConfirmArgs => OpenConfirmRes; }
