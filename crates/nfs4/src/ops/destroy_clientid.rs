//! `DESTROY_CLIENTID` (RFC 8881 §18.50).

use crate::{ClientId, OpNum};

xdr::xdr_struct! {
    /// Arguments of `DESTROY_CLIENTID`.
    #[derive(Copy)]
    pub struct DestroyClientIdArgs {
        /// The client.
        pub clientid: ClientId,
    }

    /// Result of `DESTROY_CLIENTID`.
    #[derive(Copy)]
    pub struct DestroyClientIdRes {}
}

operations! { OpNum::DestroyClientId: DestroyClientIdArgs => DestroyClientIdRes; }
