//! CLOSE (RFC 8881 §18.2).

use crate::{OpNum, Stateid};

xdr::xdr_struct! {
    /// Arguments of CLOSE.
    #[derive(Copy)]
    pub struct CloseArgs {
        /// Ignored in NFSv4.1.
        pub seqid: u32,
        /// The open.
        pub open_stateid: Stateid,
    }

    /// Result of CLOSE.
    #[derive(Copy)]
    pub struct CloseRes {
        /// To be ignored; servers answer [`Stateid::INVALID`].
        pub open_stateid: Stateid,
    }
}

operations! { OpNum::Close: CloseArgs => CloseRes; }
