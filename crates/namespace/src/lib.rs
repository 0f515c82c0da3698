//! The POSIX name space over the metadata store: inodes, directories, attributes, recovery marks.
//!
//! The crate owns the keys `s i d x w t o r b p` of docs/formats.md and the permission rules of POSIX. It also owns the durable
//! notes from which an MDS recovers: files with unreported data, unfinished truncations and removals. It knows no protocol, no
//! clock, no randomness and no data server: those come in as arguments or are the caller's. Every call is synchronous.
//!
//! Entry points: [`Namespace::open`], [`Op`] (who asks, when, and what was observed), the operations as
//! methods of [`Namespace`], and [`check`](fn@check) (the consistency checker).
//!
//! # Ownership
//! One [`Namespace`] owns its keys of the store: nobody else writes them while it is open.
//!
//! # Ordering
//! Each mutation is one transaction. [`Op::observed`] names the newest transaction whose effects the
//! caller may have seen, also when the call failed: wait for it before replying (rule R7).
//!
//! # Failure
//! A refused operation has no effect. After a failed commit the store refuses all writes; reads still
//! show the last state that was known to be applied.
#![forbid(unsafe_code)]

pub mod acl;
mod bucket;
mod cache;
mod check;
mod error;
mod extras;
mod inline_record;
mod inode;
mod keys;
mod mode;
mod namespace;
mod ops;
mod perm;
mod records;
mod rights;
mod txn;
mod types;

pub use acl::{ACES_MAX, Ace, Acl, Who, WhoKind};
pub use bucket::{COOKIE_FIRST, NAME_BYTES_MAX};
pub use check::{PROBLEMS_MAX, Report, check, has_objects};
pub use error::NsError;
pub use extras::{DataName, Extras, ForeignTree, LayoutPolicy, Marks, Rare, XattrTotals};
pub use inode::{FileType, Inode, SYMLINK_BYTES_MAX};
pub use mode::SET_ID_BITS;
pub use namespace::{Format, Namespace, NamespaceLimits, SCHEMA_VERSION, Statistics};
pub use ops::create::{Created, Existing, How, NewNode};
pub use ops::data::SizeCommit;
pub use ops::delegated_times::DelegatedTimes;
pub use ops::drained::PlacedFiles;
pub use ops::inline::INLINE_BYTES_MAX;
pub use ops::link::Linked;
pub use ops::place::Placing;
pub use ops::readdir::{DirEntry, DirPage, READDIR_ENTRIES_MAX, ReadDirRequest};
pub use ops::removal::{PAGE_MAX, RemovalAck, RemovalState};
pub use ops::remove::{RemovedName, What};
pub use ops::rename::Renamed;
pub use ops::setattr::{AtimeMove, AttrsSet, FILE_SIZE_MAX, SetAttr, SetMarks, SetTime};
pub use ops::xattr::{
    SetXattr, XATTR_VALUE_BYTES_MAX, XATTRS_BYTES_MAX, XATTRS_COUNT_MAX, XattrPage,
};
pub use records::{
    DS_PER_GROUP_MAX, InlineTotals, OWN_WRITER, RW_OUT_CLIENTS_MAX, Removal, RwOut, TruncateIntent,
};
pub use rights::{
    APPEND, DELETE, DELETE_CHILD, EXECUTE, READ, READ_ACL, READ_ATTRIBUTES, READ_XATTRS,
    SYNCHRONIZE, WRITE, WRITE_ACL, WRITE_ATTRIBUTES, WRITE_OWNER, WRITE_XATTRS,
};
pub use types::{ChangeInfo, Cred, Device, FileId, Keep, Op, Placement, Time};

#[cfg(test)]
mod inode_tests;
#[cfg(test)]
mod tests;
