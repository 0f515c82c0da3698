//! GETATTR (RFC 8881 §18.7).

use crate::{Bitmap, Fattr, FattrOf, OpNum};

/// Arguments of GETATTR.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GetAttrArgs {
    /// Wanted attributes.
    pub attr_request: Bitmap,
}

impl xdr::Encode for GetAttrArgs {
    fn encode(&self, e: &mut xdr::Encoder) {
        self.attr_request.encode(e);
    }
}

impl xdr::Decode<'_> for GetAttrArgs {
    fn decode(d: &mut xdr::Decoder<'_>) -> Result<Self, xdr::DecodeError> {
        let attr_request = Bitmap::decode_asked(d)?;
        Ok(Self { attr_request })
    }
}

xdr::xdr_struct! {
    /// Result of GETATTR.
    pub struct GetAttrRes<'a> {
        /// Those that the server has.
        pub attributes: Fattr<'a>,
    }
}

operations! { OpNum::GetAttr: GetAttrArgs => GetAttrRes<'a>; }

/// Result of GETATTR as a server writes it: attributes go into the reply without a buffer of their own.
#[derive(Debug, Clone, Copy)]
pub struct GetAttrResOf<'a>(pub FattrOf<'a>);

impl xdr::Encode for GetAttrResOf<'_> {
    fn encode(&self, e: &mut xdr::Encoder) {
        self.0.encode(e);
    }
}

operations! { @body OpNum::GetAttr: GetAttrResOf<'a>; }
