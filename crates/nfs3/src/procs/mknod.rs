//! MKNOD (RFC 1813 §3.3.11).

use crate::procs::NewObject;
use crate::{DirOpArgs, FileType3, Res, Sattr3, SpecData3, WccData};

xdr::xdr_union! {
    /// `mknoddata3`: the type of the object, and what comes with it. A server refuses the types that other procedures
    /// make with `NFS3ERR_BADTYPE`.
    #[derive(Copy)]
    pub union MkNodData {
        /// A regular file; refused.
        Reg = 1,
        /// A directory; refused.
        Dir = 2,
        /// A block device.
        Blk(device: DeviceData) = 3,
        /// A character device.
        Chr(device: DeviceData) = 4,
        /// A symbolic link; refused.
        Lnk = 5,
        /// A socket.
        Sock(attributes: Sattr3) = 6,
        /// A named pipe.
        Fifo(attributes: Sattr3) = 7,
    }
}

xdr::xdr_struct! {
    /// `devicedata3`.
    #[derive(Copy)]
    pub struct DeviceData {
        /// Attributes of the device.
        pub dev_attributes: Sattr3,
        /// Its numbers.
        pub spec: SpecData3,
    }

    /// Arguments of MKNOD.
    #[derive(Copy)]
    pub struct MkNodArgs<'a> {
        /// The name of the object.
        pub place: DirOpArgs<'a>,
        /// What it is.
        pub what: MkNodData,
    }
}

impl MkNodData {
    /// The type.
    #[must_use]
    pub const fn file_type(&self) -> FileType3 {
        match self {
            Self::Reg => FileType3::Reg,
            Self::Dir => FileType3::Dir,
            Self::Blk(_) => FileType3::Blk,
            Self::Chr(_) => FileType3::Chr,
            Self::Lnk => FileType3::Lnk,
            Self::Sock(_) => FileType3::Sock,
            Self::Fifo(_) => FileType3::Fifo,
        }
    }
}

/// Success of MKNOD.
pub type MkNodOk<'a> = NewObject<'a>;
/// Failure of MKNOD: the directory.
pub type MkNodFail = WccData;
/// Result of MKNOD.
pub type MkNodRes<'a> = Res<MkNodOk<'a>, MkNodFail>;

procedure! { MkNod: MkNodArgs<'_> => MkNodOk<'r>, MkNodFail }
