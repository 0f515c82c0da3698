//! NFSv3 servers of others as data servers of flexible files (RFC 8435, loosely coupled).
//!
//! [`Foreign`] owns everything that talks to such servers: which there are, which groups files are placed on, the objects of
//! files, their synthetic ids, and fences. [`probe()`] tries on a server what a metadata server and its clients would do there,
//! and says in words what is missing.
//!
//! Clients get synthetic user and group ids. The owner of a data file may write it, its group may read it, and nobody else may do
//! either (RFC 8435 §2.2). To fence clients off, the metadata server gives the file other ids. So a server must let root give files
//! away, must keep to their modes, and must keep what COMMIT has promised.
//!
//! May call: `nfs3-client`, `layout`, `control` for its types, and the metadata store for records of its own. It knows no inode:
//! callers say what a file is by [`FileAt`].
#![forbid(unsafe_code)]

mod cache;
mod client_io;
mod client_sums;
mod commit;
mod cut;
mod devices;
mod dirs;
mod error;
mod fail;
mod fence_table;
mod fences;
mod file_at;
mod foreign;
mod group;
mod handles;
mod identity;
mod ids;
mod members;
mod mirrors;
mod object;
mod place;
mod probe;
mod pulse;
mod read;
mod records;
mod refusals;
mod remove;
mod report;
mod right_place;
mod server;
mod stat;
mod trial;
mod write;

pub use cache::HANDLES_MAX;
pub use client_sums::ClientBytes;
pub use devices::FarDevice;
pub use error::ProbeError;
pub use fence_table::FENCES_MAX;
pub use file_at::{FarCommitted, FarWritten, FileAt, PlacedObject};
pub use foreign::{Foreign, ForeignConfig};
pub use group::{FOREIGN_GROUP_MAX, FOREIGN_GROUP_MIN, ForeignGroup, MIRRORS_MAX, is_foreign};
pub use identity::{ExportIdentity, NoIdentity, Sighting};
pub use ids::{Ids, READER_UID, ids_of};
pub use members::{NewServer, ServerStatus};
pub use nfs3_client::Fh;
pub use place::MayLack;
pub use probe::probe;
pub use pulse::PULSE_EVERY;
pub use read::READ_BYTES_MAX;
pub use records::{
    ExportCode, GROUPS_MAX, GroupRecord, SERVERS_MAX, ServerLimits, ServerRecord, ServerState,
    TARGET_BYTES_MAX,
};
pub use refusals::{AddError, ChangeError, FarError, NoPlace, NotWritten};
pub use report::{Check, Finding, ProbeReport};
pub use server::{CALL_GIVE_UP, CALL_TRY, CALLS_MAX, PULSE_GIVE_UP};
