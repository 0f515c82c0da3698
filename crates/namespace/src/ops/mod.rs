//! The operations, one file each. All are methods of [`crate::Namespace`]; each mutation is one
//! transaction.

pub(crate) mod create;
pub(crate) mod data;
pub(crate) mod delegated_times;
pub(crate) mod drained;
mod foreign;
pub(crate) mod inline;
mod layout;
pub(crate) mod link;
mod lookup;
pub(crate) mod place;
pub(crate) mod readdir;
pub(crate) mod removal;
pub(crate) mod remove;
pub(crate) mod rename;
pub(crate) mod restripe;
pub(crate) mod setattr;
pub(crate) mod xattr;
