//! The busiest directories and clients: what the metadata server answers, and how it makes that.
//!
//! Owns the rows. May call: the file service, the rows of clients. May not count: the file service does.

mod at_mds;
mod rows;

pub(crate) use at_mds::top;
pub(crate) use rows::{TopClient, TopDirectory, TopPage};
