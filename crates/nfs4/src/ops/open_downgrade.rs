//! `OPEN_DOWNGRADE` (RFC 8881 §18.18).

use crate::{OpNum, Stateid};

xdr::xdr_struct! {
    /// Arguments of `OPEN_DOWNGRADE`.
    #[derive(Copy)]
    pub struct OpenDowngradeArgs {
        /// The open.
        pub open_stateid: Stateid,
        /// Ignored in NFSv4.1.
        pub seqid: u32,
        /// Access that remains.
        pub share_access: u32,
        /// Denial that remains.
        pub share_deny: u32,
    }

    /// Result of `OPEN_DOWNGRADE`.
    #[derive(Copy)]
    pub struct OpenDowngradeRes {
        /// The open.
        pub open_stateid: Stateid,
    }
}

operations! { OpNum::OpenDowngrade: OpenDowngradeArgs => OpenDowngradeRes; }
