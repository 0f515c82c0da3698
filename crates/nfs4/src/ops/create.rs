//! CREATE (RFC 8881 §18.4): everything but regular files.

use xdr::{Decode, DecodeError, Decoder, Encode, Encoder};

use crate::{Bitmap, ChangeInfo, Fattr, FileType, Name, OpNum, SpecData};

/// `createtype4`: the type of the new object, with what only that type has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CreateType<'a> {
    /// Symbolic link with this text.
    Lnk(Name<'a>),
    /// Block device.
    Blk(SpecData),
    /// Character device.
    Chr(SpecData),
    /// Socket.
    Sock,
    /// Named pipe.
    Fifo,
    /// Directory.
    Dir,
    /// Any other number: to be answered `NFS4ERR_BADTYPE`, not `NFS4ERR_BADXDR`.
    Other(u32),
}

impl CreateType<'_> {
    /// The type of the new object; `None` for one that CREATE cannot make.
    #[must_use]
    pub const fn file_type(&self) -> Option<FileType> {
        Some(match self {
            Self::Lnk(_) => FileType::Lnk,
            Self::Blk(_) => FileType::Blk,
            Self::Chr(_) => FileType::Chr,
            Self::Sock => FileType::Sock,
            Self::Fifo => FileType::Fifo,
            Self::Dir => FileType::Dir,
            Self::Other(_) => return None,
        })
    }
}

impl<'a> Decode<'a> for CreateType<'a> {
    fn decode(d: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        let value = d.u32()?;
        Ok(match FileType::from_u32(value) {
            Some(FileType::Lnk) => Self::Lnk(Name::decode(d)?),
            Some(FileType::Blk) => Self::Blk(SpecData::decode(d)?),
            Some(FileType::Chr) => Self::Chr(SpecData::decode(d)?),
            Some(FileType::Sock) => Self::Sock,
            Some(FileType::Fifo) => Self::Fifo,
            Some(FileType::Dir) => Self::Dir,
            _ => Self::Other(value),
        })
    }
}

impl Encode for CreateType<'_> {
    fn encode(&self, e: &mut Encoder) {
        match self {
            Self::Lnk(text) => {
                FileType::Lnk.encode(e);
                text.encode(e);
            }
            Self::Blk(dev) => {
                FileType::Blk.encode(e);
                dev.encode(e);
            }
            Self::Chr(dev) => {
                FileType::Chr.encode(e);
                dev.encode(e);
            }
            Self::Sock => FileType::Sock.encode(e),
            Self::Fifo => FileType::Fifo.encode(e),
            Self::Dir => FileType::Dir.encode(e),
            Self::Other(value) => e.u32(*value),
        }
    }
}

xdr::xdr_struct! {
    /// Arguments of CREATE.
    pub struct CreateArgs<'a> {
        /// Type of the new object.
        pub object_type: CreateType<'a>,
        /// Its name in the current directory.
        pub name: Name<'a>,
        /// Its first attributes.
        pub attrs: Fattr<'a>,
    }

    /// Result of CREATE.
    #[derive(Copy)]
    pub struct CreateRes {
        /// Change of the directory.
        pub cinfo: ChangeInfo,
        /// Attributes that were set.
        pub attrset: Bitmap,
    }
}

operations! { OpNum::Create: CreateArgs<'_> => CreateRes; }
