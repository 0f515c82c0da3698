//! RENEW of NFSv4.0 (RFC 7530 §16.28).

use crate::{ClientId, OpNum};

xdr::xdr_struct! {
    /// Arguments of RENEW.
    #[derive(Copy)]
    pub struct RenewArgs {
        /// Whose lease.
        pub clientid: ClientId,
    }

    /// Result of RENEW.
    #[derive(Copy)]
    pub struct RenewRes {}
}

operations! { OpNum::Renew: RenewArgs => RenewRes; }
