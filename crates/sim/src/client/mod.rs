//! A client of the simulated cluster: a session, the state it holds, and its recovery.
//!
//! [`Client::run`] sends a COMPOUND and either hands back its reply or says that its outcome is not known. A lost
//! session is made anew by whoever notices first: opens and locks are reclaimed, RECLAIM_COMPLETE is said. Workers
//! (`names`, `locks`) share a client, each with owners of its own.

mod copies;
mod data;
mod delegated;
mod guest;
mod locks;
mod meddler;
mod names;
mod older;
mod shared;

pub(crate) use data::{DataParts, DataWorker};
pub(crate) use delegated::{Holder, HolderParts};
pub(crate) use guest::{Guest, GuestParts};
pub(crate) use meddler::{Meddler, MeddlerParts};
pub(crate) use names::{PLACES_PER_DIR as PLACES, Worker};
pub(crate) use older::{OlderClient, OlderParts};
pub(crate) use shared::{Client, Parts, first_mode, root_caller, session_over};
