//! NFSv4.1 and 4.2 on the wire (RFC 8881, RFC 7862 with its XDR in RFC 7863, RFC 8276): COMPOUND and `CB_COMPOUND`, every
//! operation's arguments and results, attributes, the files layout, and the flexible files layout (RFC 8435).
//!
//! Entry points: [`CompoundHeader`], [`OpReader`] and [`ReplyWriter`] for a server, [`CompoundBuilder`] and
//! [`CompoundReply`] for a client, [`ops`] for the operations.
//!
//! The crate knows bytes and limits, not meaning. Arguments are decoded operation by operation, so
//! that a server can answer the operations before a bad one.
#![forbid(unsafe_code)]

#[macro_use]
mod macros;

pub mod attr;
mod attr_types;
mod base;
pub mod cb;
mod compound;
pub mod flex_files;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub mod fuzz;
pub mod layout;
mod opnum;
pub mod ops;
mod reply_bytes;
mod status;
mod threshold;
mod types;

pub use attr::{Attrs, Fattr, FattrError, FattrOf, decode_fattr, encode_fattr};
pub use attr_types::*;
pub use base::{
    BITMAP_WORDS_MAX, Bitmap, ClientId, DeviceId, FH_BYTES_MAX, FileHandle, FsId, LINK_BYTES_MAX,
    NAME_BYTES_MAX, NfsTime, OPAQUE_BYTES_MAX, OTHER_BYTES, SESSION_ID_BYTES, SessionId, Stateid,
    Verifier,
};
pub use compound::{
    Builder, CbCompoundBuilder, CbCompoundHeader, CbCompoundReply, CompoundBuilder, CompoundHeader,
    CompoundReply, OPS_MAX, OpArgs, OpBody, OpError, OpMark, OpNumber, OpReader, OpRes, OpResult,
    Reply, ReplyWriter, TAG_BYTES_MAX,
};
pub use opnum::{CbOpNum, OpNum};
pub use reply_bytes::ReplyBytes;
pub use status::NfsStatus;
pub use threshold::Thresholds;
pub use types::{
    Ace, ChangeInfo, ClientOwner, FhRef, FileType, GSS_HANDLE_BYTES_MAX, IO_BYTES_MAX, ImplId,
    IoMode, LockType, NETID_BYTES_MAX, Name, NetAddr, OID_BYTES_MAX, OWNER_BYTES_MAX, Owner,
    STRING_BYTES_MAX, ServerOwner, SpecData, StableHow, StateOwner, UADDR_BYTES_MAX,
};

/// ONC RPC program number of NFS.
pub const PROGRAM: u32 = 100_003;
/// ONC RPC version of NFSv4.
pub const VERSION: u32 = 4;

#[cfg(test)]
mod tests;
