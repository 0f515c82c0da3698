//! OPENATTR (RFC 8881 §18.17).

use crate::OpNum;

xdr::xdr_struct! {
    /// Arguments of OPENATTR.
    #[derive(Copy)]
    pub struct OpenAttrArgs {
        /// Whether to create the directory of named attributes.
        pub create_dir: bool,
    }

    /// Result of OPENATTR.
    #[derive(Copy)]
    pub struct OpenAttrRes {}
}

operations! { OpNum::OpenAttr: OpenAttrArgs => OpenAttrRes; }
