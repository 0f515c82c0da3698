//! PUTFH, PUTPUBFH and PUTROOTFH (RFC 8881 §18.19 to §18.21).

use crate::{FhRef, OpNum};

xdr::xdr_struct! {
    /// Arguments of PUTFH.
    #[derive(Copy)]
    pub struct PutFhArgs<'a> {
        /// The new current file handle.
        pub object: FhRef<'a>,
    }

    /// Result of PUTFH.
    #[derive(Copy)]
    pub struct PutFhRes {}

    /// Arguments of PUTPUBFH.
    #[derive(Copy)]
    pub struct PutPubFhArgs {}

    /// Result of PUTPUBFH.
    #[derive(Copy)]
    pub struct PutPubFhRes {}

    /// Arguments of PUTROOTFH.
    #[derive(Copy)]
    pub struct PutRootFhArgs {}

    /// Result of PUTROOTFH.
    #[derive(Copy)]
    pub struct PutRootFhRes {}
}

operations! {
    OpNum::PutFh: PutFhArgs<'_> => PutFhRes;
    OpNum::PutPubFh: PutPubFhArgs => PutPubFhRes;
    OpNum::PutRootFh: PutRootFhArgs => PutRootFhRes;
}
