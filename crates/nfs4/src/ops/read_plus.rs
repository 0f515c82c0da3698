//! `READ_PLUS` (RFC 7862 §15.10).

use xdr::{List, Opaque};

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

    /// Result of `READ_PLUS`. The data lie in the record, on both sides. Unlike those of READ they are not eligible for
    /// direct data placement (RFC 8267 §6.1 does not list them). They are therefore no payload of the transport.
    pub struct ReadPlusRes<'a> {
        /// Whether the last byte of the file was read.
        pub eof: bool,
        /// Segments, one after the other.
        pub contents: List<ReadPlusContent<'a>, READ_PLUS_SEGMENTS_MAX>,
    }
}

xdr::xdr_union! {
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
