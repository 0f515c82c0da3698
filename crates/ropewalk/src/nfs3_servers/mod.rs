//! NFSv3 servers of others as data servers: the commands, what the metadata server does for them, and how both are shown.
//!
//! Owns no state: servers and their records are the crate `foreign`'s. A server is tried from where the metadata server stands,
//! since that and the clients must reach it.

mod add;
mod at_mds;
mod found;
mod orders;
mod probe;
mod reach;

pub(crate) use add::{AddArgs, Added, run as add};
pub(crate) use at_mds::{
    NewServerOrder, add as add_at_mds, drain as drain_at_mds, remove as remove_at_mds,
    undrain as undrain_at_mds,
};
pub(crate) use orders::{DrainArgs, RemoveArgs, UndrainArgs, drain, remove, undrain};
pub(crate) use probe::{ProbeArgs, run as probe};
