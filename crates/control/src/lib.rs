//! The control program between the MDS and its data servers: an ONC RPC program of our own, over mutual TLS. Each data
//! server has one connection, with calls in both directions.
//!
//! The crate owns messages, versions and limits: what is said, not what is done about it, and no I/O.
//! Each procedure has an argument type that implements [`Request`]; its result is an [`Answer`]. The
//! side that calls uses [`encode_call`] and [`read_reply`]. The side that is called finds the procedure with [`admit`],
//! [`ToMds::decode`] and [`ToDs::decode`].
//!
//! Versions: the RPC version changes when a message changes its form; a peer of another version gets
//! `PROG_MISMATCH` with our range, an unknown procedure `PROC_UNAVAIL`. [`VersionRange`] in JOIN and
//! HELLO lets both sides refuse each other with a sentence instead.
#![forbid(unsafe_code)]

mod answer;
mod call;
mod proc;
mod to_ds;
mod to_mds;
mod types;

#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub mod fuzz;

pub use answer::{Answer, DETAIL_BYTES_MAX, Refusal, Status};
pub use call::{ReplyError, encode_call, read_reply};
pub use proc::{AllowedCaller, CallDecodeError, Proc, Request, ToDs, ToMds, admit};
pub use to_ds::{
    BATCH_MAX, CloneObjectArgs, CommitObjectsArgs, CommitOk, ExpelArgs, FENCE_BATCH_MAX,
    FLOORS_PAGE_MAX, FenceArgs, FloorsArgs, ItemStatuses, KeysArgs, MAP_RANGES_MAX,
    MEMBER_ADDRESSES_MAX, MapArgs, MapOk, MemberAddresses, PlaceRow, PunchArgs, PunchOk,
    ROWS_PAGE_MAX, RemoveItem, RemoveObjectsArgs, ReserveArgs, ReserveOk, RowsArgs, RowsOk,
    SetSizeArgs, SetSizeItem, ShutdownArgs, StatArgs, StatItem, StatOk, YieldArgs,
};
pub use to_mds::{
    CERTIFICATE_BYTES_MAX, DAMAGED_FILES_MAX, FAILING_MAX, FILLINGS_MAX, FillProgress, FilledArgs,
    GROUP_VERSIONS_MAX, GroupVersion, HeartbeatArgs, HeartbeatOk, HelloArgs, HelloOk,
    JOIN_SECRET_BYTES, JoinArgs, JoinOk, JoinSecret, LACKING_MAX, LAGS_MAX, LeftArgs, MemberLag,
    OutArgs, PUBLIC_KEY_BYTES_MAX, PlaceParts, RowsTold, ScrubState, SizeArgs, SizeOk,
    StoppingArgs, WroteArgs, WroteItem,
};
pub use types::{
    ADDRESSES_MAX, Capacity, Counters, KeySet, LOCATION_BYTES_MAX, NETID_BYTES_MAX, NetAddr,
    ObjectRef, PlaceReign, Range, StoreIdentity, Stripes, Text, UADDR_BYTES_MAX, VersionRange,
};

/// ONC RPC program number ("WLK"), in the range that RFC 5531 §8.3 leaves to users.
pub const PROGRAM: u32 = 0x4057_4c4b;
/// Lowest version of the program that we speak.
pub const VERSION_MIN: u32 = 10;
/// Highest version of the program that we speak.
pub const VERSION_MAX: u32 = 10;
/// Longest message in bytes, RPC header included: the record limit of a control connection.
pub const MESSAGE_BYTES_MAX: u32 = 128 * 1024;
/// Most calls that one side has outstanding on a connection; the other closes it above that.
pub const CALLS_OUTSTANDING_MAX: u32 = 256;

#[cfg(test)]
mod tests;
