//! `READ_PLUS` (RFC 7862 §15.10).

use xdr::{Encode, Encoder, List, Opaque};

use crate::{IO_BYTES_MAX, OpNum, Stateid};

/// Most segments of one reply that a client takes.
pub const READ_PLUS_SEGMENTS_MAX: u32 = 4096;

/// `data_content4`: data.
pub const CONTENT_DATA: u32 = 0;
/// `data_content4`: a hole.
pub const CONTENT_HOLE: u32 = 1;

xdr::xdr_struct! {
    /// Arguments of `READ_PLUS`.
    #[derive(Copy)]
    pub struct ReadPlusArgs {
        /// An open, lock or delegation, or a special stateid.
        pub stateid: Stateid,
        /// First byte.
        pub offset: u64,
        /// Wanted bytes.
        pub count: u32,
    }

    /// `data4`.
    #[derive(Copy)]
    pub struct ReadPlusData<'a> {
        /// First byte.
        pub offset: u64,
        /// The data.
        pub data: Opaque<'a, IO_BYTES_MAX>,
    }

    /// `data_info4`.
    #[derive(Copy)]
    pub struct ReadPlusHole {
        /// First byte.
        pub offset: u64,
        /// Bytes.
        pub length: u64,
    }

    /// Result of `READ_PLUS` as a client reads it: the data lie in the record.
    pub struct ReadPlusRes<'a> {
        /// Whether the last byte of the file was read.
        pub eof: bool,
        /// Segments, one behind the other.
        pub contents: List<ReadPlusContent<'a>, READ_PLUS_SEGMENTS_MAX>,
    }
}

xdr_union! {
    /// `read_plus_content`.
    #[derive(Copy)]
    pub union ReadPlusContent<'a> {
        /// Data.
        Data(data: ReadPlusData<'a>) = 0,
        /// A hole.
        Hole(hole: ReadPlusHole) = 1,
    }
}

operations! { OpNum::ReadPlus: ReadPlusArgs => ReadPlusRes<'a>; }

/// A segment as a server writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadPlusSegment {
    /// Data, which the transport inserts.
    Data {
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u32,
    },
    /// A hole.
    Hole(ReadPlusHole),
}

impl Encode for ReadPlusSegment {
    fn encode(&self, e: &mut Encoder) {
        match self {
            Self::Data { offset, len } => {
                e.u32(CONTENT_DATA);
                e.u64(*offset);
                e.payload(*len);
            }
            Self::Hole(hole) => {
                e.u32(CONTENT_HOLE);
                hole.encode(e);
            }
        }
    }
}

/// Result of `READ_PLUS` as a server writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadPlusResPayload {
    /// Whether the last byte of the file was read.
    pub eof: bool,
    /// Segments, one behind the other.
    pub contents: Vec<ReadPlusSegment>,
}

impl Encode for ReadPlusResPayload {
    fn encode(&self, e: &mut Encoder) {
        e.bool(self.eof);
        e.list(&self.contents);
    }
}

operations! { @body OpNum::ReadPlus: ReadPlusResPayload; }
