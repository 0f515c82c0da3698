//! `ropewalk client`: who the clients of the metadata server are, and what they hold.
//!
//! Owns the commands, the rows of their answers, and how the metadata server makes them. May call: the admin socket, the file
//! service. May not call: the tables of state, but for copies.

mod at_mds;
mod evict;
mod held_at_mds;
mod list;
mod locks;
mod rows;
mod show;

pub(crate) use at_mds::{evict, list, row_of};
pub(crate) use held_at_mds::{locks_of, show};
pub(crate) use locks::{LockCommand, run as run_lock};
pub(crate) use rows::{ClientHolds, ClientPage, ClientRow, EvictedRow, FileHolds};

use crate::admin::MdsPlace;
use crate::failure::Outcome;
use clap::Subcommand;

/// `ropewalk client`.
#[derive(Debug, Subcommand)]
pub(crate) enum ClientsCommand {
    /// Show the clients of every protocol, how long ago they were seen, and how much they hold
    List {
        /// Show those after this id, where one answer has not all
        #[arg(long, value_name = "ID")]
        after: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        place: MdsPlace,
    },
    /// Show what a client holds, what is recalled from it, and who waits for its files
    Show {
        /// Its id, as `ropewalk client list` shows it
        id: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        place: MdsPlace,
    },
    /// End a client's lease at once: its opens, locks, delegations and layouts go, and it begins anew
    Evict {
        /// Its id, as `ropewalk client list` shows it
        id: String,
        /// Do not ask for confirmation
        #[arg(long)]
        yes: bool,
        /// Print JSON; asks nothing, and evicts with --yes only
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        place: MdsPlace,
    },
}

/// `ropewalk client`.
pub(crate) fn run(command: &ClientsCommand) -> Outcome {
    match command {
        ClientsCommand::List { after, json, place } => list::run(after.as_deref(), *json, place),
        ClientsCommand::Show { id, json, place } => show::run(id, *json, place),
        ClientsCommand::Evict {
            id,
            yes,
            json,
            place,
        } => evict::run(id, (*yes, *json), place),
    }
}
