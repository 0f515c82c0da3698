//! Arguments and results of every procedure, one file for each or for a tight family (RFC 1813 §3.3).
//!
//! `XxxArgs` are the arguments, `XxxOk` the body of a success, `XxxFail` that of a failure, and `XxxRes` is the
//! [`crate::Res`] of both. Several bodies are the same on the wire; their names then are aliases. NULL has neither
//! arguments nor a result. Handles, names and data are borrowed from the record.

/// Ties a procedure's arguments to its number and the bodies of its result.
macro_rules! procedure {
    ($proc:ident: $args:ty => $ok:ty, $fail:ty) => {
        impl $crate::ProcArgs for $args {
            const PROC: $crate::Proc = $crate::Proc::$proc;
            type Ok<'r> = $ok;
            type Fail = $fail;
        }
    };
}

mod access;
mod commit;
mod create;
mod fsinfo;
mod fsstat;
mod getattr;
mod link;
mod lookup;
mod mkdir;
mod mknod;
mod pathconf;
mod read;
mod readdir;
mod readlink;
mod remove;
mod rename;
mod rmdir;
mod setattr;
mod symlink;
mod write;

pub use access::*;
pub use commit::*;
pub use create::*;
pub use fsinfo::*;
pub use fsstat::*;
pub use getattr::*;
pub use link::*;
pub use lookup::*;
pub use mkdir::*;
pub use mknod::*;
pub use pathconf::*;
pub use read::*;
pub use readdir::*;
pub use readlink::*;
pub use remove::*;
pub use rename::*;
pub use rmdir::*;
pub use setattr::*;
pub use symlink::*;
pub use write::*;
