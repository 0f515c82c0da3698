//! GETATTR (RFC 1813 §3.3.1).

use crate::{Fattr3, Handle, Res};

xdr::xdr_struct! {
    /// Arguments of GETATTR.
    #[derive(Copy)]
    pub struct GetAttrArgs<'a> {
        /// The object.
        pub object: Handle<'a>,
    }

    /// Success of GETATTR.
    #[derive(Copy)]
    pub struct GetAttrOk {
        /// Its attributes.
        pub obj_attributes: Fattr3,
    }
}

/// Failure of GETATTR: nothing but the status.
pub type GetAttrFail = ();
/// Result of GETATTR.
pub type GetAttrRes = Res<GetAttrOk, GetAttrFail>;

procedure! { GetAttr: GetAttrArgs<'_> => GetAttrOk, GetAttrFail }
