//! FSSTAT (RFC 1813 §3.3.18).

use crate::{Handle, PostOpAttr, Res};

xdr::xdr_struct! {
    /// Arguments of FSSTAT.
    #[derive(Copy)]
    pub struct FsStatArgs<'a> {
        /// An object of the file system.
        pub fsroot: Handle<'a>,
    }

    /// Success of FSSTAT.
    #[derive(Copy)]
    pub struct FsStatOk {
        /// Attributes of the object.
        pub obj_attributes: PostOpAttr,
        /// Bytes of the file system.
        pub tbytes: u64,
        /// Free bytes.
        pub fbytes: u64,
        /// Free bytes that the user may fill.
        pub abytes: u64,
        /// Files that it can have.
        pub tfiles: u64,
        /// Files that can still be made.
        pub ffiles: u64,
        /// Files that the user can still make.
        pub afiles: u64,
        /// Seconds for which these numbers will not change; 0 where nobody knows.
        pub invarsec: u32,
    }
}

/// Failure of FSSTAT: attributes of the object.
pub type FsStatFail = PostOpAttr;
/// Result of FSSTAT.
pub type FsStatRes = Res<FsStatOk, FsStatFail>;

procedure! { FsStat: FsStatArgs<'_> => FsStatOk, FsStatFail }
