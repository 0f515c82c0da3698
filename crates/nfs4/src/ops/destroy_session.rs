//! `DESTROY_SESSION` (RFC 8881 §18.37).

use crate::{OpNum, SessionId};

xdr::xdr_struct! {
    /// Arguments of `DESTROY_SESSION`.
    #[derive(Copy)]
    pub struct DestroySessionArgs {
        /// The session.
        pub session_id: SessionId,
    }

    /// Result of `DESTROY_SESSION`.
    #[derive(Copy)]
    pub struct DestroySessionRes {}
}

operations! { OpNum::DestroySession: DestroySessionArgs => DestroySessionRes; }
