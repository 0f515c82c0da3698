//! ALLOCATE and DEALLOCATE (RFC 7862 §15.1, §15.4).

use crate::{OpNum, Stateid};

xdr::xdr_struct! {
    /// Arguments of ALLOCATE.
    #[derive(Copy)]
    pub struct AllocateArgs {
        /// An open for writing.
        pub stateid: Stateid,
        /// First byte.
        pub offset: u64,
        /// Bytes.
        pub length: u64,
    }

    /// Result of ALLOCATE.
    #[derive(Copy)]
    pub struct AllocateRes {}

    /// Arguments of DEALLOCATE.
    #[derive(Copy)]
    pub struct DeallocateArgs {
        /// An open for writing.
        pub stateid: Stateid,
        /// First byte.
        pub offset: u64,
        /// Bytes.
        pub length: u64,
    }

    /// Result of DEALLOCATE.
    #[derive(Copy)]
    pub struct DeallocateRes {}
}

operations! {
    OpNum::Allocate: AllocateArgs => AllocateRes;
    OpNum::Deallocate: DeallocateArgs => DeallocateRes;
}
