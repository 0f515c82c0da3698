//! GETXATTR, SETXATTR, LISTXATTRS and REMOVEXATTR (RFC 8276 §8.4).

use xdr::{List, Opaque};

use crate::{ChangeInfo, Name, OpNum};

/// Longest value in bytes that a decoder takes. Linux allows 64 KiB; the room above it lets a server answer
/// `NFS4ERR_XATTR2BIG`.
pub const XATTR_VALUE_BYTES_MAX: u32 = 1 << 20;
/// Most names of one LISTXATTRS reply.
pub const XATTR_NAMES_MAX: u32 = 1 << 14;

xdr::xdr_enum! {
    /// `setxattr_option4`.
    pub enum SetXattrOption {
        /// Create or replace.
        Either = 0,
        /// Create only.
        Create = 1,
        /// Replace only.
        Replace = 2,
    }
}

xdr::xdr_struct! {
    /// Arguments of GETXATTR.
    #[derive(Copy)]
    pub struct GetXattrArgs<'a> {
        /// Name, without the `user.` of Linux.
        pub name: Name<'a>,
    }

    /// Result of GETXATTR.
    #[derive(Copy)]
    pub struct GetXattrRes<'a> {
        /// Value.
        pub value: Opaque<'a, XATTR_VALUE_BYTES_MAX>,
    }

    /// Arguments of SETXATTR.
    #[derive(Copy)]
    pub struct SetXattrArgs<'a> {
        /// Create or replace.
        pub option: SetXattrOption,
        /// Name.
        pub name: Name<'a>,
        /// Value.
        pub value: Opaque<'a, XATTR_VALUE_BYTES_MAX>,
    }

    /// Result of SETXATTR.
    #[derive(Copy)]
    pub struct SetXattrRes {
        /// Change of the file.
        pub cinfo: ChangeInfo,
    }

    /// Arguments of LISTXATTRS.
    #[derive(Copy)]
    pub struct ListXattrsArgs {
        /// Where to go on; 0 is the start.
        pub cookie: u64,
        /// Most bytes of `LISTXATTRS4resok`.
        pub maxcount: u32,
    }

    /// Result of LISTXATTRS.
    pub struct ListXattrsRes<'a> {
        /// Where to go on.
        pub cookie: u64,
        /// Names.
        pub names: List<Name<'a>, XATTR_NAMES_MAX>,
        /// Whether these were the last.
        pub eof: bool,
    }

    /// Arguments of REMOVEXATTR.
    #[derive(Copy)]
    pub struct RemoveXattrArgs<'a> {
        /// Name.
        pub name: Name<'a>,
    }

    /// Result of REMOVEXATTR.
    #[derive(Copy)]
    pub struct RemoveXattrRes {
        /// Change of the file.
        pub cinfo: ChangeInfo,
    }
}

operations! {
    OpNum::GetXattr: GetXattrArgs<'_> => GetXattrRes<'a>;
    OpNum::SetXattr: SetXattrArgs<'_> => SetXattrRes;
    OpNum::ListXattrs: ListXattrsArgs => ListXattrsRes<'a>;
    OpNum::RemoveXattr: RemoveXattrArgs<'_> => RemoveXattrRes;
}
