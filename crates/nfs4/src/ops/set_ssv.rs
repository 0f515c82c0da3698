//! `SET_SSV` (RFC 8881 §18.47).

use xdr::Opaque;

use crate::{OPAQUE_BYTES_MAX, OpNum};

xdr::xdr_struct! {
    /// Arguments of `SET_SSV`.
    #[derive(Copy)]
    pub struct SetSsvArgs<'a> {
        /// Mixed into the SSV.
        pub ssv: Opaque<'a, OPAQUE_BYTES_MAX>,
        /// HMAC over the SEQUENCE arguments.
        pub digest: Opaque<'a, OPAQUE_BYTES_MAX>,
    }

    /// Result of `SET_SSV`.
    #[derive(Copy)]
    pub struct SetSsvRes<'a> {
        /// HMAC over the SEQUENCE result.
        pub digest: Opaque<'a, OPAQUE_BYTES_MAX>,
    }
}

operations! { OpNum::SetSsv: SetSsvArgs<'_> => SetSsvRes<'a>; }
