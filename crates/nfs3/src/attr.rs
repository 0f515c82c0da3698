//! Attributes: what a server tells of an object, what a client sets, and wcc data (RFC 1813 §2.6).

use crate::NfsTime3;

xdr::xdr_enum! {
    /// Type of a file system object (`ftype3`).
    pub enum FileType3 {
        /// Regular file.
        Reg = 1,
        /// Directory.
        Dir = 2,
        /// Block device.
        Blk = 3,
        /// Character device.
        Chr = 4,
        /// Symbolic link.
        Lnk = 5,
        /// Socket.
        Sock = 6,
        /// Named pipe.
        Fifo = 7,
    }
}

xdr::xdr_struct! {
    /// `specdata3`: device numbers.
    #[derive(Copy, Hash, Default)]
    pub struct SpecData3 {
        /// Major number.
        pub major: u32,
        /// Minor number.
        pub minor: u32,
    }

    /// `fattr3`: the attributes of an object.
    #[derive(Copy, Hash)]
    pub struct Fattr3 {
        /// Type.
        pub file_type: FileType3,
        /// Permissions, set-id bits and sticky bit; without the type.
        pub mode: u32,
        /// Names of the object.
        pub nlink: u32,
        /// Owner.
        pub uid: u32,
        /// Group.
        pub gid: u32,
        /// Size in bytes.
        pub size: u64,
        /// Bytes on the disk.
        pub used: u64,
        /// Device numbers of a device.
        pub rdev: SpecData3,
        /// The file system.
        pub fsid: u64,
        /// The object in its file system.
        pub fileid: u64,
        /// Last access.
        pub atime: NfsTime3,
        /// Last change of the data.
        pub mtime: NfsTime3,
        /// Last change of the attributes.
        pub ctime: NfsTime3,
    }

    /// `wcc_attr`: attributes before an operation, by which a client knows whether its cache was valid until then.
    #[derive(Copy, Hash, Default)]
    pub struct WccAttr {
        /// Size in bytes.
        pub size: u64,
        /// Last change of the data.
        pub mtime: NfsTime3,
        /// Last change of the attributes.
        pub ctime: NfsTime3,
    }

    /// `wcc_data`: an object before and after an operation that changes it. `before` may be there only if nothing else
    /// changed the object in between.
    #[derive(Copy, Hash, Default)]
    pub struct WccData {
        /// Before.
        pub before: PreOpAttr,
        /// After.
        pub after: PostOpAttr,
    }

    /// `sattr3`: attributes to set; those that are absent stay.
    #[derive(Copy, Hash, Default)]
    pub struct Sattr3 {
        /// Permissions, set-id bits and sticky bit.
        pub mode: Option<u32>,
        /// Owner.
        pub uid: Option<u32>,
        /// Group.
        pub gid: Option<u32>,
        /// Size in bytes.
        pub size: Option<u64>,
        /// Last access.
        pub atime: SetTime3,
        /// Last change of the data.
        pub mtime: SetTime3,
    }
}

/// `post_op_attr`: attributes after an operation, if the server has them at hand.
pub type PostOpAttr = Option<Fattr3>;
/// `pre_op_attr`: attributes before an operation.
pub type PreOpAttr = Option<WccAttr>;

xdr::xdr_union! {
    /// `set_atime` and `set_mtime`: whether and how a time is set.
    #[derive(Copy, Hash, Default)]
    pub union SetTime3 {
        /// `DONT_CHANGE`.
        #[default]
        DontChange = 0,
        /// `SET_TO_SERVER_TIME`.
        ServerTime = 1,
        /// `SET_TO_CLIENT_TIME`.
        ClientTime(time: NfsTime3) = 2,
    }
}

impl From<&Fattr3> for WccAttr {
    fn from(attrs: &Fattr3) -> Self {
        Self {
            size: attrs.size,
            mtime: attrs.mtime,
            ctime: attrs.ctime,
        }
    }
}
