//! ACCESS (RFC 8881 §18.1; the xattr bits are RFC 8276 §8.5).

use crate::OpNum;

/// Read data or list a directory.
pub const ACCESS_READ: u32 = 0x01;
/// Look up a name.
pub const ACCESS_LOOKUP: u32 = 0x02;
/// Rewrite data or change a directory.
pub const ACCESS_MODIFY: u32 = 0x04;
/// Append data or add names.
pub const ACCESS_EXTEND: u32 = 0x08;
/// Remove names.
pub const ACCESS_DELETE: u32 = 0x10;
/// Execute a file.
pub const ACCESS_EXECUTE: u32 = 0x20;
/// Read extended attributes.
pub const ACCESS_XAREAD: u32 = 0x40;
/// Write extended attributes.
pub const ACCESS_XAWRITE: u32 = 0x80;
/// List extended attributes.
pub const ACCESS_XALIST: u32 = 0x100;

xdr::xdr_struct! {
    /// Arguments of ACCESS.
    #[derive(Copy)]
    pub struct AccessArgs {
        /// `ACCESS_*` bits to check.
        pub access: u32,
    }

    /// Result of ACCESS.
    #[derive(Copy)]
    pub struct AccessRes {
        /// Bits that the server can check.
        pub supported: u32,
        /// Bits that are allowed.
        pub access: u32,
    }
}

operations! { OpNum::Access: AccessArgs => AccessRes; }
