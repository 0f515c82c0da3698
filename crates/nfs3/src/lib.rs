//! NFSv3 and its MOUNT protocol on the wire (RFC 1813): arguments and results of every procedure, in both directions.
//!
//! Entry points: [`Proc`], [`procs`] for arguments and results, [`Res`] for the union that every result is,
//! [`ProcArgs`] for what belongs together, and [`mount`].
//!
//! The crate knows bytes and limits, not meaning. It knows no RPC header either: a message here is what follows it.
#![forbid(unsafe_code)]

mod attr;
mod base;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub mod fuzz;
pub mod mount;
mod proc;
pub mod procs;
mod res;
mod status;

pub use attr::{
    Fattr3, FileType3, PostOpAttr, PreOpAttr, Sattr3, SetTime3, SpecData3, WccAttr, WccData,
};
pub use base::{
    CookieVerf, CreateVerf, DirOpArgs, FileName, Handle, IO_BYTES_MAX, NAME_BYTES_MAX,
    NFS3_COOKIEVERFSIZE, NFS3_CREATEVERFSIZE, NFS3_FHSIZE, NFS3_WRITEVERFSIZE, NfsTime3,
    PATH_BYTES_MAX, PathText, PostOpFh, StableHow, WriteVerf,
};
pub use proc::Proc;
pub use res::{ProcArgs, Res};
pub use status::Nfs3Status;

/// ONC RPC program number of NFS.
pub const PROGRAM: u32 = 100_003;
/// ONC RPC version of NFSv3.
pub const VERSION: u32 = 3;

#[cfg(test)]
mod tests;
