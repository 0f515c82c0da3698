//! `WRITE_SAME` (RFC 7862 §15.12).

use xdr::Opaque;

use super::WriteResponse;
use crate::{IO_BYTES_MAX, OpNum, StableHow, Stateid};

xdr::xdr_struct! {
    /// `app_data_block4`.
    #[derive(Copy)]
    pub struct AppDataBlock<'a> {
        /// First byte of the file.
        pub offset: u64,
        /// Bytes of a block.
        pub block_bytes: u64,
        /// Blocks.
        pub blocks_count: u64,
        /// Byte of a block that holds its number.
        pub reloff_blocknum: u64,
        /// Number of the first block.
        pub block_num: u32,
        /// Byte of a block where the pattern begins.
        pub reloff_pattern: u64,
        /// The pattern.
        pub pattern: Opaque<'a, IO_BYTES_MAX>,
    }

    /// Arguments of `WRITE_SAME`.
    #[derive(Copy)]
    pub struct WriteSameArgs<'a> {
        /// An open for writing.
        pub stateid: Stateid,
        /// How stable the data must be.
        pub stable: StableHow,
        /// What to write.
        pub adb: AppDataBlock<'a>,
    }

    /// Result of `WRITE_SAME`.
    #[derive(Copy)]
    pub struct WriteSameRes {
        /// What was written.
        pub response: WriteResponse,
    }
}

operations! { OpNum::WriteSame: WriteSameArgs<'_> => WriteSameRes; }
