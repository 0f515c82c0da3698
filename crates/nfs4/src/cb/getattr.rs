//! `CB_GETATTR` (RFC 8881 §20.1).

use crate::{Bitmap, CbOpNum, Fattr, FhRef};

xdr::xdr_struct! {
    /// Arguments of `CB_GETATTR`.
    #[derive(Copy)]
    pub struct CbGetAttrArgs<'a> {
        /// A file under a write delegation.
        pub fh: FhRef<'a>,
        /// `change` and `size` at most.
        pub attr_request: Bitmap,
    }

    /// Result of `CB_GETATTR`.
    pub struct CbGetAttrRes<'a> {
        /// As the client has them.
        pub attributes: Fattr<'a>,
    }
}

operations! { CbOpNum::GetAttr: CbGetAttrArgs<'_> => CbGetAttrRes<'a>; }
