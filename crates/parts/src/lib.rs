//! The parts program: how the primary of a place passes on what changes its parts to the other members (rule P6).
//!
//! It is an ONC RPC program on the data listeners of a data server, over TCP or RDMA. [`Greet`](PartsProc::Greet) and
//! [`Open`](PartsProc::Open) prove with a live signing key that the caller is a data server of the cluster. Then each
//! [`Pass`](PartsProc::Pass) carries one [`StreamItem`]. Items have numbers by lane; a member applies each number once, in the
//! order of its lane.
//!
//! The crate owns messages and limits. It knows no connection, no store and no clock.
#![forbid(unsafe_code)]

mod item;
mod messages;
mod open;

#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub mod fuzz;

pub use item::{BLOCK_BYTES, BLOCKS_MAX, Block, FileGeneration, PartsAsked, StreamItem};
pub use messages::{
    GreetOk, PARTS_MAX, PartsProc, PassArgs, PassOk, StreamOpenArgs, encode_call, encode_pass,
    read_answer,
};
pub use open::{CHALLENGE_BYTES, Opening};

/// ONC RPC program number ("WLP"), in the range that RFC 5531 §8.3 leaves to users.
pub const PROGRAM: u32 = 0x4057_4c50;
/// The version that we speak.
pub const VERSION: u32 = 3;
/// Lanes of a stream: items of files in different lanes do not wait for each other.
pub const LANES: u32 = 8;
/// Most numbers that an item may be ahead of its lane: the items of one stream that are under way.
pub const AHEAD_MAX: u64 = 1024;

/// The lane of a file.
#[must_use]
pub fn lane_of(file_id: u64) -> u32 {
    // File ids are given out in runs; their low bits spread well.
    u32::try_from(file_id % u64::from(LANES)).expect("below LANES")
}

#[cfg(test)]
mod tests;
