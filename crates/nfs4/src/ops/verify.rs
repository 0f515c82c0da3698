//! VERIFY and NVERIFY (RFC 8881 §18.31, §18.15).

use crate::{Fattr, OpNum};

xdr::xdr_struct! {
    /// Arguments of VERIFY.
    pub struct VerifyArgs<'a> {
        /// To be compared with the current object's.
        pub attrs: Fattr<'a>,
    }

    /// Result of VERIFY.
    #[derive(Copy)]
    pub struct VerifyRes {}

    /// Arguments of NVERIFY.
    pub struct NVerifyArgs<'a> {
        /// To be compared with the current object's.
        pub attrs: Fattr<'a>,
    }

    /// Result of NVERIFY.
    #[derive(Copy)]
    pub struct NVerifyRes {}
}

operations! {
    OpNum::Verify: VerifyArgs<'_> => VerifyRes;
    OpNum::NVerify: NVerifyArgs<'_> => NVerifyRes;
}
