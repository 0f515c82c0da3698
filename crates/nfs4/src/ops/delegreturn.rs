//! DELEGPURGE and DELEGRETURN (RFC 8881 §18.5, §18.6).

use crate::{ClientId, OpNum, Stateid};

xdr::xdr_struct! {
    /// Arguments of DELEGPURGE.
    #[derive(Copy)]
    pub struct DelegPurgeArgs {
        /// Ignored in NFSv4.1: the session names the client.
        pub clientid: ClientId,
    }

    /// Result of DELEGPURGE.
    #[derive(Copy)]
    pub struct DelegPurgeRes {}

    /// Arguments of DELEGRETURN.
    #[derive(Copy)]
    pub struct DelegReturnArgs {
        /// The delegation.
        pub stateid: Stateid,
    }

    /// Result of DELEGRETURN.
    #[derive(Copy)]
    pub struct DelegReturnRes {}
}

operations! {
    OpNum::DelegPurge: DelegPurgeArgs => DelegPurgeRes;
    OpNum::DelegReturn: DelegReturnArgs => DelegReturnRes;
}
