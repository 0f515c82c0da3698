//! SETATTR (RFC 8881 §18.30).

use xdr::{Decode, DecodeError, Decoder, Encode, Encoder};

use crate::{Bitmap, Fattr, NfsStatus, OpBody, OpNum, OpRes, Stateid};

xdr::xdr_struct! {
    /// Arguments of SETATTR.
    pub struct SetAttrArgs<'a> {
        /// An open for writing when the size is set, else [`Stateid::ANONYMOUS`].
        pub stateid: Stateid,
        /// New values.
        pub attrs: Fattr<'a>,
    }
}

/// Result of SETATTR. It has the same body whether it failed or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SetAttrRes {
    /// How it ended.
    pub status: NfsStatus,
    /// Attributes that were set, also when another then failed.
    pub attrsset: Bitmap,
}

impl Encode for SetAttrRes {
    fn encode(&self, e: &mut Encoder) {
        self.attrsset.encode(e);
    }
}

operations! { @args OpNum::SetAttr: SetAttrArgs<'_>; }

impl OpBody for SetAttrRes {
    type Num = OpNum;
    const OP: OpNum = OpNum::SetAttr;

    fn status(&self) -> NfsStatus {
        self.status
    }
}

impl<'a> OpRes<'a> for SetAttrRes {
    fn decode_res(status: NfsStatus, d: &mut Decoder<'a>) -> Result<Option<Self>, DecodeError> {
        Ok(Some(Self {
            status,
            attrsset: Bitmap::decode(d)?,
        }))
    }
}
