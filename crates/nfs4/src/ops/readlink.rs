//! READLINK (RFC 8881 §18.24).

use xdr::Opaque;

use crate::{OpNum, STRING_BYTES_MAX};

xdr::xdr_struct! {
    /// Arguments of READLINK.
    #[derive(Copy)]
    pub struct ReadLinkArgs {}

    /// Result of READLINK.
    #[derive(Copy)]
    pub struct ReadLinkRes<'a> {
        /// Text of the link.
        pub link: Opaque<'a, STRING_BYTES_MAX>,
    }
}

operations! { OpNum::ReadLink: ReadLinkArgs => ReadLinkRes<'a>; }
