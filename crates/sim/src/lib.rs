//! Whole-cluster simulation: metadata server, data servers and clients in one process, under virtual time, from one seed.
//!
//! [`run`] builds the world of a seed on a paused tokio clock: hosts over the memory transport, and stores whose durability lags. The
//! network loses, delays, doubles and cuts. Servers crash and come back with what was synced. Clients do seeded work and write down
//! what they were promised. The checkers compare that, and what the wire tap saw, with what is there. The same seed gives the same
//! run, event by event.
//!
//! What is too large to be simulated is the [`model`]'s: how many data servers and clients a cluster can have.
//!
//! Entry points: [`run`], [`Config`]; `cargo xtask sim` runs the program of this crate.
#![forbid(unsafe_code)]

mod check;
mod client;
mod config;
mod connector;
mod disk;
mod ds_node;
mod fabric;
mod greedy_client;
mod history;
mod injected_bug;
mod join;
mod mds_node;
mod mover;
mod nemesis;
mod net;
mod older;
mod panics;
mod redo;
mod rng;
mod store;
mod tap;
mod tap_hosts;
mod trace;
mod wire;
mod world;

pub use config::Config;
pub use injected_bug::InjectedBug;
pub use model;
pub use net::NetFaults;
pub use world::{Report, run};
