//! `ropewalk client`: who the clients of the metadata server are, and what they hold.
//!
//! Owns the commands, the rows of their answers, and how the metadata server makes them. May call: the admin socket, the file
//! service. May not call: the tables of state, but for copies.

mod at_mds;
mod list;
mod rows;

pub(crate) use at_mds::list;

use crate::admin::MdsPlace;
use crate::failure::{Outcome, cannot};
use crate::out;
use clap::Subcommand;
use serde::Serialize;

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
}

/// `ropewalk client`.
pub(crate) fn run(command: &ClientsCommand) -> Outcome {
    match command {
        ClientsCommand::List { after, json, place } => list::run(after.as_deref(), *json, place),
    }
}

fn print_json(value: &impl Serialize) -> Outcome {
    let text = serde_json::to_string_pretty(value);
    out::line(&text.map_err(cannot("write JSON"))?)
}
