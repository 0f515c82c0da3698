//! `WANT_DELEGATION` (RFC 8881 §18.49).

use super::{Delegation, DelegationType};
use crate::OpNum;

xdr::xdr_struct! {
    /// Arguments of `WANT_DELEGATION`.
    #[derive(Copy)]
    pub struct WantDelegationArgs {
        /// `SHARE_WANT_*` bits.
        pub want: u32,
        /// By what right.
        pub claim: DelegClaim,
    }

    /// Result of `WANT_DELEGATION`.
    pub struct WantDelegationRes {
        /// The delegation, or why there is none.
        pub delegation: Delegation,
    }
}

xdr::xdr_union! {
    /// `deleg_claim4`; numbered like OPEN's claims.
    #[derive(Copy)]
    pub union DelegClaim {
        /// Reclaim after a restart of the server.
        Previous(delegation: DelegationType) = 1,
        /// The current object.
        Fh = 4,
        /// A delegation from before the client's restart.
        DelegPrevFh = 6,
    }
}

operations! { OpNum::WantDelegation: WantDelegationArgs => WantDelegationRes; }
