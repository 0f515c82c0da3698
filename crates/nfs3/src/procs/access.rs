//! ACCESS (RFC 1813 §3.3.4).

use crate::{Handle, PostOpAttr, Res};

/// Read data or list a directory.
pub const ACCESS3_READ: u32 = 0x01;
/// Look up a name.
pub const ACCESS3_LOOKUP: u32 = 0x02;
/// Rewrite data or change a directory.
pub const ACCESS3_MODIFY: u32 = 0x04;
/// Append data or add names.
pub const ACCESS3_EXTEND: u32 = 0x08;
/// Remove names.
pub const ACCESS3_DELETE: u32 = 0x10;
/// Execute a file.
pub const ACCESS3_EXECUTE: u32 = 0x20;

xdr::xdr_struct! {
    /// Arguments of ACCESS.
    #[derive(Copy)]
    pub struct AccessArgs<'a> {
        /// The object.
        pub object: Handle<'a>,
        /// `ACCESS3_*` bits to check.
        pub access: u32,
    }

    /// Success of ACCESS.
    #[derive(Copy)]
    pub struct AccessOk {
        /// Attributes of the object.
        pub obj_attributes: PostOpAttr,
        /// Bits that are allowed, of those that were asked for.
        pub access: u32,
    }
}

/// Failure of ACCESS: attributes of the object.
pub type AccessFail = PostOpAttr;
/// Result of ACCESS.
pub type AccessRes = Res<AccessOk, AccessFail>;

procedure! { Access: AccessArgs<'_> => AccessOk, AccessFail }
