//! FSINFO (RFC 1813 §3.3.19).

use crate::{Handle, NfsTime3, PostOpAttr, Res};

/// The file system has hard links.
pub const FSF3_LINK: u32 = 0x01;
/// The file system has symbolic links.
pub const FSF3_SYMLINK: u32 = 0x02;
/// PATHCONF answers the same for all objects of the file system.
pub const FSF3_HOMOGENEOUS: u32 = 0x08;
/// SETATTR can set times.
pub const FSF3_CANSETTIME: u32 = 0x10;

xdr::xdr_struct! {
    /// Arguments of FSINFO.
    #[derive(Copy)]
    pub struct FsInfoArgs<'a> {
        /// An object of the file system.
        pub fsroot: Handle<'a>,
    }

    /// Success of FSINFO.
    #[derive(Copy)]
    pub struct FsInfoOk {
        /// Attributes of the object.
        pub obj_attributes: PostOpAttr,
        /// Most bytes of a READ.
        pub rtmax: u32,
        /// Preferred bytes of a READ.
        pub rtpref: u32,
        /// What the bytes of a READ should be a multiple of.
        pub rtmult: u32,
        /// Most bytes of a WRITE.
        pub wtmax: u32,
        /// Preferred bytes of a WRITE.
        pub wtpref: u32,
        /// What the bytes of a WRITE should be a multiple of.
        pub wtmult: u32,
        /// Preferred bytes of a READDIR.
        pub dtpref: u32,
        /// Largest file in bytes.
        pub maxfilesize: u64,
        /// Granularity of times.
        pub time_delta: NfsTime3,
        /// `FSF3_*` bits.
        pub properties: u32,
    }
}

/// Failure of FSINFO: attributes of the object.
pub type FsInfoFail = PostOpAttr;
/// Result of FSINFO.
pub type FsInfoRes = Res<FsInfoOk, FsInfoFail>;

procedure! { FsInfo: FsInfoArgs<'_> => FsInfoOk, FsInfoFail }
