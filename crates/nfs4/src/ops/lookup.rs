//! LOOKUP and LOOKUPP (RFC 8881 §18.13, §18.14).

use crate::{Name, OpNum};

xdr::xdr_struct! {
    /// Arguments of LOOKUP.
    #[derive(Copy)]
    pub struct LookupArgs<'a> {
        /// Name in the current directory.
        pub name: Name<'a>,
    }

    /// Result of LOOKUP.
    #[derive(Copy)]
    pub struct LookupRes {}

    /// Arguments of LOOKUPP.
    #[derive(Copy)]
    pub struct LookupPArgs {}

    /// Result of LOOKUPP.
    #[derive(Copy)]
    pub struct LookupPRes {}
}

operations! {
    OpNum::Lookup: LookupArgs<'_> => LookupRes;
    OpNum::LookupP: LookupPArgs => LookupPRes;
}
