//! The data servers of a cluster as the metadata server knows them: members, groups, keys, fences.
//!
//! [`Cluster`] owns the table of data servers and their leases, and the placement groups. It also owns the keys that
//! sign handles, and the fences that data servers must acknowledge. [`ControlService`] serves the control program to
//! data servers. Files, their layouts and their sizes belong to the file service, which hands in [`Files`] and
//! [`KeyUsers`].
//!
//! May call: `control`, `layout`, `meta`, `transport`, `cluster-tls` and the codecs. May not call: the name space, open
//! state, or anything that serves clients.
#![forbid(unsafe_code)]

mod accept;
mod access;
mod call;
mod claims;
mod closed;
mod cluster;
mod control_service;
mod copies;
mod drain;
mod eta;
mod even;
mod fence;
mod fences;
mod groups;
mod hello;
mod job;
mod join;
mod key_rotation;
mod keys;
mod lags;
mod last_copies;
mod layout_limits;
mod members;
mod moves;
mod multipath;
mod narrow;
mod records;
mod rows;
mod servers;
mod sick;
mod slow;
mod status;
mod steps;

pub use access::{AccessError, access_tokens, add_access, check_access, revoke_access};
pub use call::{CALL_MS_MAX, DsError, all, call};
pub use cluster::{Cluster, ClusterConfig, MemberError, Random, Space, WallMs, verifier_of};
pub use control_service::{ControlService, Files, PeerOf, tls_peer};
pub use fence::FENCE_WAIT_MS_MAX;
pub use groups::NoPlace;
pub use job::Job;
pub use join::{AdminError, Issuer, WaitingToken, add_token, expel, expel_spare, waiting_tokens};
pub use key_rotation::{KeyUsers, rotate_key, turn_keys};
pub use keys::{KeyStatus, KeyTimes, RotatedKey};
pub use lags::PairLag;
pub use layout::{COPIES_MAX, KeyState};
pub use layout_limits::FILE_WIDTH_MAX;
pub use records::{AccessRecord, AccessRole};
pub use sick::WhySlow;
pub use slow::SlowStatus;
pub use status::{ClusterStatus, PlaceStatus, ServerState, ServerStatus};
