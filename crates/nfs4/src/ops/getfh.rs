//! GETFH (RFC 8881 §18.8).

use crate::{FhRef, OpNum};

xdr::xdr_struct! {
    /// Arguments of GETFH.
    #[derive(Copy)]
    pub struct GetFhArgs {}

    /// Result of GETFH.
    #[derive(Copy)]
    pub struct GetFhRes<'a> {
        /// The current file handle.
        pub object: FhRef<'a>,
    }
}

operations! { OpNum::GetFh: GetFhArgs => GetFhRes<'a>; }
