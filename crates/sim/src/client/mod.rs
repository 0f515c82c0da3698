//! A client of the simulated cluster: a session, the state it holds, and its recovery.
//!
//! [`Client::run`] sends a COMPOUND and either hands back its reply or says that its outcome is not known. A lost
//! session is made anew by whoever notices first: opens and locks are reclaimed, RECLAIM_COMPLETE is said. Workers
//! (`names`, `locks`) share a client, each with owners of its own.
//!
//! Lockers (`locker`) work on files of their own by NFSv4.0, by NFSv4.1, and by NFSv3 with NLM.

mod callbacks_0;
mod callbacks_3;
mod calls;
mod copies;
mod data;
mod delegated;
mod guest;
mod locker;
mod locker_0;
mod locker_1;
mod locker_3;
mod locks;
mod meddler;
mod names;
mod older;
mod reclaim_0;
mod reclaim_3;
mod shared;

pub(crate) use data::{DataParts, DataWorker};
pub(crate) use delegated::{Holder, HolderParts};
pub(crate) use guest::{Guest, GuestParts};
pub(crate) use locker::Place;
pub(crate) use locker_0::Locker0;
pub(crate) use locker_1::{Locker1, LockerParts};
pub(crate) use locker_3::Locker3;
pub(crate) use meddler::{Meddler, MeddlerParts};
pub(crate) use names::{PLACES_PER_DIR as PLACES, Worker};
pub(crate) use older::{OlderClient, OlderParts};
pub(crate) use shared::{Client, Parts, first_mode, root_caller, session_over};
