//! CLONE (RFC 7862 §15.13): from the saved file to the current one.

use crate::{OpNum, Stateid};

xdr::xdr_struct! {
    /// Arguments of CLONE.
    #[derive(Copy)]
    pub struct CloneArgs {
        /// An open of the source.
        pub src_stateid: Stateid,
        /// An open of the destination.
        pub dst_stateid: Stateid,
        /// First byte of the source.
        pub src_offset: u64,
        /// First byte of the destination.
        pub dst_offset: u64,
        /// Bytes; 0 is to the end of the source.
        pub count: u64,
    }

    /// Result of CLONE.
    #[derive(Copy)]
    pub struct CloneRes {}
}

operations! { OpNum::Clone: CloneArgs => CloneRes; }
