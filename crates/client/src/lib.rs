//! A pNFS client in user space. Names and attributes come from a metadata server, data straight from the data servers by the files
//! layout (RFC 8881 §12, §13). It recovers from lost connections, sessions and servers.
//!
//! The crate knows no socket: a [`transport::Connector`] makes connections, `tokio::time` is the clock. It caches no data
//! and no names; what it remembers are sessions, layouts, devices, and written data until they are committed.
//!
//! Entry points: [`Client::connect`], [`ClientConfig`], [`File`], [`NfsUrl`].
#![forbid(unsafe_code)]

mod backoff;
mod callbacks;
mod client;
mod client_of_any;
mod config;
mod device;
mod dir;
mod dirty;
mod error;
mod file;
mod file_of_any;
mod flush;
mod getdeviceinfo;
mod held_layout;
mod held_locks;
mod io;
mod layout_kind;
mod layouts;
mod locks;
mod metadata;
mod names;
mod offloads;
mod open;
mod path;
mod ranges;
mod read_data;
mod recovery;
mod retry;
mod state;
mod stats;
mod stripes;
mod threshold;
mod unlock;
mod url;
mod v3;
mod version;
mod waits;
mod xattrs;

pub use client_of_any::{Client, ReadDir};
pub use config::{ClientConfig, UserIdentity};
pub use dir::DirEntry;
pub use error::Error;
pub use file_of_any::File;
pub use held_locks::{LockConflict, LockKind};
pub use metadata::{FsStat, Metadata, SetAttrs};
pub use names::Object;
pub use nfs4::{FileHandle, FileType, NfsStatus, NfsTime, Verifier};
pub use open::OpenOptions;
pub use read_data::ReadData;
pub use stats::StatsSnapshot;
pub use url::{DEFAULT_PORT, NfsUrl, UrlError, UrlVersion};
pub use version::{NfsVersion, V3Ports};
pub use waits::WaitReason;

#[cfg(test)]
mod tests;
