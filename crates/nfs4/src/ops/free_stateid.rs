//! `FREE_STATEID` (RFC 8881 §18.38).

use crate::{OpNum, Stateid};

xdr::xdr_struct! {
    /// Arguments of `FREE_STATEID`.
    #[derive(Copy)]
    pub struct FreeStateidArgs {
        /// State that was revoked, or locks that are gone.
        pub stateid: Stateid,
    }

    /// Result of `FREE_STATEID`.
    #[derive(Copy)]
    pub struct FreeStateidRes {}
}

operations! { OpNum::FreeStateid: FreeStateidArgs => FreeStateidRes; }
