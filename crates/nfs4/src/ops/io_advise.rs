//! `IO_ADVISE` (RFC 7862 §15.5).

use crate::{Bitmap, OpNum, Stateid};

/// Hint bit: nothing special.
pub const IO_ADVISE_NORMAL: u32 = 0;
/// Hint bit: from start to end.
pub const IO_ADVISE_SEQUENTIAL: u32 = 1;
/// Hint bit: from end to start.
pub const IO_ADVISE_SEQUENTIAL_BACKWARDS: u32 = 2;
/// Hint bit: no order.
pub const IO_ADVISE_RANDOM: u32 = 3;
/// Hint bit: soon.
pub const IO_ADVISE_WILLNEED: u32 = 4;
/// Hint bit: perhaps soon.
pub const IO_ADVISE_WILLNEED_OPPORTUNISTIC: u32 = 5;
/// Hint bit: not soon.
pub const IO_ADVISE_DONTNEED: u32 = 6;
/// Hint bit: once.
pub const IO_ADVISE_NOREUSE: u32 = 7;
/// Hint bit: will read.
pub const IO_ADVISE_READ: u32 = 8;
/// Hint bit: will write.
pub const IO_ADVISE_WRITE: u32 = 9;
/// Hint bit: place near other data of the caller.
pub const IO_ADVISE_INIT_PROXIMITY: u32 = 10;

xdr::xdr_struct! {
    /// Arguments of `IO_ADVISE`.
    #[derive(Copy)]
    pub struct IoAdviseArgs {
        /// An open.
        pub stateid: Stateid,
        /// First byte.
        pub offset: u64,
        /// Bytes; 0 is to the end of the file.
        pub count: u64,
        /// `IO_ADVISE_*` bits.
        pub hints: Bitmap,
    }

    /// Result of `IO_ADVISE`.
    #[derive(Copy)]
    pub struct IoAdviseRes {
        /// Bits that the server goes by.
        pub hints: Bitmap,
    }
}

operations! { OpNum::IoAdvise: IoAdviseArgs => IoAdviseRes; }
